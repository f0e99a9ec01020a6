import { randomUUID } from 'node:crypto';
import { refundOf } from '../../support/worker-bench';
import { type Charge, type Counts, charge, MeteredBench } from './metered-bench';

/** Every way that is measured; tables.ts says what each is. */
export const paths = [
  'direct',
  'directFull',
  'accept',
  'accepted',
  'status',
  'refundAccept',
  'refund',
  'replay',
  'unknown',
  'deferred',
  'reconcile',
  'sentAgain',
] as const;

export type Path = (typeof paths)[number];

export interface Measured {
  readonly measuredOn: string;
  readonly node: string;
  /** Messages of a full batch. Where a way is not said to be measured so, a batch has one. */
  readonly fullBatch: number;
  /** The stored size of a charge that has ended. */
  readonly recordBytes: number;
  readonly paths: Readonly<Record<Path, Counts>>;
}

export const fullBatch = 10;
/** Before the first count: processor time halves until the code is compiled. */
const warmUp = 300;
const rounds = 40;

/** Runs the real handlers on the laptop stack and counts what they ask for. Takes two minutes or so. */
export async function measure(): Promise<Measured> {
  const bench = await MeteredBench.start(fullBatch);
  try {
    for (let index = 0; index < warmUp; index++) await acceptCharge(bench, await settled(bench));
    const counts = { ...(await countEach(bench, rounds)), sentAgain: await sentAgain(bench) };
    const { tenantId, operationId } = await settled(bench);
    return {
      measuredOn: new Date().toISOString().slice(0, 10),
      node: process.version,
      fullBatch,
      recordBytes: bench.table.sizeOf(`op#${tenantId}#${operationId}`),
      paths: counts,
    };
  } finally {
    await bench.stop();
  }
}

/** Every way on which one operation can be counted at a time. @param rounds how often each is gone */
export async function countEach(
  bench: MeteredBench,
  rounds: number,
): Promise<Record<Exclude<Path, 'sentAgain'>, Counts>> {
  const newCharge = async () => charge();
  const newRefund = async () => refundOf(await settled(bench), 100, { operationId: randomUUID() });
  const failing = (status: number) => async () => {
    const of = charge();
    bench.stripe.fault({ kind: 'answer', status }, { operationId: of.operationId });
    return of;
  };
  const deliver = (of: object) => bench.deliver([of]);
  const defer = (of: object) => bench.deliver([of], 'deferred');
  const accept = (of: Charge) => acceptCharge(bench, of);
  const acceptRefund = ({ tenantId, operationId, input }: Awaited<ReturnType<typeof newRefund>>) =>
    bench.request('PUT', `/tenants/${tenantId}/refunds/${operationId}`, input);
  const status = ({ tenantId, operationId }: Charge) =>
    bench.request('GET', `/tenants/${tenantId}/operations/${operationId}`);

  const each = <T>(prepare: () => Promise<T>, run: (of: T) => Promise<unknown>) =>
    count(bench, rounds, 1, prepare, run);
  /** Accepted and delivered, and both are counted. */
  const both = async <T extends object>(prepare: () => Promise<T>, take: (of: T) => Promise<void>) => {
    const taken: T[] = [];
    const accepted = await each(prepare, async (of) => {
      await take(of);
      taken.push(of);
    });
    return [accepted, await each(async () => taken.shift() ?? {}, deliver)] as const;
  };

  const [accepted, delivered] = await both(newCharge, accept);
  const [refundAccepted, refundDelivered] = await both(newRefund, acceptRefund);
  return {
    direct: await each(newCharge, deliver),
    directFull: await count(
      bench,
      rounds,
      fullBatch,
      async () => Array.from({ length: fullBatch }, charge),
      (batch) => bench.deliver(batch),
    ),
    accept: accepted,
    accepted: delivered,
    status: await each(() => settled(bench), status),
    refundAccept: refundAccepted,
    refund: refundDelivered,
    replay: await each(() => settled(bench), deliver),
    unknown: await each(failing(503), defer),
    deferred: await each(failing(429), defer),
    reconcile: await each(newCharge, () => bench.reconcile()),
  };
}

/** Each round is prepared uncounted, then run and counted for each of its `operations`. */
async function count<T>(
  bench: MeteredBench,
  rounds: number,
  operations: number,
  prepare: () => Promise<T>,
  run: (of: T) => Promise<unknown>,
): Promise<Counts> {
  const counts: Counts[] = [];
  for (let round = 0; round < rounds; round++) {
    const of = await prepare();
    await bench.take(operations);
    await run(of);
    counts.push(await bench.take(operations));
  }
  return usual(counts);
}

/** Medians, since a call that a busy machine made late is repeated; for processor time the mean, as rare work is paid for too. */
function usual(counts: readonly Counts[]): Counts {
  const median = (name: keyof Counts) =>
    counts.map((each) => each[name]).toSorted((a, b) => a - b)[Math.floor(counts.length / 2)] ?? 0;
  const cpuMs = counts.reduce((sum, each) => sum + each.cpuMs, 0) / counts.length;
  return {
    tableCalls: median('tableCalls'),
    readUnits: median('readUnits'),
    writeUnits: median('writeUnits'),
    providerWriteUnits: median('providerWriteUnits'),
    indexWriteUnits: median('indexWriteUnits'),
    sqsCalls: median('sqsCalls'),
    stripeCalls: median('stripeCalls'),
    logBytes: median('logBytes'),
    cpuMs: Math.round(cpuMs * 10) / 10,
  };
}

/** Operations that were accepted, whose messages were lost, and that are due. */
async function sentAgain(bench: MeteredBench): Promise<Counts> {
  for (let index = 0; index < 100; index++) await acceptCharge(bench, charge());
  await bench.stack.clock.advance(sixMinutesMs);
  await bench.take(1);
  const sent = await bench.reconcile();
  return bench.take(sent);
}

const sixMinutesMs = 6 * 60_000;

async function settled(bench: MeteredBench): Promise<Charge> {
  const of = charge();
  await bench.deliver([of]);
  return of;
}

function acceptCharge(bench: MeteredBench, { tenantId, operationId, input }: Charge): Promise<void> {
  return bench.request('PUT', `/tenants/${tenantId}/charges/${operationId}`, input);
}
