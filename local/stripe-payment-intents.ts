import { type Answer, failed, found, invalid, missing } from './stripe-answers';
import type { Books } from './stripe-books';
import { type ChargeObject, newId, type PaymentIntentObject } from './stripe-objects';
import { type Params, text, textsBelow } from './stripe-params';
import { type PaymentResult, paymentResult } from './stripe-payment-methods';
import { amountProblem, currencyProblem, metadataProblem, unknownParam } from './stripe-validation';

const CREATE_PARAMS = new Set(
  `amount application_fee_amount automatic_payment_methods capture_method confirm confirmation_method currency
   customer description error_on_requires_action expand mandate mandate_data metadata off_session on_behalf_of
   payment_method payment_method_configuration payment_method_data payment_method_options payment_method_types
   receipt_email return_url setup_future_usage shipping statement_descriptor statement_descriptor_suffix
   transfer_data transfer_group use_stripe_sdk`.split(/\s+/),
);
const CANCEL_PARAMS = new Set(['cancellation_reason', 'expand']);
const CANCELLATION_REASONS = new Set(['duplicate', 'fraudulent', 'requested_by_customer', 'abandoned']);

/** `POST /v1/payment_intents`, https://docs.stripe.com/api/payment_intents/create. */
export function createPaymentIntent(
  books: Books,
  params: Params,
  idempotencyKey: string | undefined,
): Answer {
  const paymentMethodId = text(params, 'payment_method');
  const result = paymentMethodId === undefined ? undefined : paymentResult(paymentMethodId);
  const problem =
    unknownParam(params, CREATE_PARAMS) ??
    amountProblem(text(params, 'amount'), text(params, 'currency')) ??
    currencyProblem(text(params, 'currency')) ??
    metadataProblem(params) ??
    customerProblem(text(params, 'customer')) ??
    (paymentMethodId !== undefined && result === undefined
      ? missing('PaymentMethod', paymentMethodId, 'payment_method')
      : undefined);
  if (problem) return problem;

  const isConfirmed = text(params, 'confirm') === 'true';
  if (isConfirmed && result === undefined) {
    const message = 'A PaymentIntent cannot be confirmed without a payment method.';
    return invalid(message, 'payment_method', 'payment_intent_unexpected_state');
  }
  const intent = newIntent(books, params);
  books.rememberKey(intent.id, idempotencyKey);
  if (!isConfirmed || result === undefined) return found(books.putIntent(intent));
  return pay(books, intent, result, params);
}

/** `POST /v1/payment_intents/:id/cancel`: only an intent that waits for something can be cancelled. */
export function cancelPaymentIntent(books: Books, id: string, params: Params): Answer {
  const intent = books.intent(id);
  if (!intent) return missing('payment_intent', id);
  const reason = text(params, 'cancellation_reason');
  const problem = unknownParam(params, CANCEL_PARAMS);
  if (problem) return problem;
  if (reason !== undefined && !CANCELLATION_REASONS.has(reason)) {
    return invalid('Not a cancellation reason.', 'cancellation_reason');
  }
  if (!intent.status.startsWith('requires_')) {
    const message = `You cannot cancel this PaymentIntent because it has a status of ${intent.status}.`;
    const error = { code: 'payment_intent_unexpected_state', message, payment_intent: intent };
    return failed(400, { type: 'invalid_request_error', ...error }, true);
  }
  const cancelled = {
    status: 'canceled',
    canceled_at: books.nowSeconds(),
    cancellation_reason: reason ?? null,
  };
  return found(books.putIntent({ ...intent, ...cancelled, next_action: null }));
}

/** Ends a `processing` intent, as the bank does days later. Throws an Error when it is not processing. */
export function settleIntent(books: Books, id: string, outcome: 'succeeded' | 'failed'): void {
  const intent = books.intent(id);
  const charge = books.charges.get(intent?.latest_charge ?? '');
  if (intent?.status !== 'processing' || !charge) throw new Error(`${id} is not a processing PaymentIntent`);
  if (outcome === 'succeeded') {
    books.charges.set(charge.id, { ...charge, status: 'succeeded', paid: true });
    books.recordCharge(intent, charge.id);
    books.putIntent({ ...intent, status: 'succeeded', amount_received: intent.amount });
    return;
  }
  const code = 'payment_intent_payment_attempt_failed';
  const message = 'The payment attempt failed.';
  books.charges.set(charge.id, { ...charge, status: 'failed', failure_code: code, failure_message: message });
  putDeclined(books, intent, charge.id, { type: 'invalid_request_error', code, message });
}

