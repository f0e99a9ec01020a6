import type Stripe from 'stripe';
import * as z from 'zod/mini';
import { digestOf } from '../operation/digest';
import { type Message, messageFrom } from '../operation/message';
import type { Outcome } from '../operation/outcome';
import type { Effect, EffectsPage, EffectsRequest } from '../operation/ports';
import { answerOf, type StripeCall } from './stripe-client';
import { notTold, outOfTime } from './stripe-lookup';
import { chargeOutcomeOf, refundOutcomeOf } from './stripe-outcome';

/** One page of 100 of what moved money, or is about to, under keys of this service; newest first. */
export async function effectsPage(
  call: StripeCall,
  { type, sinceMs, after, providerKeyPrefix }: EffectsRequest,
): Promise<EffectsPage> {
  const options = call.options();
  if (!options) return outOfTime;
  const position = after === undefined ? {} : { starting_after: after };
  const params = { created: { gte: Math.floor(sinceMs / 1000) }, limit: 100, ...position };
  const answer = await answerOf(() => listOf(call.stripe, type, params, options));
  if ('error' in answer) return notTold(chargeOutcomeOf(answer));
  const page = pageSchema.safeParse(answer.object);
  if (!page.success) return { kind: 'unknown', reason: 'unreadable_list' };
  const { data, has_more } = page.data;
  const last = data.at(-1)?.id;
  return {
    kind: 'page',
    read: data.length,
    effects: data.flatMap((object) => effectOf(type, object, providerKeyPrefix) ?? []),
    ...(has_more && last !== undefined ? { after: last } : {}),
  };
}

const listOf = (
  { paymentIntents, refunds }: Stripe,
  type: EffectsRequest['type'],
  params: Stripe.PaymentIntentListParams & Stripe.RefundListParams,
  options: Stripe.RequestOptions,
): Promise<unknown> =>
  type === 'charge' ? paymentIntents.list(params, options) : refunds.list(params, options);

function effectOf(type: EffectsRequest['type'], object: Listed, prefix: string): Effect | undefined {
  const { tenantId, operationId, providerKey = '', inputDigest } = object.metadata ?? {};
  if (tenantId === undefined || operationId === undefined || !providerKey.startsWith(`${prefix}/`))
    return undefined;
  const outcome: Outcome = type === 'charge' ? chargeOutcomeOf({ object }) : refundOutcomeOf({ object });
  if (outcome.kind !== 'succeeded' && outcome.kind !== 'accepted') return undefined;
  const message = messageOf(type, object, { tenantId, operationId });
  // What digests to something else was changed at Stripe, or is told in a way that this build does not know.
  const isWhole = message !== undefined && digestOf(message) === inputDigest;
  return { tenantId, operationId, providerKey, outcome, ...(isWhole ? { message } : {}) };
}

/** The message that asked for it, as far as Stripe's object says all of it. */
function messageOf(
  type: EffectsRequest['type'],
  { metadata, amount, currency, customer, payment_method, description, reason }: Listed,
  id: { readonly tenantId: string; readonly operationId: string },
): Message | undefined {
  const { invoiceId, chargeOperationId } = metadata ?? {};
  const charge = {
    reference: invoiceId,
    amountMinor: amount,
    currency,
    customerId: customer,
    paymentMethodId: payment_method,
    ...(typeof description === 'string' ? { description } : {}),
  };
  const refund = {
    chargeOperationId,
    amountMinor: amount,
    ...(typeof reason === 'string' ? { reason } : {}),
  };
  const parsed = messageFrom({ version: 2, ...id, type, input: type === 'charge' ? charge : refund });
  return parsed.kind === 'message' ? parsed.message : undefined;
}

const listed = z.looseObject({
  id: z.string(),
  metadata: z.nullish(z.record(z.string(), z.string())),
  amount: z.optional(z.unknown()),
  currency: z.optional(z.unknown()),
  customer: z.optional(z.unknown()),
  payment_method: z.optional(z.unknown()),
  description: z.optional(z.unknown()),
  reason: z.optional(z.unknown()),
});
type Listed = z.infer<typeof listed>;
const pageSchema = z.object({ data: z.array(listed), has_more: z.boolean() });
