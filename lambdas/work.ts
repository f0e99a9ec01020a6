import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { withinTime } from './adapters/deadline';
import { runOnce } from './adapters/idempotency';
import { attempt, claim, type Found, settle } from './operation/attempt';
import { type Delivery, type Disposition, isRetry } from './operation/delivery';
import { digestOf } from './operation/digest';
import { Gate } from './operation/gate';
import { providerTimeoutMs, settleReserveMs } from './operation/limits';
import { type Ids, type Message, parseMessage } from './operation/message';
import type { OperationId } from './operation/operation';
import { keyOf, type Seen } from './operation/ports';
import { isTerminal } from './operation/state';
import { hasBounds } from './operation/tenant';
import type { Source } from './runtime/telemetry';
import { createWorker, type Worker } from './runtime/worker-wiring';

let worker: Worker | undefined;

/** Runs the operations of a batch of messages and reports as failed every message that is not done. */
export const handler = (event: SQSEvent, context: Context): Promise<SQSBatchResponse> => {
  worker ??= createWorker(process.env);
  return work(worker, event, context);
};

/** One invocation. */
interface Batch {
  readonly worker: Worker;
  readonly context: Context;
  /** The worker's last possible moment. */
  readonly deadlineMs: number;
  /** The ids of the messages that are not done: all of them at first. */
  readonly unfinished: Set<string>;
}

/** A message that could be read. */
interface Job extends Delivery {
  readonly record: SQSRecord;
}

/**
 * The handler on given ports.
 * @param within ends the batch when its time is up: the simulation's time is not that of the process
 */
export async function work(
  worker: Worker,
  event: SQSEvent,
  context: Context,
  within: typeof endInTime = endInTime,
): Promise<SQSBatchResponse> {
  const records = event.Records ?? [];
  const batch: Batch = {
    worker,
    context,
    deadlineMs: worker.ports.clock() + remainingMs(context),
    unfinished: new Set(records.map(({ messageId }) => messageId)),
  };
  await within(timeLeftMs(batch), () => runAll(batch, records));
  worker.telemetry.flush();
  return { batchItemFailures: [...batch.unfinished].map((itemIdentifier) => ({ itemIdentifier })) };
}

/** A context that cannot say how much time is left has none. */
function remainingMs(context: Context): number {
  const left = context.getRemainingTimeInMillis();
  return Number.isFinite(left) ? left : 0;
}

/** Runs what can be run. Never throws: what is not done stays listed, comes back, and finds out what was. */
async function runAll(batch: Batch, records: readonly SQSRecord[]): Promise<void> {
  const { telemetry } = batch.worker;
  try {
    const jobs = (await Promise.all(records.map((record) => read(batch, record)))).filter(
      (job) => job !== undefined,
    );
    if (jobs.length === 0) return;
    if (!hasTimeForOne(batch))
      return telemetry.warn('no time left for a provider call; the batch comes back');
    const shard = shardOf(batch);
    const seen = await look(batch, jobs, shard);
    const groups = Map.groupBy(jobs, ({ message }) => keyOf(message));
    const gate = new Gate(gatePortsOf(batch), shard, seen.provider, retriesIn(groups.keys(), seen));
    const running = [...groups.values()].map((group) => {
      const calls = Promise.withResolvers<void>();
      const done = runGroup(batch, gate, group, seen, calls.resolve).finally(calls.resolve);
      return { done, called: calls.promise };
    });
    // Beside the writes that settle them.
    const counted = Promise.all(running.map(({ called }) => called)).then(() => countCalls(batch, gate));
    await Promise.all([...running.map(({ done }) => done), counted]);
  } catch (error) {
    telemetry.failed('the batch could not be read', error);
  }
}

