import { job, record, startWorkerBench, type WorkerBench } from '../support/worker-bench';
import { dieAfterClaim, evidenceOf, hourMs, type Named, pastTheLease, toTheEnd } from './fixtures';

// What a look at Stripe may decide, beside other writes, crashes, pauses and an unwell Stripe.

/** Time enough for a slow machine. */
const slow = { workerTimeoutSeconds: 20, providerTimeoutSeconds: 5 } as const;

let bench: WorkerBench;
afterEach(() => bench.stripe.clearFaults());

const by = 'ada';
const evidence = 'looked through the payments of the customer';
const creations = { path: '/v1/payment_intents', method: 'POST' } as const;
const lists = { path: '/v1/payment_intents', method: 'GET' } as const;
const recordOf = ({ tenantId, operationId }: Named) => bench.stack.operation(tenantId, operationId);
const later = (hours: number) => bench.stack.clock.advance(hours * hourMs);
const operateOn = ({ tenantId, operationId }: Named, request: object) =>
  bench.operate({ tenantId, operationId, by, ...request });

async function deliver(of: object, options: Parameters<typeof record>[1] = {}): Promise<'done' | 'listed'> {
  return (await bench.deliver([record(of, options)])).length === 0 ? 'done' : 'listed';
}

let customers = 0;
/** A charge of a customer of its own, so that no list has another's payments. */
function fresh(input: object = {}) {
  customers += 1;
  return job({ input: { customerId: `cus_reconciliation_${customers}`, ...input } });
}

/** The answer to the next attempt is lost. */
const loseAnswer = ({ operationId }: Named, effect: 'none' | 'done') =>
  bench.stripe.fault({ kind: 'reset', effect }, { operationId, ...creations });

/** Parked by one attempt whose answer was lost. */
async function inDoubt(effect: 'none' | 'done') {
  const charge = fresh();
  loseAnswer(charge, effect);
  expect(await deliver(charge)).toBe('listed');
  expect(await recordOf(charge)).toMatchObject({ state: 'parked', parkedReason: 'attempts_exhausted' });
  return charge;
}

