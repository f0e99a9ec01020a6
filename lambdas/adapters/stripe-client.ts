import Stripe from 'stripe';
import type { Clock } from '../operation/ports';
import { signalInTime } from './deadline';
import { type Answer, unreadableError } from './stripe-outcome';

/** Pinned, so that an upgrade of the account or of the SDK changes no parameter and no answer. https://docs.stripe.com/api/versioning */
const apiVersion = '2026-10-28.endive';

/** One attempt's way to Stripe: the key that it uses, and how long all of its calls together may take. */
export interface StripeCall {
  readonly stripe: Stripe;
  /** Options of one request; undefined when the time is up. An idempotency key makes it a write. */
  options(idempotencyKey?: string): Stripe.RequestOptions | undefined;
}

/** Makes clients, one per API key, that wait and repeat only as they are told. */
export class StripeClients {
  #latest: { readonly key: string; readonly stripe: Stripe } | undefined;

  /** @param baseUrl another base URL than Stripe's own: the stand-in on a laptop */
  constructor(
    private readonly clock: Clock,
    private readonly baseUrl?: URL,
  ) {}

  call(key: string, deadlineMs: number): StripeCall {
    return {
      stripe: this.#stripe(key),
      options: (idempotencyKey) => {
        const timeout = Math.floor(deadlineMs - this.clock());
        if (timeout <= 0) return undefined;
        return { timeout, maxNetworkRetries: 0, ...(idempotencyKey === undefined ? {} : { idempotencyKey }) };
      },
    };
  }

  #stripe(key: string): Stripe {
    if (this.#latest?.key === key) return this.#latest.stripe;
    const stripe = new Stripe(key, {
      apiVersion,
      maxNetworkRetries: 0,
      telemetry: false,
      // One timeout for all parts of a call, and no retry of a closed connection behind our back: the SDK's client
      // for Node times each part by itself and repeats a POST once even with `maxNetworkRetries: 0`.
      httpClient: Stripe.createFetchHttpClient(fetchReadably),
      ...(this.baseUrl ? addressOf(this.baseUrl) : {}),
    });
    this.#latest = { key, stripe };
    return stripe;
  }
}

/** The object that a call gives, or the error that it throws. */
export async function answerOf(call: Promise<unknown>): Promise<Answer> {
  try {
    return { object: await call };
  } catch (error) {
    return { error };
  }
}

/**
 * The SDK knows the status of an error only from a body in Stripe's form, and takes every other JSON for success. What
 * a gateway or an empty body says is put into that form here, so that status and headers can be classified.
 */
async function fetchReadably(...[url, init]: Parameters<typeof fetch>): Promise<Response> {
  // A redirect would turn the POST into a GET elsewhere.
  const signal = signalInTime(init?.signal) ?? null;
  const response = await fetch(url, { ...init, signal, redirect: 'manual' });
  if (response.ok) return response;
  const text = await response.text();
  const { status, headers } = response;
  const message = `Stripe answered ${status} without an error in its own form.`;
  const error = { type: 'api_error', code: unreadableError, message };
  return new Response(hasError(text) ? text : JSON.stringify({ error }), { status, headers });
}

function hasError(text: string): boolean {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body !== 'object' || body === null || !('error' in body)) return false;
    return typeof body.error === 'object' && body.error !== null;
  } catch {
    return false;
  }
}

const addressOf = ({ protocol, hostname, port }: URL) => ({
  protocol: protocol === 'http:' ? ('http' as const) : ('https' as const),
  host: hostname,
  ...(port === '' ? {} : { port }),
});
