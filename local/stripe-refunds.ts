import { type Answer, failed, found, invalid, missing } from './stripe-answers';
import type { Books } from './stripe-books';
import { type ChargeObject, newId, type RefundObject } from './stripe-objects';
import { type Params, text, textsBelow } from './stripe-params';
import { isRefundPending } from './stripe-payment-methods';
import { integerProblem, metadataProblem, required, unknownParam } from './stripe-validation';

const CREATE_PARAMS = new Set(['amount', 'charge', 'expand', 'metadata', 'payment_intent', 'reason']);
const REASONS = new Set(['duplicate', 'fraudulent', 'requested_by_customer']);

/** `POST /v1/refunds`, https://docs.stripe.com/api/refunds/create. */
export function createRefund(books: Books, params: Params, idempotencyKey: string | undefined): Answer {
  const amount = text(params, 'amount');
  const reason = text(params, 'reason');
  const problem =
    unknownParam(params, CREATE_PARAMS) ??
    metadataProblem(params) ??
    (amount === undefined ? undefined : integerProblem('amount', amount, 1)) ??
    (reason === undefined || REASONS.has(reason) ? undefined : invalid('Not a refund reason.', 'reason'));
  if (problem) return problem;

  const charge = chargeToRefund(books, params);
  if ('body' in charge) return charge;
  const remainingMinor = charge.amount - charge.amount_refunded;
  if (remainingMinor === 0) {
    return refused(`Charge ${charge.id} has already been refunded.`, 'charge_already_refunded');
  }
  const amountMinor = amount === undefined ? remainingMinor : Number(amount);
  if (amountMinor > remainingMinor) {
    return refused(
      `The refund of ${amountMinor} is greater than the unrefunded amount of ${remainingMinor}.`,
    );
  }
  const refund = putRefund(books, charge, amountMinor, params);
  books.rememberKey(refund.id, idempotencyKey);
  if (refund.status === 'succeeded') books.recordRefund(refund);
  return found(refund);
}

/** Ends a `pending` refund. Throws an Error when it is not pending. */
export function settleRefund(books: Books, id: string, outcome: 'succeeded' | 'failed'): void {
  const refund = books.refunds.get(id);
  if (refund?.status !== 'pending') throw new Error(`${id} is not a pending refund`);
  if (outcome === 'succeeded') {
    books.refunds.set(id, { ...refund, status: 'succeeded' });
    books.recordRefund(refund);
    return;
  }
  books.refunds.set(id, { ...refund, status: 'failed', failure_reason: 'unknown' });
  addRefunded(books, refund.charge, -refund.amount);
}

function chargeToRefund(books: Books, params: Params): ChargeObject | Answer {
  const intentId = text(params, 'payment_intent');
  const intent = books.intent(intentId ?? '');
  if (intentId !== undefined && !intent) return missing('payment_intent', intentId, 'payment_intent');
  const chargeId = intent ? (intent.latest_charge ?? '') : text(params, 'charge');
  if (chargeId === undefined) return required('payment_intent');
  const charge = books.charges.get(chargeId);
  if (!charge && !intent) return missing('charge', chargeId, 'charge');
  if (charge?.status === 'succeeded') return charge;
  const message = `${intentId ?? chargeId} does not have a successful charge to refund.`;
  return refused(message, 'payment_intent_unexpected_state');
}

/** A refusal for the state that things are in: execution had begun, so the key remembers it. */
function refused(message: string, code?: string): Answer {
  return failed(
    400,
    { type: 'invalid_request_error', message, ...(code ? { code } : { param: 'amount' }) },
    true,
  );
}

function putRefund(books: Books, charge: ChargeObject, amountMinor: number, params: Params): RefundObject {
  const refund: RefundObject = {
    id: newId('re'),
    object: 'refund',
    amount: amountMinor,
    charge: charge.id,
    created: books.nowSeconds(),
    currency: charge.currency,
    metadata: textsBelow(params, 'metadata'),
    payment_intent: charge.payment_intent,
    reason: text(params, 'reason') ?? null,
    status: isRefundPending(charge.payment_method) ? 'pending' : 'succeeded',
  };
  books.refunds.set(refund.id, refund);
  addRefunded(books, charge.id, amountMinor);
  return refund;
}

function addRefunded(books: Books, chargeId: string, amountMinor: number): void {
  const charge = books.charges.get(chargeId);
  if (!charge) throw new Error(`a refund without its charge ${chargeId}`);
  const amount_refunded = charge.amount_refunded + amountMinor;
  books.charges.set(chargeId, { ...charge, amount_refunded, refunded: amount_refunded === charge.amount });
}