describe('an operation whose only attempt is in doubt', () => {
  beforeAll(async () => {
    bench = await startWorkerBench({ limits: { ...slow, maxAttempts: 1, openShards: 1 } });
  });
  // Throws when an operation used two keys for one step, or moved money twice.
  afterAll(() => bench.stop());

  test('and that proved to have no effect goes on by itself after a day of pause, and is not parked', async () => {
    const charge = await inDoubt('none');
    await later(2);
    await bench.reconcile();
    expect(await recordOf(charge)).toMatchObject({ state: 'queued', absentProvenAtMs: expect.any(Number) });
    await bench.operate({ action: 'pause', by, reason: 'Stripe is down' });
    await later(22.7);
    expect(await deliver(charge, { receiveCount: 5 })).toBe('done');
    await bench.operate({ action: 'resume', by });
    await later(0.5);
    bench.logs();
    await toTheEnd(bench, [charge]);
    expect(bench.logs()).not.toContainEqual(
      expect.objectContaining({ message: 'operation parked', operationId: charge.operationId }),
    );
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
  });

  test('and that alone Stripe cannot be asked about is told to a person after an hour', async () => {
    const charge = await inDoubt('done');
    bench.stripe.fault({ kind: 'answer', status: 503 }, { ...lists, times: 1000 });
    for (let round = 0; round < 12; round++) {
      await bench.stack.clock.advance(hourMs / 2);
      // Everything else works.
      expect(await deliver(fresh())).toBe('done');
      await bench.reconcile();
    }
    expect(await recordOf(charge)).toMatchObject({ state: 'parked', escalatedAtMs: expect.any(Number) });
    bench.stripe.clearFaults();
    expect(await bench.reconcileOne(charge)).toMatchObject({ done: true, operation: { state: 'succeeded' } });
  });

  test('is reconciled within minutes, also where Stripe cannot show another one', async () => {
    const settling = fresh({ paymentMethodId: 'pm_usBankAccount_success' });
    await deliver(settling);
    const { providerRef } = Object(await recordOf(settling));
    const shows = { method: 'GET', path: `/v1/payment_intents/${providerRef}` };
    bench.stripe.fault({ kind: 'answer', status: 500, save: false }, { ...shows, times: 1000 });
    await bench.stack.clock.advance(120_000);
    const others = await Promise.all(Array.from({ length: 25 }, () => inDoubt('done')));
    // A run asks nothing more once Stripe could not answer; the next one begins with what was left.
    for (let run = 0; run < 4; run++) {
      await bench.stack.clock.advance(60_000);
      await bench.reconcile();
    }
    const records = await Promise.all(others.map(recordOf));
    expect(records.map((of) => of?.state)).toEqual(others.map(() => 'succeeded'));
  });

  test('is due again where all that follows the proof of absence is lost, and is charged once', async () => {
    const charge = await inDoubt('none');
    await later(30);
    // Its message goes to the dead-letter queue: this was the last delivery.
    let writes = 0;
    const isAfterTheProof = (body: unknown) =>
      JSON.stringify(body).includes(`"op#${charge.tenantId}#${charge.operationId}"`) && ++writes > 1;
    const takeBack = bench.stack.dynamodbProxy.intercept(
      { action: 'UpdateItem', where: isAfterTheProof, times: 100 },
      { kind: 'loseRequest' },
    );
    await deliver(charge, { receiveCount: 8 });
    takeBack();
    expect(writes).toBeGreaterThan(0);
    expect(await recordOf(charge)).toMatchObject({
      state: 'queued',
      absentProvenAtMs: expect.any(Number),
      dueAtMs: expect.any(Number),
    });
    await toTheEnd(bench, [charge]);
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
  });

  test.each([0, 1, 2, 3])(
    'ends as cancelled or as charged once, whichever of a cancel, a redrive and two reconciliations is first (%i)',
    async (first) => {
      const charge = await inDoubt('none');
      await later(2);
      const moves: (() => Promise<unknown>)[] = [
        () => bench.cancel(charge),
        () => bench.reconcile(),
        () => deliver(charge),
        () => bench.reconcileOne(charge),
      ];
      await Promise.all([...moves.slice(first), ...moves.slice(0, first)].map((move) => move()));
      await bench.stack.clock.advance(120_000);
      await bench.drain();
      await bench.stack.clock.advance(120_000);
      await deliver(charge, { receiveCount: 2 });
      const { charges, record: after } = await evidenceOf(bench, charge);
      expect([
        ['cancelled', 0],
        ['succeeded', 1],
      ]).toContainEqual([after?.state, charges]);
    },
  );

  test('and that was charged is found three weeks later, under all that its customer paid since', async () => {
    const charge = await inDoubt('done');
    const { customerId } = charge.input;
    const since = Array.from({ length: 104 }, (_, index) =>
      job({ tenantId: `since-${index}`, input: { customerId } }),
    );
    for (let at = 0; at < since.length; at += 8)
      expect(await bench.deliver(since.slice(at, at + 8).map((each) => record(each)))).toEqual([]);
    await later(24 * 21);
    expect(await deliver(charge)).toBe('done');
    expect(await evidenceOf(bench, charge)).toMatchObject({
      charges: 1,
      posts: 1,
      record: { state: 'succeeded' },
    });
  }, 60_000);

  test('runs again by proofs of absence five times and no more', async () => {
    const charge = await inDoubt('none');
    for (let proof = 1; proof <= 5; proof++) {
      await later(2);
      expect(await bench.reconcileOne(charge)).toMatchObject({
        done: true,
        operation: { redriveCount: proof },
      });
      loseAnswer(charge, 'none');
      await bench.drain();
    }
    await later(2);
    expect(await bench.reconcileOne(charge)).toMatchObject({
      done: false,
      said: expect.stringContaining('redrives_exhausted'),
      operation: { state: 'parked' },
    });
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 0, posts: 6 });
  });

  test('gives the place back that it was accepted on, when a reconciliation ends it as cancelled', async () => {
    const charge = job({ tenantId: 'accepted', input: { customerId: 'cus_reconciliation_accepted' } });
    expect(await bench.accept(charge)).toMatchObject({ kind: 'accepted' });
    dieAfterClaim(bench, charge);
    await deliver(charge);
    await bench.cancel(charge);
    await pastTheLease(bench);
    await later(2);
    expect(await bench.stack.item('tenant#accepted')).toHaveProperty(['accepted', charge.operationId]);
    expect(await bench.reconcileOne(charge)).toMatchObject({ done: true, operation: { state: 'cancelled' } });
    expect(await bench.stack.item('tenant#accepted')).toHaveProperty('accepted', {});
  });

  test('and that Stripe calls done before, where nothing that was done is its own, fails with what Stripe said', async () => {
    const charge = fresh();
    const error = { type: 'invalid_request_error', code: 'charge_already_captured', message: 'done before' };
    const answer = { kind: 'answer', status: 400, error } as const;
    bench.stripe.fault(answer, { operationId: charge.operationId, ...creations });
    expect(await deliver(charge)).toBe('listed');
    expect(await recordOf(charge)).toMatchObject({ state: 'parked', parkedReason: 'effect_exists' });
    await later(2);
    expect(await bench.reconcileOne(charge)).toMatchObject({ done: true, operation: { state: 'failed' } });
    expect(await evidenceOf(bench, charge)).toMatchObject({
      charges: 0,
      posts: 1,
      record: { error: { code: 'charge_already_captured' } },
    });
  });

  test('is not absent where Stripe gave a reference once and does not know it any more', async () => {
    const charge = fresh({ paymentMethodId: 'pm_usBankAccount_success' });
    await deliver(charge);
    const before = await recordOf(charge);
    expect(before).toMatchObject({ state: 'settling', providerRef: expect.any(String) });
    await later(2);
    const error = { type: 'invalid_request_error', code: 'resource_missing', message: 'no such payment' };
    bench.stripe.fault(
      { kind: 'answer', status: 404, error },
      { method: 'GET', path: /payment_intents\/pi_/ },
    );
    const body = { object: 'list', data: [], has_more: false, url: '/v1/payment_intents' };
    bench.stripe.fault({ kind: 'answer', status: 200, body }, lists);
    expect(await bench.reconcileOne(charge)).toMatchObject({
      done: false,
      said: expect.stringContaining('reference_not_listed'),
    });
    expect(await recordOf(charge)).toEqual(before);
  });
});

