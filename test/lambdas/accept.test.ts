import { type Job, job, startWorkerBench, type WorkerBench } from '../support/worker-bench';
import { evidenceOf, onWrites, toTheEnd } from './fixtures';

let bench: WorkerBench;
beforeAll(async () => {
  bench = await startWorkerBench({
    limits: { tenantMaxRunning: 2, tenantMaxWaiting: 5, workerTimeoutSeconds: 8 },
  });
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => bench.stop());
afterEach(async () => {
  bench.stripe.clearFaults();
  await bench.drain();
});

let count = 0;
/** A job of a tenant that no other test knows. */
function fresh(changes: Parameters<typeof job>[0] = {}) {
  count += 1;
  return job({ tenantId: `tenant-${count}`, ...changes });
}
const tenantOf = ({ tenantId }: Job) => bench.stack.item(`tenant#${tenantId}`);
const recordOf = ({ tenantId, operationId }: Job) => bench.stack.operation(tenantId, operationId);
const depth = async () => (await bench.stack.queueDepth()).total;
const kindsOf = (answers: readonly { readonly kind: string }[]) =>
  Object.fromEntries(
    [...Map.groupBy(answers, ({ kind }) => kind)].map(([kind, group]) => [kind, group.length]),
  );
/** So many jobs of one tenant. */
function flood(size: number) {
  const { tenantId } = fresh();
  return Array.from({ length: size }, () => job({ tenantId }));
}
const acceptAll = (jobs: readonly Job[]) => Promise.all(jobs.map((of) => bench.accept(of)));

const runToTheEnd = (jobs: readonly Job[]) => toTheEnd(bench, jobs);

/** The next accept dies: its record, or its message, does not come to be. */
const dieBefore = (of: Job, step: 'record' | 'message') =>
  step === 'record'
    ? onWrites(bench, of, 'settle', Array(3).fill({ kind: 'loseRequest' }))
    : Array.from({ length: 3 }, () =>
        bench.stack.sqsProxy.intercept(
          { action: 'SendMessage', where: (body) => JSON.stringify(body).includes(of.operationId), times: 1 },
          { kind: 'loseRequest' },
        ),
      );

describe('an accept', () => {
  test('is durable and on the queue: a record due in five minutes, a place, one message', async () => {
    const charge = fresh();
    const nowMs = bench.stack.clock.now();
    expect(await bench.accept(charge)).toMatchObject({ kind: 'accepted', operation: { state: 'queued' } });
    expect(await recordOf(charge)).toMatchObject({
      state: 'queued',
      acceptedBy: 'api',
      attemptCount: 0,
      dueAtMs: expect.any(Number),
      openShard: expect.any(Number),
    });
    expect(Number((await recordOf(charge))?.dueAtMs) - nowMs).toBeGreaterThanOrEqual(300_000);
    expect(await tenantOf(charge)).toMatchObject({
      running: {},
      accepted: { [charge.operationId]: expect.any(Number) },
    });
    expect(await depth()).toBe(1);
  });

  test('ends with its operation: one charge, out of the attention index, no place left', async () => {
    const charge = fresh();
    await bench.accept(charge);
    await bench.drain();
    const { charges, record } = await evidenceOf(bench, charge);
    expect([charges, record?.state, record?.dueAtMs, record?.openShard]).toEqual([
      1,
      'succeeded',
      undefined,
      undefined,
    ]);
    expect(await tenantOf(charge)).toMatchObject({ running: {}, accepted: {} });
    expect(await bench.accept(charge)).toMatchObject({ kind: 'known', operation: { state: 'succeeded' } });
    expect(await depth()).toBe(0);
  });

  test('of 50 operations of one tenant at once takes seven; nothing refused has a record; the seven are done', async () => {
    const jobs = flood(50);
    const answers = await acceptAll(jobs);
    expect(kindsOf(answers)).toEqual({ accepted: 7, tenantFull: 43 });
    const taken = jobs.filter((_, index) => answers[index]?.kind === 'accepted');
    for (const [index, of] of jobs.entries()) {
      const isTaken = answers[index]?.kind === 'accepted';
      expect((await recordOf(of)) !== undefined).toBe(isTaken);
      if (!isTaken)
        expect(answers[index]).toEqual({
          kind: 'tenantFull',
          why: 'places',
          retryAfterSeconds: expect.any(Number),
        });
    }
    expect(await depth()).toBe(7);
    await runToTheEnd(taken);
    for (const each of taken)
      expect(await evidenceOf(bench, each)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
    const [first] = jobs;
    if (first) expect(await tenantOf(first)).toMatchObject({ running: {}, accepted: {} });
  });

  test('of another tenant has places of its own', async () => {
    await acceptAll(flood(8));
    expect(await bench.accept(fresh())).toMatchObject({ kind: 'accepted' });
  });

  test('of a tenant whose operations end takes as many again', async () => {
    const jobs = flood(7);
    await acceptAll(jobs);
    const [first] = jobs;
    if (!first) throw new Error('it is there');
    const more = job({ tenantId: first.tenantId });
    expect(await bench.accept(more)).toMatchObject({ kind: 'tenantFull' });
    await runToTheEnd(jobs);
    expect(await bench.accept(more)).toMatchObject({ kind: 'accepted' });
  });

  test('whose operation is parked gives up its place, and one that waits for its retry keeps it', async () => {
    const [parked, waiting] = [fresh(), fresh()];
    bench.stripe.fault({ kind: 'answer', status: 403 }, { operationId: parked.operationId });
    bench.stripe.fault({ kind: 'answer', status: 429 }, { operationId: waiting.operationId, times: 100 });
    await acceptAll([parked, waiting]);
    await bench.drain();
    expect(await recordOf(parked)).toMatchObject({ state: 'parked' });
    expect(await tenantOf(parked)).toMatchObject({ running: {}, accepted: {} });
    expect(await tenantOf(waiting)).toMatchObject({
      running: {},
      accepted: { [waiting.operationId]: expect.any(Number) },
    });
    bench.stripe.clearFaults();
    await runToTheEnd([waiting]);
  });
});

describe('twins', () => {
  test('20 at once are one operation: one record, one place, one charge, each told that it is taken', async () => {
    const charge = fresh();
    const answers = await acceptAll(Array(20).fill(charge));
    expect(new Set(answers.map(({ kind }) => kind))).toEqual(new Set(['accepted', 'known']));
    expect(answers.filter(({ kind }) => kind === 'accepted')).toHaveLength(1);
    expect(Object.keys(Object((await tenantOf(charge))?.accepted))).toEqual([charge.operationId]);
    await bench.drain();
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, posts: 1 });
    expect(await tenantOf(charge)).toMatchObject({ running: {}, accepted: {} });
  });

  test.each(['before it ran', 'after it ended'])(
    'with another amount %s are a conflict, and the record stays as it is',
    async (when) => {
      const charge = fresh();
      await bench.accept(charge);
      if (when === 'after it ended') await bench.drain();
      const before = [await recordOf(charge), await tenantOf(charge)];
      const changed = { ...charge, input: { ...charge.input, amountMinor: 9000 } };
      expect(await bench.accept(changed)).toMatchObject({ kind: 'conflict' });
      expect([await recordOf(charge), await tenantOf(charge)]).toEqual(before);
      await bench.drain();
      expect(await evidenceOf(bench, charge)).toMatchObject({ amounts: [1999], posts: 1 });
    },
  );

  test('of two inputs at once have one winner, whose record stands and who keeps its place', async () => {
    const charge = fresh();
    const variants = Array.from({ length: 10 }, (_, index) => ({
      ...charge,
      input: { ...charge.input, amountMinor: 1000 + (index % 2) },
    }));
    const answers = await acceptAll(variants);
    expect(answers.filter(({ kind }) => kind === 'accepted')).toHaveLength(1);
    expect(answers.filter(({ kind }) => kind === 'conflict')).toHaveLength(5);
    expect(Object.keys(Object((await tenantOf(charge))?.accepted))).toEqual([charge.operationId]);
    await bench.drain();
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, posts: 1 });
  });
});

