import { job, record, startWorkerBench, type WorkerBench } from '../support/worker-bench';
import { dieAfterClaim, dieBeforeSettle, evidenceOf, hourMs, onWrites, pastTheLease } from './fixtures';

// What the usual consumer does wrong, row by row, done to this one.

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
const lost = { kind: 'reset', effect: 'done' } as const;

async function deliver(of: Job, options: Parameters<typeof record>[1] = {}) {
  bench.visibilities();
  const delivered = record(of, options);
  const failed = await bench.deliver([delivered]);
  const comesBackIn = bench.visibilities().get(delivered.messageId);
  if (failed.length === 0) return 'acknowledged';
  return comesBackIn === 0 ? 'goes to the dead-letter queue' : 'comes back';
}
const fault = (of: Job, ...[planned, match = {}]: Parameters<WorkerBench['stripe']['fault']>) =>
  bench.stripe.fault(planned, { operationId: of.operationId, ...match });
/** The one PaymentIntent of an operation. */
const referenceOf = ({ operationId }: Job) =>
  bench.stripe.ledger().find(({ metadata }) => metadata.operationId === operationId)?.paymentIntentId;
const changed = ({ operationId }: Job) => job({ operationId, input: { amountMinor: 9000 } });

test('2: a crash after the provider committed, redelivered after the lease: one charge', async () => {
  const charge = job();
  dieBeforeSettle(bench, charge);
  expect(await deliver(charge)).toBe('comes back');
  await pastTheLease(bench);
  expect(await deliver(charge, { receiveCount: 2 })).toBe('acknowledged');
  expect(await evidence(charge)).toMatchObject({
    charges: 1,
    posts: 2,
    keys: [expect.any(String)],
    record: { state: 'succeeded' },
  });
});

describe('another amount under the same id is refused and charges nothing, and the original is charged once', () => {
  const rows: [row: string, prepare: (charge: Job) => Promise<unknown>, chargesBefore: number][] = [
    [
      '4b1: after a crash before the call and the lease',
      async (charge) => {
        dieAfterClaim(bench, charge);
        await deliver(charge);
        await pastTheLease(bench);
      },
      0,
    ],
    [
      '4b3: after a crash after the commit, 25 h later',
      async (charge) => {
        dieBeforeSettle(bench, charge);
        await deliver(charge);
        await later(25);
      },
      1,
    ],
    [
      '4c1: after a call that threw, nothing committed',
      async (charge) => {
        fault(charge, { kind: 'reset', effect: 'none' });
        await deliver(charge);
      },
      0,
    ],
    [
      '4c3: after a call that threw after an unseen commit, 25 h later',
      async (charge) => {
        fault(charge, lost);
        await deliver(charge);
        await later(25);
      },
      1,
    ],
    [
      "4d: after the time to live of the record's stock twin, key alive",
      async (charge) => {
        await deliver(charge);
        await later(2);
      },
      1,
    ],
    [
      '4d: of a paid operation, key forgotten',
      async (charge) => {
        await deliver(charge);
        await later(25);
      },
      1,
    ],
  ];
  test.each(rows)('%s', async (_row, prepare, chargesBefore) => {
    const charge = job();
    await prepare(charge);
    const before = await evidence(charge);
    expect(before.charges).toBe(chargesBefore);
    bench.restart();
    for (let receiveCount = 1; receiveCount <= 8; receiveCount++) {
      expect(await deliver(changed(charge), { receiveCount })).toBe('goes to the dead-letter queue');
    }
    expect(await evidence(charge)).toEqual(before);
    expect(await deliver(charge, { receiveCount: 2 })).toBe('acknowledged');
    expect(await evidence(charge)).toMatchObject({
      amounts: [1999],
      keys: [expect.any(String)],
      record: { state: 'succeeded' },
    });
    // Where the key is forgotten, Stripe was asked what happened: no second call under it.
    if (chargesBefore === 1) expect((await evidence(charge)).posts).toBe(before.posts);
  });
});

test('5b: a redelivery of a settled operation at 25 h, and at 30 days: one charge', async () => {
  const charge = job();
  expect(await deliver(charge)).toBe('acknowledged');
  const settled = await evidence(charge);
  for (const hours of [25, 30 * 24]) {
    await later(hours);
    expect(await deliver(charge)).toBe('acknowledged');
  }
  expect(await evidence(charge)).toEqual(settled);
});

test.each([
  ['5d: a crash after the commit', (charge: Job) => dieBeforeSettle(bench, charge)],
  ['5e: a call that threw after an unseen commit', (charge: Job) => fault(charge, lost)],
])('%s, redelivered at 25 h: it is found at Stripe, and there is no second call', async (_row, prepare) => {
  const charge = job();
  prepare(charge);
  expect(await deliver(charge)).toBe('comes back');
  await later(25);
  const redelivered = { receiveCount: 2, sentAtMs: bench.stack.clock.now() - 25 * hourMs };
  expect(await deliver(charge, redelivered)).toBe('acknowledged');
  const settled = await evidence(charge);
  expect(settled).toMatchObject({
    charges: 1,
    posts: 1,
    record: { state: 'succeeded', providerRef: referenceOf(charge), attemptCount: 1 },
  });
  // Redriven, too.
  await bench.stack.clock.advance(1000);
  expect(await deliver(charge)).toBe('acknowledged');
  expect(await evidence(charge)).toEqual(settled);
});

