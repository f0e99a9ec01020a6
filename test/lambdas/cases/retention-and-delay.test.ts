import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createWorker } from '../../../lambdas/runtime/worker-wiring';
import { job, record, startWorkerBench, type WorkerBench } from '../../support/worker-bench';
import { evidenceOf, hourMs } from '../fixtures';

let bench: WorkerBench;
beforeAll(async () => {
  bench = await startWorkerBench();
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => bench.stop());
afterEach(() => bench.stripe.clearFaults());

const dayMs = 24 * hourMs;

test('BL-37 the time to live is in seconds, ninety days ahead', async () => {
  const charge = job();
  expect(await bench.deliver([record(charge)])).toEqual([]);
  const { record: stored } = await evidenceOf(bench, charge);
  const aheadDays = (Number(stored?.expiresAtSeconds) - bench.stack.clock.now() / 1000) / 86_400;
  expect(aheadDays).toBeGreaterThan(89.9);
  expect(aheadDays).toBeLessThanOrEqual(90);
});

test('BL-37 a record whose time to live has passed, but is still there, still says that it was paid', async () => {
  const charge = job();
  await bench.deliver([record(charge)]);
  await bench.stack.clock.advance(91 * dayMs);
  expect(await bench.deliver([record(charge)])).toEqual([]);
  expect(await evidenceOf(bench, charge)).toMatchObject({
    charges: 1,
    posts: 1,
    keys: [expect.any(String)],
    record: { state: 'succeeded' },
  });
});

test('BL-37 a redrive on day 15 is a replay: the record outlives queue, dead-letter queue and a redrive through both', async () => {
  const charge = job();
  await bench.deliver([record(charge)]);
  const first = await evidenceOf(bench, charge);
  await bench.stack.clock.advance(15 * dayMs);
  expect(await bench.deliver([record(charge)])).toEqual([]);
  expect(await evidenceOf(bench, charge)).toEqual(first);
});
// BL-37 after physical removal: a record is gone at the earliest 90 days after its last delivery, when no message can be
// left (18 days in the queues, twice with a redrive); an id is protected for so long and no longer, as the README says.

test('BL-37 an operation that has not ended has no time to live', async () => {
  const charge = job();
  bench.stripe.fault({ kind: 'reset', effect: 'none' }, { operationId: charge.operationId });
  await bench.deliver([record(charge)]);
  const { record: stored } = await evidenceOf(bench, charge);
  expect(stored).toMatchObject({ state: 'queued' });
  expect(stored).not.toHaveProperty('expiresAtSeconds');
});

test('BL-38 one file in lambdas/ can send to a queue, and the worker has none of it', () => {
  const root = join(__dirname, '../../../lambdas');
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  );
  expect(files.length).toBeGreaterThan(15);
  const senders = files.filter((name) => /SendMessage/.test(readFileSync(join(root, name), 'utf8')));
  expect(senders).toEqual([join('adapters', 'sqs-job-queue.ts')]);
  expect(Object.keys(createWorker(bench.stack.environment).ports)).not.toContain('queue');
});

test('BL-38 a job that is postponed twenty times is charged at its next delivery, without a message of the worker', async () => {
  const charge = job();
  bench.stripe.fault({ kind: 'answer', status: 429 }, { operationId: charge.operationId, times: 20 });
  bench.stack.sqsProxy.resetCounts();
  for (let postponed = 0; postponed < 20; postponed++) {
    // Each fifth wait is kept in the table; what brings the job back then is a new message of the reconciler.
    const receiveCount = (postponed % 5) + 1;
    bench.visibilities();
    const sent = record(charge, { receiveCount });
    expect(await bench.deliver([sent])).toEqual(receiveCount === 5 ? [] : [sent.messageId]);
    if (receiveCount === 5) continue;
    const delaySeconds = bench.visibilities().get(sent.messageId) ?? 0;
    expect(delaySeconds).toBeGreaterThanOrEqual(1);
    expect(delaySeconds).toBeLessThanOrEqual(10);
    await bench.stack.clock.advance(delaySeconds * 1000);
  }
  expect(await bench.deliver([record(charge)])).toEqual([]);
  expect(await evidenceOf(bench, charge)).toMatchObject({
    charges: 1,
    posts: 21,
    keys: [expect.any(String)],
    record: { state: 'succeeded', attemptCount: 1 },
  });
  expect(Object.keys(bench.stack.sqsProxy.counts())).toEqual(['ChangeMessageVisibility']);
});
