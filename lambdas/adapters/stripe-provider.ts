import Stripe from 'stripe';
import type { Operation } from '../operation/operation';
import type { Outcome } from '../operation/outcome';
import type { Clock, Provider } from '../operation/ports';
import type { ApiKey } from './stripe-key';
import { intentIn, outcomeOf } from './stripe-outcome';

/** Pinned, so that an upgrade of the account or of the SDK changes no parameter and no answer. https://docs.stripe.com/api/versioning */
const apiVersion = '2026-10-28.endive';

/** Charges through Stripe's PaymentIntents. */
export class StripeProvider implements Provider {
  readonly paramsVersion = 1;
  #client: { readonly key: string; readonly stripe: Stripe } | undefined;

  /** @param baseUrl another base URL than Stripe's own: the stand-in on a laptop */
  constructor(
    private readonly apiKey: ApiKey,
    private readonly clock: Clock,
    private readonly baseUrl?: URL,
  ) {}

  async charge(operation: Operation, timeoutMs: number): Promise<Outcome> {
    const deadlineMs = this.clock() + timeoutMs;
    // Stored by a newer build, before a roll-back: a newer worker will build them.
    const params = paramsByVersion[operation.providerParamsVersion]?.(operation);
    if (!params) return { kind: 'notSent', reason: 'params_version_unknown' };
    const key = await this.apiKey.current();
    if (key === undefined) return { kind: 'notSent', reason: 'provider_key_missing' };
    const outcome = await this.#post(operation, params, key, deadlineMs);
    if (outcome.kind !== 'notSent' || outcome.reason !== 'unauthorized') return outcome;
    // A rotated key: read the secret once more. The same key again would only be refused again.
    const fresh = await this.apiKey.reread();
    return fresh === undefined || fresh === key ? outcome : this.#post(operation, params, fresh, deadlineMs);
  }

  async #post(
    operation: Operation,
    params: Stripe.PaymentIntentCreateParams,
    key: string,
    deadlineMs: number,
  ): Promise<Outcome> {
    const options = this.#optionsFor(operation.providerKey, deadlineMs);
    if (!options) return { kind: 'notSent', reason: 'out_of_time' };
    const answer = await settled(this.#stripe(key).paymentIntents.create(params, options));
    const intent = 'intent' in answer ? intentIn(answer.intent) : undefined;
    if (intent?.status !== 'requires_action') return outcomeOf(answer);
    return this.#cancel(operation, intent.id, key, deadlineMs);
  }

  /**
   * An intent that waits for the customer could still be paid later: it is cancelled at Stripe before the
   * operation is called failed. Where that is not proven, neither is the outcome.
   */
  async #cancel(
    operation: Operation,
    providerRef: string,
    key: string,
    deadlineMs: number,
  ): Promise<Outcome> {
    const options = this.#optionsFor(`${operation.providerKey}/cancel`, deadlineMs);
    const unproven: Outcome = { kind: 'unknown', reason: 'cancel_unproven', keySpent: false, providerRef };
    if (!options) return unproven;
    const answer = await settled(this.#stripe(key).paymentIntents.cancel(providerRef, {}, options));
    const intent = intentIn('intent' in answer ? answer.intent : intentOfError(answer.error));
    if (intent?.status === 'succeeded')
      return outcomeOf({ intent: 'intent' in answer ? answer.intent : intentOfError(answer.error) });
    if (intent?.status !== 'canceled') return unproven;
    const error = {
      code: 'authentication_required',
      message: 'The payment needs the customer; it was canceled at Stripe.',
    };
    return { kind: 'declined', error, providerRef };
  }

  #optionsFor(idempotencyKey: string, deadlineMs: number): Stripe.RequestOptions | undefined {
    const timeout = Math.floor(deadlineMs - this.clock());
    return timeout > 0 ? { idempotencyKey, timeout, maxNetworkRetries: 0 } : undefined;
  }

  #stripe(key: string): Stripe {
    if (this.#client?.key === key) return this.#client.stripe;
    const stripe = new Stripe(key, {
      apiVersion,
      maxNetworkRetries: 0,
      telemetry: false,
      // One timeout for all parts of a call, and no retry of a closed connection behind our back: the SDK's client
      // for Node times each part by itself and repeats a POST once even with `maxNetworkRetries: 0`.
      httpClient: Stripe.createFetchHttpClient(fetchReadably),
      ...(this.baseUrl ? addressOf(this.baseUrl) : {}),
    });
    this.#client = { key, stripe };
    return stripe;
  }
}

/**
 * The parameters of each version, from the frozen input alone: nothing of the time, the build or the attempt goes in,
 * so every retry is byte-identical. Never change one; add a version.
 */
const paramsByVersion: Readonly<Record<number, (operation: Operation) => Stripe.PaymentIntentCreateParams>> =
  {
    1: ({ tenantId, operationId, input, inputDigest }) => ({
      amount: input.amountMinor,
      currency: input.currency,
      customer: input.customerId,
      payment_method: input.paymentMethodId,
      confirm: true,
      off_session: true,
      error_on_requires_action: true,
      metadata: { tenantId, operationId, inputDigest, invoiceId: input.invoiceId },
    }),
  };

type Answer = { readonly intent: unknown } | { readonly error: unknown };

/**
 * The SDK knows the status of an error only from a body in Stripe's form, and takes every other JSON for success. What
 * a gateway or an empty body says is put into that form here, so that status and headers can be classified.
 */
async function fetchReadably(...[url, init]: Parameters<typeof fetch>): Promise<Response> {
  // A redirect would turn the POST into a GET elsewhere.
  const response = await fetch(url, { ...init, redirect: 'manual' });
  if (response.ok) return response;
  const text = await response.text();
  const { status, headers } = response;
  const error = {
    type: 'unreadable_error',
    message: `Stripe answered ${status} without an error in its own form.`,
  };
  return new Response(hasError(text) ? text : JSON.stringify({ error }), { status, headers });
}

function hasError(text: string): boolean {
  try {
    const body: unknown = JSON.parse(text);
    return (
      typeof body === 'object' &&
      body !== null &&
      'error' in body &&
      typeof body.error === 'object' &&
      body.error !== null
    );
  } catch {
    return false;
  }
}

async function settled(call: Promise<Stripe.Response<Stripe.PaymentIntent>>): Promise<Answer> {
  try {
    return { intent: await call };
  } catch (error) {
    return { error };
  }
}

const intentOfError = (error: unknown): unknown =>
  error instanceof Stripe.errors.StripeError ? error.payment_intent : undefined;

const addressOf = ({ protocol, hostname, port }: URL) => ({
  protocol: protocol === 'http:' ? ('http' as const) : ('https' as const),
  host: hostname,
  ...(port === '' ? {} : { port }),
});
