import { setTimeout as delay } from 'node:timers/promises';
import type { Account, Endpoint } from './stripe-account';
import { type Answer, failed, invalid, type WireError } from './stripe-answers';
import type { Fault, FaultPlan } from './stripe-faults';
import type { KeyedRequest, KeyMemory, KeySlot, KeyState } from './stripe-keys';
import { fingerprint } from './stripe-params';
import type { RecordedRequest } from './stripe-requests';

/** What the client gets. `firstRequestId` is the request that a replayed answer was first given to. */
export type Reply =
  | { readonly kind: 'answer'; readonly answer: Answer; readonly firstRequestId?: string }
  | { readonly kind: 'half'; readonly answer: Answer }
  | { readonly kind: 'nothing' };

/** What every call of one stand-in shares. */
export interface Provider {
  readonly account: Account;
  readonly keys: KeyMemory;
  readonly faults: FaultPlan;
  readonly latencyMs: number;
  /** Aborted when the stand-in stops: nobody waits any longer. */
  readonly stopping: AbortSignal;
  /** Does something after real time has passed, at the latest when the stand-in stops. */
  later(ms: number, land: () => void): void;
}

/** One request on its way through the provider. */
export interface Call {
  readonly record: RecordedRequest;
  readonly apiKey: string;
  readonly endpoint: Endpoint | undefined;
  /** Aborted when the client has gone. */
  readonly left: AbortSignal;
}

/**
 * Answers a call: refuse what is no proper request, meet a planned fault, look at the key, execute once.
 * A key is looked at and claimed without a wait in between, so that no two calls execute under one.
 */
export async function answerCall(provider: Provider, call: Call): Promise<Reply> {
  const { record, endpoint } = call;
  const refusal = refusalOf(call);
  if (refusal) return { kind: 'answer', answer: refusal };
  if (!endpoint) return { kind: 'answer', answer: noSuchUrl(record) };

  const keyed = keyedRequest(record);
  const state = provider.keys.look(keyed);
  const fault = provider.faults.take(record, (planned) => canMeet(planned, state));
  if (fault?.kind === 'answer' && isGivenFirst(fault)) return { kind: 'answer', answer: answerOf(fault) };
  if (state.kind === 'otherRequest' || state.kind === 'inUse') {
    return { kind: 'answer', answer: conflict(state, keyed) };
  }
  if (fault?.kind === 'lateEffect') {
    provider.later(fault.ms, () => land(provider, endpoint, record, keyed));
    return { kind: 'nothing' };
  }
  if (state.kind === 'saved') {
    const perform = () => state.answer;
    return meet(provider, call, fault, perform, (answer) => answer, state.slot.request.requestId);
  }
  const slot = provider.keys.claim(keyed);
  try {
    return await meet(provider, call, fault, effectOf(endpoint, record, slot), (answer) =>
      save(slot, answer),
    );
  } finally {
    provider.keys.close(slot);
  }
}

type AnswerFault = Extract<Fault, { kind: 'answer' }>;

/** `perform` gives the answer of the effect, which happens at most once; `keep` puts another answer under the key. */
async function meet(
  provider: Provider,
  call: Call,
  fault: Fault | undefined,
  perform: () => Answer,
  keep: (answer: Answer) => Answer,
  replayOf?: string,
): Promise<Reply> {
  await pause(provider.latencyMs, provider.stopping);
  const answered = (): Reply => ({
    kind: 'answer',
    answer: perform(),
    ...(replayOf !== undefined && { firstRequestId: replayOf }),
  });
  if (fault === undefined) return answered();
  switch (fault.kind) {
    case 'answer':
      if (fault.effect === 'done') perform();
      return { kind: 'answer', answer: isKept(fault) ? keep(answerOf(fault)) : answerOf(fault) };
    case 'reset':
      if (fault.effect === 'done') perform();
      return { kind: 'nothing' };
    case 'stall':
      if (fault.effect === 'done') perform();
      await pause(fault.ms, AbortSignal.any([call.left, provider.stopping]));
      return fault.effect === 'none' && isGone(provider, call) ? { kind: 'nothing' } : answered();
    case 'truncate':
      return { kind: 'half', answer: perform() };
    case 'hook':
      if (fault.at === 'afterEffect') perform();
      await ranOrStopped(provider, fault.run(call.record));
      return fault.next === 'drop' || provider.stopping.aborted ? { kind: 'nothing' } : answered();
    case 'lateEffect':
      return { kind: 'nothing' };
  }
}