describe('an accept and a message straight to the queue are the same operation', () => {
  test.each(['the message first', 'the accept first', 'both at once'])('%s', async (order) => {
    const charge = fresh();
    const sendNow = async () => {
      await bench.stack.send(charge);
      if (order === 'the message first') await bench.drain();
    };
    if (order === 'both at once') await Promise.all([sendNow(), bench.accept(charge)]);
    else if (order === 'the message first') {
      await sendNow();
      expect(await bench.accept(charge)).toMatchObject({ kind: 'known', operation: { state: 'succeeded' } });
    } else {
      await bench.accept(charge);
      await sendNow();
    }
    await runToTheEnd([charge]);
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, keys: [expect.any(String)] });
    expect(await tenantOf(charge)).toMatchObject({ running: {}, accepted: {} });
  });

  test('with other inputs the message is rejected and the accepted operation runs', async () => {
    const charge = fresh();
    await bench.accept(charge);
    await bench.stack.send({ ...charge, input: { ...charge.input, amountMinor: 9000 } });
    await bench.drain();
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, amounts: [1999] });
  });
});

describe('a crash', () => {
  test('of seven accepts between admission and record blocks nobody a minute later', async () => {
    const jobs = flood(7);
    for (const each of jobs) dieBefore(each, 'record');
    const answers = await Promise.allSettled(jobs.map((of) => bench.accept(of)));
    expect(answers.every(({ status }) => status === 'rejected')).toBe(true);
    const [first] = jobs;
    if (!first) throw new Error('it is there');
    for (const each of jobs) expect(await recordOf(each)).toBeUndefined();
    expect(Object.keys(Object((await tenantOf(first))?.accepted))).toHaveLength(7);
    const next = Array.from({ length: 10 }, () => job({ tenantId: first.tenantId }));
    expect(kindsOf(await acceptAll(next))).toEqual({ tenantFull: 10 });
    await bench.stack.clock.advance(61_000);
    expect(kindsOf(await acceptAll(next))).toEqual({ accepted: 7, tenantFull: 3 });
  });

  test("between record and message is healed by the caller's retry", async () => {
    const charge = fresh();
    const before = await depth();
    dieBefore(charge, 'message');
    await expect(bench.accept(charge)).rejects.toThrow();
    expect([(await recordOf(charge))?.state, await depth()]).toEqual(['queued', before]);
    await bench.stack.clock.advance(6_000);
    expect(await bench.accept(charge)).toMatchObject({ kind: 'known' });
    await bench.drain();
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, posts: 1 });
    expect(await tenantOf(charge)).toMatchObject({ running: {}, accepted: {} });
  });

  test('between record and message is healed by the reconciler', async () => {
    const charge = fresh();
    dieBefore(charge, 'message');
    await expect(bench.accept(charge)).rejects.toThrow();
    const { dueAtMs } = Object(await recordOf(charge));
    await bench.reconcile();
    expect(await recordOf(charge)).toMatchObject({ dueAtMs });
    await bench.stack.clock.advance(301_000);
    await bench.reconcile();
    await bench.drain();
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, posts: 1 });
    expect(await tenantOf(charge)).toMatchObject({ running: {}, accepted: {} });
  });

  test('BL-24 of the worker after Stripe charged leaves no place behind once the operation has ended', async () => {
    const [first, second] = flood(2);
    if (!first || !second) throw new Error('they are there');
    await acceptAll([first, second]);
    onWrites(
      bench,
      first,
      'settle',
      Array.from({ length: 3 }, () => ({ kind: 'loseRequest' }) as const),
    );
    await bench.drain();
    expect(await tenantOf(first)).toMatchObject({
      running: { [first.operationId]: expect.anything() },
      accepted: { [first.operationId]: expect.any(Number) },
    });
    await runToTheEnd([first, second]);
    expect(await tenantOf(first)).toMatchObject({ running: {}, accepted: {} });
    expect(await evidenceOf(bench, first)).toMatchObject({ charges: 1, posts: 2 });
  });
});

