import http from 'node:http';
import https from 'node:https';
import Stripe from 'stripe';
import { leftOfInvocationMs } from './deadline';
import { unreadableError } from './stripe-outcome';

/**
 * Sends each request of Stripe's SDK once, and waits for the whole of its answer no longer than its timeout.
 * docs/decisions/0003 says why none of the SDK's own clients does.
 */
export class StripeHttpClient extends Stripe.HttpClient {
  readonly #http = new http.Agent(connections);
  readonly #https = new https.Agent(connections);

  override getClientName(): string {
    return 'node';
  }

  override async makeRequest(
    ...[host, port, path, method, headers, body, protocol, timeoutMs]: Parameters<
      Stripe.HttpClient['makeRequest']
    >
  ): Promise<Stripe.HttpClientResponse> {
    const options = { host, port, path, method, headers };
    const request =
      protocol === 'http'
        ? http.request({ ...options, agent: this.#http })
        : https.request({ ...options, agent: this.#https });
    const giveUp = () =>
      request.destroy(
        request.socket?.connecting === false ? Stripe.HttpClient.makeTimeoutError() : new NotConnected(),
      );
    const leftMs = Math.max(0, Math.min(timeoutMs, leftOfInvocationMs()));
    const timer = setTimeout(giveUp, leftMs);
    try {
      if (leftMs === 0) giveUp();
      request.end(body);
      return await answerTo(request);
    } catch (cause) {
      // Wrapped: by the code of a closed connection the SDK would send the request once more.
      throw new Error('No answer from Stripe', { cause });
    } finally {
      clearTimeout(timer);
    }
  }
}

/** The time was up before the connection stood: nothing was sent. Named as the operating system names it. */
class NotConnected extends Error {
  override readonly name = 'NotConnected';
  readonly code = 'ETIMEDOUT';
  readonly syscall = 'connect';
}

/** An idle connection is closed before the other end does: a process that was frozen would send into it. */
const connections = { keepAlive: true, timeout: 4000 };

function answerTo(request: http.ClientRequest): Promise<Stripe.HttpClientResponse> {
  return new Promise((resolve, reject) => {
    request.on('error', reject);
    request.on('response', (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (part: string) => {
        body += part;
      });
      response.on('error', reject);
      // Not every body that is cut off is an error.
      response.on('close', () => reject(new Error('The answer was cut off')));
      response.on('end', () => resolve(new WholeResponse(response, body)));
    });
  });
}

/** A response whose body has arrived. */
class WholeResponse extends Stripe.HttpClientResponse {
  constructor(
    private readonly response: http.IncomingMessage,
    private readonly body: string,
  ) {
    super(response.statusCode ?? 0, headersOf(response));
  }

  override getRawResponse(): http.IncomingMessage {
    return this.response;
  }

  /**
   * The SDK knows the status of an error only from a body in Stripe's form, and takes every other JSON for success. What
   * a gateway, a redirect or an empty body says is put into that form here, so that status and headers can be classified.
   */
  override async toJSON(): Promise<unknown> {
    const status = this.getStatusCode();
    const isOk = status >= 200 && status < 300;
    if (isOk || hasError(this.body)) return this._parseResponseBody(this.body);
    const message = `Stripe answered ${status} without an error in its own form.`;
    return { error: { type: 'api_error', code: unreadableError, message } };
  }
}

function headersOf({ headers }: http.IncomingMessage): Record<string, string | string[]> {
  const known: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) known[name] = value;
  return known;
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
