import { type Job, job, refundOf, startWorkerBench, type WorkerBench } from '../support/worker-bench';
import { dieAfterClaim, dieBeforeSettle, evidenceOf, onWrites, pastTheLease, toTheEnd } from './fixtures';

let bench: WorkerBench;
beforeAll(async () => {
  bench = await startWorkerBench({
    limits: {
      tenantMaxRunning: 50,
      tenantMaxWaiting: 50,
      workerTimeoutSeconds: 8,
      allowDirectRefunds: true,
    },
  });
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => bench.stop());
afterEach(async () => {
  bench.stripe.clearFaults();
  await bench.drain();
});

let count = 0;
/** A charge of 5000 that has succeeded, of a tenant that no other test knows, and that nothing happened to for two minutes. */
async function charged(changes: Parameters<typeof job>[0] = {}) {
  count += 1;
  const charge = job({
    tenantId: `tenant-${count}`,
    ...changes,
    input: { amountMinor: 5000, ...changes.input },
  });
  await bench.accept(charge);
  await bench.drain();
  await bench.stack.clock.advance(120_000);
  return charge;
}
const recordOf = ({ tenantId, operationId }: Job) => bench.stack.operation(tenantId, operationId);
const refundsOf = async (charge: Job) => {
  const { refunds: parts = {}, refundedMinor = 0 } = Object(await recordOf(charge));
  const amounts = Object.entries(parts).map(([id, part]) => [id, Object(part).amountMinor]);
  return { refunds: Object.fromEntries(amounts), refundedMinor };
};
const refundedAtStripe = (charge: Job) =>
  bench.stripe
    .refunds()
    .filter(
      ({ metadata, status }) => metadata.chargeOperationId === charge.operationId && status === 'succeeded',
    )
    .reduce((sum, { amount }) => sum + amount, 0);
const postsOf = ({ tenantId, operationId }: Job) =>
  bench.stripe
    .requests()
    .filter(
      ({ method, path, operation }) =>
        method === 'POST' && path === '/v1/refunds' && operation === `${tenantId}/${operationId}`,
    );
const lost = { kind: 'loseRequest' } as const;

/** Both ways to ask for a refund, each until it has ended. */
const ways = [
  ['through the API', (of: Job) => bench.accept(of)],
  ['by direct message', (of: Job) => bench.stack.send(of)],
] as const;

const runToTheEnd = (jobs: readonly Job[]) => toTheEnd(bench, jobs);

describe('a refund', () => {
  test.each(ways)('%s moves the money back once, under a key step of its own', async (_way, ask) => {
    const charge = await charged();
    const refund = refundOf(charge, 2000);
    await ask(refund);
    await bench.drain();
    expect(await recordOf(refund)).toMatchObject({
      state: 'succeeded',
      type: 'refund',
      providerKey: `local/${charge.tenantId}/${refund.operationId}/refund/0`,
      providerRef: expect.stringMatching(/^re_/),
    });
    expect(postsOf(refund).map(({ idempotencyKey }) => idempotencyKey)).toEqual([
      `local/${charge.tenantId}/${refund.operationId}/refund/0`,
    ]);
    expect(await refundsOf(charge)).toEqual({
      refunds: { [refund.operationId]: 2000 },
      refundedMinor: 2000,
    });
    expect((await recordOf(charge))?.state).toBe('succeeded');
    expect(await bench.accept(refund)).toMatchObject({ kind: 'known' });
  });

  test('BL-14 of yen is in the unit of its charge: at Stripe, in its record and in that of the charge', async () => {
    const charge = await charged({ input: { amountMinor: 500, currency: 'jpy' } });
    const refund = refundOf(charge, 300);
    await bench.accept(refund);
    await bench.drain();
    expect(await recordOf(refund)).toMatchObject({
      state: 'succeeded',
      result: { amountMinor: 300, currency: 'jpy' },
    });
    expect(postsOf(refund)).toHaveLength(1);
    expect(refundedAtStripe(charge)).toBe(300);
    expect(await refundsOf(charge)).toMatchObject({ refundedMinor: 300 });
  });

  test('of an id that a charge has is a conflict', async () => {
    const charge = await charged();
    const before = await recordOf(charge);
    expect(await bench.accept({ ...refundOf(charge, 2000), operationId: charge.operationId })).toMatchObject({
      kind: 'conflict',
    });
    expect(await recordOf(charge)).toEqual(before);
  });

  test.each(ways)(
    '%s of more than the charge is refused without a call, and holds nothing',
    async (_way, ask) => {
      const charge = await charged();
      const refund = refundOf(charge, 5001);
      await ask(refund);
      await bench.drain();
      expect(postsOf(refund)).toEqual([]);
      expect(await refundsOf(charge)).toMatchObject({ refundedMinor: 0 });
    },
  );

  test('refused by the API has no record and no place', async () => {
    const charge = await charged();
    const refund = refundOf(charge, 5001);
    expect(await bench.accept(refund)).toMatchObject({
      kind: 'refundRefused',
      code: 'refund_exceeds_charge',
    });
    expect(await recordOf(refund)).toBeUndefined();
    expect(await bench.stack.item(`tenant#${charge.tenantId}`)).toMatchObject({ accepted: {} });
  });

  test.each(ways)('%s: equal parts with different ids are different refunds', async (_way, ask) => {
    const charge = await charged();
    const parts = [refundOf(charge, 1000), refundOf(charge, 1000), refundOf(charge, 1000)];
    for (const part of parts) await ask(part);
    await runToTheEnd(parts);
    for (const part of parts) expect(await recordOf(part)).toMatchObject({ state: 'succeeded' });
    expect(refundedAtStripe(charge)).toBe(3000);
    expect(await refundsOf(charge)).toMatchObject({ refundedMinor: 3000 });
  });
});

describe('concurrent refunds stay within their charge', () => {
  test.each([0, 120_000])(
    'five parts of a fifth all come through, %i ms after the charge',
    async (laterMs) => {
      count += 1;
      const charge = job({ tenantId: `tenant-${count}`, input: { amountMinor: 5000 } });
      await bench.accept(charge);
      await bench.drain();
      await bench.stack.clock.advance(laterMs);
      const parts = Array.from({ length: 5 }, () => refundOf(charge, 1000));
      const answers = await Promise.all(parts.map((part) => bench.accept(part)));
      expect(answers.map(({ kind }) => kind)).toEqual(Array(5).fill('accepted'));
      expect(await refundsOf(charge)).toMatchObject({ refundedMinor: 5000 });
      await runToTheEnd(parts);
      expect(refundedAtStripe(charge)).toBe(5000);
    },
  );

  test('of 20 through the API as many are accepted as fit, and each of them succeeds', async () => {
    const charge = await charged();
    const parts = Array.from({ length: 20 }, () => refundOf(charge, 1000));
    const answers = await Promise.all(parts.map((part) => bench.accept(part)));
    const taken = parts.filter((_, index) => answers[index]?.kind === 'accepted');
    expect(taken).toHaveLength(5);
    await runToTheEnd(taken);
    for (const part of taken) expect(await recordOf(part)).toMatchObject({ state: 'succeeded' });
    expect(refundedAtStripe(charge)).toBe(5000);
    expect(await refundsOf(charge)).toMatchObject({ refundedMinor: 5000 });
  });

  test('of 20 by direct message as many succeed as fit, and the others fail without a call', async () => {
    const charge = await charged();
    const parts = Array.from({ length: 20 }, () => refundOf(charge, 1000));
    await Promise.all(parts.map((part) => bench.stack.send(part)));
    await runToTheEnd(parts);
    const records = await Promise.all(parts.map(recordOf));
    expect(records.filter((record) => record?.state === 'succeeded')).toHaveLength(5);
    const calls = parts.filter((part) => postsOf(part).length > 0);
    expect(calls).toHaveLength(5);
    expect(refundedAtStripe(charge)).toBe(5000);
    expect(await refundsOf(charge)).toMatchObject({ refundedMinor: 5000 });
  });

  test.each(['by another message', 'by another accept'])(
    'one whose record is on its way keeps its part, however old the charge is: not taken %s',
    async (way) => {
      const charge = await charged();
      const [first, second] = [refundOf(charge, 5000), refundOf(charge, 5000)];
      const [firstHolds, secondEnded] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      // The first holds its part, and has no record yet, until the second has ended.
      onWrites(bench, first, 'settle', [
        {
          kind: 'hook',
          before: async (): Promise<'continue'> => {
            firstHolds.resolve();
            await secondEnded.promise;
            return 'continue';
          },
        },
      ]);
      let firstAccept: ReturnType<WorkerBench['accept']> | undefined;
      const startFirst = async (): Promise<'continue'> => {
        firstAccept = bench.accept(first);
        await firstHolds.promise;
        return 'continue';
      };
      if (way === 'by another message') {
        await startFirst();
        await bench.stack.send(second);
        await bench.drain();
      } else {
        // The second has looked at the charge before, and now writes.
        const where = (body: unknown) =>
          JSON.stringify(body).includes(`"op#${charge.tenantId}#${charge.operationId}"`) &&
          JSON.stringify(body).includes(second.operationId);
        bench.stack.dynamodbProxy.intercept(
          { action: 'UpdateItem', where, times: 1 },
          { kind: 'hook', before: startFirst },
        );
        expect(await bench.accept(second)).toMatchObject({ kind: 'refundRefused' });
      }
      secondEnded.resolve();
      expect(await firstAccept).toMatchObject({ kind: 'accepted' });
      expect(await refundsOf(charge)).toEqual({
        refunds: { [first.operationId]: 5000 },
        refundedMinor: 5000,
      });
      expect(postsOf(second)).toEqual([]);
    },
  );
});

describe('the part of a refund that ended without an effect is given back', () => {
  test('after a decline at Stripe', async () => {
    const charge = await charged();
    const refund = refundOf(charge, 2000);
    bench.stripe.fault({ kind: 'answer', status: 400 }, { operationId: refund.operationId });
    await bench.accept(refund);
    await bench.drain();
    expect(await recordOf(refund)).toMatchObject({ state: 'failed' });
    expect(await refundsOf(charge)).toEqual({ refunds: {}, refundedMinor: 0 });
    expect(await bench.accept(refundOf(charge, 5000))).toMatchObject({ kind: 'accepted' });
  });

  test('after a cancel before it ran', async () => {
    const charge = await charged();
    const refund = refundOf(charge, 5000);
    await bench.accept(refund);
    expect(await bench.cancel(refund)).toMatchObject({ kind: 'cancelled' });
    expect(await refundsOf(charge)).toEqual({ refunds: {}, refundedMinor: 0 });
    await bench.drain();
    expect(postsOf(refund)).toEqual([]);
    expect(await bench.accept(refundOf(charge, 5000))).toMatchObject({ kind: 'accepted' });
  });

  test('and not after one whose outcome is unknown', async () => {
    const charge = await charged();
    const refund = refundOf(charge, 5000);
    bench.stripe.fault({ kind: 'reset', effect: 'done' }, { operationId: refund.operationId });
    await bench.accept(refund);
    await bench.drain();
    expect(await bench.accept(refundOf(charge, 1))).toMatchObject({ kind: 'refundRefused' });
    await runToTheEnd([refund]);
    expect([postsOf(refund).length, refundedAtStripe(charge)]).toEqual([2, 5000]);
  });
});

describe('"already refunded"', () => {
  test('because the answer was lost finds our own refund and succeeds', async () => {
    const charge = await charged();
    const refund = refundOf(charge, 5000);
    bench.stripe.fault({ kind: 'reset', effect: 'done' }, { operationId: refund.operationId });
    await bench.accept(refund);
    await bench.drain();
    bench.stripe.forgetKeys();
    await runToTheEnd([refund]);
    const [own] = bench.stripe
      .refunds()
      .filter(({ metadata }) => metadata.operationId === refund.operationId);
    expect(await recordOf(refund)).toMatchObject({ state: 'succeeded', providerRef: own?.id });
    expect(refundedAtStripe(charge)).toBe(5000);
  });

  test('by somebody else fails with that code, and ends', async () => {
    const charge = await charged();
    const { providerRef } = Object(await recordOf(charge));
    const response = await fetch(`${bench.stack.endpoints.stripe}/v1/refunds`, {
      method: 'POST',
      headers: {
        authorization: 'Bearer sk_test_local_stand_in',
        'idempotency-key': `by-hand-${providerRef}`,
      },
      body: new URLSearchParams({ payment_intent: providerRef }),
    });
    expect(response.status).toBe(200);
    const refund = refundOf(charge, 5000);
    await bench.accept(refund);
    await runToTheEnd([refund]);
    expect(await recordOf(refund)).toMatchObject({
      state: 'failed',
      error: { code: 'charge_already_refunded' },
    });
    expect(await refundsOf(charge)).toMatchObject({ refundedMinor: 0 });
  });
});

describe('a charge that has not succeeded', () => {
  test('and is not final: the API refuses the refund, a direct one waits for it', async () => {
    count += 1;
    const charge = job({ tenantId: `tenant-${count}`, input: { amountMinor: 5000 } });
    const refund = refundOf(charge, 5000);
    expect(await bench.accept(refund)).toMatchObject({ kind: 'refundRefused', code: 'charge_not_final' });
    await bench.stack.send(refund);
    await bench.drain();
    expect([(await bench.stack.queueDepth()).total, postsOf(refund)]).toEqual([1, []]);
    await bench.accept(charge);
    await runToTheEnd([charge, refund]);
    expect(await recordOf(refund)).toMatchObject({
      state: 'succeeded',
      chargeRef: (await recordOf(charge))?.providerRef,
    });
  });

  test('for so long that the wait is kept in the table: the refund goes to that charge all the same', async () => {
    count += 1;
    const charge = job({ tenantId: `tenant-${count}`, input: { amountMinor: 5000 } });
    const refund = refundOf(charge, 5000);
    await bench.stack.send(refund);
    for (let round = 0; round < 12 && !(await recordOf(refund)); round++) {
      await bench.drain();
      await bench.stack.clock.advance(10_000);
    }
    expect(await recordOf(refund)).toMatchObject({ state: 'queued', dueAtMs: expect.any(Number) });
    await bench.accept(charge);
    await runToTheEnd([charge, refund]);
    expect(await recordOf(refund)).toMatchObject({ state: 'succeeded' });
    expect(refundedAtStripe(charge)).toBe(5000);
  });

  test.each(ways)('and never will: refused %s without a call', async (_way, ask) => {
    const charge = await charged({ input: { paymentMethodId: 'pm_card_chargeDeclined' } });
    const refund = refundOf(charge, 5000);
    await ask(refund);
    await bench.drain();
    const record = await recordOf(refund);
    expect([record?.state, postsOf(refund)]).toEqual([record && 'failed', []]);
  });

  test('is a refund itself: refused', async () => {
    const charge = await charged();
    const refund = refundOf(charge, 1000);
    await bench.accept(refund);
    await bench.drain();
    expect(await bench.accept(refundOf(refund, 1000))).toMatchObject({ kind: 'refundRefused' });
  });

  test("of another tenant is unknown: another tenant's charge cannot be refunded", async () => {
    const charge = await charged();
    const refund = { ...refundOf(charge, 1000), tenantId: 'somebody-else' };
    expect(await bench.accept(refund)).toMatchObject({ kind: 'refundRefused' });
    await bench.stack.send(refund);
    await bench.drain();
    expect(postsOf(refund)).toEqual([]);
  });
});

describe('a crash in a refund leaks nothing', () => {
  test('after the reservation, before the record: another refund has the part a minute later', async () => {
    const charge = await charged();
    const [dead, next] = [refundOf(charge, 5000), refundOf(charge, 5000)];
    onWrites(bench, dead, 'settle', [lost, lost, lost]);
    await expect(bench.accept(dead)).rejects.toThrow();
    expect(await refundsOf(charge)).toMatchObject({ refundedMinor: 5000 });
    await bench.stack.clock.advance(61_000);
    expect(await bench.accept(next)).toMatchObject({ kind: 'accepted' });
    await runToTheEnd([next]);
    expect(refundedAtStripe(charge)).toBe(5000);
  });

  test("after the reservation, before the record: the caller's retry goes on", async () => {
    const charge = await charged();
    const refund = refundOf(charge, 5000);
    onWrites(bench, refund, 'settle', [lost, lost, lost]);
    await expect(bench.accept(refund)).rejects.toThrow();
    expect(await bench.accept(refund)).toMatchObject({ kind: 'accepted' });
    await runToTheEnd([refund]);
    expect(await refundsOf(charge)).toMatchObject({ refundedMinor: 5000 });
  });

  test('after it failed, before its part was given back: another refund has it', async () => {
    const charge = await charged();
    const [failed, next] = [refundOf(charge, 5000), refundOf(charge, 5000)];
    bench.stripe.fault({ kind: 'answer', status: 400 }, { operationId: failed.operationId });
    await bench.accept(failed);
    const isRelease = (body: unknown) =>
      JSON.stringify(body).includes(`"op#${charge.tenantId}#${charge.operationId}"`);
    for (let times = 0; times < 3; times++)
      bench.stack.dynamodbProxy.intercept({ action: 'UpdateItem', where: isRelease, times: 1 }, lost);
    await bench.drain();
    expect(await recordOf(failed)).toMatchObject({ state: 'failed' });
    expect(await refundsOf(charge)).toMatchObject({ refundedMinor: 5000 });
    expect(await bench.accept(next)).toMatchObject({ kind: 'accepted' });
    expect(await refundsOf(charge)).toEqual({ refunds: { [next.operationId]: 5000 }, refundedMinor: 5000 });
  });

  test.each(ways)('of its worker, %s: it is made once, and its part is held once', async (_way, ask) => {
    const charge = await charged();
    const refunds = [refundOf(charge, 2000), refundOf(charge, 2000)];
    const [beforeCall, afterCall] = refunds;
    if (!beforeCall || !afterCall) throw new Error('they are there');
    for (const refund of refunds) await ask(refund);
    dieAfterClaim(bench, beforeCall);
    dieBeforeSettle(bench, afterCall);
    await bench.drain();
    await pastTheLease(bench);
    await runToTheEnd(refunds);
    for (const refund of refunds) expect(await recordOf(refund)).toMatchObject({ state: 'succeeded' });
    expect(refundedAtStripe(charge)).toBe(4000);
    expect(await refundsOf(charge)).toMatchObject({ refundedMinor: 4000 });
    expect(await bench.stack.item(`tenant#${charge.tenantId}`)).toMatchObject({ running: {}, accepted: {} });
  });
});

test('a refund by direct message is rejected unless the setting allows it; one that the API took runs', async () => {
  const { SETTINGS = '{}' } = bench.stack.environment;
  bench.restart({ SETTINGS: JSON.stringify({ ...JSON.parse(SETTINGS), allowDirectRefunds: undefined }) });
  const charge = await charged();
  const [direct, accepted] = [refundOf(charge, 1000), refundOf(charge, 1000)];
  await bench.stack.send(direct);
  await bench.accept(accepted);
  bench.visibilities();
  const [first] = await bench.drain();
  expect(first).toBeDefined();
  expect(postsOf(direct)).toEqual([]);
  expect(await recordOf(direct)).toBeUndefined();
  expect(await recordOf(accepted)).toMatchObject({ state: 'succeeded' });
  expect(await bench.stack.deadLetters()).toEqual([JSON.stringify(direct)]);
  expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1 });
  bench.restart();
});