/** The request of a dead sender arrives: by now its key may be known, and then nothing happens. */
function land(provider: Provider, endpoint: Endpoint, record: RecordedRequest, keyed: KeyedRequest): void {
  if (provider.keys.look(keyed).kind !== 'new') return;
  const slot = provider.keys.claim(keyed);
  effectOf(endpoint, record, slot)();
  provider.keys.close(slot);
}

/** The effect of a request: happens when first called, and once. */
function effectOf(endpoint: Endpoint, record: RecordedRequest, slot: KeySlot): () => Answer {
  let done: Answer | undefined;
  return () => {
    done ??= save(slot, endpoint.execute(record.params, record.idempotencyKey));
    return done;
  };
}

function save(slot: KeySlot, answer: Answer): Answer {
  if (answer.isSaved) slot.answer = answer;
  return answer;
}

/** A GET has no key: https://docs.stripe.com/api/idempotent_requests. */
function keyedRequest(record: RecordedRequest): KeyedRequest {
  return {
    idempotencyKey: record.method === 'POST' ? record.idempotencyKey : undefined,
    endpoint: `${record.method} ${record.path}`,
    paramsFingerprint: fingerprint(record.params),
    requestId: record.requestId,
  };
}

function refusalOf({ record, apiKey }: Call): Answer | undefined {
  const type = 'invalid_request_error';
  if (apiKey === '') return failed(401, { type, message: 'You did not provide an API key.' }, false);
  if (!/^(sk|rk)_./.test(apiKey) || /^(sk|rk)_(live|test_revoked)/.test(apiKey)) {
    return failed(401, { type, message: 'Invalid API key provided.' }, false);
  }
  const length = record.idempotencyKey?.length ?? 1;
  if (record.method !== 'POST' || (length >= 1 && length <= 255)) return undefined;
  return invalid(`An idempotency key has 1 to 255 characters, not ${length}.`);
}

function noSuchUrl({ method, path }: RecordedRequest): Answer {
  const message = `Unrecognized request URL (${method}: ${path}).`;
  return failed(404, { type: 'invalid_request_error', message }, false);
}

function conflict(state: KeyState, { idempotencyKey }: KeyedRequest): Answer {
  const type = 'idempotency_error';
  if (state.kind === 'inUse') {
    const message = `Another request with the key '${idempotencyKey}' is still in progress.`;
    return failed(409, { type, code: 'idempotency_key_in_use', message }, false);
  }
  const message = `The key '${idempotencyKey}' was first used with another endpoint or other parameters.`;
  return failed(400, { type, message }, false);
}

function canMeet(fault: Fault, state: KeyState): boolean {
  if (fault.kind === 'answer' && isGivenFirst(fault)) return true;
  if (fault.kind === 'answer' && isKept(fault)) return state.kind === 'new';
  return state.kind === 'new' || state.kind === 'saved';
}

/** Rate limits, authentication and gateways act before the key is looked at. */
function isGivenFirst(fault: AnswerFault): boolean {
  return fault.effect !== 'done' && !isKept(fault);
}

function isKept({ status, save }: AnswerFault): boolean {
  return save ?? (status === 500 || status === 402 || (status >= 200 && status < 300));
}

function answerOf(fault: AnswerFault): Answer {
  const { status, body = { error: { ...usualError(status), ...fault.error } }, headers = {} } = fault;
  const text = typeof body === 'string' ? body : JSON.stringify(body, null, 2);
  return { status, body: text, isSaved: isKept(fault), headers };
}

function usualError(status: number): WireError {
  const message = `The Stripe stand-in was told to answer ${status}.`;
  if (status === 402)
    return { type: 'card_error', code: 'card_declined', decline_code: 'generic_decline', message };
  if (status === 409) return { type: 'idempotency_error', code: 'idempotency_key_in_use', message };
  if (status === 429) return { type: 'invalid_request_error', code: 'rate_limit', message };
  return { type: status >= 500 ? 'api_error' : 'invalid_request_error', message };
}

function isGone(provider: Provider, call: Call): boolean {
  return call.left.aborted || provider.stopping.aborted;
}

const LONGEST_TIMER_MS = 2 ** 31 - 1;

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms > 0) await delay(Math.min(ms, LONGEST_TIMER_MS), undefined, { signal }).catch(() => undefined);
}

async function ranOrStopped(provider: Provider, run: void | Promise<void>): Promise<void> {
  const { stopping } = provider;
  const stopped = new Promise<void>((resolve) =>
    stopping.addEventListener('abort', () => resolve(), { once: true }),
  );
  await Promise.race([run, stopped]);
}
