import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readOperation } from '../../lambdas/adapters/operation-item';
import { readTenant } from '../../lambdas/adapters/tenant-item';
import type { LimitOverrides } from '../../lambdas/operation/limits';
import { isTerminal } from '../../lambdas/operation/state';
import { type LocalStack, startLocalStack } from '../../local/stack';
import type { StripeStandIn } from '../../local/stripe-stand-in';
import {
  type Check,
  type Evidence,
  judge,
  type Leftovers,
  secondsToBaselineAllowed,
  type Verdict,
} from './judge';
import { Meter, type Sample } from './meter';
import { otherTenants, SentJobs } from './sent-jobs';

/** One kind of pressure. */
export interface Drill {
  /** What `--only` takes. */
  readonly name: string;
  readonly title: string;
  /** What is done to the stack, in a sentence. */
  readonly what: string;
  /** Over the laptop's. */
  readonly limits?: LimitOverrides;
  /** Real time of each effect at the provider, in milliseconds. */
  readonly providerLatencyMs: number;
  /** Whether the HTTP API is served. @default false */
  readonly api?: boolean;
  /** Other tenants' jobs under pressure. @default as many as in calm */
  readonly othersPerSecond?: number;
  /** Whether the others' p99 has a bar. */
  readonly areOthersBarred: boolean;
  /** Applies the pressure and takes it away again; resolves when it is over. @returns what its own clients found */
  press(scene: Scene): Promise<readonly Check[]>;
}

/** What a drill acts on. */
export interface Scene {
  readonly stack: LocalStack;
  readonly provider: StripeStandIn;
  readonly jobs: SentJobs;
  /** How many of `full` there are in this run: at least one. */
  count(full: number): number;
  /** How long something lasts that takes `full` seconds, in milliseconds. */
  lasting(full: number): number;
}

export interface DrillOptions {
  /** Part of the jobs and of the time, above 0 and at most 1: for tests. @default 1 */
  readonly size?: number;
  readonly onPhase?: (phase: string) => void;
  /** Told of the stack as it starts, so that an interruption can stop it. */
  readonly onStack?: (stack: LocalStack) => void;
}

/** A drill that ran. */
export interface DrillResult extends Verdict {
  readonly name: string;
  readonly title: string;
  readonly what: string;
  readonly ok: boolean;
  readonly seconds: number;
  readonly evidence: Evidence;
}

const calmSeconds = 4;
const calmPerSecond = 8;
/** Beyond what is allowed, so that the report says how long it took all the same. */
const patienceSeconds = 20;

/** Runs one drill on a stack of its own: calm, pressure, and the way back. */
export async function runDrill(drill: Drill, options: DrillOptions = {}): Promise<DrillResult> {
  const { size = 1, onPhase = () => {}, onStack = () => {} } = options;
  const startedAtMs = Date.now();
  const temporaryFolder = mkdtempSync(join(tmpdir(), 'charge-once-drill-'));
  const removeFolder = () => rmSync(temporaryFolder, { recursive: true, force: true });
  // An interruption ends the process before the drill ends.
  process.once('exit', removeFolder);
  onPhase('starting');
  const stack = await startLocalStack({
    stripeLatencyMs: drill.providerLatencyMs,
    reconcileEveryMs: 1000,
    startEventSource: false,
    api: drill.api === true,
    environment: { TMPDIR: temporaryFolder, TEMP: temporaryFolder, TMP: temporaryFolder },
    ...(drill.limits && { limits: drill.limits }),
  });
  onStack(stack);
  let seen: Seen;
  try {
    seen = await observe(drill, stack, new Meter(stack, temporaryFolder), size, onPhase);
  } catch (error) {
    await stack.stop().catch(() => {});
    throw error;
  } finally {
    process.off('exit', removeFolder);
    removeFolder();
  }
  const standInFound = await stack.stop().then(
    () => undefined,
    (error: unknown) => String(error),
  );
  const evidence: Evidence = {
    ...seen,
    limits: stack.limits,
    startedAtMs,
    areOthersBarred: drill.areOthersBarred,
    standInFound,
  };
  const verdict = judge(evidence);
  const { name, title, what } = drill;
  const ok = verdict.checks.every(({ got, allowed }) => got <= allowed);
  return { name, title, what, ok, seconds: (Date.now() - startedAtMs) / 1000, evidence, ...verdict };
}

type Seen = Omit<Evidence, 'limits' | 'startedAtMs' | 'areOthersBarred' | 'standInFound'>;

