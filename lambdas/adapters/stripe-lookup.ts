import Stripe from 'stripe';
import * as z from 'zod/mini';
import type { Operation } from '../operation/operation';
import type { Finding, Outcome } from '../operation/outcome';
import type { Check, Inspection } from '../operation/ports';
import { healthOf } from '../operation/provider-state';
import { answerOf, type StripeCall } from './stripe-client';
import { type Answer, chargeOutcomeOf, intentIn, refundOutcomeOf } from './stripe-outcome';

type Charge = Operation & { readonly type: 'charge' };
type Refund = Operation & { readonly type: 'refund' };

/** So many pages of 100 are read; more would be another customer's year. */
const maxPages = 20;

/** Stripe's clock and ours differ, and an attempt's claim was made before its call. */
const clockSlackMs = 3_600_000;

/** What became of a charge: by its reference, else by the list of the customer's payments. Search lags, and a list does not. */
export async function findCharge(call: StripeCall, operation: Charge): Promise<Finding> {
  const { providerRef } = operation;
  if (providerRef !== undefined) {
    const options = call.options();
    if (!options) return outOfTime;
    const answer = await answerOf(() => call.stripe.paymentIntents.retrieve(providerRef, {}, options));
    if ('object' in answer) return judgeIntent(call, operation, answer.object);
    if (!isMissing(answer)) return notTold(chargeOutcomeOf(answer));
  }
  const since = operation.effectPossibleSinceMs ?? operation.absentProvenAtMs ?? operation.createdAtMs;
  const gte = Math.floor((since - clockSlackMs) / 1000);
  const { customerId: customer } = operation.input;
  const listed = await listAll(call, (position, options) =>
    call.stripe.paymentIntents.list({ customer, created: { gte }, limit: 100, ...position }, options),
  );
  if ('kind' in listed) return listed;
  const own = listed.objects.filter((object) => isOf(object, operation));
  return firstOf(own, (intent) => judgeIntent(call, operation, intent));
}

/** What became of a refund: by its reference, else by the list of its charge's refunds. */
export async function findRefund(call: StripeCall, operation: Refund): Promise<Finding> {
  const { providerRef, chargeRef } = operation;
  if (providerRef !== undefined) {
    const options = call.options();
    if (!options) return outOfTime;
    const answer = await answerOf(() => call.stripe.refunds.retrieve(providerRef, {}, options));
    if ('object' in answer) return judgeRefund(answer.object);
    if (!isMissing(answer)) return notTold(refundOutcomeOf(answer));
  }
  if (chargeRef === undefined) return { kind: 'unknown', reason: 'charge_reference_unknown' };
  const listed = await listAll(call, (position, options) =>
    call.stripe.refunds.list({ payment_intent: chargeRef, limit: 100, ...position }, options),
  );
  if ('kind' in listed) return listed;
  const own = listed.objects.filter((object) => isOf(object, operation));
  return firstOf(own, async (refund) => judgeRefund(refund));
}

/** One effect as Stripe has it, and whose its metadata says that it is. */
export async function inspectEffect(
  call: StripeCall,
  operation: Operation,
  providerRef: string,
): Promise<Inspection> {
  const options = call.options();
  if (!options) return { finding: outOfTime, owner: 'unmarked' };
  const { paymentIntents, refunds } = call.stripe;
  const isCharge = operation.type === 'charge';
  const answer = await answerOf(() =>
    isCharge ? paymentIntents.retrieve(providerRef, {}, options) : refunds.retrieve(providerRef, {}, options),
  );
  const outcome = isCharge ? chargeOutcomeOf(answer) : refundOutcomeOf(answer);
  const parsed = 'object' in answer ? listed.safeParse(answer.object) : undefined;
  if (!parsed?.success) return { finding: notTold(outcome), owner: 'unmarked' };
  const { metadata } = parsed.data;
  const isMarked = metadata?.tenantId !== undefined || metadata?.operationId !== undefined;
  const isForeign = isMarked || !isForSame(parsed.data, operation);
  const owner = isOf(parsed.data, operation) ? 'this' : isForeign ? 'another' : 'unmarked';
  return { finding: findingOf(outcome), owner };
}

/** An effect without our marks is of no other customer, and a refund of the charge that the operation names. */
const isForSame = (object: Listed, operation: Operation): boolean =>
  operation.type === 'charge'
    ? (object.customer ?? operation.input.customerId) === operation.input.customerId
    : object.payment_intent === operation.chargeRef;

