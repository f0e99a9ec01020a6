import {
  type AllCounts,
  type Bench,
  type Both,
  batchSize,
  countAll,
  deliver,
  freshBatch,
  openBench,
  type Side,
  sides,
} from './bench';
import { type Compared, compared, median } from './compared';

// A program of its own, bundled as a function is. Its first argument is `bounds` or `no-bounds`; it sends what it measured,
// or what went wrong, to the process that started it.

/** What the next operation takes after 10 000, over what it takes after 100: processor time, and calls of the table. */
export interface Growth {
  readonly cpu: number;
  readonly calls: number;
}

/** What one process measured of both consumers. */
export interface Measured {
  readonly counts: Both<AllCounts>;
  /** Processor milliseconds for a message. */
  readonly freshMs: Compared;
  readonly duplicateMs: Compared;
  /** Milliseconds for an operation, ten at once, each with a call of 100 ms. */
  readonly elapsedMs?: Compared;
  readonly growth?: Both<Growth>;
}

/** Rounds of each measurement. In each, the consumers take turns. */
const rounds = 25;
const batchesOfRound = 5;
/** 5000 messages of each consumer: a worker's process handles many more. */
const warmUpRounds = 100;
const growthRounds = 11;

async function measure(hasBounds: boolean): Promise<Measured> {
  const bench = await openBench(hasBounds);
  for (let round = 0; round < warmUpRounds; round++) for (const side of sides) await costOf(bench, side);
  const fresh: Both<number[]> = { ours: [], stock: [] };
  const duplicate: Both<number[]> = { ours: [], stock: [] };
  for (const side of turns()) {
    const cost = await costOf(bench, side);
    fresh[side].push(cost.freshMs);
    duplicate[side].push(cost.duplicateMs);
  }
  const measured = { freshMs: compared(fresh), duplicateMs: compared(duplicate) };
  // Like against like: what the stock consumer has no bounds for is not measured a second time.
  const more = hasBounds ? {} : { elapsedMs: await elapsedOf(bench), growth: await growthOfBoth(bench) };
  return { ...measured, ...more, counts: await countAll(bench) };
}

/** Each of them first in every second round. */
const turns = (): Side[] =>
  Array.from({ length: rounds }, (_, round) => (round % 2 === 0 ? sides : sides.toReversed())).flat();

/** What a round takes for each message. */
async function costOf(bench: Bench, side: Side): Promise<{ freshMs: number; duplicateMs: number }> {
  bench.table.restore();
  bench.provider.clear();
  const batches = Array.from({ length: batchesOfRound }, freshBatch);
  const run = async () => {
    for (const batch of batches) await deliver(bench.handlers[side], batch);
  };
  const messages = batchesOfRound * batchSize;
  return { freshMs: (await cpuMs(bench, run)) / messages, duplicateMs: (await cpuMs(bench, run)) / messages };
}

/** Processor time of the whole process, the stand-ins' own taken off. */
async function cpuMs({ ownTime }: Bench, work: () => Promise<void>): Promise<number> {
  ownTime.take();
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system - ownTime.take().cpuUs) / 1000;
}

/** Wall time of full batches whose provider calls take 100 ms, for each operation, the stand-ins' own taken off. */
async function elapsedOf(bench: Bench): Promise<Compared> {
  const elapsed: Both<number[]> = { ours: [], stock: [] };
  bench.provider.delayMs = 100;
  for (const side of turns()) {
    const batch = freshBatch();
    bench.ownTime.take();
    const before = performance.now();
    await deliver(bench.handlers[side], batch);
    const tookMs = performance.now() - before - bench.ownTime.take().wallMs;
    elapsed[side].push(tookMs / batchSize);
  }
  bench.provider.delayMs = 0;
  return compared(elapsed);
}

const growthOfBoth = async (bench: Bench): Promise<Both<Growth>> => ({
  ours: await growthOf(bench, 'ours'),
  stock: await growthOf(bench, 'stock'),
});

async function growthOf(bench: Bench, side: Side): Promise<Growth> {
  const run = async (operations: number) => {
    for (let done = 0; done < operations; done += batchSize)
      await deliver(bench.handlers[side], freshBatch());
  };
  bench.table.restore();
  await run(100);
  const few = bench.table.snapshot();
  await run(9900);
  const many = bench.table.snapshot();
  const costOn = async (snapshot: typeof few) => {
    bench.table.restore(snapshot);
    bench.table.take();
    const cpu = await cpuMs(bench, () => run(100));
    return { cpu, calls: bench.table.take().calls };
  };
  const cpu: number[] = [];
  let calls = 0;
  for (let round = 0; round < growthRounds; round++) {
    const before = await costOn(few);
    const after = await costOn(many);
    cpu.push(after.cpu / before.cpu);
    calls = after.calls / before.calls;
  }
  return { cpu: median(cpu), calls };
}

const end = (measured: Measured | string) => process.send?.(measured, () => process.exit());
measure(process.argv[2] === 'bounds').then(end, (error) => end(String(error)));
