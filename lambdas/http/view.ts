import * as z from 'zod/mini';
import type { Operation } from '../operation/operation';
import { isTerminal, parkedReasons, states } from '../operation/state';

const text = (description: string) => z.string().check(z.describe(description));
const time = (description: string) => z.optional(z.iso.datetime().check(z.describe(description)));
const count = (description: string) => z.int().check(z.gte(0), z.describe(description));

const known = {
  tenantId: z.string(),
  operationId: z.string(),
  state: z
    .enum(states)
    .check(
      z.describe('succeeded, failed and cancelled are final. parked: we stopped, a person looks at it.'),
    ),
  done: z.boolean().check(z.describe('Whether the state is final. Then there is one of result and error.')),
  effectPossible: z
    .boolean()
    .check(z.describe('Whether money moved, or may have. False with a final state: none did and none will.')),
  attempts: count('Calls of the provider so far that may have had an effect.'),
  amountMinor: count("What was asked for, in the currency's smallest unit as Stripe defines it."),
  acceptedBy: z.enum(['api', 'queue']),
  result: z.optional(
    z.object({
      providerRef: z.optional(text('The PaymentIntent or Refund.')),
      amountMinor: z.optional(count("What moved, in the currency's smallest unit.")),
      currency: z.optional(z.string()),
      chargeId: z.optional(text("Stripe's charge.")),
    }),
  ),
  error: z.optional(
    z.object({
      code: text('cancelled, deadline_exceeded, a code of ours, or the code of the provider.'),
      message: z.string(),
      declineCode: z.optional(text("The issuer's reason for a decline.")),
    }),
  ),
  parkedReason: z.optional(z.enum(parkedReasons)),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
  deadlineAt: time('Never attempted by then, it fails.'),
  cancelRequestedAt: time('It was asked to be cancelled while an effect was possible.'),
  parkedAt: time('When it was last parked.'),
};

/** An operation as callers see it. Money in minor units, times in ISO 8601 UTC. */
export const viewSchema = z.discriminatedUnion('type', [
  z.object({
    ...known,
    type: z.literal('charge'),
    reference: text('What is paid for.'),
    invoiceId: text('The reference by its name in version 1.'),
    currency: z.string(),
    refundedMinor: count('What its refunds have taken or hold, of amountMinor.'),
  }),
  z.object({
    ...known,
    type: z.literal('refund'),
    chargeOperationId: z.string(),
    reason: z.optional(z.string()),
  }),
]);

export type View = Readonly<z.infer<typeof viewSchema>>;

/**
 * What a caller may see of an operation. Left out: whom it charges, with what and in which words, which whoever may only ask for
 * states need not learn, and our own bookkeeping (provider key, claim, digest, lease).
 */
export function viewOf(operation: Operation): View {
  const { tenantId, operationId, state, attemptCount, acceptedBy, parkedReason, parkedAtMs } = operation;
  const base = {
    tenantId,
    operationId,
    state,
    done: isTerminal(state),
    effectPossible: isEffectPossible(operation),
    attempts: attemptCount,
    amountMinor: operation.input.amountMinor,
    acceptedBy,
    ...endOf(operation),
    ...(state === 'parked' && parkedReason ? { parkedReason } : {}),
    createdAt: iso(operation.createdAtMs),
    updatedAt: iso(operation.updatedAtMs),
    deadlineAt: iso(operation.deadlineAtMs),
    ...(operation.cancelRequestedAtMs === undefined
      ? {}
      : { cancelRequestedAt: iso(operation.cancelRequestedAtMs) }),
    ...(parkedAtMs === undefined ? {} : { parkedAt: iso(parkedAtMs) }),
  };
  if (operation.type === 'charge') {
    const { reference, currency } = operation.input;
    // An answer only grows: whoever knows the charge by its invoice goes on reading it.
    const named = { reference, invoiceId: reference };
    return { ...base, type: 'charge', ...named, currency, refundedMinor: operation.refundedMinor ?? 0 };
  }
  const { chargeOperationId, reason } = operation.input;
  return { ...base, type: 'refund', chargeOperationId, ...(reason === undefined ? {} : { reason }) };
}

/** An end says what is proven; before it, the record's one fact about money does. */
function isEffectPossible({ state, effectPossibleSinceMs }: Operation): boolean {
  if (isTerminal(state)) return state === 'succeeded';
  return effectPossibleSinceMs !== undefined;
}

function endOf({ state, result, error, providerRef }: Operation): Pick<View, 'result' | 'error'> {
  switch (state) {
    case 'succeeded':
      return { result: { ...(providerRef === undefined ? {} : { providerRef }), ...result } };
    case 'failed':
      return { error: error ?? { code: 'unknown', message: 'No reason was recorded.' } };
    case 'cancelled':
      return { error: { code: 'cancelled', message: 'It was cancelled: no effect happened and none will.' } };
    case 'queued':
    case 'running':
    case 'settling':
    case 'parked':
      return {};
  }
}

const iso = (ms: number): string => new Date(ms).toISOString();
