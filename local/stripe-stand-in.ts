import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { closeServer, connectionsOf, listenOnLoopback } from './loopback-server';
import { type Account, openAccount } from './stripe-account';
import { violations } from './stripe-audit';
import type { LedgerEntry } from './stripe-books';
import { answerCall, type Provider, type Reply } from './stripe-call';
import { type Fault, type FaultMatch, FaultPlan, type PlannedFault } from './stripe-faults';
import { KeyMemory } from './stripe-keys';
import { newId, type PaymentIntentObject, type RefundObject } from './stripe-objects';
import { decodeParams } from './stripe-params';
import type { RecordedRequest } from './stripe-requests';

/** How a stand-in behaves when nothing is planned. */
export interface StripeStandInOptions {
  /** Its clock, ms since 1970; may be moved. Stalls and latency take real time. @default Date.now */
  readonly now?: () => number;
  /** On 127.0.0.1. @default 0: any free port */
  readonly port?: number;
  /** Real time before each effect. @default 0 */
  readonly latencyMs?: number;
  /** How far search is behind, on the stand-in's clock. @default 60000 */
  readonly searchLagMs?: number;
}

/** A running stand-in for Stripe's API. */
export interface StripeStandIn {
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  readonly port: number;
  /** Every request received so far, oldest first. */
  requests(): readonly RecordedRequest[];
  /** How many requests are in flight now. */
  openRequests(): number;
  /** Connections that clients have open, with a request or without. */
  openConnections(): Promise<number>;
  /** Every movement of money, oldest first. */
  ledger(): readonly LedgerEntry[];
  /** As they are now, oldest first. */
  paymentIntents(): readonly PaymentIntentObject[];
  /** As they are now, oldest first. */
  refunds(): readonly RefundObject[];
  /** Ends a `processing` PaymentIntent or a `pending` refund. Throws an Error when it is neither. */
  settle(id: string, outcome: 'succeeded' | 'failed'): void;
  /** Plans a fault for the next request that fits (`times`: the next so many). Returns what takes it back. */
  fault(fault: Fault, match?: FaultMatch): () => void;
  /** The faults that wait for their request. */
  plannedFaults(): PlannedFault[];
  clearFaults(): void;
  /** Forgets all idempotency keys, as Stripe may after 24 h. */
  forgetKeys(): void;
  /**
   * Lets requests that are still on their way land, closes everything, then checks: throws an Error when an operation
   * (tenantId and operationId in the metadata) used two idempotency keys for one step or moved money twice.
   * `allowKeyChange` leaves the keys out, for tests of the one case that changes them: a recorded proof of absence.
   */
  stop(options?: { readonly allowKeyChange?: boolean }): Promise<void>;
}

type Writable<T> = { -readonly [Field in keyof T]: T[Field] };

/**
 * Starts an HTTP server that keeps Stripe's documented contract for payments and refunds closely enough for the
 * `stripe` package. It takes test keys only. Rejects when the port is taken.
 */
export async function startStripeStandIn(options: StripeStandInOptions = {}): Promise<StripeStandIn> {
  const { now = Date.now, port = 0, latencyMs = 0, searchLagMs = 60_000 } = options;
  const account = openAccount(now, searchLagMs);
  const keys = new KeyMemory(now);
  const faults = new FaultPlan();
  const requests: Writable<RecordedRequest>[] = [];
  const running = new Set<Promise<void>>();
  const onTheirWay = new Set<() => void>();
  const bugs: unknown[] = [];
  const stopping = new AbortController();

  const later = (ms: number, land: () => void): void => {
    const landOnce = () => {
      clearTimeout(timer);
      try {
        if (onTheirWay.delete(landOnce)) land();
      } catch (bug) {
        bugs.push(bug);
      }
    };
    const timer = setTimeout(landOnce, ms);
    onTheirWay.add(landOnce);
  };
  const provider: Provider = { account, keys, faults, latencyMs, stopping: stopping.signal, later };

  const server = createServer((request, response) => {
    const record = newRecord(request, now());
    requests.push(record);
    const served = serve(provider, record, request, response)
      .catch((bug: unknown) => {
        bugs.push(bug);
        response.destroy();
      })
      .finally(() => {
        record.endedAtMs ??= now();
        running.delete(served);
      });
    running.add(served);
  });
  // Longer than any test: a connection is reset only when a fault says so.
  server.keepAliveTimeout = 600_000;
  const listeningOn = await listenOnLoopback(server, port);

  return {
    url: `http://127.0.0.1:${listeningOn}`,
    port: listeningOn,
    requests: () => requests.map((record) => ({ ...record })),
    openRequests: () => requests.filter((record) => record.endedAtMs === undefined).length,
    openConnections: () => connectionsOf(server),
    ledger: () => [...account.books.ledger],
    paymentIntents: () => account.books.intents(),
    refunds: () => [...account.books.refunds.values()],
    settle: account.settle,
    fault: (fault, match) => faults.add(fault, match),
    plannedFaults: () => faults.waiting(),
    clearFaults: () => faults.clear(),
    forgetKeys: () => keys.forgetAll(),
    stop: async ({ allowKeyChange = false } = {}) => {
      if (server.listening) {
        stopping.abort();
        await Promise.all([closeServer(server), ...running]);
        for (const land of [...onTheirWay]) land();
      }
      if (bugs.length > 0)
        throw new AggregateError(bugs, `The Stripe stand-in failed itself: ${bugs.join(' | ')}`);
      const found = violations(requests, account.books, { allowKeyChange });
      if (found.length > 0) throw new Error(`Stripe stand-in: ${found.join('; ')}`);
    },
  };
}