/**
 * What a key needs: to list and to create payments and refunds. Creating is asked for without any parameters, which
 * Stripe refuses after it has looked at the key. https://docs.stripe.com/keys/restricted-api-keys
 */
export async function checkKey(call: StripeCall, needsCustomers: boolean): Promise<Check[]> {
  const { stripe } = call;
  type Ask = (options: Stripe.RequestOptions) => Promise<unknown>;
  const asks: Readonly<Record<string, Ask>> = {
    'read PaymentIntents': (options) => stripe.paymentIntents.list({ limit: 1 }, options),
    'read Refunds': (options) => stripe.refunds.list({ limit: 1 }, options),
    'write PaymentIntents': (options) => stripe.rawRequest('POST', '/v1/payment_intents', {}, options),
    'write Refunds': (options) => stripe.rawRequest('POST', '/v1/refunds', {}, options),
    ...(needsCustomers && {
      'read Customers': (options: Stripe.RequestOptions) => stripe.customers.list({ limit: 1 }, options),
    }),
  };
  const checks: Check[] = [];
  for (const [name, ask] of Object.entries(asks)) {
    const options = call.options();
    const outcome = options ? chargeOutcomeOf(await answerOf(() => ask(options))) : undefined;
    checks.push({ name, ...permissionOf(outcome) });
  }
  return checks;
}

function permissionOf(outcome: Outcome | undefined): Pick<Check, 'ok' | 'said'> {
  switch (outcome?.kind) {
    case undefined:
      return { ok: false, said: 'there was no time left to ask' };
    case 'forbidden':
      return { ok: false, said: `refused: ${outcome.error.message}` };
    case 'notSent':
      return { ok: false, said: outcome.reason };
    case 'unknown':
      // What a list answers is no payment: it was read.
      return outcome.reason === 'unreadable_answer'
        ? { ok: true, said: 'allowed' }
        : { ok: false, said: outcome.reason };
    case 'succeeded':
    case 'accepted':
    case 'declined':
    case 'invalid':
    case 'effectExists':
    case 'conflict':
      return { ok: true, said: 'allowed' };
  }
}

/**
 * An intent that waits for the customer could still be paid later: it is cancelled at Stripe before the
 * operation is called failed. Where that is not proven, neither is the outcome.
 */
export async function cancelIntent(
  call: StripeCall,
  { providerKey }: Operation,
  providerRef: string,
): Promise<Outcome> {
  const unproven: Outcome = { kind: 'unknown', reason: 'cancel_unproven', keySpent: false, providerRef };
  const options = call.options(`${providerKey}/cancel`);
  if (!options) return unproven;
  const object = intentOf(await answerOf(() => call.stripe.paymentIntents.cancel(providerRef, {}, options)));
  const status = intentIn(object)?.status;
  if (status === 'succeeded') return chargeOutcomeOf({ object });
  if (status !== 'canceled') return unproven;
  const message = 'The payment needs the customer; it was canceled at Stripe.';
  return { kind: 'declined', error: { code: 'authentication_required', message }, providerRef };
}

/** The intent of an answer, also of a refusal that carries it. */
function intentOf(answer: Answer): unknown {
  if ('object' in answer) return answer.object;
  return answer.error instanceof Stripe.errors.StripeError ? answer.error.payment_intent : undefined;
}

/** Succeeded, under way, or ended; what waits for another payment method or for the customer is ended first. */
async function judgeIntent(call: StripeCall, operation: Charge, object: unknown): Promise<Finding> {
  const intent = intentIn(object);
  if (!intent) return { kind: 'unknown', reason: 'unreadable_answer' };
  if (intent.status === 'requires_payment_method' || intent.status === 'requires_action') {
    const outcome = await cancelIntent(call, operation, intent.id);
    const failure = paymentFailure.safeParse(object).data?.last_payment_error;
    if (outcome.kind !== 'declined' || !failure) return findingOf(outcome);
    const message = (failure.message ?? 'The payment failed at Stripe.').slice(0, 100);
    return { kind: 'found', outcome: { ...outcome, error: { ...codesOf(failure), message } } };
  }
  return findingOf(chargeOutcomeOf({ object }));
}

const judgeRefund = (object: unknown): Finding => findingOf(refundOutcomeOf({ object }));