describe('an operation with attempts left', () => {
  beforeAll(async () => {
    bench = await startWorkerBench({ limits: slow });
  });
  afterAll(async () => {
    // A proof of absence changes a key, as nothing else does.
    await bench.stripe.stop({ allowKeyChange: true });
    await bench.stop().catch((error: unknown) => {
      expect(String(error)).toMatch(/used 2 idempotency keys: \S+\/0 \| \S+\/1/);
    });
  });

  /** One attempt whose answer was lost. @returns when an effect became possible */
  async function attempted(charge: Named, effect: 'none' | 'done'): Promise<number> {
    loseAnswer(charge, effect);
    expect(await deliver(charge)).toBe('listed');
    return Number((await recordOf(charge))?.effectPossibleSinceMs);
  }

  test('is attempted until the end of its window and a lease before it: what lands at the end of the quiet hour still meets its key', async () => {
    const { workerTimeoutSeconds, leaseMarginSeconds, providerWindowHours } = bench.stack.limits;
    const lengthMs = providerWindowHours * hourMs - (workerTimeoutSeconds + leaseMarginSeconds) * 1000;
    const [before, after] = [fresh(), fresh()];
    const sinceMs = await attempted(before, 'done');
    await bench.stack.clock.advance(sinceMs + lengthMs - 10_000 - bench.stack.clock.now());
    expect(await deliver(before)).toBe('done');
    expect(await evidenceOf(bench, before)).toMatchObject({ charges: 1, posts: 2 });

    const endMs = (await attempted(after, 'done')) + lengthMs;
    await bench.stack.clock.advance(endMs + 1 - bench.stack.clock.now());
    expect(await deliver(after)).toBe('done');
    expect(await evidenceOf(bench, after)).toMatchObject({
      charges: 1,
      posts: 1,
      record: { state: 'succeeded' },
    });
  });

  test("keeps the new key of a person's proof that comes while a reconciliation looks", async () => {
    const charge = fresh();
    await attempted(charge, 'none');
    await later(30);
    let answer: unknown;
    const prove = async () => {
      answer = await operateOn(charge, { action: 'settle', absent: true, evidence });
    };
    bench.stripe.fault({ kind: 'hook', at: 'afterEffect', run: prove }, lists);
    await deliver(charge, { receiveCount: 2 });
    expect(answer).toMatchObject({ done: true });
    expect(await recordOf(charge)).toMatchObject({ providerKey: expect.stringMatching(/\/1$/) });
    await toTheEnd(bench, [charge]);
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
  });

  test.each(['none', 'done'] as const)(
    'and a lapsed claim is charged once, whatever redeliveries and reconciliations do at once (effect: %s)',
    async (effect) => {
      const charge = fresh();
      if (effect === 'none') dieAfterClaim(bench, charge);
      else loseAnswer(charge, effect);
      await deliver(charge, { receiveCount: 5 });
      await pastTheLease(bench);
      await bench.stack.clock.advance(61_000);
      await Promise.all([
        deliver(charge),
        bench.reconcile(),
        bench.reconcileOne(charge),
        deliver(charge),
        bench.reconcile(),
      ]);
      await bench.stack.clock.advance(61_000);
      await bench.drain();
      await deliver(charge);
      expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
    },
  );
});

describe('behind an open breaker', () => {
  beforeAll(async () => {
    bench = await startWorkerBench({
      limits: { ...slow, maxAttempts: 1, breakerMinCalls: 2, breakerOpenSeconds: 3600 },
    });
  });
  afterAll(() => bench.stop());

  test('a redriven message asks Stripe nothing either', async () => {
    const charge = await inDoubt('done');
    await later(30);
    bench.stripe.fault({ kind: 'answer', status: 503 }, { times: 1000 });
    for (const other of [fresh(), fresh()]) await deliver(other);
    expect(await bench.stack.item('provider#stripe')).toHaveProperty('breakerOpenedAtMs');
    const before = bench.stripe.requests().length;
    for (let receiveCount = 1; receiveCount < 8; receiveCount++)
      await deliver(charge, { receiveCount, sentAtMs: bench.stack.clock.now() - 1 });
    expect(bench.stripe.requests().length).toBe(before);
    expect(await recordOf(charge)).toMatchObject({ state: 'parked' });
  });
});
