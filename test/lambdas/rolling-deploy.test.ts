import { DeleteMessageCommand, SQSClient, StartMessageMoveTaskCommand } from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { type Handlers, loadHandlers, loadHandlersOfVersion1 } from '../support/version-1/handlers';
import {
  contextOf,
  job,
  record,
  refundOf,
  startWorkerBench,
  type WorkerBench,
} from '../support/worker-bench';
import { dieBeforeSettle, evidenceOf, type Named, pastTheLease, postsOf } from './fixtures';

let bench: WorkerBench;
let sqs: SQSClient;
/** A worker and a reconciler that know version 1 alone, and those of this build. */
let old: Handlers;
let current: Handlers;
beforeAll(async () => {
  // Long enough for a busy machine: an attempt that is given up would be one more.
  const limits = { workerTimeoutSeconds: 12, providerTimeoutSeconds: 5, allowDirectRefunds: true };
  bench = await startWorkerBench({ limits });
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  sqs = new SQSClient({ region: 'us-east-1', credentials, endpoint: bench.stack.endpoints.sqs });
  old = loadHandlersOfVersion1();
  current = loadHandlers();
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(async () => {
  sqs.destroy();
  await bench.stop();
});

const context = () => contextOf(bench.stack);

/** A charge in version 2, with a description only where `changes` give it one. */
function jobV2(changes: Parameters<typeof job>[0] = {}) {
  const { input, ...rest } = job({ ...changes, version: 2 });
  const { invoiceId: reference, ...others } = input;
  return { ...rest, input: { reference, ...others } };
}
const description = 'Roof repair, second part';
const described = () => jobV2({ input: { description } });
/** The same charge in the other version. */
const inVersion1 = ({ input: { reference, ...input }, ...rest }: ReturnType<typeof jobV2>) => ({
  ...rest,
  version: 1,
  input: { invoiceId: reference, ...input },
});

/** @returns whether the message was acknowledged */
async function deliver(to: Handlers, message: SQSRecord): Promise<boolean> {
  const { batchItemFailures } = await to.work({ Records: [message] }, context());
  return batchItemFailures.length === 0;
}

/** Everything that can be received now, each delivery to the worker that `workerOf` says, all of them at once. */
async function round(workerOf: (delivery: number) => Handlers): Promise<void> {
  const batches: (readonly [Handlers, SQSRecord[]])[] = [];
  for (;;) {
    const records = await bench.stack.eventSource.receive(bench.stack.limits.batchSize);
    if (records.length === 0) break;
    const to = ({ attributes }: SQSRecord) => workerOf(Number(attributes.ApproximateReceiveCount));
    batches.push(...Map.groupBy(records, to));
  }
  await Promise.all(batches.map(([worker, records]) => runBatch(worker, records)));
}

async function runBatch(worker: Handlers, records: SQSRecord[]): Promise<void> {
  const { batchItemFailures } = await worker.work({ Records: records }, context());
  const failed = new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
  for (const { messageId, receiptHandle: ReceiptHandle } of records) {
    if (failed.has(messageId)) continue;
    await sqs.send(new DeleteMessageCommand({ QueueUrl: bench.stack.queueUrl, ReceiptHandle }));
  }
}

/** Rounds, each past the longest deferral, until the queue is empty and stays so. */
async function untilQuiet(workerOf: (delivery: number) => Handlers, reconcilers: readonly Handlers[]) {
  for (let quiet = 0, rounds = 0; quiet < 2; rounds++) {
    if (rounds === 60) throw new Error('The queue does not become empty.');
    await round(workerOf);
    await bench.stack.clock.advance((bench.stack.limits.retryCapSeconds + 1) * 1000);
    await reconcilers[rounds % reconcilers.length]?.reconcile(
      {},
      contextOf(bench.stack, () => 60_000),
    );
    quiet = (await bench.stack.queueDepth()).total === 0 ? quiet + 1 : 0;
  }
}

const movedBy = (of: Named) =>
  bench.stripe.ledger().filter(({ metadata }) => {
    return metadata.tenantId === of.tenantId && metadata.operationId === of.operationId;
  });

describe('an old and a new worker on one queue that holds both versions', () => {
  const orders = [
    ['the old worker first', (delivery: number) => (delivery % 2 === 1 ? old : current)],
    ['the new worker first', (delivery: number) => (delivery % 2 === 1 ? current : old)],
  ] as const;

  test.each(orders)('lose nothing and charge nothing twice: %s', async (_, workerOf) => {
    const ofV1 = [job(), job()];
    const ofV2 = [jobV2(), jobV2()];
    const ofV2Only = [described(), described()];
    const charges = [...ofV1, ...ofV2, ...ofV2Only];
    // One of each fails at its first attempt after its effect, one before it: the other worker goes on where it can.
    for (const [first, second] of [ofV1, ofV2, ofV2Only]) {
      if (first) bench.stripe.fault({ kind: 'reset', effect: 'done' }, { operationId: first.operationId });
      if (second) bench.stripe.fault({ kind: 'reset', effect: 'none' }, { operationId: second.operationId });
    }
    const refunds = [ofV1, ofV2Only].flatMap(([of]) => {
      return of ? [refundOf(of, 500), refundOf(of, 600, { version: 2 })] : [];
    });
    const inBothForms = ofV2.map(inVersion1);
    bench.logs();
    // Each message twice, and the operations that both versions can say in both forms.
    const sent = [...charges, ...inBothForms, ...refunds];
    await Promise.all([...sent, ...sent].map((message) => bench.stack.send(message)));
    await untilQuiet(workerOf, [old, current]);

    expect(await bench.stack.deadLetters()).toEqual([]);
    for (const charge of charges) {
      expect(await evidenceOf(bench, charge)).toMatchObject({
        charges: 1,
        amounts: [1999],
        keys: [expect.any(String)],
        record: { state: 'succeeded' },
      });
      expect(new Set(postsOf(bench, charge).map(({ rawBody }) => rawBody)).size).toBe(1);
    }
    for (const [first, second] of [ofV1, ofV2, ofV2Only])
      expect([first, second].map((tried) => tried && postsOf(bench, tried).length)).toEqual([2, 2]);
    for (const charge of ofV2Only) {
      for (const { params } of postsOf(bench, charge)) expect(params).toMatchObject({ description });
    }
    for (const refund of refunds) {
      expect(movedBy(refund)).toHaveLength(1);
      expect(await bench.stack.operation(refund.tenantId, refund.operationId)).toMatchObject({
        state: 'succeeded',
      });
    }
    // Both took part, and the old one met what it cannot read.
    expect(bench.logs()).toContainEqual(
      expect.objectContaining({ message: 'message deferred', reason: 'version_unknown' }),
    );
  });
});

describe('one operation in two versions', () => {
  const forms = (of: ReturnType<typeof jobV2>) => ({ ofV1: record(inVersion1(of)), ofV2: record(of) });
  type Step = readonly [to: () => Handlers, form: 'ofV1' | 'ofV2'];
  const [toOld, toCurrent] = [() => old, () => current];
  const orders: readonly [name: string, first: Step, second: Step][] = [
    ['version 1 to the old worker, then 2 to the new', [toOld, 'ofV1'], [toCurrent, 'ofV2']],
    ['version 2 to the new worker, then 1 to the old', [toCurrent, 'ofV2'], [toOld, 'ofV1']],
    ['version 1, then 2, to the new worker', [toCurrent, 'ofV1'], [toCurrent, 'ofV2']],
    ['version 2, then 1, to the new worker', [toCurrent, 'ofV2'], [toCurrent, 'ofV1']],
  ];

  test.each(orders)('is one charge, and the second message a replay: %s', async (_, first, second) => {
    const charge = jobV2();
    for (const [to, form] of [first, second]) expect(await deliver(to(), forms(charge)[form])).toBe(true);
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, posts: 1 });
  });

  test.each(orders)(
    'that a dying worker left half done is finished by the next: %s',
    async (_, first, second) => {
      const charge = jobV2();
      dieBeforeSettle(bench, charge);
      expect(await deliver(first[0](), forms(charge)[first[1]])).toBe(false);
      await pastTheLease(bench);
      expect(await deliver(second[0](), forms(charge)[second[1]])).toBe(true);
      expect(await evidenceOf(bench, charge)).toMatchObject({
        charges: 1,
        posts: 2,
        record: { state: 'succeeded', version: 1, providerParamsVersion: 1 },
      });
      expect(new Set(postsOf(bench, charge).map(({ rawBody }) => rawBody)).size).toBe(1);
    },
  );

  test('whose description is missing from one of them has other inputs in it: that message is rejected', async () => {
    const charge = described();
    expect(await deliver(current, record(charge))).toBe(true);
    expect(await deliver(current, record({ ...inVersion1(charge), input: job().input }))).toBe(false);
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, posts: 1 });
  });
});

