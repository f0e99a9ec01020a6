import type { Limits } from '../../lambdas/operation/limits';
import type { Operation } from '../../lambdas/operation/operation';
import { isTerminal } from '../../lambdas/operation/state';
import type { Sample } from './meter';
import type { SentJob } from './sent-jobs';

/** One rule, what it allows, and what the drill got. */
export interface Check {
  /** `G1` to `G12` of the design, or `p99` and `API` for what is no guarantee but a bar. */
  readonly guarantee: string;
  readonly rule: string;
  readonly got: number;
  /** The most that it may be. */
  readonly allowed: number;
  /** @default '' */
  readonly unit?: string;
  /** Names of what broke it, a few at most. */
  readonly examples?: readonly string[];
}

export const isKept = ({ got, allowed }: Check): boolean => got <= allowed;

/** A request to the provider that may move money. */
export interface ProviderCall {
  /** `tenantId/operationId` */
  readonly operation: string;
  /** By the stack's clock, which is ahead of the drill's own times. */
  readonly startedAtMs: number;
  readonly endedAtMs: number;
}

/** What is not back to where it was before the pressure: all are 0 at the baseline. */
export interface Leftovers {
  readonly messages: number;
  readonly busyWorkers: number;
  readonly providerCalls: number;
  /** Operations that are queued, running or settling. */
  readonly openOperations: number;
  /** Places of tenants that a live lease, or an operation that is not finished, holds. */
  readonly livePlaces: number;
  /** Connections beyond calm's and those that the workers' pools may keep open. */
  readonly connections: number;
  readonly temporaryFiles: number;
}

/** What one drill saw, before anybody judges it. */
export interface Evidence {
  readonly limits: Limits;
  /** The drill's own times, in milliseconds since 1970. */
  readonly startedAtMs: number;
  readonly pressureFromMs: number;
  readonly pressureToMs: number;
  readonly endedAtMs: number;
  readonly jobs: readonly SentJob[];
  /** By `tenantId/operationId`. */
  readonly records: ReadonlyMap<string, Operation>;
  /** Every movement of money. */
  readonly effects: readonly { readonly operation: string; readonly amountMinor: number }[];
  readonly calls: readonly ProviderCall[];
  /** Calls that the open breaker let through. */
  readonly probes: number;
  /** Bodies in the dead-letter queue. */
  readonly deadLetters: readonly string[];
  /** Bodies that belong there, each once. */
  readonly poison: readonly string[];
  /** Operations that were parked at some time: their messages belong there too. */
  readonly parked: ReadonlySet<string>;
  readonly samples: readonly Sample[];
  /** When everything was as before; undefined when it never was, as long as anybody looked. */
  readonly baselineAtMs: number | undefined;
  readonly left: Leftovers;
  /** Whether the other tenants' times have a bar in this drill. */
  readonly areOthersBarred: boolean;
  /** What the drill's own clients found. */
  readonly found: readonly Check[];
  /** What the provider's stand-in found when it stopped; undefined for nothing. */
  readonly standInFound: string | undefined;
}

/** The figures of one drill. Times are seconds where the name says nothing else. */
export interface Figures {
  readonly operations: number;
  readonly effects: number;
  readonly deadLetters: number;
  readonly parked: number;
  readonly providerCalls: number;
  readonly retries: number;
  readonly probes: number;
  readonly maxWorkers: number;
  readonly maxConcurrentProviderCalls: number;
  readonly maxConcurrentProviderCallsOfOneTenant: number;
  readonly maxOpenConnections: number;
  readonly maxTemporaryFiles: number;
  readonly maxQueueDepth: number;
  /** Of other tenants' jobs, from sent to durable, in milliseconds. */
  readonly calmP50Ms: number;
  readonly calmP99Ms: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Absent when the baseline was never reached. */
  readonly secondsToBaseline?: number;
}

export interface Verdict {
  readonly figures: Figures;
  readonly checks: readonly Check[];
}

/** How long everything may take to be as before, once the pressure stops: the longest back-off, and the breaker's 30 s. */
export const secondsToBaselineAllowed = ({ retryCapSeconds }: Limits): number => retryCapSeconds + 30;

/** What another tenant's job may take at the 99th percentile. */
export const p99AllowedMs = (calmP99Ms: number): number => 2 * calmP99Ms + 1000;

