import { job, record, startWorkerBench, type WorkerBench } from '../support/worker-bench';
import { dieBeforeSettle, evidenceOf, hourMs, pastTheLease } from './fixtures';

// What happens once Stripe may have forgotten a key: ask first, and charge only what is proven not to exist.

let bench: WorkerBench;
beforeAll(async () => {
  bench = await startWorkerBench();
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => bench.stop());
afterEach(() => bench.stripe.clearFaults());

type Job = ReturnType<typeof job>;
const evidence = (of: Job) => evidenceOf(bench, of);
const later = (hours: number) => bench.stack.clock.advance(hours * hourMs);
const chargeAnswers = { path: '/v1/payment_intents', method: 'POST' } as const;
const listAnswers = { path: '/v1/payment_intents', method: 'GET' } as const;

async function deliver(of: Job, options: Parameters<typeof record>[1] = {}): Promise<'done' | 'listed'> {
  return (await bench.deliver([record(of, options)])).length === 0 ? 'done' : 'listed';
}

/** Five attempts whose answers are lost: the last one parks it. */
async function parked(of: Job, effect: 'none' | 'done'): Promise<void> {
  const lost = { kind: 'reset', effect } as const;
  bench.stripe.fault(lost, { operationId: of.operationId, ...chargeAnswers, times: 5 });
  for (let receiveCount = 1; receiveCount <= 4; receiveCount++)
    expect(await deliver(of, { receiveCount })).toBe('listed');
  expect(await deliver(of, { receiveCount: 4 })).toBe('listed');
  expect((await evidence(of)).record).toMatchObject({ state: 'parked', parkedReason: 'attempts_exhausted' });
}

const listings = () =>
  bench.stripe.requests().filter(({ method, path }) => method === 'GET' && path === '/v1/payment_intents');
const searches = () => bench.stripe.requests().filter(({ path }) => path.endsWith('/search'));

describe('a parked operation that is redriven after 30 h, when Stripe has forgotten its key', () => {
  test('BL-01 and was charged: succeeds with the payment that exists, without another call that moves money', async () => {
    const charge = job({ input: { customerId: 'cus_charged' } });
    await parked(charge, 'done');
    const { posts } = await evidence(charge);
    await later(30);
    bench.stripe.forgetKeys();
    expect(await deliver(charge)).toBe('done');
    const [payment] = bench.stripe
      .paymentIntents()
      .filter(({ metadata }) => metadata.operationId === charge.operationId);
    expect(await evidence(charge)).toMatchObject({
      charges: 1,
      posts,
      keys: [expect.any(String)],
      record: { state: 'succeeded', providerRef: payment?.id },
    });
    // A replay of that message does nothing more.
    const before = bench.stripe.requests().length;
    expect(await deliver(charge, { receiveCount: 2 })).toBe('done');
    expect(bench.stripe.requests()).toHaveLength(before);
  });

  test('and was never charged: is charged once, under its own key', async () => {
    const charge = job({ input: { customerId: 'cus_uncharged' } });
    await parked(charge, 'none');
    await later(30);
    bench.stripe.forgetKeys();
    expect(await deliver(charge)).toBe('listed');
    expect((await evidence(charge)).record).toMatchObject({
      state: 'queued',
      absentProvenAtMs: expect.any(Number),
    });
    expect((await evidence(charge)).record).not.toHaveProperty('effectPossibleSinceMs');
    expect(await deliver(charge, { receiveCount: 2 })).toBe('done');
    expect(await evidence(charge)).toMatchObject({
      charges: 1,
      posts: 6,
      keys: [expect.any(String)],
      record: { state: 'succeeded' },
    });
  });

  test('and the list cannot be read: stays parked, is escalated, and nothing is charged', async () => {
    const charge = job({ input: { customerId: 'cus_unlisted' } });
    await parked(charge, 'done');
    const { posts } = await evidence(charge);
    bench.stripe.fault({ kind: 'answer', status: 403 }, { ...listAnswers, times: 1000 });
    await later(30);
    bench.stripe.forgetKeys();
    expect(await deliver(charge)).toBe('listed');
    for (let minutes = 0; minutes < 180; minutes += 20) {
      await bench.stack.clock.advance(20 * 60_000);
      await bench.reconcile();
    }
    const { record: stuck, ...moved } = await evidence(charge);
    expect(moved).toMatchObject({ charges: 1, posts });
    expect(stuck).toMatchObject({
      state: 'parked',
      escalatedAtMs: expect.any(Number),
      dueAtMs: expect.any(Number),
    });
    const told = bench
      .logs()
      .filter(({ message }) => String(message).startsWith('an operation is open for long'));
    expect(told).toHaveLength(1);

    // Somebody gives the key its permission: the next look ends it.
    bench.stripe.clearFaults();
    await later(6);
    await bench.reconcile();
    expect(await evidence(charge)).toMatchObject({ charges: 1, posts, record: { state: 'succeeded' } });
  });
});

describe('BL-34 a crash after the charge, reconciled while the search lags', () => {
  test('is found by the list, and search is never asked', async () => {
    const charge = job({ input: { customerId: 'cus_lag' } });
    dieBeforeSettle(bench, charge);
    await deliver(charge, { receiveCount: 5 });
    await pastTheLease(bench);
    // The claim of a fifth delivery is due a minute after its lease.
    await bench.stack.clock.advance(61_000);
    await bench.reconcile();
    expect(await evidence(charge)).toMatchObject({ charges: 1, posts: 1, record: { state: 'succeeded' } });
    expect(searches()).toEqual([]);
  });

  test('with nothing at Stripe is not proof before the quiet hour: nothing becomes possible again', async () => {
    const charge = job({ input: { customerId: 'cus_quiet' } });
    await parked(charge, 'none');
    await bench.reconcile();
    expect((await evidence(charge)).record).toMatchObject({
      state: 'parked',
      effectPossibleSinceMs: expect.any(Number),
    });
    const asked = listings().length;
    expect(asked).toBeGreaterThan(0);
    await bench.stack.clock.advance(hourMs / 2);
    await bench.reconcile();
    expect((await evidence(charge)).record).toMatchObject({ state: 'parked' });
    // Absence is seen again after it, and only then trusted.
    await later(1);
    await bench.reconcile();
    expect((await evidence(charge)).record).toMatchObject({ state: 'queued' });
    await bench.drain();
    expect(await evidence(charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
  });
});

describe('BL-35 operations whose outcome is unknown, of any age', () => {
  test('are all visited: those that Stripe has succeed, the others are charged once, and none is forced to fail', async () => {
    const ages = [1 / 6, 48, 96, 24 * 40].toReversed();
    const jobs: { charge: Job; isCharged: boolean }[] = [];
    let goneHours = 0;
    for (const [index, age] of ages.entries()) {
      const wait = (ages[0] ?? 0) - age - goneHours;
      goneHours += wait;
      await later(wait);
      for (const isCharged of [true, false]) {
        const charge = job({ input: { customerId: `cus_age_${index}_${isCharged}` } });
        bench.stripe.fault(
          { kind: 'reset', effect: isCharged ? 'done' : 'none' },
          { operationId: charge.operationId, times: 5 },
        );
        for (let receiveCount = 1; receiveCount <= 5; receiveCount++)
          await deliver(charge, { receiveCount: Math.min(receiveCount, 4) });
        jobs.push({ charge, isCharged });
      }
    }
    await later(1 / 6);
    for (let round = 0; round < 8; round++) {
      await bench.reconcile();
      await bench.drain();
      await later(1);
    }
    for (const { charge, isCharged } of jobs) {
      expect(await evidence(charge)).toMatchObject({
        charges: 1,
        posts: isCharged ? 5 : 6,
        record: { state: 'succeeded' },
      });
    }
  });

  test('a live lease is left alone', async () => {
    const charge = job({ input: { customerId: 'cus_live' } });
    let seen: unknown;
    bench.stripe.fault(
      {
        kind: 'hook',
        at: 'afterEffect',
        run: async () => {
          const before = await bench.stack.operation(charge.tenantId, charge.operationId);
          await bench.reconcile();
          const answer = await bench.reconcileOne(charge);
          seen = [answer.done, await bench.stack.operation(charge.tenantId, charge.operationId), before];
        },
      },
      { operationId: charge.operationId, ...chargeAnswers },
    );
    expect(await deliver(charge)).toBe('done');
    const [isDone, after, before] = Array.isArray(seen) ? seen : [];
    expect(isDone).toBe(false);
    expect(after).toEqual(before);
    expect(await evidence(charge)).toMatchObject({ charges: 1, posts: 1 });
  });
});

describe('BL-10 a 500 that Stripe saved under the key', () => {
  const saved = { kind: 'answer', status: 500, error: { type: 'api_error' } } as const;

  test('and had committed: is looked up at the second call, and succeeds with one charge', async () => {
    const charge = job({ input: { customerId: 'cus_saved_done' } });
    bench.stripe.fault({ ...saved, effect: 'done' }, { operationId: charge.operationId, ...chargeAnswers });
    expect(await deliver(charge)).toBe('listed');
    expect(await deliver(charge, { receiveCount: 2 })).toBe('listed');
    expect((await evidence(charge)).record).toMatchObject({
      state: 'parked',
      parkedReason: 'provider_key_spent',
    });
    await bench.reconcile();
    expect(await evidence(charge)).toMatchObject({ charges: 1, posts: 2, record: { state: 'succeeded' } });
  });
});

test('BL-11 a key that Stripe knows with other parameters is looked up: never failed, never another key by itself', async () => {
  const charge = job({ input: { customerId: 'cus_conflict' } });
  // Attempt 1 commits and its answer is lost; attempt 2 is told that the parameters differ.
  bench.stripe.fault(
    { kind: 'reset', effect: 'done' },
    { operationId: charge.operationId, ...chargeAnswers },
  );
  await deliver(charge);
  bench.stripe.fault(
    { kind: 'answer', status: 400, error: { type: 'idempotency_error' } },
    { operationId: charge.operationId, ...chargeAnswers },
  );
  bench.logs();
  expect(await deliver(charge, { receiveCount: 2 })).toBe('listed');
  expect((await evidence(charge)).record).toMatchObject({
    state: 'parked',
    parkedReason: 'provider_conflict',
  });
  expect(bench.logs()).toContainEqual(
    expect.objectContaining({
      message: 'operation parked',
      operationId: charge.operationId,
      parkedReason: 'provider_conflict',
    }),
  );
  await bench.reconcile();
  expect(await evidence(charge)).toMatchObject({
    charges: 1,
    posts: 2,
    keys: [expect.any(String)],
    record: { state: 'succeeded' },
  });
});

test('BL-10 a saved 500 that had done nothing stays parked whatever is redriven, until a person proves the absence; then it has a new key', async () => {
  const shared = bench;
  bench = await startWorkerBench();
  const saved = { kind: 'answer', status: 500, error: { type: 'api_error' } } as const;
  const charge = job({ input: { customerId: 'cus_saved_none' } });
  bench.stripe.fault({ ...saved, effect: 'none' }, { operationId: charge.operationId, ...chargeAnswers });
  await deliver(charge);
  await deliver(charge, { receiveCount: 2 });
  await later(30);
  for (let redrive = 0; redrive < 2; redrive++) {
    await bench.reconcile();
    await bench.stack.clock.advance(1000);
    expect(await deliver(charge)).toBe('listed');
  }
  const { posts, record: stuck, keys } = await evidence(charge);
  expect(posts).toBe(2);
  expect(stuck).toMatchObject({ state: 'parked', parkedReason: 'provider_key_spent' });

  const { tenantId, operationId } = charge;
  const answer = await bench.operate({
    action: 'settle',
    tenantId,
    operationId,
    by: 'ada',
    absent: true,
    evidence: 'looked through the payments of the customer in the dashboard',
  });
  expect(answer).toMatchObject({ done: true });
  expect((await evidence(charge)).record).toMatchObject({ providerKey: `${keys[0]?.slice(0, -1)}1` });
  await bench.drain();
  expect(await evidence(charge)).toMatchObject({
    charges: 1,
    posts: 3,
    record: { state: 'succeeded', intervention: { action: 'proven_absent', by: 'ada' } },
  });
  // The second key is the only thing that the stand-in finds: money moved once.
  await expect(bench.stop()).rejects.toThrow(
    /^Stripe stand-in: \S+ \(charge\) used 2 idempotency keys: \S+\/0 \| \S+\/1$/,
  );
  bench = shared;
});
