import type { Fault } from '../../local/proxy-faults';
import { job, startWorkerBench, type WorkerBench } from '../support/worker-bench';
import { evidenceOf, pastTheLease, toTheEnd } from './fixtures';

// What we depend on is slow, throttled or gone: nothing is lost, nobody is charged twice, and no place is held longer than a lease.

let bench: WorkerBench;
beforeAll(async () => {
  bench = await startWorkerBench({ limits: { tenantMaxRunning: 2 } });
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => bench.stop());
afterEach(() => bench.stripe.clearFaults());

const throttled: Fault = {
  kind: 'answer',
  statusCode: 400,
  error: 'ProvisionedThroughputExceededException',
};
const gone: Fault = { kind: 'answer', statusCode: 500, error: 'InternalServerError' };
const always = { times: Number.POSITIVE_INFINITY };

const table = (fault: Fault, action?: string) =>
  bench.stack.dynamodbProxy.intercept({ ...always, ...(action ? { action } : {}) }, fault);
const queue = (fault: Fault, action: string) => bench.stack.sqsProxy.intercept({ ...always, action }, fault);

/** From worst to least: at the very start, between the claim and the settle, and after it. */
const degradations: [name: string, begin: () => (() => void)[]][] = [
  ['the table is throttled', () => [table(throttled)]],
  ['the table is gone', () => [table(gone)]],
  ['no write of the table gets through', () => [table(throttled, 'UpdateItem')]],
  ['no visibility can be changed', () => [queue(gone, 'ChangeMessageVisibility')]],
  ['the table hangs', () => [table({ kind: 'stall' })]],
  [
    'the table and the queue are gone',
    () => [table(gone), queue(gone, 'ChangeMessageVisibility'), queue(gone, 'SendMessage')],
  ],
];

test.each(degradations)(
  'while %s, then back: all are charged once, no place is left',
  async (_name, begin) => {
    const jobs = Array.from({ length: 6 }, (_, index) => job({ tenantId: `degraded-${index % 3}` }));
    await Promise.all(jobs.map((each) => bench.stack.send(each)));
    const ends = begin();
    await bench.drain();
    await pastTheLease(bench);
    await bench.drain();
    for (const end of ends) end();
    await pastTheLease(bench);
    await toTheEnd(bench, jobs);
    for (const each of jobs)
      expect(await evidenceOf(bench, each)).toMatchObject({ charges: 1, keys: [expect.any(String)] });
    expect(await bench.stack.deadLetters()).toEqual([]);
    expect(await bench.stack.queueDepth()).toMatchObject({ visible: 0, inFlight: 0 });
    await expectNoLiveSlot(['degraded-0', 'degraded-1', 'degraded-2']);
  },
  60_000,
);

test('a worker that runs out of time between the claim and the call lists its messages and holds no place longer than its lease', async () => {
  const jobs = Array.from({ length: 4 }, () => job({ tenantId: 'late' }));
  await Promise.all(jobs.map((each) => bench.stack.send(each)));
  // The claim's answer takes longer than the worker has.
  const end = bench.stack.dynamodbProxy.intercept({ action: 'UpdateItem', ...always }, { kind: 'stall' });
  await bench.drain();
  end();
  await pastTheLease(bench);
  await toTheEnd(bench, jobs);
  for (const each of jobs) expect(await evidenceOf(bench, each)).toMatchObject({ charges: 1 });
  await expectNoLiveSlot(['late']);
}, 60_000);

test('an accept while the queue is gone keeps the record, and the reconciler sends it once the queue is back', async () => {
  const charge = job({ tenantId: 'unsent' });
  const end = queue(gone, 'SendMessage');
  await expect(bench.accept(charge)).rejects.toThrow();
  expect(await bench.stack.operation(charge.tenantId, charge.operationId)).toMatchObject({ state: 'queued' });
  await bench.stack.clock.advance(301_000);
  expect(await bench.reconcile()).toMatchObject({ sent: 0, failed: 1 });
  end();
  await bench.stack.clock.advance(61_000);
  expect(await bench.reconcile()).toMatchObject({ sent: 1, failed: 0 });
  await bench.drain();
  expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
});

async function expectNoLiveSlot(tenantIds: readonly string[]): Promise<void> {
  for (const tenantId of tenantIds) {
    const tenant = await bench.stack.item(`tenant#${tenantId}`);
    const running: Record<string, { leaseExpiresAtMs: number }> = Object(tenant?.running);
    const live = Object.values(running).filter(
      ({ leaseExpiresAtMs }) => leaseExpiresAtMs >= bench.stack.clock.now(),
    );
    expect(live).toEqual([]);
  }
}
