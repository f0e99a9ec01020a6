import Stripe from 'stripe';
import * as z from 'zod/mini';
import type { Operation } from '../operation/operation';
import type { Outcome } from '../operation/outcome';
import type { Clock, Provider } from '../operation/ports';
import { answerOf, type StripeCall, StripeClients } from './stripe-client';
import type { ApiKey } from './stripe-key';
import { type Answer, chargeOutcomeOf, intentIn, refundOutcomeOf } from './stripe-outcome';
import { paramsByVersion, paramsVersionOf } from './stripe-params';

/** Charges and refunds through Stripe's PaymentIntents and Refunds. */
export class StripeProvider implements Provider {
  readonly paramsVersionOf = paramsVersionOf;
  readonly #clients: StripeClients;

  /** @param baseUrl another base URL than Stripe's own: the stand-in on a laptop */
  constructor(
    private readonly apiKey: ApiKey,
    private readonly clock: Clock,
    baseUrl?: URL,
    private readonly checksCustomers = false,
  ) {
    this.#clients = new StripeClients(clock, baseUrl);
  }

  async charge(operation: Operation & { readonly type: 'charge' }, timeoutMs: number): Promise<Outcome> {
    // Stored by a newer build, before a roll-back: a newer worker will make them.
    const params = paramsByVersion[operation.providerParamsVersion]?.charge(operation);
    if (!params) return { kind: 'notSent', reason: 'params_version_unknown' };
    return this.#withKey(timeoutMs, async (call) => {
      const refused = this.checksCustomers ? await refusedCustomer(call, operation) : undefined;
      if (refused) return refused;
      const options = call.options(operation.providerKey);
      if (!options) return outOfTime;
      const answer = await answerOf(call.stripe.paymentIntents.create(params, options));
      const intent = 'object' in answer ? intentIn(answer.object) : undefined;
      if (intent?.status !== 'requires_action') return chargeOutcomeOf(answer);
      return cancelIntent(call, operation, intent.id);
    });
  }

  async refund(operation: Operation & { readonly type: 'refund' }, timeoutMs: number): Promise<Outcome> {
    const params = paramsByVersion[operation.providerParamsVersion]?.refund(operation);
    if (!params) return { kind: 'notSent', reason: 'params_version_unknown' };
    return this.#withKey(timeoutMs, async (call) => {
      const options = call.options(operation.providerKey);
      if (!options) return outOfTime;
      const outcome = refundOutcomeOf(await answerOf(call.stripe.refunds.create(params, options)));
      return outcome.kind === 'effectExists' ? findRefund(call, operation, outcome.error) : outcome;
    });
  }

  async #withKey(timeoutMs: number, run: (call: StripeCall) => Promise<Outcome>): Promise<Outcome> {
    const deadlineMs = this.clock() + timeoutMs;
    const key = await this.apiKey.current();
    if (key === undefined) return { kind: 'notSent', reason: 'provider_key_missing' };
    const outcome = await run(this.#clients.call(key, deadlineMs));
    if (outcome.kind !== 'notSent' || outcome.reason !== 'unauthorized') return outcome;
    // A rotated key: read the secret once more. The same key again would only be refused again.
    const fresh = await this.apiKey.reread();
    return fresh === undefined || fresh === key ? outcome : run(this.#clients.call(fresh, deadlineMs));
  }
}

const outOfTime: Outcome = { kind: 'notSent', reason: 'out_of_time' };

/** Tenants that call the API themselves may charge their own customers only, which Stripe knows by their metadata. */
async function refusedCustomer(
  call: StripeCall,
  { tenantId, input }: Operation & { readonly type: 'charge' },
): Promise<Outcome | undefined> {
  const options = call.options();
  if (!options) return outOfTime;
  const answer = await answerOf(call.stripe.customers.retrieve(input.customerId, {}, options));
  if ('error' in answer) {
    const outcome = chargeOutcomeOf(answer);
    // Nothing was asked for yet that could move money.
    return outcome.kind === 'unknown' ? { kind: 'notSent', reason: 'customer_unknown' } : outcome;
  }
  const parsed = customerSchema.safeParse(answer.object);
  if (parsed.success && parsed.data.metadata?.tenantId === tenantId) return undefined;
  const message = "The customer does not carry the tenant's id in its metadata.";
  return { kind: 'invalid', error: { code: 'customer_of_another_tenant', message } };
}

const customerSchema = z.object({ metadata: z.nullish(z.record(z.string(), z.string())) });

/**
 * An intent that waits for the customer could still be paid later: it is cancelled at Stripe before the
 * operation is called failed. Where that is not proven, neither is the outcome.
 */
async function cancelIntent(
  call: StripeCall,
  { providerKey }: Operation,
  providerRef: string,
): Promise<Outcome> {
  const unproven: Outcome = { kind: 'unknown', reason: 'cancel_unproven', keySpent: false, providerRef };
  const options = call.options(`${providerKey}/cancel`);
  if (!options) return unproven;
  const object = intentOf(await answerOf(call.stripe.paymentIntents.cancel(providerRef, {}, options)));
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

/**
 * "Already refunded" may be our own refund, whose answer was lost. The list of the charge's refunds says so: search
 * lags, and a list does not. Not ours: the refund can never succeed.
 */
async function findRefund(
  call: StripeCall,
  { tenantId, operationId, chargeRef }: Operation & { readonly type: 'refund' },
  error: Extract<Outcome, { kind: 'effectExists' }>['error'],
): Promise<Outcome> {
  const unknown: Outcome = { kind: 'unknown', reason: 'refunds_not_listed', keySpent: false };
  let after: string | undefined;
  for (let page = 0; page < 10; page++) {
    const options = call.options();
    if (!options || chargeRef === undefined) return unknown;
    const position = after === undefined ? {} : { starting_after: after };
    const answer = await answerOf(
      call.stripe.refunds.list({ payment_intent: chargeRef, limit: 100, ...position }, options),
    );
    const refunds = 'object' in answer ? refundsIn(answer.object) : undefined;
    if (!refunds) return unknown;
    const own = refunds.data.find(
      ({ metadata }) => metadata?.tenantId === tenantId && metadata.operationId === operationId,
    );
    if (own) return refundOutcomeOf({ object: own });
    if (!refunds.has_more) return { kind: 'declined', error };
    after = refunds.data.at(-1)?.id;
  }
  return unknown;
}

function refundsIn(value: unknown) {
  const parsed = refundList.safeParse(value);
  return parsed.success ? parsed.data : undefined;
}

const refundList = z.object({
  data: z.array(z.looseObject({ id: z.string(), metadata: z.nullish(z.record(z.string(), z.string())) })),
  has_more: z.boolean(),
});
