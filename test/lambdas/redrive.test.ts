import { job, record, startWorkerBench, type WorkerBench } from '../support/worker-bench';
import { evidenceOf } from './fixtures';

/** One attempt in doubt parks an operation; time enough for a slow machine. */
const limits = { maxAttempts: 1, workerTimeoutSeconds: 20, providerTimeoutSeconds: 5 } as const;
const creations = { method: 'POST', path: '/v1/payment_intents' } as const;

let bench: WorkerBench;
// Throws when an operation used two keys for one step, or moved money twice.
afterEach(() => bench.stop());

test('of more operations than the budget has retries for waits in the table: none goes back to the dead-letter queue, each is charged once', async () => {
  bench = await startWorkerBench({ limits: { ...limits, retryBudgetFloor: 2, providerTimeoutSeconds: 1 } });
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

test('that is the probe and proves to be no attempt keeps its fresh set of attempts, and the next delivery is charged', async () => {
  bench = await startWorkerBench({ limits: { ...limits, breakerMinCalls: 1, breakerOpenSeconds: 1 } });
  const charge = job();
  // One call that failed parks the operation and opens the breaker.
  bench.stripe.fault({ kind: 'reset', effect: 'none' }, { operationId: charge.operationId, ...creations });
  await bench.deliver([record(charge)]);
  expect((await evidenceOf(bench, charge)).record).toMatchObject({ state: 'parked' });
  expect(await bench.stack.item('provider#stripe')).toHaveProperty('breakerOpenedAtMs');
  await bench.stack.clock.advance(10_000);
  const refusal = { kind: 'answer', status: 429 } as const;
  bench.stripe.fault(refusal, { operationId: charge.operationId, ...creations });
  await bench.deliver([record(charge)]);
  expect((await evidenceOf(bench, charge)).record).toMatchObject({
    state: 'queued',
    attemptCount: 1,
    attemptLimit: 2,
  });
  await bench.stack.clock.advance(10_000);
  await bench.deliver([record(charge, { receiveCount: 2, sentAtMs: bench.stack.clock.now() - 1 })]);
  expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
});

test('is paid for by the retry budget, also after it waited in the table', async () => {
  bench = await startWorkerBench({ limits: { ...limits, retryBudgetFloor: 0, retryBudgetPercent: 0 } });
  const charge = job();
  bench.stripe.fault({ kind: 'answer', status: 403 }, { operationId: charge.operationId, ...creations });
  await bench.deliver([record(charge)]);
  await bench.stack.clock.advance(10_000);
  const isDone = async (receiveCount: number) =>
    (await bench.deliver([record(charge, { receiveCount })])).length === 0;
  expect(await isDone(4)).toBe(false);
  expect(await isDone(5)).toBe(true);
  expect((await evidenceOf(bench, charge)).record).toMatchObject({ state: 'queued', attemptCount: 0 });
  await bench.stack.clock.advance(10_000);
  expect(await isDone(1)).toBe(false);
  expect(await evidenceOf(bench, charge)).toMatchObject({ posts: 1, record: { state: 'queued' } });
});

test('is none where the reconciler sent the message before its operation was parked', async () => {
  bench = await startWorkerBench({ limits });
  const charge = job();
  await bench.accept(charge);
  await bench.stack.clock.advance(6 * 60_000);
  // Its message waited in a backlog: the reconciler reads a queued record and sends another one.
  const messages = await bench.stack.eventSource.receive(1);
  expect(messages).toHaveLength(1);
  expect(await bench.reconcile()).toMatchObject({ sent: 1 });
  bench.stripe.fault({ kind: 'reset', effect: 'none' }, { operationId: charge.operationId, ...creations });
  await bench.deliver(messages);
  await bench.stack.clock.advance(1000);
  await bench.drain();
  expect(await evidenceOf(bench, charge)).toMatchObject({
    posts: 1,
    record: { state: 'parked', redriveCount: 0 },
  });
});
