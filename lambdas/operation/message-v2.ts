import * as z from 'zod/mini';
import { amountFitsCurrency, amountMinor, currency, deadlineAt, id, lineOfText } from './message-fields';
import { type ChargeInputV1, inputsV1, type MessageV1 } from './message-v1';

// Version 2: a charge's `invoiceId` is called `reference`, and it may have a `description`. A refund is as it was.

const chargeInput = z
  .strictObject({
    /** What is paid for, in the caller's own books. Not an identity: two operations may pay for the same thing. */
    reference: id,
    amountMinor,
    currency,
    customerId: id,
    paymentMethodId: id,
    description: z.optional(
      lineOfText.check(
        z.describe(
          'One line of text for the customer, with no white space around it: on the receipt of Stripe.',
        ),
      ),
    ),
  })
  .check(amountFitsCurrency);

const refundInput = inputsV1.refund;

export const inputsV2 = { charge: chargeInput, refund: refundInput } as const;

const common = { version: z.literal(2), tenantId: id, operationId: id, deadlineAt };

export const messageV2 = z.discriminatedUnion(
  'type',
  [
    z.object({ ...common, type: z.literal('charge'), input: chargeInput }),
    z.object({ ...common, type: z.literal('refund'), input: refundInput }),
  ],
  { error: () => 'must be "charge" or "refund"' },
);

export type MessageV2 = Readonly<z.infer<typeof messageV2>>;
export type ChargeInputV2 = Readonly<z.infer<typeof chargeInput>>;
export type RefundInputV2 = Readonly<z.infer<typeof refundInput>>;

/** Reading: what version 1 says can always be said in version 2. */
export const upcastV1 = (message: MessageV1): MessageV2 =>
  message.type === 'charge'
    ? { ...message, version: 2, input: upcastChargeV1(message.input) }
    : { ...message, version: 2 };

export const upcastChargeV1 = ({ invoiceId, ...rest }: ChargeInputV1): ChargeInputV2 => ({
  reference: invoiceId,
  ...rest,
});

/** Writing: the same charge in version 1, undefined where version 1 cannot say it. */
export function chargeAsV1({ reference, description, ...rest }: ChargeInputV2): ChargeInputV1 | undefined {
  return description === undefined ? { invoiceId: reference, ...rest } : undefined;
}
