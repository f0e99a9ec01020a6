import Stripe from 'stripe';
import * as z from 'zod/mini';
import type { EffectResult, OperationError, Outcome } from '../operation/outcome';

/** What a Stripe call gave: an object, or a thrown error. */
export type Answer = { readonly object: unknown } | { readonly error: unknown };

/** From the answer to a charge to an outcome. Never throws. */
export const chargeOutcomeOf = (answer: Answer): Outcome =>
  'error' in answer ? outcomeOfError(answer.error) : outcomeOfIntent(answer.object);

/** From the answer to a refund to an outcome. Never throws. */
export const refundOutcomeOf = (answer: Answer): Outcome =>
  'error' in answer ? outcomeOfError(answer.error) : outcomeOfRefund(answer.object);

/**
 * Only `succeeded` is success. A body without the fields of a PaymentIntent, and a status that did not exist when
 * this was written, say nothing about the money.
 * https://docs.stripe.com/payments/paymentintents/lifecycle
 */
function outcomeOfIntent(value: unknown): Outcome {
  const intent = intentIn(value);
  if (!intent) return unknown('unreadable_answer');
  const providerRef = intent.id;
  switch (intent.status) {
    case 'succeeded':
      return { kind: 'succeeded', providerRef, result: intent.result };
    case 'processing':
      return { kind: 'accepted', providerRef };
    case 'canceled':
      return {
        kind: 'declined',
        providerRef,
        error: { code: 'canceled', message: 'The payment was canceled at Stripe.' },
      };
    default:
      return { ...unknown(`intent_${intent.status}`), providerRef };
  }
}

/** https://docs.stripe.com/api/refunds/object */
function outcomeOfRefund(value: unknown): Outcome {
  const parsed = refundSchema.safeParse(value);
  if (!parsed.success) return unknown('unreadable_answer');
  const { id: providerRef, status, amount, currency, charge, failure_reason } = parsed.data;
  switch (status) {
    case 'succeeded':
      return { kind: 'succeeded', providerRef, result: resultOf(amount, currency, charge) };
    case 'pending':
    case 'requires_action':
      return { kind: 'accepted', providerRef };
    case 'failed':
    case 'canceled': {
      const message = `The refund is ${status} at Stripe${failure_reason ? `: ${failure_reason}` : ''}.`;
      return { kind: 'declined', providerRef, error: { code: `refund_${status}`, message } };
    }
    default:
      return { ...unknown(`refund_${status}`), providerRef };
  }
}

/** Classified by status, code and type together: the SDK's class alone says too little. https://docs.stripe.com/error-handling */
function outcomeOfError(error: unknown): Outcome {
  if (!(error instanceof Stripe.errors.StripeError)) return unknown('unreadable_answer');
  const { statusCode, rawType } = error;
  if (statusCode === undefined) return outcomeOfConnection(error);
  const failure = failureOf(error);
  // A gateway's word: it says that something is wrong, not that Stripe refused the request.
  if (failure.code === unreadableError && [400, 402, 404].includes(statusCode))
    return unknown(`status_${statusCode}`);
  switch (statusCode) {
    case 402: {
      const providerRef = intentIn(error.payment_intent)?.id;
      return { kind: 'declined', error: failure, ...(providerRef === undefined ? {} : { providerRef }) };
    }
    case 400:
    case 404:
      // The key was used with other parameters or for another endpoint.
      if (rawType === 'idempotency_error') return { kind: 'conflict', error: failure };
      return effectExistsCodes.has(failure.code)
        ? { kind: 'effectExists', error: failure }
        : { kind: 'invalid', error: failure, ...(isOfOtherMode(error) && { reason: 'other_mode' }) };
    case 401:
      return { kind: 'notSent', reason: 'unauthorized' };
    case 403:
      return { kind: 'forbidden', error: failure };
    // Ordinary rate limits and lock time-outs alike: Stripe did not run the request. https://docs.stripe.com/rate-limits
    case 429:
      return { kind: 'notSent', reason: failure.code === 'lock_timeout' ? 'lock_timeout' : 'rate_limited' };
    // The key is in use: the first call may be committing at this moment.
    case 409:
      return unknown('key_in_use');
    default:
      return { ...unknown(`status_${statusCode}`), keySpent: statusCode >= 500 && isReplay(error) };
  }
}