/** Step 1: the job of a record, or its end when there is none. */
async function read(batch: Batch, record: SQSRecord): Promise<Job | undefined> {
  const { limits } = batch.worker.ports;
  const parsed = parseMessage(typeof record.body === 'string' ? record.body : '', limits.maxMessageBytes);
  const sentAtMs = Number(record.attributes?.SentTimestamp ?? 0);
  if (sentAtMs > 0) {
    const { ports, telemetry } = batch.worker;
    telemetry.delivered(parsed.kind === 'message' ? parsed.message : parsed.ids, ports.clock() - sentAtMs);
  }
  switch (parsed.kind) {
    case 'message': {
      const { message } = parsed;
      const receiveCount = Number(record.attributes?.ApproximateReceiveCount ?? 1);
      return { record, message, inputDigest: digestOf(message), receiveCount, sentAtMs };
    }
    case 'malformed':
      await dispose(
        batch,
        record,
        { kind: 'reject', reason: 'malformed', problem: parsed.problem },
        parsed.ids,
      );
      return undefined;
    case 'futureVersion': {
      // The longest delay, so that a roll-out of the consumers ends before the deliveries do.
      const later = {
        kind: 'defer',
        reason: 'version_unknown',
        delaySeconds: limits.retryCapSeconds,
      } as const;
      await dispose(batch, record, later, parsed.ids);
      return undefined;
    }
  }
}

/**
 * The messages of one operation: it runs once, and its twins share what became of it.
 * @param called told when its call has ended: what was attempted is bound to its inputs, so no twin makes another
 */
async function runGroup(
  batch: Batch,
  gate: Gate,
  [first, ...others]: readonly Job[],
  seen: Seen,
  called: () => void,
): Promise<void> {
  if (!first) return;
  const { telemetry } = batch.worker;
  try {
    const disposition = await run(batch, gate, first, seen, called);
    await dispose(batch, first.record, disposition, first.message);
    const isTwin = ({ inputDigest }: Job) => inputDigest === first.inputDigest;
    const shared: Disposition =
      disposition.kind === 'acknowledge' ? { kind: 'acknowledge', reason: 'replay' } : disposition;
    for (const { record, message } of others.filter(isTwin)) await dispose(batch, record, shared, message);
    const changed = others.filter((job) => !isTwin(job));
    if (changed.length === 0) return;
    await runGroup(batch, gate, changed, await look(batch, changed), called);
  } catch (error) {
    telemetry.failed('the delivery failed', error, {
      ...sourceOf(batch, first.record),
      ...idsOf(first.message),
    });
  }
}

/** One part of the provider's record for the whole batch. */
const shardOf = ({ worker: { ports } }: Batch): number =>
  Math.floor(ports.random() * ports.limits.providerShards);

const gatePortsOf = ({ worker: { ports, providerSwitch, telemetry } }: Batch) => ({
  ...ports,
  provider: providerSwitch,
  telemetry,
});

/** Operations of the batch that may turn out to be retries: those, and no more, may ask the budget. */
const retriesIn = (keys: Iterable<string>, { operations }: Seen): number =>
  [...keys]
    .map((key) => operations.get(key))
    .filter((operation) => operation && isRetry(operation) && !isTerminal(operation.state)).length;

/** What is not counted makes the budget smaller, and the breaker slower, and loses nothing. */
async function countCalls({ worker }: Batch, gate: Gate): Promise<void> {
  try {
    await gate.close();
  } catch (error) {
    worker.telemetry.failed("the batch's calls were not counted", error);
  }
}

/** Step 2: one read of the operations, of the charges that they refund, of their tenants, and of the provider's state. */
function look({ worker }: Batch, jobs: readonly Job[], providerShard?: number): Promise<Seen> {
  const { store, limits } = worker.ports;
  const tenantIds = hasBounds(limits) ? jobs.map(({ message }) => message.tenantId) : [];
  const ids = [...jobs.map(({ message }) => message), ...jobs.flatMap(chargeOf)];
  return store.look(ids, tenantIds, providerShard);
}

