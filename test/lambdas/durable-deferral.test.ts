import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, PutCommand } from '@aws-sdk/lib-dynamodb';
import { type Job, job, record, startWorkerBench, type WorkerBench } from '../support/worker-bench';
import { dieAfterClaim, evidenceOf, pastTheLease } from './fixtures';

let bench: WorkerBench;
beforeAll(async () => {
  bench = await startWorkerBench({ limits: { tenantMaxRunning: 1, openShards: 2 } });
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => bench.stop());
afterEach(async () => {
  bench.stripe.clearFaults();
  await bench.drain();
});

let count = 0;
function fresh(changes: Parameters<typeof job>[0] = {}) {
  count += 1;
  return job({ tenantId: `tenant-${count}`, ...changes });
}
const recordOf = ({ tenantId, operationId }: Job) => bench.stack.operation(tenantId, operationId);
const depth = async () => (await bench.stack.queueDepth()).total;
const limited = (of: Job, times: number) =>
  bench.stripe.fault({ kind: 'answer', status: 429 }, { operationId: of.operationId, times });
async function deliver(of: Job, receiveCount: number) {
  const sent = record(of, { receiveCount });
  return (await bench.deliver([sent])).length === 0 ? 'acknowledged' : 'comes back';
}
/** All of a tenant's places are taken, by calls that never end, until the clock is past their leases. */
async function fill({ tenantId }: Job) {
  const holder = job({ tenantId });
  dieAfterClaim(bench, holder);
  await bench.deliver([record(holder)]);
  return holder;
}
async function put(Item: Readonly<Record<string, unknown>>) {
  const client = new DynamoDBClient({
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    endpoint: bench.stack.endpoints.dynamodb,
  });
  await DynamoDBDocumentClient.from(client).send(new PutCommand({ TableName: bench.stack.tableName, Item }));
  client.destroy();
}

/** Each reason to wait: what makes it, and what ends it. */
const waits: [reason: string, begin: (of: Job) => unknown, end: (of: Job) => unknown][] = [
  ['an answer that nothing was sent', (of) => limited(of, 1), () => bench.stripe.clearFaults()],
  [
    'an attempt in doubt',
    (of) => bench.stripe.fault({ kind: 'reset', effect: 'none' }, { operationId: of.operationId }),
    () => {},
  ],
  ['a tenant whose places are taken', fill, () => pastTheLease(bench)],
];

describe.each(waits)('a wait for %s', (_reason, begin, end) => {
  test.each([5, 6, 7, 8])(
    'at delivery %i is kept in the table, and its message is done',
    async (receiveCount) => {
      const charge = fresh();
      await begin(charge);
      expect(await deliver(charge, receiveCount)).toBe('acknowledged');
      const kept = await recordOf(charge);
      expect(kept).toMatchObject({
        state: 'queued',
        openShard: expect.any(Number),
        dueAtMs: expect.any(Number),
      });
      // Nothing holds it. Only for the quiet hour it is kept when the last attempt could have landed.
      if (kept?.effectPossibleSinceMs === undefined) expect(kept).not.toHaveProperty('leaseExpiresAtMs');
      const waitMs = Number(kept?.dueAtMs) - bench.stack.clock.now();
      expect(waitMs).toBeLessThanOrEqual(10_000);
      await end(charge);
      await bench.stack.clock.advance(11_000);
      await bench.reconcile();
      expect(await depth()).toBe(1);
      await bench.drain();
      expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
      expect(await recordOf(charge)).not.toHaveProperty('dueAtMs');
    },
  );

  test.each([1, 2, 3, 4])('at delivery %i is its visibility, and touches no index', async (receiveCount) => {
    const charge = fresh();
    await begin(charge);
    expect(await deliver(charge, receiveCount)).toBe('comes back');
    for (const name of ['openShard', 'dueAtMs'])
      expect((await recordOf(charge)) ?? {}).not.toHaveProperty(name);
  });
});

test('a wait of an operation whose worker died is kept in the table too: waiting ends no message in the dead-letter queue', async () => {
  const charge = fresh();
  dieAfterClaim(bench, charge);
  expect(await deliver(charge, 4)).toBe('comes back');
  await pastTheLease(bench);
  await fill(charge);
  expect(await deliver(charge, 5)).toBe('acknowledged');
  expect(await recordOf(charge)).toMatchObject({ dueAtMs: expect.any(Number) });
  await pastTheLease(bench);
  await bench.stack.clock.advance(120_000);
  await bench.reconcile();
  await bench.drain();
  expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
});

test('forty refusals in a row reach no dead-letter queue, use no attempt and end in one charge', async () => {
  const charge = fresh();
  limited(charge, 40);
  await bench.stack.send(charge);
  for (let round = 0; round < 200 && (await recordOf(charge))?.state !== 'succeeded'; round++) {
    await bench.drain();
    await bench.reconcile();
    await bench.stack.clock.advance(10_000);
  }
  expect(await evidenceOf(bench, charge)).toMatchObject({
    charges: 1,
    posts: 41,
    record: { state: 'succeeded', attemptCount: 1 },
  });
  expect(await bench.stack.deadLetters()).toEqual([]);
  expect(await depth()).toBe(0);
});

test("a direct operation's ordinary life never touches the attention index", async () => {
  const bodies: string[] = [];
  const stopListening = bench.stack.dynamodbProxy.onCall(({ action, body }) => {
    if (action === 'UpdateItem') bodies.push(JSON.stringify(body));
  });
  const [once, declined, thrice] = [
    fresh(),
    fresh({ input: { paymentMethodId: 'pm_card_chargeDeclined' } }),
    fresh(),
  ];
  limited(thrice, 2);
  for (const each of [once, declined]) await deliver(each, 1);
  for (const receiveCount of [1, 2, 3]) await deliver(thrice, receiveCount);
  stopListening();
  expect(bodies.length).toBeGreaterThan(15);
  for (const body of bodies) expect(body).not.toMatch(/:openShard"|:dueAtMs"/);
});

test('a claim from the fifth delivery on is in the index: a crash loop does not lose it', async () => {
  const charge = fresh();
  dieAfterClaim(bench, charge);
  expect(await deliver(charge, 8)).toBe('comes back');
  const running = await recordOf(charge);
  expect(running).toMatchObject({ state: 'running', openShard: expect.any(Number) });
  expect(Number(running?.dueAtMs)).toBeGreaterThan(Number(running?.leaseExpiresAtMs));
  await bench.stack.clock.advance(120_000);
  await bench.reconcile();
  await bench.drain();
  expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
});

describe('the reconciler', () => {
  async function kept() {
    const charge = fresh();
    limited(charge, 1);
    await deliver(charge, 5);
    await bench.stack.clock.advance(11_000);
    return charge;
  }

  test('sends nothing before it is due', async () => {
    const charge = fresh();
    limited(charge, 1);
    await deliver(charge, 5);
    const before = await recordOf(charge);
    const early = Number(before?.dueAtMs) - bench.stack.clock.now() > 50;
    if (early) {
      await bench.reconcile();
      expect([await depth(), await recordOf(charge)]).toEqual([0, before]);
    }
    await bench.stack.clock.advance(11_000);
    await bench.reconcile();
    await bench.drain();
  });

  test('twice at once sends once', async () => {
    const charge = await kept();
    await Promise.all([bench.reconcile(), bench.reconcile(), bench.reconcile()]);
    expect(await depth()).toBe(1);
    await bench.drain();
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, posts: 2 });
  });

  test('that dies between postpone and send costs a wait, and no operation', async () => {
    const charge = await kept();
    const where = (body: unknown) => JSON.stringify(body).includes(charge.operationId);
    for (let times = 0; times < 3; times++)
      bench.stack.sqsProxy.intercept({ action: 'SendMessage', where, times: 1 }, { kind: 'loseRequest' });
    expect(await bench.reconcile()).toMatchObject({ sent: 0, failed: 1 });
    expect(await depth()).toBe(0);
    await bench.reconcile();
    expect(await depth()).toBe(0);
    const { dueAtMs } = Object(await recordOf(charge));
    expect(dueAtMs - bench.stack.clock.now()).toBeLessThanOrEqual(60_000);
    await bench.stack.clock.advance(60_000);
    await bench.reconcile();
    await bench.drain();
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, posts: 2 });
  });

  test('leaves to a person what is parked and was not done, and the index tells of it: its message may be gone', async () => {
    const charge = await kept();
    // The message of the wait was delivered twice at once: one delivery has acknowledged it, and the other runs now.
    bench.stripe.fault({ kind: 'answer', status: 403 }, { operationId: charge.operationId });
    expect(await deliver(charge, 4)).toBe('comes back');
    const asked = bench.stripe.requests().length;
    await bench.stack.clock.advance(2 * 3_600_000);
    await bench.reconcile();
    expect([await depth(), bench.stripe.requests().length]).toEqual([0, asked]);
    const parked = await recordOf(charge);
    expect(parked).toMatchObject({
      state: 'parked',
      parkedReason: 'provider_forbidden',
      openShard: expect.any(Number),
    });
    expect(parked).not.toHaveProperty('effectPossibleSinceMs');
    // Seldom: there is nothing to do for the reconciler.
    expect(Number(parked?.dueAtMs)).toBeGreaterThan(bench.stack.clock.now() + 3_600_000);
    const { tenantId, operationId } = charge;
    await bench.operate({ action: 'retry', tenantId, operationId, by: 'mina@example.com' });
    await bench.drain();
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
  });

  test('whose postpone was applied, and its answer lost, sends all the same', async () => {
    const charge = await kept();
    const where = (body: unknown) => JSON.stringify(body).includes(`#${charge.operationId}"`);
    bench.stack.dynamodbProxy.intercept({ action: 'UpdateItem', where, times: 1 }, { kind: 'loseAnswer' });
    await bench.reconcile();
    expect(await depth()).toBe(1);
  });

  test('whose one send fails sends the others, also those of later shards', async () => {
    const inShard = new Map<unknown, Job>();
    while (inShard.size < 2) {
      const charge = await kept();
      inShard.set((await recordOf(charge))?.openShard, charge);
    }
    const [broken, other] = [inShard.get(0), inShard.get(1)];
    if (!broken || !other) throw new Error('they are there');
    const where = (body: unknown) => JSON.stringify(body).includes(broken.operationId);
    const undo = bench.stack.sqsProxy.intercept(
      { action: 'SendMessage', where },
      { kind: 'answer', statusCode: 400, error: 'InvalidMessageContents' },
    );
    await bench.reconcile().catch(() => {});
    await bench.drain();
    undo();
    expect(await evidenceOf(bench, other)).toMatchObject({ charges: 1 });
  });

  test('that meets a record of a newer build leaves it and brings on the others', async () => {
    const dueAtMs = bench.stack.clock.now() - 1;
    for (const openShard of [0, 1])
      await put({ pk: `op#newer#op-${openShard}`, state: 'of-a-newer-build', openShard, dueAtMs });
    const charge = await kept();
    await bench.reconcile().catch(() => {});
    await bench.drain();
    for (const openShard of [0, 1]) await put({ pk: `op#newer#op-${openShard}`, state: 'of-a-newer-build' });
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
  });

  test('leaves what is parked or settling to be looked at later, and sends no message for it', async () => {
    const [settling, parked] = [fresh({ input: { paymentMethodId: 'pm_usBankAccount_success' } }), fresh()];
    bench.stripe.fault(
      { kind: 'answer', status: 400, error: { type: 'idempotency_error' } },
      {
        operationId: parked.operationId,
      },
    );
    for (const each of [settling, parked]) await deliver(each, 1);
    await bench.stack.clock.advance(61_000);
    const before = await Promise.all([settling, parked].map(recordOf));
    const sent: string[] = [];
    const stopListening = bench.stack.sqsProxy.onCall(({ action, body }) => {
      if (action === 'SendMessage') sent.push(JSON.stringify(body));
    });
    await bench.reconcile();
    stopListening();
    for (const { operationId } of [settling, parked]) expect(sent.join()).not.toContain(operationId);
    for (const [index, each] of [settling, parked].entries()) {
      const now = await recordOf(each);
      expect(now).toEqual({ ...before[index], dueAtMs: expect.any(Number) });
      expect(Number(now?.dueAtMs)).toBeGreaterThan(Number(before[index]?.dueAtMs));
    }
  });
});

test.each([1, 4])(
  'a message that comes twice at once: delivery 5 keeps the operation and acknowledges; delivery %i claims it and dies; the reconciler ends it',
  async (receiveCount) => {
    const charge = fresh();
    limited(charge, 1);
    expect(await deliver(charge, 5)).toBe('acknowledged');
    expect(await recordOf(charge)).toMatchObject({ state: 'queued', dueAtMs: expect.any(Number) });
    dieAfterClaim(bench, charge);
    await deliver(charge, receiveCount);
    // No message is left of it: what brings it back is its due time.
    expect(await recordOf(charge)).toMatchObject({ state: 'running', dueAtMs: expect.any(Number) });
    for (let minute = 0; minute < 4; minute++) {
      await bench.stack.clock.advance(61_000);
      await bench.reconcile();
      await bench.drain();
    }
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
    expect(await recordOf(charge)).not.toHaveProperty('dueAtMs');
  },
);
