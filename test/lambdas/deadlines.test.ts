import { type Job, job, record, refundOf, startWorkerBench, type WorkerBench } from '../support/worker-bench';
import { dieAfterClaim, evidenceOf, hourMs, pastTheLease } from './fixtures';

let bench: WorkerBench;
beforeAll(async () => {
  bench = await startWorkerBench();
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => bench.stop());
afterEach(async () => {
  bench.stripe.clearFaults();
  await bench.drain();
});

const inMs = (ms: number) => new Date(bench.stack.clock.now() + ms).toISOString();
const recordOf = ({ tenantId, operationId }: Job) => bench.stack.operation(tenantId, operationId);
const deliver = async (of: Job, options: Parameters<typeof record>[1] = {}) =>
  (await bench.deliver([record(of, options)])).length === 0;
const exceeded = {
  charges: 0,
  posts: 0,
  record: { state: 'failed', attemptCount: 0, error: { code: 'deadline_exceeded' } },
};

describe('an operation that was never attempted by its deadline', () => {
  test('and that nobody knows fails at its first delivery, acknowledged, without a call', async () => {
    const charge = job({ deadlineAt: inMs(-1) });
    expect(await deliver(charge)).toBe(true);
    expect(await evidenceOf(bench, charge)).toMatchObject(exceeded);
    expect(await recordOf(charge)).toMatchObject({ expiresAtSeconds: expect.any(Number) });
    expect(await deliver(charge)).toBe(true);
    expect(await evidenceOf(bench, charge)).toMatchObject(exceeded);
  });

  test('counts twelve hours from when it is first heard of, where its caller said nothing', async () => {
    const late = job();
    const sentAtMs = bench.stack.clock.now() - 13 * hourMs;
    expect(await deliver(late, { sentAtMs })).toBe(true);
    expect(await evidenceOf(bench, late)).toMatchObject({ charges: 1 });

    const waiting = job();
    expect(await bench.accept(waiting)).toMatchObject({ kind: 'accepted' });
    await bench.stack.clock.advance(12 * hourMs + 1);
    expect(await deliver(waiting)).toBe(true);
    expect(await evidenceOf(bench, waiting)).toMatchObject(exceeded);
  });

  test('and that the API accepted fails, and gives up its place', async () => {
    const charge = job({ tenantId: 'late', deadlineAt: inMs(5_000) });
    await bench.accept(charge);
    await bench.stack.clock.advance(5_001);
    await bench.drain();
    expect(await evidenceOf(bench, charge)).toMatchObject(exceeded);
    expect(await recordOf(charge)).not.toHaveProperty('dueAtMs');
    expect(await bench.stack.item('tenant#late')).toMatchObject({ accepted: {} });
  });

  test('whose only calls proved that nothing was sent fails', async () => {
    const charge = job({ deadlineAt: inMs(5_000) });
    bench.stripe.fault({ kind: 'answer', status: 429 }, { operationId: charge.operationId });
    expect(await deliver(charge)).toBe(false);
    await bench.stack.clock.advance(5_001);
    expect(await deliver(charge, { receiveCount: 2 })).toBe(true);
    expect(await evidenceOf(bench, charge)).toMatchObject({ ...exceeded, posts: 1 });
  });

  test('and waits in the table fails when it is due', async () => {
    const charge = job({ deadlineAt: inMs(5_000) });
    bench.stripe.fault({ kind: 'answer', status: 429 }, { operationId: charge.operationId });
    expect(await deliver(charge, { receiveCount: 5 })).toBe(true);
    await bench.stack.clock.advance(11_000);
    await bench.reconcile();
    await bench.drain();
    expect(await evidenceOf(bench, charge)).toMatchObject({ ...exceeded, posts: 1 });
  });

  test('and is a refund gives its part of the charge back', async () => {
    const charge = job();
    await bench.accept(charge);
    await bench.drain();
    const refund = refundOf(charge, 1999, { deadlineAt: inMs(5_000) });
    expect(await bench.accept(refund)).toMatchObject({ kind: 'accepted' });
    await bench.stack.clock.advance(5_001);
    await bench.drain();
    expect(await recordOf(refund)).toMatchObject({ state: 'failed', error: { code: 'deadline_exceeded' } });
    expect(await recordOf(charge)).toMatchObject({ refunds: {}, refundedMinor: 0 });
  });
});

describe('an operation that was attempted before its deadline goes on', () => {
  test.each([
    [
      'in doubt',
      (of: Job) =>
        void bench.stripe.fault({ kind: 'reset', effect: 'done' }, { operationId: of.operationId }),
    ],
    ['by a worker that died', (of: Job) => dieAfterClaim(bench, of)],
  ])('%s', async (_how, prepare) => {
    const charge = job({ deadlineAt: inMs(5_000) });
    prepare(charge);
    expect(await deliver(charge)).toBe(false);
    await pastTheLease(bench);
    await bench.stack.clock.advance(hourMs);
    expect(await deliver(charge, { receiveCount: 2 })).toBe(true);
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
  });
});

test('a deadline is no material input: a message with another one is the same operation, bound to the first', async () => {
  const deadlineAt = inMs(hourMs);
  const charge = job({ deadlineAt });
  bench.stripe.fault({ kind: 'answer', status: 429 }, { operationId: charge.operationId });
  await deliver(charge);
  const { deadlineAtMs } = Object(await recordOf(charge));
  expect(deadlineAtMs).toBe(Date.parse(deadlineAt));
  expect(await deliver({ ...charge, deadlineAt: inMs(-hourMs) }, { receiveCount: 2 })).toBe(true);
  expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { deadlineAtMs } });
});

test('a message that is sent again by the service carries the deadline that it is bound to', async () => {
  const deadlineAt = inMs(hourMs);
  const charge = job({ deadlineAt });
  await bench.accept(charge);
  const [sent] = await bench.stack.eventSource.receive(1);
  expect(JSON.parse(String(sent?.body))).toMatchObject({ deadlineAt });
});
