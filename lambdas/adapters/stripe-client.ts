import Stripe from 'stripe';
import type { Clock } from '../operation/ports';
import { StripeHttpClient } from './stripe-http';
import type { Answer } from './stripe-outcome';

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
  readonly #http = new StripeHttpClient();
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
      httpClient: this.#http,
      ...(this.baseUrl ? addressOf(this.baseUrl) : {}),
    });
    this.#latest = { key, stripe };
    return stripe;
  }
}

/** The object that a call gives, or the error that it throws. */
export async function answerOf(call: () => Promise<unknown>): Promise<Answer> {
  try {
    return { object: await withoutStack(call) };
  } catch (error) {
    return { error };
  }
}

/**
 * The SDK writes out the stack of every request, in case that it fails; nobody looks at it here. With the source maps of a
 * function each would be looked up in them.
 */
function withoutStack<T>(begin: () => T): T {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return begin();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

const addressOf = ({ protocol, hostname, port }: URL) => ({
  protocol: protocol === 'http:' ? ('http' as const) : ('https' as const),
  host: hostname,
  ...(port === '' ? {} : { port }),
});
