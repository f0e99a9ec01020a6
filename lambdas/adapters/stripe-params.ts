import type Stripe from 'stripe';
import type { Job, Operation } from '../operation/operation';

type Charge = Operation & { readonly type: 'charge' };
type Refund = Operation & { readonly type: 'refund' };

interface Params {
  readonly charge: (operation: Charge) => Stripe.PaymentIntentCreateParams;
  readonly refund: (operation: Refund) => Stripe.RefundCreateParams;
}

/**
 * The parameters of each version, from the frozen input alone: nothing of the time, the build or the attempt goes in,
 * so every retry is byte-identical. Never change one; add a version.
 */
export const paramsByVersion: Readonly<Record<number, Params>> & { readonly 1: Params } = {
  1: {
    charge: ({ tenantId, operationId, input, inputDigest, providerKey }) => ({
      amount: input.amountMinor,
      currency: input.currency,
      customer: input.customerId,
      payment_method: input.paymentMethodId,
      confirm: true,
      off_session: true,
      error_on_requires_action: true,
      metadata: { tenantId, operationId, inputDigest, providerKey, invoiceId: input.reference },
    }),
    refund: ({ tenantId, operationId, input, inputDigest, providerKey, chargeRef }) => ({
      ...(chargeRef === undefined ? {} : { payment_intent: chargeRef }),
      amount: input.amountMinor,
      ...(input.reason === undefined ? {} : { reason: input.reason }),
      metadata: {
        tenantId,
        operationId,
        inputDigest,
        providerKey,
        chargeOperationId: input.chargeOperationId,
      },
    }),
  },
  // Version 1 and the charge's description. The reference keeps its first name in metadata: exports look for it.
  2: {
    charge: (operation) => {
      const { description } = operation.input;
      return {
        ...paramsByVersion[1].charge(operation),
        ...(description === undefined ? {} : { description }),
      };
    },
    refund: (operation) => paramsByVersion[1].refund(operation),
  },
};

/** What a new operation is bound to: the oldest version that says all of its inputs, so that an older build can go on. */
export const paramsVersionOf = (job: Job): number =>
  job.type === 'charge' && job.input.description !== undefined ? 2 : 1;