/** Judges one drill from what the provider, the table and the queues say; no word of the service's own counts. */
export function judge(evidence: Evidence): Verdict {
  const figures = figuresOf(evidence);
  return {
    figures,
    checks: [
      ...moneyChecks(evidence),
      ...lossChecks(evidence),
      ...boundChecks(evidence, figures),
      ...timeChecks(evidence, figures),
      ...evidence.found,
    ],
  };
}

function figuresOf(evidence: Evidence): Figures {
  const { jobs, effects, calls, samples, records, deadLetters, probes } = evidence;
  const timesOf = (phase: 'calm' | 'pressure') =>
    jobs
      .filter((job) => job.isMeasured && job.phase === phase)
      // What never ended has taken as long as anybody looked.
      .map(({ sentAtMs, doneAtMs = evidence.endedAtMs }) => doneAtMs - sentAtMs);
  const [calm, pressure] = [timesOf('calm'), timesOf('pressure')];
  const most = (field: keyof Sample) => samples.reduce((max, sample) => Math.max(max, sample[field]), 0);
  const byTenant = Map.groupBy(calls, ({ operation }) => operation.split('/')[0]);
  return {
    operations: jobs.length,
    effects: effects.length,
    deadLetters: deadLetters.length,
    parked: [...records.values()].filter(({ state }) => state === 'parked').length,
    providerCalls: calls.length,
    retries: calls.length - firstAttempts(calls),
    probes,
    maxWorkers: most('workers'),
    maxConcurrentProviderCalls: mostAtOnce(calls),
    maxConcurrentProviderCallsOfOneTenant: Math.max(0, ...[...byTenant.values()].map(mostAtOnce)),
    maxOpenConnections: most('connections'),
    maxTemporaryFiles: most('temporaryFiles'),
    maxQueueDepth: most('queueDepth'),
    calmP50Ms: percentile(calm, 50),
    calmP99Ms: percentile(calm, 99),
    p50Ms: percentile(pressure, 50),
    p99Ms: percentile(pressure, 99),
    ...(evidence.baselineAtMs !== undefined && {
      secondsToBaseline: (evidence.baselineAtMs - evidence.pressureToMs) / 1000,
    }),
  };
}

function moneyChecks({ effects, jobs, records, standInFound }: Evidence): Check[] {
  const byOperation = Map.groupBy(effects, ({ operation }) => operation);
  const twice = [...byOperation].filter(([, moved]) => moved.length > 1).map(([key]) => key);
  const amounts = new Map(jobs.map(({ key, amountMinor }) => [key, amountMinor]));
  const otherInputs = effects.filter(({ operation, amountMinor }) => amountMinor !== amounts.get(operation));
  const isMissing = ({ key }: SentJob) => records.get(key)?.state === 'succeeded' && !byOperation.has(key);
  const isDenied = ({ key }: SentJob) =>
    ['failed', 'cancelled'].includes(records.get(key)?.state ?? '') && byOperation.has(key);
  const cancelled = [...records].filter(([, { state }]) => state === 'cancelled').map(([key]) => key);
  return [
    {
      guarantee: 'G1',
      rule: 'effects of one operation, at most',
      got: Math.max(0, ...[...byOperation.values()].map(({ length }) => length)),
      allowed: 1,
      ...some(twice),
    },
    {
      guarantee: 'G1',
      rule: "violations that the provider's own books show (a second key, a second movement)",
      got: standInFound === undefined ? 0 : 1,
      allowed: 0,
      ...some(standInFound === undefined ? [] : [standInFound]),
    },
    count('G1', 'records that say something else than the provider', [
      ...jobs.filter(isMissing).map(keyOf),
      ...jobs.filter(isDenied).map(keyOf),
    ]),
    count(
      'G3',
      'effects with other inputs than the first',
      otherInputs.map(({ operation }) => operation),
    ),
    count(
      'G9',
      'cancelled operations with an effect',
      cancelled.filter((key) => byOperation.has(key)),
    ),
  ];
}

function lossChecks({ jobs, records, deadLetters, poison, parked }: Evidence): Check[] {
  const given = deadLetters.filter((body) => !poison.includes(body)).map(operationIn);
  const isSeen = ({ key }: SentJob) => {
    const record = records.get(key);
    if (!record || isTerminal(record.state)) return record !== undefined;
    return record.state === 'parked' && (given.includes(key) || record.dueAtMs !== undefined);
  };
  const missingPoison = poison.filter((body) => !deadLetters.includes(body));
  return [
    count(
      'G2',
      'operations taken on that neither ended nor are parked where a person sees them',
      jobs.filter((job) => !isSeen(job)).map(keyOf),
    ),
    count(
      'G10',
      'good messages in the dead-letter queue',
      given.filter((key) => !parked.has(key)),
    ),
    count('G11', 'messages that cannot be run and are not in the dead-letter queue', missingPoison),
    {
      guarantee: 'G11',
      rule: 'dead letters of messages that cannot be run',
      got: deadLetters.length - given.length,
      allowed: poison.length,
    },
  ];
}

