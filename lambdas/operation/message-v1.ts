import * as z from 'zod/mini';
import { amountFitsCurrency, amountMinor, currency, deadlineAt, id, must } from './message-fields';

// Frozen: messages, records and digests of version 1 are in flight. What is new belongs into a new version.

const chargeInput = z
  .strictObject({
    /** What is paid for. Not an identity: two operations may pay the same invoice. */
    invoiceId: id,
    amountMinor,
    currency,
    customerId: id,
    paymentMethodId: id,
  })
  .check(amountFitsCurrency);

const reasons = ['duplicate', 'fraudulent', 'requested_by_customer'] as const;
const refundInput = z.strictObject({
  /** The operation that charged, of the same tenant. */
  chargeOperationId: id,
  /** Part of the charge or all that is left of it. */
  amountMinor,
  /** Stripe's own reasons. https://docs.stripe.com/api/refunds/create */
  reason: z.optional(z.enum(reasons, { error: must(`one of ${reasons.join(', ')}`) })),
});

export const inputsV1 = { charge: chargeInput, refund: refundInput } as const;

const common = { version: z.literal(1), tenantId: id, operationId: id, deadlineAt };

export const messageV1 = z.discriminatedUnion(
  'type',
  [
    z.object({ ...common, type: z.literal('charge'), input: chargeInput }),
    z.object({ ...common, type: z.literal('refund'), input: refundInput }),
  ],
  { error: () => 'must be "charge" or "refund"' },
);

export type MessageV1 = Readonly<z.infer<typeof messageV1>>;
export type ChargeInputV1 = Readonly<z.infer<typeof chargeInput>>;
