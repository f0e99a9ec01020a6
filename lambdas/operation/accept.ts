import { boundTo } from './bound';
import { deadlineMs } from './delivery';
import { digestOf } from './digest';
import type { Limits } from './limits';
import type { Message } from './message';
import { type Job, type Operation, type OperationId, UnreadableRecord } from './operation';
import {
  type Clock,
  type DueOperations,
  type JobQueue,
  keyOf,
  type OperationStore,
  type OperationTelemetry,
  type TenantStore,
} from './ports';
import { type HindranceCode, refundHindrance, reserve } from './refund';
import { isTerminal } from './state';
import { hasDailyCalls, maxAcceptedOf, secondsToNextDay, type Tenant } from './tenant';

export interface AcceptPorts {
  readonly store: OperationStore;
  readonly tenants: TenantStore;
  readonly due: DueOperations;
  readonly queue: JobQueue;
  readonly clock: Clock;
  /** A token that was never used before. */
  readonly newClaimId: () => string;
  readonly limits: Limits;
  readonly providerKeyPrefix: string;
  /** Which of the provider's parameters say all of an operation's inputs. */
  readonly paramsVersionOf: (job: Job) => number;
  readonly telemetry: OperationTelemetry;
}

export type Accepted =
  /** The record is durable and its message is on the queue. */
  | { readonly kind: 'accepted'; readonly operation: Operation }
  /** Known already, with the same inputs: a replay. */
  | { readonly kind: 'known'; readonly operation: Operation }
  /** Known already, with other inputs. */
  | { readonly kind: 'conflict'; readonly operation: Operation }
  /** A refund that its charge does not allow. */
  | { readonly kind: 'refundRefused'; readonly code: HindranceCode; readonly detail: string }
  | {
      readonly kind: 'tenantFull';
      readonly why: 'places' | 'daily_calls';
      readonly retryAfterSeconds: number;
    }
  | { readonly kind: 'serviceFull'; readonly retryAfterSeconds: number }
  /** A person has paused the service. */
  | { readonly kind: 'paused'; readonly retryAfterSeconds: number };

/** Until then the caller's own request sends the message; later the reconciler does. */
const dueAfterMs = 5 * 60_000;
/** A known operation whose message may never have been sent is sent again when asked for after this. */
const sendAgainAfterMs = 5_000;
/** Between an admission and its record lies one write: a place without a record for so long was left by a crash. */
const abandonedAfterMs = 60_000;

/**
 * Takes an operation on: look, admit, put, send; a refund reserves its part of the charge before it is admitted. Each
 * step is idempotent by the operation's id, so twins and retries after a crash at any point make one operation;
 * nothing that is refused has a record.
 */
export async function accept(ports: AcceptPorts, message: Message): Promise<Accepted> {
  const { limits, store } = ports;
  const nowMs = ports.clock();
  const chargeId = message.type === 'refund' ? [chargeOf(message)] : [];
  const seen = await store.look([message, ...chargeId], [message.tenantId], 0);
  for (const id of [message, ...chargeId]) if (seen.unreadable.has(keyOf(id))) throw new UnreadableRecord(id);
  if (seen.unreadableTenants.has(message.tenantId)) throw new UnreadableRecord(message);
  const known = seen.operations.get(keyOf(message));
  if (known) return answerKnown(ports, known, message, nowMs);

  if (seen.provider?.breaker?.reason === 'paused') return { kind: 'paused', retryAfterSeconds: 60 };
  const tenant = seen.tenants.get(message.tenantId);
  if (!hasDailyCalls(tenant, limits, nowMs)) {
    return { kind: 'tenantFull', why: 'daily_calls', retryAfterSeconds: secondsToNextDay(nowMs) };
  }
  const charge = chargeId[0] && seen.operations.get(keyOf(chargeId[0]));
  const hindrance =
    message.type === 'refund'
      ? refundHindrance(charge, message.operationId, message.input.amountMinor)
      : undefined;
  // What is too much may be held by what a crash left behind: that is found out when it is reserved.
  if (hindrance && hindrance.error.code !== 'refund_exceeds_charge') {
    return { kind: 'refundRefused', code: hindrance.error.code, detail: hindrance.error.message };
  }
  if ((await ports.queue.depth()) >= limits.queueMaxDepth)
    return { kind: 'serviceFull', retryAfterSeconds: 30 };

  if (message.type === 'refund' && charge) {
    const refused = await reserve(store, charge, message.operationId, message.input.amountMinor, nowMs);
    if (refused) return { kind: 'refundRefused', code: refused.error.code, detail: refused.error.message };
  }
  const full = await admit(ports, message, tenant, nowMs);
  if (full) {
    // What this request has just reserved; a twin's part is left alone.
    if (message.type === 'refund' && charge) {
      const part = { amountMinor: message.input.amountMinor, reservedAtMs: nowMs };
      await store.releaseRefund(charge, message.operationId, part);
    }
    return full;
  }
  return put(ports, message, charge, nowMs);
}

