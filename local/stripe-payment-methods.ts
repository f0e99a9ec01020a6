/** What confirming with a payment method leads to. */
export type PaymentResult =
  | { readonly kind: 'succeeded' }
  | { readonly kind: 'processing' }
  | {
      readonly kind: 'declined';
      readonly code: string;
      readonly declineCode: string;
      readonly message: string;
    }
  | { readonly kind: 'authenticationRequired' }
  | { readonly kind: 'status'; readonly status: string };

const declined = (code: string, declineCode: string, message: string): PaymentResult => ({
  kind: 'declined',
  code,
  declineCode,
  message,
});

/** Stripe's test payment methods that do not simply succeed, https://docs.stripe.com/testing. */
const DOCUMENTED: ReadonlyMap<string, PaymentResult> = new Map([
  ['pm_card_chargeDeclined', declined('card_declined', 'generic_decline', 'The card was declined.')],
  ['pm_card_visa_chargeDeclined', declined('card_declined', 'generic_decline', 'The card was declined.')],
  [
    'pm_card_chargeDeclinedInsufficientFunds',
    declined('card_declined', 'insufficient_funds', 'The card has insufficient funds.'),
  ],
  ['pm_card_chargeDeclinedLostCard', declined('card_declined', 'lost_card', 'The card was declined.')],
  ['pm_card_chargeDeclinedStolenCard', declined('card_declined', 'stolen_card', 'The card was declined.')],
  ['pm_card_chargeDeclinedFraudulent', declined('card_declined', 'fraudulent', 'The card was declined.')],
  ['pm_card_chargeDeclinedExpiredCard', declined('expired_card', 'expired_card', 'The card has expired.')],
  ['pm_card_chargeDeclinedIncorrectCvc', declined('incorrect_cvc', 'incorrect_cvc', 'The CVC is incorrect.')],
  [
    'pm_card_chargeDeclinedProcessingError',
    declined('processing_error', 'processing_error', 'The card could not be processed.'),
  ],
  ['pm_card_authenticationRequired', { kind: 'authenticationRequired' }],
  ['pm_usBankAccount_success', { kind: 'processing' }],
]);

/**
 * The result for one payment method id. Besides Stripe's documented ids there are ids of our own:
 * `pm_requiresAction` ends in a 200 with `requires_action` even off session with `error_on_requires_action`, and
 * `pm_status_<status>` ends in a 200 with that status and no money moved (`requires_capture`, or a status
 * that does not exist yet). Every other `pm_...` succeeds; undefined: there is no such payment method.
 */
export function paymentResult(paymentMethodId: string): PaymentResult | undefined {
  if (!paymentMethodId.startsWith('pm_') || paymentMethodId === 'pm_missing') return undefined;
  if (paymentMethodId === 'pm_requiresAction') return { kind: 'status', status: 'requires_action' };
  const status = /^pm_status_(\w+)$/.exec(paymentMethodId)?.[1];
  if (status !== undefined) return { kind: 'status', status };
  return DOCUMENTED.get(paymentMethodId) ?? { kind: 'succeeded' };
}

/** Whether a refund of a payment with this method is `pending` first: a documented test card, and bank accounts. */
export function isRefundPending(paymentMethodId: string | null): boolean {
  return paymentMethodId === 'pm_card_pendingRefund' || paymentMethodId === 'pm_usBankAccount_success';
}