function newRecord(request: IncomingMessage, startedAtMs: number): Writable<RecordedRequest> {
  return {
    method: request.method ?? '',
    path: splitUrl(request).path,
    idempotencyKey: header(request, 'idempotency-key'),
    params: {},
    rawBody: '',
    apiVersion: header(request, 'stripe-version'),
    requestId: newId('req'),
    step: undefined,
    operation: undefined,
    startedAtMs,
    endedAtMs: undefined,
    status: undefined,
    replayed: false,
  };
}

async function serve(
  provider: Provider,
  record: Writable<RecordedRequest>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const left = new AbortController();
  response.on('close', () => response.writableFinished || left.abort());
  response.on('error', () => left.abort());
  const rawBody = await readBody(request);
  if (rawBody === undefined) return;
  describe(record, splitUrl(request).query, rawBody, provider.account);

  const endpoint = provider.account.endpoint(record.method, record.path);
  const call = { record, apiKey: apiKey(request), endpoint, left: left.signal };
  const reply = await answerCall(provider, call);
  record.endedAtMs = provider.account.books.now();
  if (reply.kind === 'answer' && !left.signal.aborted) {
    record.status = reply.answer.status;
    record.replayed = reply.firstRequestId !== undefined;
  }
  send(response, record, reply);
}

function describe(record: Writable<RecordedRequest>, query: string, rawBody: string, account: Account): void {
  const endpoint = account.endpoint(record.method, record.path);
  record.rawBody = rawBody;
  record.params = decodeParams([query, rawBody].filter(Boolean).join('&'));
  record.step = endpoint?.step;
  record.operation = endpoint?.operation(record.params);
}

/** Undefined when the client left before the body was whole: such a request does nothing. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of request) chunks.push(chunk);
    return Buffer.concat(chunks).toString('utf8');
  } catch {
    return undefined;
  }
}

function send(response: ServerResponse, record: RecordedRequest, reply: Reply): void {
  if (reply.kind === 'nothing') {
    response.destroy();
    return;
  }
  const body = Buffer.from(reply.answer.body);
  const replayOf = reply.kind === 'answer' ? reply.firstRequestId : undefined;
  response.writeHead(reply.answer.status, {
    'content-type': 'application/json',
    'content-length': body.length,
    'request-id': record.requestId,
    ...(record.apiVersion !== undefined && { 'stripe-version': record.apiVersion }),
    ...(record.idempotencyKey !== undefined && { 'idempotency-key': record.idempotencyKey }),
    ...(record.idempotencyKey !== undefined && { 'original-request': replayOf ?? record.requestId }),
    ...(replayOf !== undefined && { 'idempotent-replayed': 'true' }),
    ...reply.answer.headers,
  });
  if (reply.kind === 'answer') response.end(body);
  else response.write(body.subarray(0, Math.floor(body.length / 2)), () => response.destroy());
}

function splitUrl({ url = '/' }: IncomingMessage): { path: string; query: string } {
  const [path = '/', ...query] = url.split('?');
  return { path, query: query.join('?') };
}

/** A Bearer token, or the user name of Basic authentication, as Stripe accepts both; '' for none. */
function apiKey(request: IncomingMessage): string {
  const [scheme = '', credentials = ''] = (request.headers.authorization ?? '').split(' ');
  if (scheme.toLowerCase() === 'bearer') return credentials;
  return Buffer.from(credentials, 'base64').toString('utf8').split(':')[0] ?? '';
}

function header(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value.join(', ') : value;
}