/** Of a refund: the operation that it refunds. */
function chargeOf({ message }: Job): OperationId[] {
  if (message.type !== 'refund') return [];
  return [{ tenantId: message.tenantId, operationId: message.input.chargeOperationId }];
}

/** Steps 3 to 7 for one message, inside the idempotency wrapper. */
async function run(batch: Batch, gate: Gate, job: Job, seen: Seen, called: () => void): Promise<Disposition> {
  const { limits } = batch.worker.ports;
  const key = keyOf(job.message);
  const [chargeKey = ''] = chargeOf(job).map(keyOf);
  // A newer build wrote the record: only its own message waits for a newer worker.
  const isUnreadable = seen.unreadable.has(key) || seen.unreadable.has(chargeKey);
  if (isUnreadable || seen.unreadableTenants.has(job.message.tenantId)) {
    return { kind: 'defer', reason: 'record_unreadable', delaySeconds: limits.retryCapSeconds };
  }
  const found: Found = {
    operation: seen.operations.get(key),
    tenant: seen.tenants.get(job.message.tenantId),
    charge: seen.operations.get(chargeKey),
  };
  if (!hasTimeForOne(batch))
    throw new Error('There is no time left for a provider call; the message comes back');
  const telemetry = batch.worker.telemetry.of(sourceOf(batch, job.record));
  const ports = { ...batch.worker.ports, gate, telemetry };
  return runOnce(key, batch.context, {
    claim: () => claim(ports, job, found, batch.deadlineMs),
    attempt: (taken) => attempt(ports, taken).finally(called),
    settle: (taken, outcome) => settle(ports, taken, outcome),
  });
}

/** Steps 7 to 9: takes a done message out of the failure list, and says when one that is not done comes back. */
async function dispose(batch: Batch, record: SQSRecord, disposition: Disposition, ids: Ids): Promise<void> {
  const { telemetry, visibility } = batch.worker;
  const source = sourceOf(batch, record);
  telemetry.of(source).disposed(disposition, ids);
  if (disposition.kind === 'acknowledge') {
    batch.unfinished.delete(record.messageId);
    return;
  }
  try {
    // Back at once, until SQS itself moves it to the dead-letter queue: only from there can the console redrive it.
    await visibility.comesBackIn(
      record.receiptHandle,
      disposition.kind === 'defer' ? disposition.delaySeconds : 0,
    );
  } catch (error) {
    telemetry.failed(
      'the visibility could not be changed; the message comes back at its time-out',
      error,
      source,
    );
  }
}

/** Less than this would make a call that is cut off: an unknown outcome for nothing. */
function hasTimeForOne({ worker, deadlineMs }: Batch): boolean {
  const { limits, clock } = worker.ports;
  return deadlineMs - clock() >= providerTimeoutMs(limits) + settleReserveMs(limits);
}

/** What is left for the batch, which ends before the function does. */
const timeLeftMs = ({ worker, deadlineMs }: Batch): number => {
  const { limits, clock } = worker.ports;
  return Math.max(0, deadlineMs - clock() - settleReserveMs(limits) / 4);
};

/** Aborts what hangs, and returns in time with what is unfinished still listed. */
async function endInTime(leftMs: number, run: () => Promise<void>): Promise<void> {
  const timeIsUp = Promise.withResolvers<void>();
  // Fifteen minutes is Lambda's longest; a longer timer than 2^31 ms would fire at once.
  const timer = setTimeout(timeIsUp.resolve, Math.min(leftMs, 900_000));
  await Promise.race([withinTime(leftMs, run), timeIsUp.promise]);
  clearTimeout(timer);
}

const sourceOf = ({ context }: Batch, { messageId, attributes }: SQSRecord): Source => ({
  messageId,
  receiveCount: Number(attributes?.ApproximateReceiveCount ?? 1),
  requestId: context.awsRequestId,
});

const idsOf = ({ tenantId, operationId }: Message): Ids => ({ tenantId, operationId });