describe('a roll-back while operations of version 2 wait', () => {
  test('BL-41 burns none in seconds and charges none without its new field; undone, each is charged once', async () => {
    const { clock, limits, deadLetterQueueArn: SourceArn } = bench.stack;
    const [tried, accepted, sent] = [described(), described(), described()];
    const saysNothingNew = jobV2();
    // The first attempt was the new worker's: this record is of version 2 as well.
    bench.stripe.fault({ kind: 'answer', status: 429 }, { operationId: tried.operationId });
    await bench.stack.send(tried);
    await round(() => current);
    for (const charge of [accepted, saysNothingNew]) await bench.accept(charge);
    const ofVersion1 = job();
    for (const charge of [sent, ofVersion1]) await bench.stack.send(charge);
    const records = () =>
      Promise.all([tried, accepted, sent].map((of) => bench.stack.operation(of.tenantId, of.operationId)));
    const before = await records();

    const rolledBackAtMs = clock.now();
    let firstLostAtMs: number | undefined;
    for (let rounds = 0; rounds < 12; rounds++) {
      await round(() => old);
      if ((await bench.stack.deadLetters()).length > 0) firstLostAtMs ??= clock.now();
      await clock.advance((limits.retryCapSeconds + 1) * 1000);
      await old.reconcile(
        {},
        contextOf(bench.stack, () => 60_000),
      );
    }
    for (const charge of [ofVersion1, saysNothingNew])
      expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
    expect(await records()).toEqual(before);
    const idsOf = (bodies: string[]) => bodies.map((body) => JSON.parse(body).operationId).sort();
    const given = [tried, accepted, sent].map(({ operationId }) => operationId).sort();
    expect(idsOf(await bench.stack.deadLetters())).toEqual(given);
    // One delivery of `tried` was the new worker's, and the last is not followed by a wait.
    const waits = limits.maxReceiveCount - 2;
    expect((firstLostAtMs ?? 0) - rolledBackAtMs).toBeGreaterThanOrEqual(
      waits * limits.retryCapSeconds * 1000,
    );

    await sqs.send(new StartMessageMoveTaskCommand({ SourceArn }));
    await untilQuiet(() => current, [current]);
    expect(await bench.stack.deadLetters()).toEqual([]);
    for (const charge of [tried, accepted, sent]) {
      expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
      expect(postsOf(bench, charge).at(-1)?.params).toMatchObject({ description });
    }
  });

  test('BL-41 keeps the refund of a charge that the old worker cannot read, and makes it when it is undone', async () => {
    const charge = described();
    expect(await deliver(current, record(charge))).toBe(true);
    const refund = refundOf(charge, 500);
    expect(await deliver(old, record(refund))).toBe(false);
    expect(movedBy(refund)).toEqual([]);
    expect(await deliver(current, record(refund, { receiveCount: 2 }))).toBe(true);
    expect(movedBy(refund)).toHaveLength(1);
  });
});
