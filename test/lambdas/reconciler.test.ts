import { BatchWriteItemCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { job, record, startWorkerBench, type WorkerBench } from '../support/worker-bench';
import { evidenceOf, hourMs, operation } from './fixtures';

// The reconciler's run: what it costs, and that a run that ends half way is made up for.

let bench: WorkerBench;
beforeAll(async () => {
  // Time enough for an emulator that holds ten thousand items: what is counted here are calls.
  bench = await startWorkerBench({ limits: { workerTimeoutSeconds: 20 } });
});
afterAll(() => bench.stop());
afterEach(() => bench.stripe.clearFaults());

type Job = ReturnType<typeof job>;

/** Sent at the first delivery, unknown ever since: parked with a possible effect. */
async function parked(of: Job, effect: 'none' | 'done'): Promise<void> {
  bench.stripe.fault({ kind: 'reset', effect }, { operationId: of.operationId, times: 5 });
  for (let receiveCount = 1; receiveCount <= 5; receiveCount++)
    await bench.deliver([record(of, { receiveCount: Math.min(4, receiveCount) })]);
}

test('with 10 000 open operations and 25 due, a run reads what is due', async () => {
  const client = new DynamoDBClient({
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    endpoint: bench.stack.endpoints.dynamodb,
  });
  const nowMs = bench.stack.clock.now();
  const open = Array.from({ length: 10_000 }, (_, index) => {
    const { tenantId, operationId, ...of } = operation({
      operationId: `open-${index}`,
      openShard: index % bench.stack.limits.openShards,
      dueAtMs: nowMs + hourMs * 24 * 300 + index,
      deadlineAtMs: nowMs + hourMs * 24 * 400,
    });
    return { pk: `op#${tenantId}#${operationId}`, ...of };
  });
  for (let at = 0; at < open.length; at += 25) {
    const puts = open
      .slice(at, at + 25)
      .map((item) => ({ PutRequest: { Item: marshall(item, { removeUndefinedValues: true }) } }));
    await client.send(new BatchWriteItemCommand({ RequestItems: { [bench.stack.tableName]: puts } }));
  }
  client.destroy();

  bench.stack.dynamodbProxy.resetCounts();
  expect(await bench.reconcile()).toMatchObject({ sent: 0, settled: 0, failed: 0 });
  const idle = bench.stack.dynamodbProxy.counts();
  // A query a shard, and the provider's state.
  expect(idle).toEqual({ Query: bench.stack.limits.openShards, BatchGetItem: 1 });

  const due = Array.from({ length: 25 }, () => job({ input: { customerId: 'cus_due' } }));
  await Promise.all(due.map((each) => bench.accept(each)));
  await bench.drain();
  await bench.stack.clock.advance(300_001);
  bench.stack.dynamodbProxy.resetCounts();
  await bench.reconcile();
  const { Query = 0, BatchGetItem = 0, UpdateItem = 0 } = bench.stack.dynamodbProxy.counts();
  expect(Query).toBe(bench.stack.limits.openShards);
  expect(BatchGetItem).toBeLessThanOrEqual(1 + bench.stack.limits.openShards);
  expect(UpdateItem).toBeLessThanOrEqual(2 * 25);
}, 120_000);

test('a run that ends half way leaves the rest due, and the next one finishes', async () => {
  const jobs = Array.from({ length: 6 }, (_, index) => job({ input: { customerId: `cus_half_${index}` } }));
  for (const each of jobs) await parked(each, 'done');
  // The table is gone after some writes of the run.
  let writes = 0;
  const takeBack = bench.stack.dynamodbProxy.intercept(
    { action: 'UpdateItem', where: () => ++writes > 5, times: 1000 },
    { kind: 'loseRequest' },
  );
  const first = await bench.reconcile();
  takeBack();
  expect(first.settled).toBeLessThan(6);
  for (let minute = 0; minute < 3; minute++) {
    await bench.stack.clock.advance(61_000);
    await bench.reconcile();
  }
  for (const each of jobs)
    expect(await evidenceOf(bench, each)).toMatchObject({
      charges: 1,
      posts: 5,
      record: { state: 'succeeded' },
    });
});

test('a provider that is away is asked once a run, and what only waits is sent all the same', async () => {
  const jobs = Array.from({ length: 30 }, (_, index) => job({ input: { customerId: `cus_away_${index}` } }));
  for (const each of jobs) await parked(each, 'done');
  const waiting = job();
  await bench.accept(waiting);
  await bench.drain();
  const isQuestion = ({ method }: { readonly method: string }) => method === 'GET';
  bench.stripe.fault({ kind: 'answer', status: 503 }, { method: 'GET', times: 1000 });
  const asked = bench.stripe.requests().filter(isQuestion).length;
  await bench.reconcile();
  // As many as are under way at once when the first of them fails.
  expect(bench.stripe.requests().filter(isQuestion).length - asked).toBeLessThanOrEqual(10);
  bench.stripe.clearFaults();
  for (let minute = 0; minute < 3; minute++) {
    await bench.stack.clock.advance(61_000);
    await bench.reconcile();
  }
  for (const each of jobs)
    expect((await evidenceOf(bench, each)).record).toMatchObject({ state: 'succeeded' });
}, 60_000);

test('two runs at once settle each operation once', async () => {
  const jobs = Array.from({ length: 5 }, (_, index) => job({ input: { customerId: `cus_two_${index}` } }));
  for (const each of jobs) await parked(each, 'done');
  bench.logs();
  const runs = await Promise.all([bench.reconcile(), bench.reconcile()]);
  expect(runs[0].settled + runs[1].settled).toBe(5);
  const told = bench.logs().filter(({ message }) => message === 'operation succeeded');
  expect(told).toHaveLength(5);
});

test('what could not be brought on is told with its ids, and is due again', async () => {
  const waiting = job();
  await bench.accept(waiting);
  await bench.stack.clock.advance(6 * 60_000);
  const takeBack = bench.stack.sqsProxy.intercept(
    {
      action: 'SendMessage',
      where: (body) => JSON.stringify(body).includes(waiting.operationId),
      times: 100,
    },
    { kind: 'loseRequest' },
  );
  bench.logs();
  expect(await bench.reconcile()).toMatchObject({ failed: 1 });
  takeBack();
  const { tenantId, operationId } = waiting;
  expect(bench.logs()).toContainEqual(
    expect.objectContaining({ level: expect.stringMatching(/WARN|ERROR/), tenantId, operationId }),
  );
  await bench.stack.clock.advance(61_000);
  expect(await bench.reconcile()).toMatchObject({ sent: 1, failed: 0 });
  await bench.drain();
  expect(await evidenceOf(bench, waiting)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
});
