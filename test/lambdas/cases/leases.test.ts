import { job, record, startWorkerBench, type WorkerBench } from '../../support/worker-bench';
import { dieAfterClaim, dieBeforeSettle, evidenceOf, pastTheLease, postsOf } from '../fixtures';

let bench: WorkerBench;
beforeAll(async () => {
  bench = await startWorkerBench();
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => bench.stop());

test('BL-02 a: killed after the claim, before Stripe: taken over after the lease, one charge', async () => {
  const charge = job();
  dieAfterClaim(bench, charge);
  expect(await bench.deliver([record(charge, { messageId: 'm' })])).toEqual(['m']);
  expect(await evidenceOf(bench, charge)).toMatchObject({ posts: 0, record: { state: 'running' } });
  expect(await bench.deliver([record(charge, { messageId: 'm', receiveCount: 2 })])).toEqual(['m']);
  await pastTheLease(bench);
  expect(await bench.deliver([record(charge, { messageId: 'm', receiveCount: 3 })])).toEqual([]);
  expect(await evidenceOf(bench, charge)).toMatchObject({
    charges: 1,
    posts: 1,
    keys: [expect.any(String)],
    record: { state: 'succeeded' },
  });
});

test('BL-02 b: killed after Stripe answered, before the write: the same key and the same bytes, one charge', async () => {
  const charge = job();
  dieBeforeSettle(bench, charge);
  expect(await bench.deliver([record(charge, { messageId: 'm' })])).toEqual(['m']);
  bench.restart();
  await pastTheLease(bench);
  expect(await bench.deliver([record(charge, { messageId: 'm', receiveCount: 2 })])).toEqual([]);
  expect(await evidenceOf(bench, charge)).toMatchObject({
    charges: 1,
    posts: 2,
    keys: [expect.any(String)],
    record: { state: 'succeeded' },
  });
  expect(new Set(postsOf(bench, charge).map(({ rawBody }) => rawBody)).size).toBe(1);
});

test.each([0, 1, -1, 1000])(
  'BL-02 c: with %d ms left nothing is started, and all is reported as failed',
  async (leftMs) => {
    const charges = [job(), job()];
    const records = charges.map((of, index) => record(of, { messageId: `m${index}` }));
    expect(await bench.deliver(records, { remainingMs: () => leftMs })).toEqual(['m0', 'm1']);
    for (const each of charges) {
      expect(await evidenceOf(bench, each)).toMatchObject({
        charges: 0,
        posts: 0,
        keys: [],
        record: undefined,
      });
    }
  },
);

test('BL-02 c: time that runs out in the middle of a batch starts no more: all is reported as failed, and no claim is left', async () => {
  const charges = [job(), job()];
  // The look at the records takes all of it but a second: less than a call needs.
  const undo = bench.stack.dynamodbProxy.intercept(
    { action: 'BatchGetItem', times: 1 },
    {
      kind: 'hook',
      after: async (): Promise<'continue'> => {
        await bench.stack.clock.advance(bench.stack.limits.workerTimeoutSeconds * 1000 - 1000);
        return 'continue';
      },
    },
  );
  const records = charges.map((of, index) => record(of, { messageId: `m${index}` }));
  expect(await bench.deliver(records)).toEqual(['m0', 'm1']);
  undo();
  for (const each of charges) {
    expect(await evidenceOf(bench, each)).toMatchObject({
      charges: 0,
      posts: 0,
      keys: [],
      record: undefined,
    });
    expect(await bench.deliver([record(each)])).toEqual([]);
    expect(await evidenceOf(bench, each)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
  }
});

test('BL-02 d: a lease is in milliseconds: live to its last one, taken over after it, never held longer', async () => {
  const charge = job();
  dieBeforeSettle(bench, charge);
  await bench.deliver([record(charge)]);
  const { record: running } = await evidenceOf(bench, charge);
  const leaseMs = Number(running?.leaseExpiresAtMs) - Number(running?.updatedAtMs);
  const { workerTimeoutSeconds, leaseMarginSeconds } = bench.stack.limits;
  expect(leaseMs).toBeGreaterThan(leaseMarginSeconds * 1000);
  expect(leaseMs).toBeLessThanOrEqual((workerTimeoutSeconds + leaseMarginSeconds) * 1000);
  const leftMs = Number(running?.leaseExpiresAtMs) - bench.stack.clock.now();
  await bench.stack.clock.advance(leftMs - 500);
  expect(await bench.deliver([record(charge, { messageId: 'm' })])).toEqual(['m']);
  expect((await evidenceOf(bench, charge)).posts).toBe(1);
  await bench.stack.clock.advance(1000);
  expect(await bench.deliver([record(charge)])).toEqual([]);
  expect(await evidenceOf(bench, charge)).toMatchObject({
    charges: 1,
    posts: 2,
    record: { state: 'succeeded' },
  });
});

test('BL-02 a worker with an absurd remaining time still holds a claim for its own time-out and margin only', async () => {
  const charge = job();
  dieBeforeSettle(bench, charge);
  await bench.deliver([record(charge)], { remainingMs: () => 10 ** 9 });
  const { record: running } = await evidenceOf(bench, charge);
  expect(Number(running?.leaseExpiresAtMs) - Number(running?.updatedAtMs)).toBe(4000);
  await pastTheLease(bench);
  expect(await bench.deliver([record(charge)])).toEqual([]);
});
