import { censusEvent } from '../../lambdas/operation/census';
import { job, record, startWorkerBench, type WorkerBench } from '../support/worker-bench';
import { hourMs } from './fixtures';

let bench: WorkerBench;
beforeAll(async () => {
  bench = await startWorkerBench({ limits: { workerTimeoutSeconds: 10 } });
});
afterAll(() => bench.stop());

/** What the census said. */
async function census() {
  bench.logs();
  await bench.reconcile(censusEvent);
  return bench.logs().find(({ message }) => String(message).startsWith('open operations'));
}

test('the census finds what is accepted, settling and parked, with its age, and nothing that has ended', async () => {
  const [settling, spent, done] = [
    job({ input: { paymentMethodId: 'pm_usBankAccount_success' } }),
    job(),
    job(),
  ];
  bench.stripe.fault({ kind: 'answer', status: 500, effect: 'none' }, { operationId: spent.operationId });
  await bench.deliver([settling, spent, done].map((of) => record(of)));
  await bench.deliver([record(spent, { receiveCount: 2 })]);
  const [accepted, alsoAccepted] = [job(), job()];
  await bench.accept(accepted);
  await bench.accept(alsoAccepted);
  await bench.stack.clock.advance(hourMs / 2);
  expect(await census()).toMatchObject({
    level: 'INFO',
    open: {
      charge: { queued: 2, running: 0, settling: 1, parked: 1 },
      refund: { queued: 0, running: 0, settling: 0, parked: 0 },
    },
    oldestMs: {
      waiting: expect.any(Number),
      settling: expect.any(Number),
      parked: expect.any(Number),
    },
  });
});

test('it reads the index and the provider alone, one page a shard, and a run without it reads nothing that is not due', async () => {
  const { openShards } = bench.stack.limits;
  const { dynamodbProxy } = bench.stack;
  // What is due now is not due any more in the runs that are compared.
  await bench.reconcile();
  dynamodbProxy.resetCounts();
  await bench.reconcile();
  const run = dynamodbProxy.counts();
  dynamodbProxy.resetCounts();
  await bench.reconcile(censusEvent);
  // The one batch read is that of the provider's record.
  const { Query = 0, BatchGetItem = 0 } = run;
  expect(dynamodbProxy.counts()).toEqual({ Query: Query + openShards, BatchGetItem: BatchGetItem + 1 });
});

test('a census that fails is told, and the run goes on', async () => {
  const undo = bench.stack.dynamodbProxy.intercept(
    { action: 'Query', where: (body) => !JSON.stringify(body).includes(':due') },
    { kind: 'answer', statusCode: 400, error: 'ValidationException' },
  );
  bench.logs();
  expect(await bench.reconcile(censusEvent)).toMatchObject({ failed: 0 });
  undo();
  const logs = bench.logs();
  expect(logs).toContainEqual(expect.objectContaining({ message: 'what is open could not be counted' }));
  expect(logs).toContainEqual(expect.objectContaining({ ReconcilerRun: 1, CaughtError: 1 }));
});
