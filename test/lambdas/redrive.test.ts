import { job, record, startWorkerBench, type WorkerBench } from '../support/worker-bench';
import { evidenceOf } from './fixtures';

let bench: WorkerBench;
beforeAll(async () => {
  bench = await startWorkerBench({
    limits: { maxAttempts: 1, retryBudgetFloor: 2, workerTimeoutSeconds: 10, providerTimeoutSeconds: 1 },
  });
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => bench.stop());

test('of more operations than the budget has retries for waits in the table: none goes back to the dead-letter queue, each is charged once', async () => {
  const charges = Array.from({ length: 12 }, (_, index) => job({ tenantId: `tenant-${index}` }));
  for (const charge of charges) {
    bench.stripe.fault({ kind: 'reset', effect: 'none' }, { operationId: charge.operationId });
    await bench.deliver([record(charge)]);
  }
  await bench.stack.clock.advance(61_000);
  for (const charge of charges) {
    expect((await evidenceOf(bench, charge)).record).toMatchObject({ state: 'parked' });
    await bench.stack.send(charge);
  }
  const states = async () =>
    Promise.all(charges.map(async (charge) => (await evidenceOf(bench, charge)).record?.state));
  const startMs = bench.stack.clock.now();
  const spent: number[] = [];
  for (let round = 0; round < 100 && (await states()).some((state) => state !== 'succeeded'); round++) {
    const before = bench.stripe.requests().filter(({ method }) => method === 'POST').length;
    await bench.drain();
    await bench.reconcile();
    spent.push(bench.stripe.requests().filter(({ method }) => method === 'POST').length - before);
    await bench.stack.clock.advance(6_000);
  }
  expect(await bench.stack.deadLetters()).toEqual([]);
  for (const charge of charges) {
    expect(await evidenceOf(bench, charge)).toMatchObject({
      charges: 1,
      posts: 2,
      record: { state: 'succeeded', redriveCount: 1, attemptCount: 2 },
    });
  }
  // Two a minute, or as many as two windows have where a round spans both.
  expect(Math.max(...spent)).toBeLessThanOrEqual(4);
  expect(bench.stack.clock.now() - startMs).toBeGreaterThan(4 * 60_000);
});