async function answerKnown(
  ports: AcceptPorts,
  operation: Operation,
  message: Message,
  nowMs: number,
): Promise<Accepted> {
  if (operation.inputDigest !== digestOf(message)) return { kind: 'conflict', operation };
  // A crash may have come between the record and its message. It is sent once more by whoever moves its due time first;
  // after that the reconciler does.
  const wasNeverDue = operation.dueAtMs === operation.createdAtMs + dueAfterMs;
  const isPerhapsUnsent = operation.state === 'queued' && operation.attemptCount === 0 && wasNeverDue;
  if (isPerhapsUnsent && nowMs - operation.createdAtMs > sendAgainAfterMs) {
    if (await ports.due.postpone(operation, nowMs + dueAfterMs)) await ports.queue.send(operation);
  }
  return { kind: 'known', operation };
}

/** Takes a place. Where all are taken, those of operations that have ended, or never came to be, are given up first. */
async function admit(
  { limits, store, tenants }: AcceptPorts,
  id: OperationId,
  tenant: Tenant | undefined,
  nowMs: number,
): Promise<Accepted | undefined> {
  // Without a bound on what runs there is none on what waits.
  if (limits.tenantMaxRunning === 0) return undefined;
  if ((await tenants.admit(id, tenant, nowMs)) === 'admitted') return undefined;
  const now = (await store.look([], [id.tenantId])).tenants.get(id.tenantId);
  const full = { kind: 'tenantFull', why: 'places', retryAfterSeconds: 5 } as const;
  if (!now) return full;
  const isEvicted = await evict(store, tenants, now, nowMs);
  if (!isEvicted && Object.keys(now.accepted).length >= maxAcceptedOf(now, limits)) return full;
  return (await tenants.admit(id, now, nowMs)) === 'admitted' ? undefined : full;
}

/** @returns whether a place was given up */
async function evict(
  store: OperationStore,
  tenants: TenantStore,
  tenant: Tenant,
  nowMs: number,
): Promise<boolean> {
  const { tenantId, accepted } = tenant;
  const old = Object.entries(accepted).filter(([, acceptedAtMs]) => nowMs - acceptedAtMs > abandonedAfterMs);
  const { operations, unreadable } = await store.look(
    old.map(([operationId]) => ({ tenantId, operationId })),
  );
  const isLeft = ([operationId]: readonly [string, number]) => {
    const key = keyOf({ tenantId, operationId });
    if (unreadable.has(key)) return false;
    const operation = operations.get(key);
    return !operation || isTerminal(operation.state) || operation.state === 'parked';
  };
  const left = old.filter(isLeft);
  await Promise.all(
    left.map(([operationId, acceptedAtMs]) => tenants.leave({ tenantId, operationId }, acceptedAtMs)),
  );
  return left.length > 0;
}

async function put(
  ports: AcceptPorts,
  message: Message,
  charge: Operation | undefined,
  nowMs: number,
): Promise<Accepted> {
  const { limits, providerKeyPrefix, paramsVersionOf, telemetry } = ports;
  const bound = boundTo({
    message,
    charge,
    limits,
    deadlineAtMs: deadlineMs(message, limits, nowMs),
    nowMs,
    acceptedBy: 'api',
    providerKeyPrefix,
    providerParamsVersion: paramsVersionOf(message),
  });
  const write = await ports.store.accept({
    id: message,
    bound,
    acceptId: ports.newClaimId(),
    nowMs,
    dueAtMs: nowMs + dueAfterMs,
  });
  if (write.kind === 'superseded') {
    if (!write.operation)
      throw new Error(`the record of operation ${message.operationId} was refused, but there is none`);
    // A twin came first, or other inputs did: the place is the operation's, whoever took it.
    return answerKnown(ports, write.operation, message, nowMs);
  }
  telemetry.changed(write.operation, 'new');
  await ports.queue.send(write.operation);
  return { kind: 'accepted', operation: write.operation };
}

const chargeOf = ({ tenantId, input }: Message & { readonly type: 'refund' }): OperationId => ({
  tenantId,
  operationId: input.chargeOperationId,
});
