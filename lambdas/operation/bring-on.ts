import type { Operation } from './operation';
import type { DueOperations, JobQueue, ProviderSwitch, ProviderTelemetry } from './ports';
import { type Reconciled, type ReconcilePorts, reconcile } from './reconcile';

export interface BringOnPorts extends ReconcilePorts {
  readonly due: DueOperations;
  readonly queue: JobQueue;
  readonly providerSwitch: ProviderSwitch;
  readonly providerTelemetry: ProviderTelemetry;
  /** 0 to below 1. */
  readonly random: () => number;
}

export interface BroughtOn {
  /** Messages sent again. */
  readonly sent: number;
  /** Settled by what the provider said. */
  readonly settled: number;
  /** Parked for an hour, and now told to a person. */
  readonly escalated: number;
  /** Due, and to be looked at later: it cannot be told yet, or another run brought it on. */
  readonly left: number;
  /** Could not be brought on now; due again in a minute. */
  readonly failed: number;
}

type Fate = keyof BroughtOn;

/**
 * Brings on what is due: sends the messages of operations that were deferred in the table or accepted and never sent, and
 * reconciles those that are settling, parked with a possible effect, or left running by a worker that died. What is parked
 * without one is left to a person. Each is taken by moving its due time; a crash at any point leaves it due.
 * @param untilMs when to stop; what is left over is due in the next run
 */
export async function bringOn(ports: BringOnPorts, untilMs: number): Promise<BroughtOn> {
  const done = { sent: 0, settled: 0, escalated: 0, left: 0, failed: 0 };
  // What the provider cannot be asked now it cannot be asked a moment later: the rest of the run only sends.
  const run = {
    isProviderAway: await isProviderAway(ports),
    // Two runs in one millisecond would take each other's due time for their own.
    takenForMs: minuteMs - Math.floor(ports.random() * 1000),
  };
  for await (const page of ports.due.pages(ports.clock())) {
    await inLanes(page, lanes, untilMs, ports, async (operation) => {
      const fate = bringOnOne(ports, operation, run).catch((error: unknown) => {
        ports.telemetry.tolerated('a due operation could not be brought on', operation, error);
        return 'failed' as const;
      });
      done[await fate] += 1;
    });
    if (ports.clock() >= untilMs) break;
  }
  return done;
}

/**
 * Told each minute, also while nothing is called. A person's pause stops calls that move money, not questions. Once a probe
 * may be made a question may be asked too: where no message is left to be the probe, the breaker stays open.
 */
async function isProviderAway({ providerSwitch, providerTelemetry, clock }: BringOnPorts): Promise<boolean> {
  const states = await providerSwitch.states();
  for (const state of states) providerTelemetry.provider(state);
  return states.some(
    ({ breaker }) =>
      breaker?.probeAtMs !== undefined && breaker.reason !== 'paused' && breaker.probeAtMs > clock(),
  );
}

/** Operations brought on at once: most of them are one call to SQS, some are calls to the provider beside its workers'. */
const lanes = 10;

async function inLanes<T>(
  items: readonly T[],
  count: number,
  untilMs: number,
  { clock }: BringOnPorts,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const left = [...items];
  const lane = async () => {
    for (let item = left.shift(); item !== undefined && clock() < untilMs; item = left.shift())
      await work(item);
  };
  await Promise.all(Array.from({ length: count }, lane));
}

async function bringOnOne(
  ports: BringOnPorts,
  operation: Operation,
  run: { isProviderAway: boolean; readonly takenForMs: number },
): Promise<Fate> {
  const { due, clock } = ports;
  const nowMs = clock();
  const isQueued = operation.state === 'queued';
  // Nothing was done, so there is nothing to ask: in the index the census finds it, also where no dead letter tells of it.
  if (operation.state === 'parked' && operation.effectPossibleSinceMs === undefined) {
    await due.postpone(operation, nowMs + seldomMs);
    return 'left';
  }
  if (run.isProviderAway && !isQueued) return 'left';
  if (operation.state === 'running' && (operation.leaseExpiresAtMs ?? 0) >= nowMs) {
    await due.postpone(operation, (operation.leaseExpiresAtMs ?? nowMs) + minuteMs);
    return 'left';
  }
  // Of two runs at once, the one that moves the due time goes on.
  const nextMs = nowMs + run.takenForMs;
  if (!(await due.postpone(operation, nextMs))) return 'left';
  const taken = { ...operation, dueAtMs: nextMs };
  if (isQueued) return send(ports, taken);
  const found = await reconcile(ports, operation, nextMs);
  if (found.kind === 'unavailable') run.isProviderAway = true;
  return follow(ports, taken, found);
}

async function follow(ports: BringOnPorts, operation: Operation, found: Reconciled): Promise<Fate> {
  switch (found.kind) {
    case 'settled':
      return 'settled';
    case 'absent':
      return send(ports, found.operation);
    case 'superseded':
      return 'left';
    case 'open':
    case 'unavailable':
      // Its worker died, and its message may be in the dead-letter queue: the same key again tells more.
      if (operation.state === 'running') return send(ports, operation);
      return lookLater(ports, operation, found.kind);
  }
}

async function send({ due, queue, clock }: BringOnPorts, operation: Operation): Promise<Fate> {
  await queue.send(operation);
  await due.postpone(operation, clock() + seldomMs);
  return 'sent';
}

/** Further out each time; after an hour a person is told. What is settling takes its time: its alarm looks at its age. */
async function lookLater(
  { due, clock, telemetry }: BringOnPorts,
  operation: Operation,
  why: 'open' | 'unavailable',
): Promise<Fate> {
  const nowMs = clock();
  const ageMs = nowMs - (operation.parkedAtMs ?? operation.updatedAtMs);
  const backOffMs = Math.min(seldomMs, Math.max(minuteMs, Math.round(ageMs / 4)));
  const nextMs = nowMs + (why === 'open' ? backOffMs : minuteMs);
  const isNews = operation.state === 'parked' && ageMs >= hourMs && operation.escalatedAtMs === undefined;
  const isWritten = await due.postpone(operation, nextMs, isNews ? nowMs : undefined);
  if (!isNews || !isWritten) return 'left';
  telemetry.escalated(operation);
  return 'escalated';
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/**
 * What has a message, or waits for a person, goes on by itself. It is looked at again in case that the message was never
 * delivered: seldom enough that a backlog does not multiply, and well within the queue's retention.
 */
const seldomMs = 6 * hourMs;