function findingOf(outcome: Outcome): Inspection['finding'] {
  switch (outcome.kind) {
    case 'succeeded':
    case 'accepted':
    case 'declined':
      return { kind: 'found', outcome };
    case 'unknown': {
      const { reason, providerRef } = outcome;
      return { kind: 'unknown', reason, ...(providerRef === undefined ? {} : { providerRef }) };
    }
    case 'invalid':
    case 'effectExists':
    case 'conflict':
    case 'forbidden':
      return { kind: 'unknown', reason: outcome.error.code };
    case 'notSent':
      return { kind: 'unavailable', reason: outcome.reason };
  }
}

/** An operation has one effect under its key. Should there be more after a proof of absence, what moved money counts. */
async function firstOf(
  own: readonly Listed[],
  judge: (object: Listed) => Promise<Finding>,
): Promise<Finding> {
  const findings: Finding[] = [];
  for (const object of own) findings.push(await judge(object));
  const rank = (finding: Finding) =>
    finding.kind !== 'found'
      ? 2
      : finding.outcome.kind === 'succeeded'
        ? 0
        : finding.outcome.kind === 'accepted'
          ? 1
          : 3;
  return findings.toSorted((a, b) => rank(a) - rank(b))[0] ?? { kind: 'absent' };
}

/** Stripe refused to tell, or could not be asked. */
export function notTold(outcome: Outcome): Extract<Finding, { kind: 'unknown' | 'unavailable' }> {
  const { kind } = outcome;
  const health = healthOf(outcome);
  const code = 'error' in outcome ? outcome.error.code : kind;
  const reason = ('reason' in outcome ? outcome.reason : undefined) ?? code;
  return health === 'well' ? { kind: 'unknown', reason } : { kind: 'unavailable', reason };
}

export const outOfTime = { kind: 'unavailable', reason: 'out_of_time' } as const;

const isMissing = (answer: Answer): boolean =>
  'error' in answer &&
  answer.error instanceof Stripe.errors.StripeError &&
  answer.error.code === 'resource_missing';

type Position = { readonly starting_after?: string };

/** Every object of a list, newest first, or why it could not be read to its end. */
async function listAll(
  call: StripeCall,
  page: (position: Position, options: Stripe.RequestOptions) => Promise<unknown>,
): Promise<{ readonly objects: readonly Listed[] } | Finding> {
  const objects: Listed[] = [];
  for (let read = 0; read < maxPages; read++) {
    const options = call.options();
    if (!options) return outOfTime;
    const after = objects.at(-1)?.id;
    const answer = await answerOf(() => page(after === undefined ? {} : { starting_after: after }, options));
    if ('error' in answer) return notTold(chargeOutcomeOf(answer));
    const parsed = list.safeParse(answer.object);
    if (!parsed.success) return { kind: 'unknown', reason: 'unreadable_list' };
    objects.push(...parsed.data.data);
    if (!parsed.data.has_more) return { objects };
  }
  return { kind: 'unknown', reason: 'list_too_long' };
}

const listed = z.looseObject({
  id: z.string(),
  metadata: z.nullish(z.record(z.string(), z.string())),
  customer: z.optional(z.unknown()),
  payment_intent: z.optional(z.unknown()),
});
type Listed = z.infer<typeof listed>;
const list = z.object({ data: z.array(listed), has_more: z.boolean() });

/**
 * Whether an object at Stripe is an operation's effect: by its ids, its inputs and its provider key, whose last
 * part counts proofs of absence. So two services on one account do not take each other's.
 */
function isOf({ metadata }: Listed, { tenantId, operationId, inputDigest, providerKey }: Operation): boolean {
  if (metadata?.tenantId !== tenantId || metadata.operationId !== operationId) return false;
  if (metadata.inputDigest !== inputDigest) return false;
  return metadata.providerKey === undefined || keyBaseOf(metadata.providerKey) === keyBaseOf(providerKey);
}

const keyBaseOf = (providerKey: string): string => providerKey.slice(0, providerKey.lastIndexOf('/'));

const text = z.catch(z.optional(z.string()), undefined);
const paymentFailure = z.object({
  last_payment_error: z.catch(
    z.optional(z.object({ code: text, decline_code: text, message: text })),
    undefined,
  ),
});

const codesOf = ({ code, decline_code }: { readonly code?: string; readonly decline_code?: string }) => ({
  code: code ?? decline_code ?? 'payment_failed',
  ...(decline_code === undefined ? {} : { declineCode: decline_code }),
});
