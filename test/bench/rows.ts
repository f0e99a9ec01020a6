import type { Both, Counts } from './bench';
import type { Bundles, MeasuredBundle } from './bundle';
import type { Compared } from './compared';
import type { Measured } from './process';

/** One line of the report. */
export interface Row {
  readonly metric: string;
  readonly ours: number;
  readonly stock: number;
  /** Ours over the stock consumer's; infinite where only it has none. */
  readonly ratio: number;
  /** The most that the ratio may be. */
  readonly bar: number;
}

export interface Results extends Bundles {
  readonly noBounds: Measured & Required<Pick<Measured, 'elapsedMs' | 'growth'>>;
  readonly bounds: Measured;
}

/** What a repeated measurement of one thing against itself may differ by, on a busy machine. */
const noise = 0.15;

/**
 * The most that each ratio may be. An operation's own work is a claim and a settle, as the stock consumer's is; its tenant's
 * bounds are two writes more; and once a batch of ten everything is read, and the calls are counted for the breaker and the
 * retry budget.
 */
export const bars = {
  providerCalls: 1,
  /** Two writes, and a tenth each of the read and of the count: 2.2 of 2, with a tenth for a contended count. */
  freshCalls: 2.3 / 2,
  /** The tenant's place is taken before, and given back after: two more of both. */
  freshCallsWithBounds: 4.4 / 2,
  freshWrites: 1,
  freshWritesWithBounds: 2,
  /** A tenth of a write for each: one a batch. */
  freshProviderItem: 2.1 / 2,
  /** The batch's read says that it is done: a tenth of a call. */
  duplicateCalls: 0.1,
  duplicateWrites: 0,
  duplicateProviderCalls: 1,
  /** Ordinary operations are never in the index: not even once. */
  indexWrites: 1,
  /** Both deliveries: as fresh, and again, and a tenth for the retry's tokens. */
  crashedCalls: 4 / 3,
  /** A claim more where the stock consumer has one too. */
  crashedWrites: 1,
  cpuFresh: 1,
  /** Four writes where the stock consumer has two. */
  cpuFreshWithBounds: 2,
  cpuDuplicate: 1,
  load: 1,
  /** What the guarantees take beside what the stock consumer has: parsing, reconciliation, logs and metrics. */
  size: 1.3,
  elapsed: 1,
  growthCalls: 1,
  growthCpu: 1 + noise,
} as const;

/** What is measured against the stock consumer, each with its bar. */
export function rowsOf({ noBounds, bounds, bundles, load }: Results): Row[] {
  const [ours, stock] = bundles;
  const of = <T>(from: Both<T>, what: (side: T) => number): Both<number> => ({
    ours: what(from.ours),
    stock: what(from.stock),
  });
  const sizes = { ours: ours ?? nothing, stock: stock ?? nothing };
  return [
    ...countRows(noBounds, bounds),
    timed('CPU ms per message, fresh', noBounds.freshMs, bars.cpuFresh),
    timed('CPU ms per message, fresh, with bounds', bounds.freshMs, bars.cpuFreshWithBounds),
    timed('CPU ms per message, duplicate', noBounds.duplicateMs, bars.cpuDuplicate),
    timed('module load, ms', load, bars.load),
    row(
      'bundle, kB',
      of(sizes, ({ kilobytes }) => kilobytes),
      bars.size,
    ),
    row(
      'bundle, kB gzip',
      of(sizes, ({ gzipKilobytes }) => gzipKilobytes),
      bars.size,
    ),
    timed('ms per operation, ten at once, provider 100 ms', noBounds.elapsedMs, bars.elapsed),
    row(
      'table calls after 10 000 operations / after 100',
      of(noBounds.growth, ({ calls }) => calls),
      bars.growthCalls,
    ),
    row(
      'CPU after 10 000 operations / after 100',
      of(noBounds.growth, ({ cpu }) => cpu),
      bars.growthCpu,
    ),
  ];
}

/** The rows that are counted: the same on every machine. */
export function countRows(noBounds: Pick<Measured, 'counts'>, bounds: Pick<Measured, 'counts'>): Row[] {
  const count = (
    metric: string,
    what: 'fresh' | 'duplicate' | 'crashed',
    of: (counts: Counts) => number,
    bar: number,
    { counts } = noBounds,
  ) => row(metric, { ours: of(counts.ours[what]), stock: of(counts.stock[what]) }, bar);
  const providerCalls = (counts: Counts) => counts.providerCalls;
  const calls = (counts: Counts) => counts.calls;
  const writes = (counts: Counts) => counts.writeUnits;
  const allWrites = (counts: Counts) => counts.writeUnits + counts.providerWriteUnits;
  const indexWrites = (counts: Counts) => counts.indexWriteUnits;
  return [
    count('provider calls, fresh', 'fresh', providerCalls, bars.providerCalls),
    count('provider calls, duplicate', 'duplicate', providerCalls, bars.duplicateProviderCalls),
    count('provider calls, crashed', 'crashed', providerCalls, bars.providerCalls),
    count('table calls, fresh', 'fresh', calls, bars.freshCalls),
    count('table calls, fresh, with bounds', 'fresh', calls, bars.freshCallsWithBounds, bounds),
    count('table calls, duplicate', 'duplicate', calls, bars.duplicateCalls),
    count('table calls, crashed', 'crashed', calls, bars.crashedCalls),
    count('write units, fresh', 'fresh', writes, bars.freshWrites),
    count('write units, fresh, with bounds', 'fresh', writes, bars.freshWritesWithBounds, bounds),
    count('write units with the count of calls, fresh', 'fresh', allWrites, bars.freshProviderItem),
    count('write units, duplicate', 'duplicate', allWrites, bars.duplicateWrites),
    count('write units, crashed', 'crashed', writes, bars.crashedWrites),
    count('index write units, fresh, with bounds', 'fresh', indexWrites, bars.indexWrites, bounds),
    count('index write units, duplicate, with bounds', 'duplicate', indexWrites, bars.indexWrites, bounds),
    count('index write units, crashed, with bounds', 'crashed', indexWrites, bars.indexWrites, bounds),
  ];
}

/** Whether a row is above its bar. The last decimals of a sum of tenths are no difference. */
export const isBroken = ({ ratio, bar }: Row): boolean => !(ratio <= bar + 1e-9);

const nothing: MeasuredBundle = { title: '', kilobytes: 0, gzipKilobytes: 0, loadMs: 0 };

const timed = (metric: string, { ours, stock, ratio }: Compared, bar: number): Row => ({
  metric,
  ours,
  stock,
  ratio,
  bar,
});

function row(metric: string, { ours, stock }: Both<number>, bar: number): Row {
  // Where neither has any they are equal.
  const ratio = ours === stock ? 1 : ours / stock;
  return { metric, ours, stock, ratio, bar };
}