function boundChecks(evidence: Evidence, figures: Figures): Check[] {
  const { limits, calls, probes } = evidence;
  return [
    {
      guarantee: 'G7',
      rule: 'provider calls at once (workers x batch)',
      got: figures.maxConcurrentProviderCalls,
      allowed: limits.maxConcurrency * limits.batchSize,
    },
    {
      guarantee: 'G7',
      rule: 'provider calls of one tenant at once',
      got: figures.maxConcurrentProviderCallsOfOneTenant,
      allowed: limits.tenantMaxRunning,
    },
    {
      guarantee: 'G8',
      rule: 'provider calls: first attempts and a tenth, ten a window, and the probes',
      got: calls.length,
      allowed: callsAllowed(limits, calls, probes),
    },
  ];
}

function timeChecks(evidence: Evidence, figures: Figures): Check[] {
  const { limits, left, areOthersBarred, baselineAtMs, endedAtMs, pressureToMs } = evidence;
  const leftOver = Object.entries(left).filter(([, number]) => number > 0);
  const isReached = baselineAtMs !== undefined;
  return [
    {
      guarantee: 'G12',
      rule: isReached ? 'time to baseline' : 'time to baseline, which was never reached',
      got: ((baselineAtMs ?? endedAtMs) - pressureToMs) / 1000,
      allowed: secondsToBaselineAllowed(limits),
      unit: 's',
    },
    {
      guarantee: 'G12',
      rule: 'kinds of things left behind: messages, calls, operations, places, connections, temporary files',
      got: isReached ? 0 : leftOver.length,
      allowed: 0,
      ...some(isReached ? [] : leftOver.map(([name, number]) => `${number} ${name}`)),
    },
    ...(areOthersBarred
      ? [
          {
            guarantee: 'p99',
            rule: "another tenant's jobs: twice calm and a second",
            got: figures.p99Ms,
            allowed: p99AllowedMs(figures.calmP99Ms),
            unit: 'ms',
          },
        ]
      : []),
  ];
}

/** What the retry budget lets through: each window in which there were calls has its floor. */
function callsAllowed(limits: Limits, calls: readonly ProviderCall[], probes: number): number {
  const { retryBudgetPercent, retryBudgetFloor, retryBudgetWindowSeconds } = limits;
  const windows = new Set(
    calls.map(({ startedAtMs }) => Math.floor(startedAtMs / 1000 / retryBudgetWindowSeconds)),
  );
  const ofFirst = Math.floor(firstAttempts(calls) * (1 + retryBudgetPercent / 100));
  return ofFirst + windows.size * retryBudgetFloor + probes;
}

const firstAttempts = (calls: readonly ProviderCall[]): number =>
  new Set(calls.map(({ operation }) => operation)).size;

/** An answer makes room for the call that comes in the same millisecond. */
function mostAtOnce(calls: readonly ProviderCall[]): number {
  const edges = calls.flatMap(({ startedAtMs, endedAtMs }) => [
    { atMs: startedAtMs, change: 1 },
    { atMs: endedAtMs, change: -1 },
  ]);
  edges.sort((one, other) => one.atMs - other.atMs || one.change - other.change);
  let now = 0;
  return edges.reduce((most, { change }) => {
    now += change;
    return Math.max(most, now);
  }, 0);
}

/** By nearest rank; 0 of nothing. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil((sorted.length * percent) / 100) - 1)] ?? 0;
}

/** A check that nothing is in a list. */
export const count = (guarantee: string, rule: string, broken: readonly string[]): Check => ({
  guarantee,
  rule,
  got: broken.length,
  allowed: 0,
  ...some(broken),
});

const some = (examples: readonly string[]) =>
  examples.length === 0 ? {} : { examples: examples.slice(0, 3).map((text) => text.slice(0, 300)) };

const keyOf = ({ key }: SentJob): string => key;

/** Which operation a message is of, as far as it can be read. */
function operationIn(body: string): string {
  const [, tenantId] = /"tenantId":"([^"]+)"/.exec(body) ?? [];
  const [, operationId] = /"operationId":"([^"]+)"/.exec(body) ?? [];
  return `${tenantId}/${operationId}`;
}
