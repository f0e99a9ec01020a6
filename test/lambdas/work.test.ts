import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import { job, record, startWorkerBench, type WorkerBench } from '../support/worker-bench';
import {
  dieAfterClaim,
  dieBeforeSettle,
  evidenceOf,
  hourMs,
  onWrites,
  pastTheLease,
  postsOf,
  writesOf,
} from './fixtures';

let bench: WorkerBench;
beforeAll(async () => {
  bench = await startWorkerBench();
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => bench.stop());
const undo: (() => void)[] = [];
afterEach(() => {
  for (const remove of undo.splice(0)) remove();
  bench.stripe.clearFaults();
  bench.visibilities();
  bench.logs();
});

type Job = ReturnType<typeof job>;
const evidence = (of: Job) => evidenceOf(bench, of);
const fault = (of: Job, ...[planned, match = {}]: Parameters<WorkerBench['stripe']['fault']>) =>
  undo.push(bench.stripe.fault(planned, { operationId: of.operationId, ...match }));
const onTable = (...rule: Parameters<WorkerBench['stack']['dynamodbProxy']['intercept']>) =>
  undo.push(bench.stack.dynamodbProxy.intercept(...rule));

/** Delivers messages and says what was reported as failed and when each of those comes back, by message id. */
async function deliver(
  records: readonly ReturnType<typeof record>[],
  ...options: Parameters<WorkerBench['deliver']>[1][]
) {
  bench.visibilities();
  const failed = await bench.deliver(records, options[0]);
  return { failed, comesBackIn: Object.fromEntries(bench.visibilities()) };
}
const deliverOne = async (of: Job | string, options: Parameters<typeof record>[1] = {}) => {
  const delivered = record(of, options);
  const { failed, comesBackIn } = await deliver([delivered]);
  return { isAcknowledged: failed.length === 0, comesBackIn: comesBackIn[delivered.messageId] };
};
const acknowledged = { isAcknowledged: true, comesBackIn: undefined };
const rejected = { isAcknowledged: false, comesBackIn: 0 };
/** Keeps its delivery without a delay of its own: the queue's visibility time-out brings it back. */
const leftToTimeOut = { isAcknowledged: false, comesBackIn: undefined };

describe('an ordinary life', () => {
  test("a batch's calls are counted beside the writes that settle them", async () => {
    const charge = job();
    const counted = Promise.withResolvers<true>();
    const isCount = (body: unknown) => JSON.stringify(body).includes('"provider#stripe');
    const before = () => {
      counted.resolve(true);
      return 'continue' as const;
    };
    onTable({ action: 'UpdateItem', where: isCount, times: 1 }, { kind: 'hook', before });
    let isCountedFirst: boolean | undefined;
    const wait = async () => {
      isCountedFirst = await Promise.race([counted.promise, setTimeout(400, false)]);
      return 'continue' as const;
    };
    onTable({ ...writesOf(charge, 'settle'), times: 1 }, { kind: 'hook', before: wait });
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect(isCountedFirst).toBe(true);
  });

  test('a claim is told while its call is on its way', async () => {
    const charge = job();
    let told: unknown;
    const run = async () => {
      told = bench.logs();
    };
    fault(charge, { kind: 'hook', at: 'beforeEffect', run });
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect(told).toContainEqual(
      expect.objectContaining({ message: 'operation running', operationId: charge.operationId }),
    );
  });

  test('a first delivery charges once, settles and is acknowledged', async () => {
    const charge = job();
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect(await evidence(charge)).toEqual({
      charges: 1,
      amounts: [1999],
      posts: 1,
      keys: [`local/acme/${charge.operationId}/charge/0`],
      record: expect.objectContaining({
        state: 'succeeded',
        attemptCount: 1,
        providerRef: expect.stringMatching(/^pi_/),
        result: { amountMinor: 1999, currency: 'usd', chargeId: expect.stringMatching(/^ch_/) },
      }),
    });
  });

  test('a second delivery of a settled operation does nothing, on a warm and on a cold worker', async () => {
    const charge = job();
    await deliverOne(charge);
    const first = await evidence(charge);
    expect(await deliverOne(charge)).toEqual(acknowledged);
    bench.restart();
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect(await evidence(charge)).toEqual(first);
  });

  test.each([
    ['two writes of its own and two of its tenant', 50, 4],
    ['two writes where tenants have no bounds', 0, 2],
  ])(
    'costs one read, %s, and one of the provider for the whole batch, a replay one read',
    async (_writes, tenantMaxRunning, writes) => {
      const { SETTINGS = '{}' } = bench.stack.environment;
      bench.restart({ SETTINGS: JSON.stringify({ ...JSON.parse(SETTINGS), tenantMaxRunning }) });
      // Both in one window of the retry budget: the write that begins a window is another one.
      await bench.stack.clock.advance(60_000 - (bench.stack.clock.now() % 60_000));
      await deliverOne(job());
      const charge = job();
      bench.stack.dynamodbProxy.resetCounts();
      await deliverOne(charge);
      expect(bench.stack.dynamodbProxy.counts()).toEqual({ BatchGetItem: 1, UpdateItem: writes + 1 });
      bench.stack.dynamodbProxy.resetCounts();
      await deliverOne(charge);
      expect(bench.stack.dynamodbProxy.counts()).toEqual({ BatchGetItem: 1 });
      bench.restart();
    },
  );

  test('a payment that is still processing is acknowledged and left to the reconciler', async () => {
    const charge = job({ input: { paymentMethodId: 'pm_usBankAccount_success' } });
    expect(await deliverOne(charge)).toEqual(acknowledged);
    const settling = await evidence(charge);
    expect(settling.record).toMatchObject({
      state: 'settling',
      providerRef: expect.stringMatching(/^pi_/),
      dueAtMs: expect.any(Number),
    });
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect(await evidence(charge)).toEqual(settling);
  });
});

describe('nothing is charged without a claim', () => {
  test('POWERTOOLS_IDEMPOTENCY_DISABLED=true: no provider call, nothing acknowledged, no record', async () => {
    bench.restart({ POWERTOOLS_IDEMPOTENCY_DISABLED: 'true' });
    const charge = job();
    expect(await deliverOne(charge)).toEqual(leftToTimeOut);
    bench.restart();
    expect(await evidence(charge)).toMatchObject({ charges: 0, posts: 0, record: undefined });
  });

  test('a message without an id: no provider call and no record of any name', async () => {
    const before = bench.stripe.requests().length;
    bench.stack.dynamodbProxy.resetCounts();
    expect(await deliverOne(job({ operationId: undefined }))).toEqual(rejected);
    expect(bench.stripe.requests()).toHaveLength(before);
    expect(bench.stack.dynamodbProxy.counts()).toEqual({});
  });

  test('an API key that nobody has set yet: deferred at every delivery, never parked, no attempt used', async () => {
    bench.restart({ STRIPE_API_KEY: 'set-me' });
    const charge = job();
    for (let receiveCount = 1; receiveCount <= 4; receiveCount++) {
      const { isAcknowledged, comesBackIn } = await deliverOne(charge, { receiveCount });
      expect([isAcknowledged, (comesBackIn ?? 0) >= 1]).toEqual([false, true]);
    }
    expect(await deliverOne(charge, { receiveCount: 5 })).toEqual(acknowledged);
    expect(await evidence(charge)).toMatchObject({
      posts: 0,
      record: { state: 'queued', attemptCount: 0, dueAtMs: expect.any(Number) },
    });
    bench.restart();
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect(await evidence(charge)).toMatchObject({ charges: 1, posts: 1 });
  });
});

describe('an answer of the table that is lost', () => {
  test.each(['claim', 'settle'] as const)(
    'after the %s was applied costs no delivery and no second call',
    async (step) => {
      const charge = job();
      onWrites(bench, charge, step, [{ kind: 'loseAnswer' }]);
      expect(await deliverOne(charge)).toEqual(acknowledged);
      expect(await evidence(charge)).toMatchObject({
        charges: 1,
        posts: 1,
        record: { state: 'succeeded', attemptCount: 1 },
      });
      expect(bench.logs().filter(({ message }) => message === 'operation succeeded')).toHaveLength(1);
    },
  );

  test.each(['claim', 'settle'] as const)('by a stall of the %s is asked for again', async (step) => {
    const charge = job();
    onWrites(bench, charge, step, [{ kind: 'stall' }]);
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect(await evidence(charge)).toMatchObject({
      charges: 1,
      posts: 1,
      record: { state: 'succeeded', attemptCount: 1 },
    });
  });

  test('of a settle that proved nothing was sent takes the attempt back once', async () => {
    const charge = job();
    fault(charge, { kind: 'answer', status: 429 });
    onWrites(bench, charge, 'settle', [{ kind: 'loseAnswer' }]);
    expect(await deliverOne(charge)).toMatchObject({ isAcknowledged: false, comesBackIn: 1 });
    expect((await evidence(charge)).record).toMatchObject({ state: 'queued', attemptCount: 0 });
  });

  test('of a look is asked for again', async () => {
    const charge = job();
    onTable({ action: 'BatchGetItem', times: 1 }, { kind: 'loseAnswer' });
    expect(await deliverOne(charge)).toEqual(acknowledged);
  });

  test('a claim that lands after its sender gave up holds for its lease and no longer', async () => {
    const charge = job();
    onWrites(bench, charge, 'claim', [
      { kind: 'loseAnswer' },
      { kind: 'loseRequest' },
      { kind: 'loseRequest' },
    ]);
    expect(await deliverOne(charge)).toEqual(leftToTimeOut);
    expect(await evidence(charge)).toMatchObject({ posts: 0, record: { state: 'running' } });
    await pastTheLease(bench);
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect(await evidence(charge)).toMatchObject({ charges: 1, posts: 1 });
  });
});

describe('a table in trouble', () => {
  const broken = { kind: 'answer', statusCode: 500, error: 'InternalServerError' } as const;
  const throttled = {
    kind: 'answer',
    statusCode: 400,
    error: 'ProvisionedThroughputExceededException',
  } as const;

  test('a throttled claim and settle are tried again', async () => {
    const charge = job();
    onWrites(bench, charge, 'claim', [throttled]);
    onWrites(bench, charge, 'settle', [broken]);
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect(await evidence(charge)).toMatchObject({
      charges: 1,
      posts: 1,
      record: { state: 'succeeded', attemptCount: 1 },
    });
  });

  test('a settle that never comes through keeps the message; the same key gives the same charge', async () => {
    const charge = job();
    onWrites(bench, charge, 'settle', [broken, broken, broken]);
    expect(await deliverOne(charge)).toEqual(leftToTimeOut);
    expect(await evidence(charge)).toMatchObject({ charges: 1, posts: 1, record: { state: 'running' } });
    await pastTheLease(bench);
    expect(await deliverOne(charge, { receiveCount: 2 })).toEqual(acknowledged);
    expect(await evidence(charge)).toMatchObject({
      charges: 1,
      posts: 2,
      keys: [expect.any(String)],
      record: { state: 'succeeded' },
    });
  });

  test('that is down: every message is listed, none is charged, none is lost', async () => {
    const charges = [job(), job(), job()];
    onTable({}, { kind: 'answer', statusCode: 500, error: 'InternalServerError' });
    const { failed } = await deliver(charges.map((of, index) => record(of, { messageId: `m${index}` })));
    expect(failed).toEqual(['m0', 'm1', 'm2']);
    for (const each of charges) expect(await evidence(each)).toMatchObject({ posts: 0, record: undefined });
  });

  test('that stalls for one operation: the handler returns before its deadline with that one still listed', async () => {
    const [stalled, ordinary] = [job(), job()];
    onTable(writesOf(stalled, 'settle'), { kind: 'stall' });
    const startMs = performance.now();
    const { failed } = await deliver([
      record(stalled, { messageId: 'm0' }),
      record(ordinary, { messageId: 'm1' }),
    ]);
    expect(performance.now() - startMs).toBeLessThan(bench.stack.limits.workerTimeoutSeconds * 1000);
    expect(failed).toEqual(['m0']);
    expect(await evidence(ordinary)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
    expect(await evidence(stalled)).toMatchObject({ charges: 1, record: { state: 'running' } });
  });

  test('that stalls altogether: the handler returns before its deadline with all listed', async () => {
    onTable({}, { kind: 'stall' });
    const startMs = performance.now();
    const { failed } = await deliver([
      record(job(), { messageId: 'm0' }),
      record(job(), { messageId: 'm1' }),
    ]);
    expect(performance.now() - startMs).toBeLessThan(bench.stack.limits.workerTimeoutSeconds * 1000);
    expect(failed).toEqual(['m0', 'm1']);
  });

  test('a record that nobody here can read fails its own message and no other', async () => {
    const [odd, ordinary] = [job(), job()];
    const client = new DynamoDBClient({
      region: 'us-east-1',
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
      endpoint: bench.stack.endpoints.dynamodb,
    });
    const Item = { pk: { S: `op#acme#${odd.operationId}` }, state: { S: 'of-a-newer-build' } };
    await client.send(new PutItemCommand({ TableName: bench.stack.tableName, Item }));
    client.destroy();
    const { failed } = await deliver([
      record(odd, { messageId: 'm0' }),
      record(ordinary, { messageId: 'm1' }),
    ]);
    expect(await evidence(odd)).toMatchObject({ posts: 0 });
    expect(failed).toEqual(['m0']);
    expect(await evidence(ordinary)).toMatchObject({ charges: 1 });
  });
});

describe("a tenant's item that nobody here can read", () => {
  test("fails its own tenant's messages and no other's", async () => {
    const [odd, ordinary] = [job({ tenantId: 'odd' }), job()];
    const client = new DynamoDBClient({
      region: 'us-east-1',
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
      endpoint: bench.stack.endpoints.dynamodb,
    });
    // An operator wrote a limit as text.
    const Item = { pk: { S: 'tenant#odd' }, maxRunning: { S: '5' } };
    await client.send(new PutItemCommand({ TableName: bench.stack.tableName, Item }));
    client.destroy();
    const { failed } = await deliver([
      record(odd, { messageId: 'm0' }),
      record(ordinary, { messageId: 'm1' }),
    ]);
    expect(failed).not.toContain('m1');
    expect(await evidence(ordinary)).toMatchObject({ charges: 1 });
  });
});

describe('a visibility that cannot be changed', () => {
  test('leaves the message to the time-out and harms no other', async () => {
    undo.push(
      bench.stack.sqsProxy.intercept({}, { kind: 'answer', statusCode: 500, error: 'InternalError' }),
    );
    const [limited, ordinary] = [job(), job()];
    fault(limited, { kind: 'answer', status: 429 });
    const failed = await bench.deliver([
      record(limited, { messageId: 'm0' }),
      record('no json', { messageId: 'm1' }),
      record(ordinary, { messageId: 'm2' }),
    ]);
    expect(failed).toEqual(['m0', 'm1']);
    expect(await evidence(ordinary)).toMatchObject({ charges: 1 });
  });
});

describe('the same operation twice in a batch', () => {
  test('runs once, and both are acknowledged', async () => {
    const charge = job();
    expect(await deliver(['m0', 'm1', 'm2'].map((messageId) => record(charge, { messageId })))).toEqual({
      failed: [],
      comesBackIn: {},
    });
    expect(await evidence(charge)).toMatchObject({ charges: 1, posts: 1, record: { attemptCount: 1 } });
  });

  test('with changed inputs runs the first and rejects the other', async () => {
    const charge = job();
    const changed = job({ operationId: charge.operationId, input: { amountMinor: 9000 } });
    expect(
      await deliver([
        record(charge, { messageId: 'm0' }),
        record(changed, { messageId: 'm1' }),
        record(charge, { messageId: 'm2' }),
      ]),
    ).toEqual({
      failed: ['m1'],
      comesBackIn: { m1: 0 },
    });
    expect(await evidence(charge)).toMatchObject({ charges: 1, amounts: [1999], posts: 1 });
  });

  test('and deferred: all of them come back, and one attempt was made', async () => {
    const charge = job();
    fault(charge, { kind: 'reset', effect: 'done' });
    const { failed, comesBackIn } = await deliver(
      ['m0', 'm1'].map((messageId) => record(charge, { messageId })),
    );
    expect(failed).toEqual(['m0', 'm1']);
    expect(Object.keys(comesBackIn).sort()).toEqual(['m0', 'm1']);
    expect(await evidence(charge)).toMatchObject({
      charges: 1,
      posts: 1,
      record: { state: 'queued', attemptCount: 1 },
    });
  });
});

describe('a version from the future', () => {
  test('is deferred at every delivery, with the longest back-off, and never rejected', async () => {
    for (const receiveCount of [1, 4, 7]) {
      expect(await deliverOne(job({ version: 3 }), { receiveCount })).toEqual({
        isAcknowledged: false,
        comesBackIn: 10,
      });
    }
  });
});

describe('leases', () => {
  test('a live claim of another owner defers to just after its end', async () => {
    const charge = job();
    dieBeforeSettle(bench, charge);
    await deliverOne(charge);
    const { record: running } = await evidence(charge);
    const leaseEndMs = Number(running?.leaseExpiresAtMs);
    const { isAcknowledged, comesBackIn = 0 } = await deliverOne(charge, { receiveCount: 2 });
    expect(isAcknowledged).toBe(false);
    const backAtMs = bench.stack.clock.now() + comesBackIn * 1000;
    expect(backAtMs).toBeGreaterThan(leaseEndMs - 100);
    expect(backAtMs).toBeLessThan(leaseEndMs + 1100);
    expect((await evidence(charge)).posts).toBe(1);
    await bench.stack.clock.advance(comesBackIn * 1000);
    expect(await deliverOne(charge, { receiveCount: 3 })).toEqual(acknowledged);
    expect(await evidence(charge)).toMatchObject({ charges: 1, posts: 2, record: { attemptCount: 2 } });
  });

  test('a late owner that proved nothing cannot write over its successor', async () => {
    const charge = job();
    let successor: unknown;
    fault(charge, {
      kind: 'hook',
      at: 'beforeEffect',
      next: 'drop',
      // While the first owner waits for its answer its lease ends, and another one finishes the job.
      run: async () => {
        await pastTheLease(bench);
        await takeOver(charge, 'declined');
        successor = (await evidence(charge)).record;
      },
    });
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect(await evidence(charge)).toMatchObject({ charges: 0, record: successor });
    expect(successor).toMatchObject({ state: 'failed', claimId: 'of-the-successor' });
  });

  test('a late owner with proof settles, whatever became of its claim', async () => {
    const charge = job();
    fault(charge, {
      kind: 'hook',
      at: 'afterEffect',
      run: async () => {
        await pastTheLease(bench);
        await takeOver(charge, 'parked');
      },
    });
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect(await evidence(charge)).toMatchObject({
      charges: 1,
      posts: 1,
      record: { state: 'succeeded', claimId: 'of-the-successor' },
    });
  });

  test('a proof that contradicts an ended record changes nothing and wakes a person', async () => {
    const charge = job();
    fault(charge, {
      kind: 'hook',
      at: 'afterEffect',
      run: async () => {
        await pastTheLease(bench);
        await takeOver(charge, 'declined');
      },
    });
    bench.logs();
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect((await evidence(charge)).record).toMatchObject({ state: 'failed' });
    expect(bench.logs()).toContainEqual(
      expect.objectContaining({
        level: 'ERROR',
        operationId: charge.operationId,
        providerRef: expect.stringMatching(/^pi_/),
      }),
    );
  });

  /** What another worker would have written. */
  async function takeOver({ operationId }: Job, as: 'declined' | 'parked') {
    const client = new DynamoDBClient({
      region: 'us-east-1',
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
      endpoint: bench.stack.endpoints.dynamodb,
    });
    const parts =
      as === 'declined' ? 'expiresAtSeconds = :later' : 'parkedReason = :reason, parkedAtMs = :nowMs';
    const nowMs = bench.stack.clock.now();
    await DynamoDBDocumentClient.from(client).send(
      new UpdateCommand({
        TableName: bench.stack.tableName,
        Key: { pk: `op#acme#${operationId}` },
        UpdateExpression: `SET #state = :state, claimId = :claimId, ${parts} REMOVE leaseExpiresAtMs`,
        ExpressionAttributeNames: { '#state': 'state' },
        ExpressionAttributeValues: {
          ':claimId': 'of-the-successor',
          ...(as === 'declined'
            ? { ':state': 'failed', ':later': Math.floor(nowMs / 1000) + 90 * 86_400 }
            : { ':state': 'parked', ':reason': 'attempts_exhausted', ':nowMs': nowMs }),
        },
      }),
    );
    client.destroy();
  }
});

describe('attempts', () => {
  /** Deliveries whose provider answers are lost, until the operation is parked. */
  async function exhaust(charge: Job, from: number) {
    fault(charge, { kind: 'reset', effect: 'none' }, { times: 5 });
    for (let receiveCount = from; receiveCount < from + 4; receiveCount++) {
      const { isAcknowledged, comesBackIn = 0 } = await deliverOne(charge, { receiveCount });
      expect([isAcknowledged, comesBackIn >= 1]).toEqual([false, true]);
    }
    return deliverOne(charge, { receiveCount: from + 4 });
  }

  test('that are used up park the operation; its message drains at once, without a call or a write', async () => {
    const charge = job();
    const sentAtMs = bench.stack.clock.now();
    expect(await exhaust(charge, 1)).toEqual(rejected);
    const parked = await evidence(charge);
    expect(parked).toMatchObject({
      charges: 0,
      posts: 5,
      keys: [expect.any(String)],
      record: {
        state: 'parked',
        parkedReason: 'attempts_exhausted',
        attemptCount: 5,
        effectPossibleSinceMs: expect.any(Number),
        dueAtMs: expect.any(Number),
      },
    });
    for (const receiveCount of [6, 7, 8])
      expect(await deliverOne(charge, { receiveCount, sentAtMs })).toEqual(rejected);
    expect(await evidence(charge)).toEqual(parked);
  });

  test('come afresh with a redrive, five times at most', async () => {
    const charge = job();
    await exhaust(charge, 1);
    for (let redrive = 1; redrive <= 5; redrive++) {
      await bench.stack.clock.advance(1000);
      expect(await exhaust(charge, 1)).toEqual(rejected);
      expect((await evidence(charge)).record).toMatchObject({
        state: 'parked',
        redriveCount: redrive,
        attemptCount: 5 * (redrive + 1),
      });
    }
    await bench.stack.clock.advance(1000);
    expect(await deliverOne(charge)).toEqual(rejected);
    expect(await evidence(charge)).toMatchObject({
      posts: 30,
      keys: [expect.any(String)],
      record: { state: 'parked' },
    });
  });

  test('a redriven operation that can be charged is charged once', async () => {
    const charge = job();
    await exhaust(charge, 1);
    await bench.stack.clock.advance(1000);
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect(await evidence(charge)).toMatchObject({
      charges: 1,
      keys: [expect.any(String)],
      record: { state: 'succeeded', redriveCount: 1 },
    });
  });

  test('a worker that dies at every claim parks after five, without a call', async () => {
    const charge = job();
    for (let receiveCount = 1; receiveCount <= 5; receiveCount++) {
      dieAfterClaim(bench, charge);
      expect(await deliverOne(charge, { receiveCount })).toEqual(leftToTimeOut);
      await pastTheLease(bench);
    }
    expect(await deliverOne(charge, { receiveCount: 6 })).toEqual(rejected);
    expect(await evidence(charge)).toMatchObject({
      posts: 0,
      record: { state: 'parked', parkedReason: 'attempts_exhausted' },
    });
  });

  test('a minute of 429 uses none, and ends in one charge', async () => {
    const charge = job();
    fault(charge, { kind: 'answer', status: 429 }, { times: 100 });
    const untilMs = bench.stack.clock.now() + 60_000;
    let receiveCount = 0;
    while (bench.stack.clock.now() < untilMs) {
      receiveCount += 1;
      const { isAcknowledged, comesBackIn = 0 } = await deliverOne(charge, { receiveCount });
      const { record: waiting } = await evidence(charge);
      expect(waiting).toMatchObject({ state: 'queued', attemptCount: 0 });
      expect(waiting).not.toHaveProperty('effectPossibleSinceMs');
      // From the fifth delivery on the wait is kept in the table, and the next message is a new one.
      expect(isAcknowledged).toBe(receiveCount === 5);
      if (isAcknowledged) expect(waiting?.dueAtMs).toBeGreaterThan(bench.stack.clock.now() - 1);
      const waitMs = isAcknowledged ? Number(waiting?.dueAtMs) - bench.stack.clock.now() : comesBackIn * 1000;
      if (isAcknowledged) receiveCount = 0;
      await bench.stack.clock.advance(Math.max(0, waitMs));
    }
    bench.stripe.clearFaults();
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect(await evidence(charge)).toMatchObject({ charges: 1, record: { attemptCount: 1 } });
  });

  test('a 429 after an attempt in doubt keeps the doubt', async () => {
    const charge = job();
    fault(charge, { kind: 'reset', effect: 'done' });
    await deliverOne(charge);
    const since = (await evidence(charge)).record?.effectPossibleSinceMs;
    fault(charge, { kind: 'answer', status: 429 });
    await deliverOne(charge, { receiveCount: 2 });
    expect((await evidence(charge)).record).toMatchObject({
      state: 'queued',
      attemptCount: 1,
      effectPossibleSinceMs: since,
    });
    expect(await deliverOne(charge, { receiveCount: 3 })).toEqual(acknowledged);
    expect(await evidence(charge)).toMatchObject({ charges: 1, posts: 3 });
  });

  test('a 400 after an attempt in doubt parks instead of failing', async () => {
    const charge = job();
    fault(charge, { kind: 'reset', effect: 'done' });
    await deliverOne(charge);
    fault(charge, { kind: 'answer', status: 400, error: { code: 'resource_missing' } });
    expect(await deliverOne(charge, { receiveCount: 2 })).toEqual(rejected);
    expect((await evidence(charge)).record).toMatchObject({
      state: 'parked',
      parkedReason: 'earlier_attempt_unproven',
      effectPossibleSinceMs: expect.any(Number),
    });
  });

  test('key and parameters stay the same across a deploy that renames the stack', async () => {
    const charge = job();
    fault(charge, { kind: 'reset', effect: 'done' });
    await deliverOne(charge);
    bench.restart({ PROVIDER_KEY_PREFIX: 'renamed' });
    expect(await deliverOne(charge, { receiveCount: 2 })).toEqual(acknowledged);
    bench.restart();
    expect(
      new Set(postsOf(bench, charge).map(({ rawBody, idempotencyKey }) => `${idempotencyKey} ${rawBody}`))
        .size,
    ).toBe(1);
    expect(await evidence(charge)).toMatchObject({ charges: 1, posts: 2 });
  });

  test('a conflict at the provider parks for good: no redrive runs it again', async () => {
    const charge = job();
    fault(charge, { kind: 'answer', status: 400, error: { type: 'idempotency_error' } });
    expect(await deliverOne(charge)).toEqual(rejected);
    await bench.stack.clock.advance(1000);
    expect(await deliverOne(charge)).toEqual(rejected);
    expect(await evidence(charge)).toMatchObject({
      posts: 1,
      record: { state: 'parked', parkedReason: 'provider_conflict', redriveCount: 0 },
    });
  });

  test('a 403 parks this one without a possible effect; a redrive runs it', async () => {
    const charge = job();
    fault(charge, { kind: 'answer', status: 403 });
    expect(await deliverOne(charge)).toEqual(rejected);
    const { record: parked } = await evidence(charge);
    expect(parked).toMatchObject({ state: 'parked', parkedReason: 'provider_forbidden', attemptCount: 0 });
    for (const gone of ['effectPossibleSinceMs', 'dueAtMs', 'openShard'])
      expect(parked).not.toHaveProperty(gone);
    await bench.stack.clock.advance(hourMs);
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect(await evidence(charge)).toMatchObject({ charges: 1 });
  });

  test('a 403 that is redriven after the deadline fails: it was never attempted', async () => {
    const charge = job();
    fault(charge, { kind: 'answer', status: 403 });
    expect(await deliverOne(charge)).toEqual(rejected);
    await bench.stack.clock.advance(30 * hourMs);
    expect(await deliverOne(charge)).toEqual(acknowledged);
    const { record, charges } = await evidence(charge);
    expect(record).toMatchObject({ state: 'failed', error: { code: 'deadline_exceeded' } });
    expect(charges).toBe(0);
  });

  test('of a provider that refuses connections are none', async () => {
    const closed = createServer().listen(0, '127.0.0.1');
    await once(closed, 'listening');
    const address = closed.address();
    closed.close();
    await once(closed, 'close');
    bench.restart({
      STRIPE_API_BASE: `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`,
    });
    const charge = job();
    const { isAcknowledged } = await deliverOne(charge);
    bench.restart();
    expect(isAcknowledged).toBe(false);
    expect((await evidence(charge)).record).toMatchObject({ state: 'queued', attemptCount: 0 });
  });
});

describe('retention', () => {
  test('of an ended record is extended by a delivery that meets it in its last 30 days, and not before', async () => {
    const charge = job();
    await deliverOne(charge);
    const endsAt = Number((await evidence(charge)).record?.expiresAtSeconds);
    await bench.stack.clock.advance(59 * 24 * hourMs);
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect((await evidence(charge)).record?.expiresAtSeconds).toBe(endsAt);
    await bench.stack.clock.advance(2 * 24 * hourMs);
    expect(await deliverOne(charge)).toEqual(acknowledged);
    const extended = Number((await evidence(charge)).record?.expiresAtSeconds);
    expect(Math.abs(extended - endsAt - 61 * 86_400)).toBeLessThan(60);
    expect(await evidence(charge)).toMatchObject({ charges: 1, posts: 1 });
  });
});

describe('the log', () => {
  const states = (of: Job) =>
    bench
      .logs()
      .filter(
        ({ message, operationId }) =>
          String(message).startsWith('operation ') && operationId === of.operationId,
      )
      .map(({ from, to, attempt }) => ({ from, to, attempt }));

  test('has one line for each state change, with the ids', async () => {
    const charge = job();
    bench.logs();
    await deliverOne(charge);
    const lines = bench.logs().filter(({ message }) => String(message).startsWith('operation '));
    const ids = {
      tenantId: 'acme',
      operationId: charge.operationId,
      messageId: expect.any(String),
      receiveCount: 1,
      requestId: expect.any(String),
    };
    expect(lines).toEqual([
      expect.objectContaining({ ...ids, from: 'new', to: 'running', attempt: 1 }),
      expect.objectContaining({ ...ids, from: 'running', to: 'succeeded', attempt: 1 }),
    ]);
  });

  test('of two owners who both prove the charge has one line for it', async () => {
    const charge = job();
    bench.logs();
    const [lateSettled, successorSettles] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let successor: ReturnType<typeof deliverOne> | undefined;
    // The late owner's settle arrives once its lease ended and its successor holds the same proof.
    onWrites(bench, charge, 'settle', [
      {
        kind: 'hook',
        before: async (): Promise<'continue'> => {
          await pastTheLease(bench);
          successor = deliverOne(charge, { receiveCount: 2 });
          await successorSettles.promise;
          return 'continue';
        },
        after: () => {
          lateSettled.resolve();
          return 'continue';
        },
      },
      {
        kind: 'hook',
        before: async (): Promise<'continue'> => {
          successorSettles.resolve();
          await lateSettled.promise;
          return 'continue';
        },
      },
    ]);
    expect(await deliverOne(charge)).toEqual(acknowledged);
    expect(await successor).toEqual(acknowledged);
    expect(await evidence(charge)).toMatchObject({
      charges: 1,
      posts: 2,
      record: { state: 'succeeded', attemptCount: 2 },
    });
    expect(states(charge).filter(({ to }) => to === 'succeeded')).toHaveLength(1);
  });

  test('tells a replay as a replay, and a rejection once on its way to the dead-letter queue', async () => {
    const charge = job();
    await deliverOne(charge);
    bench.logs();
    await deliverOne(charge);
    expect(bench.logs()).toContainEqual(
      expect.objectContaining({ message: 'message replayed', operationId: charge.operationId }),
    );
    const changed = job({ operationId: charge.operationId, input: { amountMinor: 9000 } });
    for (let receiveCount = 1; receiveCount <= 8; receiveCount++) await deliverOne(changed, { receiveCount });
    const said = bench
      .logs()
      .map(({ message }) => message)
      .filter((text) => typeof text === 'string');
    expect(said.filter((text) => text === 'message rejected')).toHaveLength(1);
    expect(said.filter((text) => String(text).startsWith('message dead-lettered'))).toHaveLength(1);
  });

  test('never holds a body, an amount, a payment method or a key', async () => {
    const secret = {
      invoiceId: 'inv-secret',
      amountMinor: 7654321,
      customerId: 'cus_secret',
      paymentMethodId: 'pm_secret',
    };
    const [ok, doubtful, limited] = [job({ input: secret }), job({ input: secret }), job({ input: secret })];
    const declined = job({ input: { ...secret, paymentMethodId: 'pm_card_chargeDeclined' } });
    const changed = job({ operationId: ok.operationId, input: { ...secret, amountMinor: 7654322 } });
    const malformed = job({ operationId: 'a b', input: secret });
    bench.logs();
    fault(doubtful, { kind: 'truncate' });
    fault(limited, { kind: 'answer', status: 429 });
    onWrites(
      bench,
      declined,
      'settle',
      Array(3).fill({ kind: 'answer', statusCode: 400, error: 'ValidationException' }),
    );
    await deliver([ok, doubtful, limited, declined, malformed].map((of) => record(of)));
    await deliver([ok, changed].map((of) => record(of)));
    await deliver([record(`{"paymentMethodId":"pm_secret","amountMinor":7654321`)]);
    const said = JSON.stringify(bench.logs());
    expect(said).toContain(ok.operationId);
    for (const never of ['secret', '7654321', '7654322', 'pm_card', 'sk_test'])
      expect(said).not.toContain(never);
  });
});

describe('an event that is none', () => {
  test.each([[{}], [{ Records: [] }], [{ Records: undefined }]])('%j reports no failure', async (event) => {
    expect(await bench.invoke(event)).toEqual({ batchItemFailures: [] });
  });
});