describe('an answer that is lost', () => {
  test('of the record: the accept recognises its own write and sends its message', async () => {
    const charge = fresh();
    const before = await depth();
    onWrites(bench, charge, 'settle', [{ kind: 'loseAnswer' }]);
    expect(await bench.accept(charge)).toMatchObject({ kind: 'accepted' });
    expect(await depth()).toBe(before + 1);
  });

  test('of the message: sent twice, charged once', async () => {
    const charge = fresh();
    const before = await depth();
    bench.stack.sqsProxy.intercept({ action: 'SendMessage', times: 1 }, { kind: 'loseAnswer' });
    expect(await bench.accept(charge)).toMatchObject({ kind: 'accepted' });
    expect(await depth()).toBe(before + 2);
    await runToTheEnd([charge]);
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1 });
  });
});

describe('bounds', () => {
  const restart = (limits: object) => {
    const { SETTINGS = '{}' } = bench.stack.environment;
    bench.restart({ SETTINGS: JSON.stringify({ ...JSON.parse(SETTINGS), ...limits }) });
  };
  afterEach(() => bench.restart());

  test('a queue as deep as its bound takes nothing more: no record, no place; what is known is still told', async () => {
    const [known, refused] = [fresh(), fresh()];
    await bench.accept(known);
    restart({ queueMaxDepth: 1 });
    expect(await bench.accept(refused)).toEqual({
      kind: 'serviceFull',
      retryAfterSeconds: expect.any(Number),
    });
    expect([await recordOf(refused), await tenantOf(refused)]).toEqual([undefined, undefined]);
    expect(await bench.accept(known)).toMatchObject({ kind: 'known' });
    await bench.drain();
    await bench.stack.clock.advance(5_000);
    expect(await bench.accept(refused)).toMatchObject({ kind: 'accepted' });
  });

  test('the depth is asked for once in five seconds, not once an accept', async () => {
    bench.restart();
    bench.stack.sqsProxy.resetCounts();
    for (const each of [fresh(), fresh(), fresh()]) await bench.accept(each);
    expect(bench.stack.sqsProxy.count('GetQueueAttributes')).toBe(1);
  });

  test("a tenant's daily calls that are used up stop the call and the accept until the next UTC day", async () => {
    restart({ tenantDailyCalls: 1 });
    const [first, direct, refused] = flood(3);
    if (!first || !direct || !refused) throw new Error('they are there');
    await bench.accept(first);
    await bench.drain();
    await bench.stack.send(direct);
    await bench.drain();
    expect(await evidenceOf(bench, direct)).toMatchObject({ charges: 0, posts: 0 });
    const answer = await bench.accept(refused);
    expect(answer).toMatchObject({ kind: 'tenantFull', why: 'daily_calls' });
    expect(await recordOf(refused)).toBeUndefined();
    const seconds = 'retryAfterSeconds' in answer ? answer.retryAfterSeconds : 0;
    expect([seconds >= 1, seconds <= 86_400]).toEqual([true, true]);
    await bench.stack.clock.advance(seconds * 1000);
    expect(await bench.accept(refused)).toMatchObject({ kind: 'accepted' });
    await bench.drain();
    expect(await evidenceOf(bench, refused)).toMatchObject({ charges: 1 });
  });

  test('a tenant without bounds on what runs has its daily calls counted all the same', async () => {
    restart({ tenantMaxRunning: 0, tenantDailyCalls: 1 });
    const [first, second] = flood(2);
    if (!first || !second) throw new Error('they are there');
    for (const each of [first, second]) {
      await bench.stack.send(each);
      await bench.drain();
    }
    expect(await evidenceOf(bench, first)).toMatchObject({ posts: 1 });
    expect(await evidenceOf(bench, second)).toMatchObject({ posts: 0 });
  });

  test('the daily calls of the whole service stop the call', async () => {
    restart({ providerDailyCalls: 1 });
    const jobs = [fresh(), fresh()];
    for (const each of jobs) {
      await bench.stack.send(each);
      await bench.drain();
    }
    const [first, second] = await Promise.all(jobs.map((each) => evidenceOf(bench, each)));
    expect(first).toMatchObject({ posts: 1, record: { state: 'succeeded' } });
    // It waits in the table for the next day, and its message is off the queue.
    expect(second).toMatchObject({ posts: 0, record: { state: 'queued', dueAtMs: expect.any(Number) } });
    expect((await bench.stack.queueDepth()).total).toBe(0);
  });

  test('a tenant with an override of 150 whose places are all left behind gets them back', async () => {
    const charge = fresh();
    const left = Object.fromEntries(Array.from({ length: 150 }, (_, index) => [`gone-${index}`, 1]));
    await putTenant(charge.tenantId, { running: {}, calls: {}, accepted: left, maxAccepted: 150 });
    expect(await bench.accept(charge)).toMatchObject({ kind: 'accepted' });
  });
});