test.each([
  ['5d: a crash after the commit', (charge: Job) => dieBeforeSettle(bench, charge)],
  ['5e: a call that threw after an unseen commit', (charge: Job) => fault(charge, lost)],
])(
  '%s, redelivered at 25 h while no list can be read: parked without a second call',
  async (_row, prepare) => {
    const charge = job();
    prepare(charge);
    expect(await deliver(charge)).toBe('comes back');
    await later(25);
    const lists = { method: 'GET', path: '/v1/payment_intents', times: 2 };
    bench.stripe.fault({ kind: 'answer', status: 403 }, lists);
    const sentAtMs = bench.stack.clock.now() - 25 * hourMs;
    for (let receiveCount = 2; receiveCount <= 8; receiveCount++)
      expect(await deliver(charge, { receiveCount, sentAtMs })).toBe('goes to the dead-letter queue');
    const parked = {
      charges: 1,
      posts: 1,
      record: {
        state: 'parked',
        parkedReason: 'provider_window_closed',
        effectPossibleSinceMs: expect.any(Number),
        dueAtMs: expect.any(Number),
      },
    };
    expect(await evidence(charge)).toMatchObject(parked);
    // Redriven, too: only a listing may open the window again.
    await bench.stack.clock.advance(1000);
    expect(await deliver(charge)).toBe('goes to the dead-letter queue');
    expect(await evidence(charge)).toMatchObject(parked);
  },
);

test('7a: a 500 that is saved and replayed: parked at the second call, and no redrive calls again, nor forgets the doubt', async () => {
  const charge = job();
  fault(charge, { kind: 'answer', status: 500, save: true });
  expect(await deliver(charge)).toBe('comes back');
  expect(await deliver(charge, { receiveCount: 2 })).toBe('goes to the dead-letter queue');
  const parked = await evidence(charge);
  expect(parked).toMatchObject({
    charges: 0,
    posts: 2,
    keys: [expect.any(String)],
    record: { state: 'parked', parkedReason: 'provider_key_spent' },
  });
  const { record } = parked;
  // Stripe has nothing of it, and that is no proof before the quiet hour; after it a person has to say so.
  for (const waitMs of [1000, 25 * hourMs]) {
    await bench.stack.clock.advance(waitMs);
    expect(await deliver(charge)).toBe('goes to the dead-letter queue');
    const again = {
      parkedAtMs: expect.any(Number),
      updatedAtMs: expect.any(Number),
      dueAtMs: expect.any(Number),
    };
    expect(await evidence(charge)).toEqual({ ...parked, record: { ...record, ...again } });
  }
});

test.each([
  ['at once', 1000],
  ['at 25 h', 25 * hourMs],
])(
  '7a2: the same, and the 500 had committed: redriven %s it is found, and not charged again',
  async (_when, waitMs) => {
    const charge = job();
    fault(charge, { kind: 'answer', status: 500, save: true, effect: 'done' });
    expect(await deliver(charge)).toBe('comes back');
    expect(await deliver(charge, { receiveCount: 2 })).toBe('goes to the dead-letter queue');
    expect(await evidence(charge)).toMatchObject({
      charges: 1,
      posts: 2,
      record: { state: 'parked', parkedReason: 'provider_key_spent' },
    });
    await bench.stack.clock.advance(waitMs);
    expect(await deliver(charge)).toBe('acknowledged');
    expect(await evidence(charge)).toMatchObject({
      charges: 1,
      posts: 2,
      keys: [expect.any(String)],
      record: { state: 'succeeded', providerRef: referenceOf(charge) },
    });
  },
);

test('7d: a declined card ends at its first delivery, acknowledged, with its code', async () => {
  const charge = job({ input: { paymentMethodId: 'pm_card_chargeDeclined' } });
  expect(await deliver(charge)).toBe('acknowledged');
  const declined = await evidence(charge);
  expect(declined).toMatchObject({
    charges: 0,
    posts: 1,
    record: { state: 'failed', error: { code: 'card_declined', declineCode: 'generic_decline' } },
  });
  expect(await deliver(charge)).toBe('acknowledged');
  expect(await evidence(charge)).toEqual(declined);
});

test('8c, 8d: a message without an id is never charged, however often it comes', async () => {
  const before = bench.stripe.requests().length;
  for (const operationId of [undefined, null, '']) {
    for (let receiveCount = 1; receiveCount <= 8; receiveCount++) {
      expect(await deliver(job({ operationId }), { receiveCount })).toBe('goes to the dead-letter queue');
    }
  }
  expect(bench.stripe.requests()).toHaveLength(before);
});

test('1x: a claim whose answer was lost recognises its own write: nobody is blocked, one call', async () => {
  const charge = job();
  onWrites(bench, charge, 'claim', [{ kind: 'loseAnswer' }]);
  expect(await deliver(charge)).toBe('acknowledged');
  expect(await evidence(charge)).toMatchObject({
    charges: 1,
    posts: 1,
    record: { state: 'succeeded', attemptCount: 1 },
  });
});

test('6c: a late owner that fails after another worker completed leaves that record as it is', async () => {
  const charge = job();
  const proceed = Promise.withResolvers<void>();
  let completed: unknown;
  // The first owner's POST never reached the provider, and it learns that late.
  onWrites(bench, charge, 'settle', [
    {
      kind: 'hook',
      before: async (): Promise<'continue'> => {
        await pastTheLease(bench);
        expect(await deliver(charge, { receiveCount: 2 })).toBe('acknowledged');
        completed = (await evidence(charge)).record;
        proceed.resolve();
        return 'continue';
      },
    },
  ]);
  fault(charge, { kind: 'reset', effect: 'none' });
  expect(await deliver(charge)).toBe('acknowledged');
  await proceed.promise;
  expect(completed).toMatchObject({ state: 'succeeded' });
  expect(await evidence(charge)).toMatchObject({ charges: 1, posts: 2, record: completed });
});