function customerProblem(customerId: string | undefined): Answer | undefined {
  if (customerId === undefined) return undefined;
  if (customerId === 'cus_live_mode') {
    const hint = 'a similar object exists in live mode, but a test mode key was used to make this request.';
    return invalid(`No such customer: '${customerId}'; ${hint}`, 'customer', 'resource_missing');
  }
  const isKnown = customerId.startsWith('cus_') && customerId !== 'cus_missing';
  return isKnown ? undefined : missing('customer', customerId, 'customer');
}

function newIntent(books: Books, params: Params): PaymentIntentObject {
  const id = newId('pi');
  const paymentMethodId = text(params, 'payment_method') ?? null;
  return {
    id,
    object: 'payment_intent',
    amount: Number(text(params, 'amount')),
    amount_capturable: 0,
    amount_received: 0,
    canceled_at: null,
    cancellation_reason: null,
    capture_method: 'automatic',
    client_secret: `${id}_secret_stand_in`,
    confirmation_method: 'automatic',
    created: books.nowSeconds(),
    currency: (text(params, 'currency') ?? '').toLowerCase(),
    customer: text(params, 'customer') ?? null,
    description: text(params, 'description') ?? null,
    last_payment_error: null,
    latest_charge: null,
    livemode: false,
    metadata: textsBelow(params, 'metadata'),
    next_action: null,
    payment_method: paymentMethodId,
    payment_method_types: [paymentMethodId?.startsWith('pm_usBankAccount') ? 'us_bank_account' : 'card'],
    status: paymentMethodId === null ? 'requires_payment_method' : 'requires_confirmation',
  };
}

function pay(books: Books, intent: PaymentIntentObject, result: PaymentResult, params: Params): Answer {
  switch (result.kind) {
    case 'succeeded': {
      const charge = putCharge(books, intent, { status: 'succeeded', paid: true });
      books.recordCharge(intent, charge.id);
      const paid = { status: 'succeeded', amount_received: intent.amount, latest_charge: charge.id };
      return found(books.putIntent({ ...intent, ...paid }));
    }
    case 'processing': {
      const charge = putCharge(books, intent, { status: 'pending', paid: false });
      return found(books.putIntent({ ...intent, status: 'processing', latest_charge: charge.id }));
    }
    case 'status': {
      const next_action = result.status === 'requires_action' ? { type: 'use_stripe_sdk' } : null;
      return found(books.putIntent({ ...intent, status: result.status, next_action }));
    }
    case 'authenticationRequired': {
      const isRefused = [text(params, 'off_session'), text(params, 'error_on_requires_action')].includes(
        'true',
      );
      if (!isRefused) return pay(books, intent, { kind: 'status', status: 'requires_action' }, params);
      const code = 'authentication_required';
      return decline(books, intent, code, code, 'The card was declined: it requires authentication.');
    }
    case 'declined':
      return decline(books, intent, result.code, result.declineCode, result.message);
  }
}

function decline(
  books: Books,
  intent: PaymentIntentObject,
  code: string,
  decline_code: string,
  message: string,
): Answer {
  const failure = { failure_code: code, failure_message: message };
  const charge = putCharge(books, intent, { status: 'failed', paid: false, ...failure });
  const error = { type: 'card_error', code, decline_code, message };
  const declined = putDeclined(books, intent, charge.id, error);
  return failed(402, { ...declined.last_payment_error, payment_intent: declined }, true);
}

function putDeclined(
  books: Books,
  intent: PaymentIntentObject,
  chargeId: string,
  error: { type: string; code: string; decline_code?: string; message: string },
): PaymentIntentObject {
  const payment_method = { id: intent.payment_method ?? '', object: 'payment_method' as const };
  return books.putIntent({
    ...intent,
    status: 'requires_payment_method',
    payment_method: null,
    latest_charge: chargeId,
    last_payment_error: { ...error, charge: chargeId, payment_method },
  });
}

type ChargeEnd = Pick<ChargeObject, 'status' | 'paid'> & Partial<ChargeObject>;

function putCharge(books: Books, intent: PaymentIntentObject, end: ChargeEnd): ChargeObject {
  const charge: ChargeObject = {
    id: newId(intent.payment_method_types.includes('card') ? 'ch' : 'py'),
    object: 'charge',
    amount: intent.amount,
    amount_captured: end.status === 'failed' ? 0 : intent.amount,
    amount_refunded: 0,
    captured: end.status !== 'failed',
    created: books.nowSeconds(),
    currency: intent.currency,
    customer: intent.customer,
    failure_code: null,
    failure_message: null,
    livemode: false,
    metadata: intent.metadata,
    payment_intent: intent.id,
    payment_method: intent.payment_method,
    refunded: false,
    ...end,
  };
  books.charges.set(charge.id, charge);
  return charge;
}
