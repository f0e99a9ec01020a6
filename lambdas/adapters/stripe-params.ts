import type Stripe from 'stripe';
import type { Operation } from '../operation/operation';

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
export const paramsByVersion: Readonly<Record<number, Params>> = {
  1: {
    charge: ({ tenantId, operationId, input, inputDigest, providerKey }) => ({
      amount: input.amountMinor,
      currency: input.currency,
      customer: input.customerId,
      payment_method: input.paymentMethodId,
      confirm: true,
      off_session: true,
      error_on_requires_action: true,
      metadata: { tenantId, operationId, inputDigest, providerKey, invoiceId: input.invoiceId },
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
};

/** What a new operation is bound to. */
export const newestParamsVersion = 1;