async function putTenant(tenantId: string, attributes: Readonly<Record<string, unknown>>) {
  const { DynamoDBClient } = await import('@aws-sdk/client-dynamodb');
  const { DynamoDBDocumentClient, PutCommand } = await import('@aws-sdk/lib-dynamodb');
  const client = new DynamoDBClient({
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    endpoint: bench.stack.endpoints.dynamodb,
  });
  const Item = { pk: `tenant#${tenantId}`, ...attributes };
  await DynamoDBDocumentClient.from(client).send(new PutCommand({ TableName: bench.stack.tableName, Item }));
  client.destroy();
}

// BL-28: jobs are sent one by one, each answered for itself, so no `Failed` list can go unread. What is left of the case
// is an enqueue that fails, and bodies that SQS would refuse, which never get so far (test/lambdas/http).
describe('BL-28 an enqueue', () => {
  test('that SQS refuses is no acceptance; the retry makes it one, with one place and one charge', async () => {
    const charge = fresh();
    const stopRefusing = bench.stack.sqsProxy.intercept(
      { action: 'SendMessage' },
      { kind: 'answer', statusCode: 400, error: 'InvalidMessageContents' },
    );
    await expect(bench.accept(charge)).rejects.toThrow();
    expect(await depth()).toBe(0);
    stopRefusing();
    await bench.stack.clock.advance(6_000);
    expect(await bench.accept(charge)).toMatchObject({ kind: 'known' });
    expect(await depth()).toBe(1);
    expect(Object.keys(Object((await tenantOf(charge))?.accepted))).toEqual([charge.operationId]);
    await runToTheEnd([charge]);
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1 });
    expect(await tenantOf(charge)).toMatchObject({ running: {}, accepted: {} });
  });

  test('whose answer is lost is sent again by the SDK: two messages, one charge', async () => {
    const charge = fresh();
    bench.stack.sqsProxy.intercept({ action: 'SendMessage', times: 1 }, { kind: 'loseAnswer' });
    expect(await bench.accept(charge)).toMatchObject({ kind: 'accepted' });
    expect(await depth()).toBe(2);
    await runToTheEnd([charge]);
    await bench.drain();
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, posts: 1 });
  });
});

describe('BL-24 a place', () => {
  test('whose lease lapses while its call still runs is given back by its own end, once', async () => {
    const [first, second, third] = flood(3);
    if (!first || !second || !third) throw new Error('they are there');
    await acceptAll([first, second, third]);
    // The clock passes the lease in the middle of the call; the late worker settles by its proof.
    bench.stripe.fault(
      { kind: 'hook', at: 'afterEffect', run: () => bench.stack.clock.advance(20_000) },
      { operationId: first.operationId },
    );
    await runToTheEnd([first, second, third]);
    expect(await tenantOf(first)).toMatchObject({ running: {}, accepted: {} });
    for (const each of [first, second, third])
      expect(await evidenceOf(bench, each)).toMatchObject({ charges: 1 });
  });

  test('of an operation that is delivered twice to its end is one, and is free after it', async () => {
    const charge = fresh();
    await bench.accept(charge);
    await bench.stack.send(charge);
    await runToTheEnd([charge]);
    await bench.drain();
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, posts: 1 });
    expect(await tenantOf(charge)).toMatchObject({ running: {}, accepted: {} });
  });
});