/** No answer, or none that could be read. Only an error from before the connection stood proves that nothing was sent. */
function outcomeOfConnection(error: Stripe.errors.StripeError): Outcome {
  const failure = connectionFailure(error.detail) ?? connectionFailure(error);
  if (failure && isBeforeConnection(failure)) return { kind: 'notSent', reason: 'connection_refused' };
  return unknown(failure?.code === 'ETIMEDOUT' ? 'timeout' : 'connection_lost');
}

/** The code that our HTTP client gives to an error without a body in Stripe's form. */
export const unreadableError = 'unreadable_error';

const unknown = (reason: string) => ({ kind: 'unknown', reason, keySpent: false }) as const;

/**
 * Codes of the operating system, the resolver and the HTTP client. A host can also become unreachable while data is on its
 * way, so there the system call matters. https://nodejs.org/api/errors.html#common-system-errors
 */
const isBeforeConnection = ({ code, syscall }: ConnectionFailure): boolean =>
  neverConnected.has(code) || (unreachable.has(code) && syscall === 'connect');

const neverConnected = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']);
const unreachable = new Set(['EHOSTUNREACH', 'ENETUNREACH', 'ETIMEDOUT']);

/** It was done before, perhaps by somebody else. https://docs.stripe.com/error-codes */
const effectExistsCodes = new Set(['charge_already_captured', 'charge_already_refunded']);

/** Test and live objects are apart, and only its words tell a missing one from one of the other mode. https://docs.stripe.com/error-codes#livemode-mismatch */
const isOfOtherMode = ({ code, message }: Stripe.errors.StripeError): boolean =>
  code === 'livemode_mismatch' || /similar object exists in (test|live) mode/.test(message);

interface ConnectionFailure {
  readonly code: string;
  readonly syscall?: unknown;
}

/** The first of an error and its causes, outermost first, that has a code. */
function connectionFailure(error: unknown): ConnectionFailure | undefined {
  for (let depth = 0; depth < 5 && typeof error === 'object' && error !== null; depth++) {
    if ('code' in error && typeof error.code === 'string') {
      return { code: error.code, ...('syscall' in error ? { syscall: error.syscall } : {}) };
    }
    error = 'cause' in error ? error.cause : undefined;
  }
  return undefined;
}

/** Stripe marks an answer that it saved under the key and repeats. https://docs.stripe.com/api/idempotent_requests */
const isReplay = ({ headers }: Stripe.errors.StripeError): boolean =>
  headers?.['idempotent-replayed'] === 'true';

function failureOf({
  code,
  decline_code,
  rawType,
  statusCode,
  message,
}: Stripe.errors.StripeError): OperationError {
  return {
    code: code ?? decline_code ?? rawType ?? `status_${statusCode}`,
    message: message.slice(0, 100),
    ...(decline_code === undefined ? {} : { declineCode: decline_code }),
  };
}

interface Intent {
  readonly id: string;
  readonly status: string;
  readonly result: EffectResult;
}

const wholeNumber = z.catch(z.optional(z.int()), undefined);
const text = z.catch(z.optional(z.string()), undefined);
const object = {
  id: z.string().check(z.minLength(1)),
  status: z.string(),
  amount: wholeNumber,
  currency: text,
};
const intentSchema = z.object({ ...object, amount_received: wholeNumber, latest_charge: text });
const refundSchema = z.object({ ...object, charge: text, failure_reason: text });

/** The fields of a PaymentIntent that we keep, if `value` is one. */
export function intentIn(value: unknown): Intent | undefined {
  const parsed = intentSchema.safeParse(value);
  if (!parsed.success) return undefined;
  const { id, status, amount, amount_received, currency, latest_charge } = parsed.data;
  return { id, status, result: resultOf(amount_received ?? amount, currency, latest_charge) };
}

const resultOf = (amountMinor?: number, currency?: string, chargeId?: string): EffectResult => ({
  ...(amountMinor === undefined ? {} : { amountMinor }),
  ...(currency === undefined ? {} : { currency }),
  ...(chargeId === undefined ? {} : { chargeId }),
});