async function observe(
  drill: Drill,
  stack: LocalStack,
  meter: Meter,
  size: number,
  onPhase: (phase: string) => void,
): Promise<Seen> {
  const { stripe: provider } = stack;
  if (!provider) throw new Error('A drill needs the stand-in: it counts what money does.');
  const jobs = new SentJobs(stack);
  try {
    await warmUp(stack, jobs);
    onPhase('calm');
    jobs.phase = 'calm';
    const calmFromMs = Date.now();
    const endCalm = jobs.startOthers(calmPerSecond);
    await sleep(Math.max(1, calmSeconds * size) * 1000);
    await endCalm();
    await jobs.ended();
    const inCalm = meter.samples().filter(({ atMs }) => atMs >= calmFromMs);

    await freshWindow(stack);
    onPhase('pressure');
    jobs.phase = 'pressure';
    const pressureFromMs = Date.now();
    const endOthers = jobs.startOthers(drill.othersPerSecond ?? calmPerSecond);
    const found = await drill
      .press({
        stack,
        provider,
        jobs,
        count: (full) => Math.max(1, Math.round(full * size)),
        lasting: (full) => full * size * 1000,
      })
      .finally(endOthers);
    const pressureToMs = Date.now();

    onPhase('back to baseline');
    const untilMs = pressureToMs + (secondsToBaselineAllowed(stack.limits) + patienceSeconds) * 1000;
    const { baselineAtMs, left } = await untilBaseline(stack, meter, inCalm, untilMs);
    await meter.stop();
    return {
      pressureFromMs,
      pressureToMs,
      endedAtMs: Date.now(),
      baselineAtMs,
      left,
      found,
      jobs: jobs.all(),
      poison: jobs.poison(),
      parked: jobs.parked(),
      probes: jobs.probes(),
      samples: meter.samples(),
      deadLetters: await stack.deadLetters(),
      ...(await settled(stack, provider)),
    };
  } finally {
    await meter.stop();
    jobs.stop();
  }
}

/** Every process has loaded its code, and each tenant has its record, before anything is measured. */
async function warmUp(stack: LocalStack, jobs: SentJobs): Promise<void> {
  await stack.workers.warm(stack.limits.maxConcurrency);
  const tenants = Array.from({ length: 3 }, () => otherTenants).flat();
  await jobs.send(...tenants.map((tenantId) => ({ tenantId })));
  stack.eventSource.start();
  await jobs.ended();
}

/**
 * Moves the clock into a window of the retry budget that has seen no calls, at a third of its length. In a window
 * with many good calls before them, it takes as many bad ones until the breaker opens, each of which is a retry
 * later: then the budget, by design, and not the way back, says how long that takes.
 */
async function freshWindow({ clock, limits }: LocalStack): Promise<void> {
  const lengthMs = limits.retryBudgetWindowSeconds * 1000;
  await clock.advance(lengthMs - (clock.now() % lengthMs) + lengthMs / 3);
}

async function untilBaseline(
  stack: LocalStack,
  meter: Meter,
  calm: readonly Sample[],
  untilMs: number,
): Promise<{ readonly baselineAtMs: number | undefined; readonly left: Leftovers }> {
  let since: number | undefined;
  for (;;) {
    const atMs = Date.now();
    const left = await leftovers(stack, await meter.now(), calm);
    const isReached = Object.values(left).every((number) => number === 0);
    // Twice in a row: between two looks nothing may have come back.
    if (isReached && since !== undefined) return { baselineAtMs: since, left };
    since = isReached ? atMs : undefined;
    if (!isReached && atMs >= untilMs) return { baselineAtMs: undefined, left };
    await sleep(250);
  }
}

async function leftovers(stack: LocalStack, now: Sample, calm: readonly Sample[]): Promise<Leftovers> {
  const { limits, clock } = stack;
  const most = (field: keyof Sample) => calm.reduce((max, sample) => Math.max(max, sample[field]), 0);
  // A worker keeps a connection to the provider for each message of a batch, to use it again.
  const kept = limits.maxConcurrency * limits.batchSize;
  const left = {
    messages: now.queueDepth,
    busyWorkers: now.busyWorkers,
    providerCalls: now.providerCalls,
    connections: Math.max(0, now.connections - most('connections') - kept),
    temporaryFiles: Math.max(0, now.temporaryFiles - most('temporaryFiles')),
  };
  // The table is read as a whole only once nothing moves any more.
  if (left.messages + left.busyWorkers + left.providerCalls > 0)
    return { ...left, openOperations: 0, livePlaces: 0 };
  const items = await stack.items();
  const operations = items.map(readOperation).filter((operation) => operation !== undefined);
  const open = operations.filter(({ state }) => !isTerminal(state) && state !== 'parked');
  const openKeys = new Set(open.map(({ tenantId, operationId }) => `${tenantId}/${operationId}`));
  const places = items
    .map(readTenant)
    .filter((tenant) => tenant !== undefined)
    .flatMap(({ tenantId, running, accepted }) => [
      ...Object.values(running).filter(({ leaseExpiresAtMs }) => leaseExpiresAtMs > clock.now()),
      ...Object.keys(accepted).filter((operationId) => openKeys.has(`${tenantId}/${operationId}`)),
    ]);
  return { ...left, openOperations: open.length, livePlaces: places.length };
}

/** What the table and the provider hold at the end. */
async function settled(
  stack: LocalStack,
  provider: StripeStandIn,
): Promise<Pick<Evidence, 'records' | 'effects' | 'calls'>> {
  const operations = (await stack.items()).map(readOperation).filter((operation) => operation !== undefined);
  const nowMs = Date.now();
  return {
    records: new Map(
      operations.map((operation) => [`${operation.tenantId}/${operation.operationId}`, operation]),
    ),
    effects: provider.ledger().map(({ metadata, amountMinor }) => ({
      operation: `${metadata.tenantId}/${metadata.operationId}`,
      amountMinor,
    })),
    calls: provider
      .requests()
      .filter(({ method }) => method === 'POST')
      .map(({ operation = 'unknown/unknown', startedAtMs, endedAtMs = nowMs }) => ({
        operation,
        startedAtMs,
        endedAtMs,
      })),
  };
}
