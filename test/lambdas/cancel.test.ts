import fc from 'fast-check';
import type { Fault as ProxyFault } from '../../local/proxy-faults';
import { type Job, job, record, startWorkerBench, type WorkerBench } from '../support/worker-bench';
import { dieAfterClaim, evidenceOf, onWrites, pastTheLease, writesOf } from './fixtures';

let bench: WorkerBench;
beforeAll(async () => {
  bench = await startWorkerBench({ limits: { workerTimeoutSeconds: 4 } });
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => bench.stop());
const undo: (() => void)[] = [];
afterEach(async () => {
  for (const remove of undo.splice(0)) remove();
  bench.stripe.clearFaults();
  await bench.drain();
});

let count = 0;
function fresh(changes: Parameters<typeof job>[0] = {}) {
  count += 1;
  return job({ tenantId: `tenant-${count}`, ...changes });
}
const recordOf = ({ tenantId, operationId }: Job) => bench.stack.operation(tenantId, operationId);
const tenantOf = ({ tenantId }: Job) => bench.stack.item(`tenant#${tenantId}`);
const deliver = async (of: Job, receiveCount = 1) =>
  (await bench.deliver([record(of, { receiveCount })])).length === 0 ? 'acknowledged' : 'comes back';
const fault = (of: Job, planned: Parameters<WorkerBench['stripe']['fault']>[0]) =>
  undo.push(bench.stripe.fault(planned, { operationId: of.operationId }));
const limited = { kind: 'answer', status: 429 } as const;
const nothing = { charges: 0, posts: 0 };
/** Asks for the cancel at a point of the next delivery. */
function during(of: Job, at: 'beforeEffect' | 'afterEffect') {
  let answer: unknown;
  fault(of, {
    kind: 'hook',
    at,
    run: async () => {
      answer = await bench.cancel(of);
    },
  });
  return () => answer;
}

describe('BL-23 a cancel', () => {
  test('of an accepted operation takes effect at once: its place is free, and its message does nothing', async () => {
    const charge = fresh();
    await bench.accept(charge);
    expect(await bench.cancel(charge)).toMatchObject({
      kind: 'cancelled',
      operation: { state: 'cancelled' },
    });
    const cancelled = await recordOf(charge);
    expect(cancelled).toMatchObject({ state: 'cancelled', expiresAtSeconds: expect.any(Number) });
    for (const gone of ['dueAtMs', 'openShard']) expect(cancelled).not.toHaveProperty(gone);
    expect(await tenantOf(charge)).toMatchObject({ running: {}, accepted: {} });
    await bench.drain();
    expect(await evidenceOf(bench, charge)).toMatchObject({ ...nothing, record: cancelled });
    expect((await bench.stack.queueDepth()).total).toBe(0);
    expect(await bench.accept(charge)).toMatchObject({ kind: 'known', operation: { state: 'cancelled' } });
  });

  test('repeated says the same and writes nothing', async () => {
    const charge = fresh();
    await bench.accept(charge);
    await bench.cancel(charge);
    const first = await recordOf(charge);
    expect(await bench.cancel(charge)).toMatchObject({ kind: 'cancelled' });
    expect(await recordOf(charge)).toEqual(first);
  });

  test('of twenty at once is one cancel', async () => {
    const charge = fresh();
    await bench.accept(charge);
    const answers = await Promise.all(Array.from({ length: 20 }, () => bench.cancel(charge)));
    expect(new Set(answers.map(({ kind }) => kind))).toEqual(new Set(['cancelled']));
  });

  test.each([
    ['before the call', 'beforeEffect'],
    ['while the call is open', 'afterEffect'],
  ] as const)(
    'of a running one, %s, is refused with what to do; its end follows the money',
    async (_when, at) => {
      const charge = fresh();
      await bench.accept(charge);
      const answer = during(charge, at);
      await bench.drain();
      expect(answer()).toMatchObject({
        kind: 'refused',
        operation: { state: 'running', cancelRequestedAtMs: expect.any(Number) },
        advice: expect.stringContaining('refund'),
      });
      expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
    },
  );

  test('of a running one takes effect when the attempt proves that nothing was sent', async () => {
    const charge = fresh();
    await bench.accept(charge);
    fault(charge, limited);
    onWrites(bench, charge, 'settle', [
      {
        kind: 'hook',
        before: async (): Promise<'continue'> => {
          expect(await bench.cancel(charge)).toMatchObject({ kind: 'refused' });
          return 'continue';
        },
      },
    ]);
    await bench.drain();
    const cancelled = await recordOf(charge);
    expect(cancelled).toMatchObject({ state: 'cancelled', attemptCount: 0 });
    for (const gone of ['effectPossibleSinceMs', 'leaseExpiresAtMs', 'dueAtMs'])
      expect(cancelled).not.toHaveProperty(gone);
    expect(await tenantOf(charge)).toMatchObject({ running: {}, accepted: {} });
    expect((await bench.stack.queueDepth()).total).toBe(0);
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 0, posts: 1 });
  });

  test('asked for while in doubt is kept, and never takes effect on a later "nothing was sent"', async () => {
    const charge = fresh();
    fault(charge, { kind: 'reset', effect: 'done' });
    expect(await deliver(charge)).toBe('comes back');
    expect(await bench.cancel(charge)).toMatchObject({ kind: 'refused', operation: { state: 'queued' } });
    fault(charge, limited);
    expect(await deliver(charge, 2)).toBe('comes back');
    expect(await recordOf(charge)).toMatchObject({
      state: 'queued',
      effectPossibleSinceMs: expect.any(Number),
    });
    expect(await deliver(charge, 3)).toBe('acknowledged');
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
  });

  test('of one whose worker died after its claim is refused, and the next delivery charges', async () => {
    const charge = fresh();
    dieAfterClaim(bench, charge);
    await deliver(charge);
    for (const move of [async () => {}, () => pastTheLease(bench)]) {
      await move();
      expect(await bench.cancel(charge)).toMatchObject({ kind: 'refused', operation: { state: 'running' } });
    }
    expect(await deliver(charge, 2)).toBe('acknowledged');
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
  });

  test('of one that waits after a 429 takes effect at once', async () => {
    const charge = fresh();
    fault(charge, limited);
    await deliver(charge);
    expect(await bench.cancel(charge)).toMatchObject({ kind: 'cancelled' });
    expect(await deliver(charge, 2)).toBe('acknowledged');
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 0, posts: 1 });
  });

  test('of one that is parked without a possible effect takes effect, and its redrive does nothing', async () => {
    const charge = fresh();
    fault(charge, { kind: 'answer', status: 403 });
    await deliver(charge);
    expect(await bench.cancel(charge)).toMatchObject({ kind: 'cancelled' });
    await bench.stack.clock.advance(1000);
    expect(await deliver(charge)).toBe('acknowledged');
    expect(await evidenceOf(bench, charge)).toMatchObject({ charges: 0, posts: 1 });
  });

  test('of one that is parked with a possible effect, or settling, is refused', async () => {
    const [parked, settling] = [fresh(), fresh({ input: { paymentMethodId: 'pm_usBankAccount_success' } })];
    fault(parked, { kind: 'answer', status: 400, error: { type: 'idempotency_error' } });
    for (const each of [parked, settling]) {
      await deliver(each);
      const { state } = Object(await recordOf(each));
      expect(await bench.cancel(each)).toMatchObject({ kind: 'refused', operation: { state } });
      expect(await recordOf(each)).toMatchObject({ state });
    }
  });

  test.each([
    ['succeeded', 'pm_A', 'refund'],
    ['failed', 'pm_card_chargeDeclined', 'nothing to cancel'],
  ])(
    'of one that has %s is refused, and the record stays as it is',
    async (state, paymentMethodId, advice) => {
      const charge = fresh({ input: { paymentMethodId } });
      await deliver(charge);
      const ended = await recordOf(charge);
      expect(ended).toMatchObject({ state });
      expect(await bench.cancel(charge)).toMatchObject({
        kind: 'refused',
        operation: { state },
        advice: expect.stringContaining(advice),
      });
      expect(await recordOf(charge)).toEqual(ended);
    },
  );

  test("of an id that nobody knows, or of another tenant's, is unknown and leaves no record", async () => {
    const charge = fresh();
    await bench.accept(charge);
    const before = await recordOf(charge);
    for (const id of [fresh(), { tenantId: 'somebody-else', operationId: charge.operationId }]) {
      expect(await bench.cancel(id)).toEqual({ kind: 'unknown' });
      expect(await recordOf(id)).toBeUndefined();
    }
    expect(await recordOf(charge)).toEqual(before);
  });

  test('that races a claim has one winner, however they meet', async () => {
    for (const when of ['before', 'after'] as const) {
      const charge = fresh();
      await bench.accept(charge);
      let answer: Awaited<ReturnType<WorkerBench['cancel']>> | undefined;
      onWrites(bench, charge, 'claim', [
        {
          kind: 'hook',
          [when]: async (): Promise<'continue'> => {
            answer = await bench.cancel(charge);
            return 'continue';
          },
        },
      ]);
      await bench.drain();
      const isCancelled = when === 'before';
      expect(answer?.kind).toBe(isCancelled ? 'cancelled' : 'refused');
      expect(await evidenceOf(bench, charge)).toMatchObject({
        charges: isCancelled ? 0 : 1,
        record: { state: isCancelled ? 'cancelled' : 'succeeded' },
      });
      expect(await tenantOf(charge)).toMatchObject({ running: {}, accepted: {} });
    }
  });

  test('whose answers were lost is told as what it is', async () => {
    const charge = fresh();
    await bench.accept(charge);
    onWrites(bench, charge, 'settle', [{ kind: 'loseAnswer' }]);
    expect(await bench.cancel(charge)).toMatchObject({ kind: 'cancelled' });
  });
});

describe('any interleaving of a cancel with claims and outcomes', () => {
  const outcomes = [
    'ok',
    '429',
    'lost before',
    'lost after',
    'declined',
    'died at claim',
    'died at settle',
  ] as const;
  const points = ['none', 'before claim', 'after claim', 'before settle', 'after settle'] as const;
  const step = fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({
        kind: fc.constant('deliver' as const),
        outcome: fc.constantFrom(...outcomes),
        cancelAt: fc.constantFrom(...points),
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('cancel' as const, 'wait' as const) }) },
  );

  /** @returns what takes the plan back */
  function plan(of: Job, outcome: (typeof outcomes)[number], cancelAt: (typeof points)[number]) {
    const at = (name: 'claim' | 'settle', planned: ProxyFault) =>
      bench.stack.dynamodbProxy.intercept({ ...writesOf(of, name), times: 1 }, planned);
    const ask = async (): Promise<'continue'> => {
      await bench.cancel(of);
      return 'continue';
    };
    const lost: ProxyFault = { kind: 'loseRequest' };
    const stripe = (planned: Parameters<WorkerBench['stripe']['fault']>[0]) =>
      bench.stripe.fault(planned, { operationId: of.operationId });
    const plans: (() => void)[] = [];
    if (cancelAt === 'before claim') plans.push(at('claim', { kind: 'hook', before: ask }));
    if (cancelAt === 'after claim') plans.push(at('claim', { kind: 'hook', after: ask }));
    if (cancelAt === 'before settle') plans.push(at('settle', { kind: 'hook', before: ask }));
    if (cancelAt === 'after settle') plans.push(at('settle', { kind: 'hook', after: ask }));
    if (outcome === '429') plans.push(stripe(limited));
    if (outcome === 'lost before') plans.push(stripe({ kind: 'reset', effect: 'none' }));
    if (outcome === 'lost after') plans.push(stripe({ kind: 'reset', effect: 'done' }));
    if (outcome === 'declined')
      plans.push(
        stripe({
          kind: 'answer',
          status: 402,
          error: { type: 'card_error', code: 'card_declined' },
          save: true,
        }),
      );
    if (outcome === 'died at claim' && cancelAt === 'none')
      plans.push(at('claim', { kind: 'loseAnswer' }), at('claim', lost), at('claim', lost));
    if (outcome === 'died at settle' && cancelAt === 'none')
      plans.push(at('settle', lost), at('settle', lost), at('settle', lost));
    return () => {
      for (const remove of plans) remove();
    };
  }

  test('"cancelled" is said only where no money moved, and none moves after it', async () => {
    const seen = new Set<string>();
    await fc.assert(
      fc.asyncProperty(
        fc.boolean(),
        fc.array(step, { minLength: 1, maxLength: 6 }),
        async (isAccepted, steps) => {
          const charge = fresh();
          if (isAccepted) await bench.accept(charge);
          const moved = async () => (await evidenceOf(bench, charge)).charges;
          let cancelled = false;
          let deliveries = 0;
          for (const next of steps) {
            if (next.kind === 'wait') await pastTheLease(bench);
            if (next.kind === 'cancel') {
              const { kind } = await bench.cancel(charge);
              expect(kind === 'cancelled').toBe((await recordOf(charge))?.state === 'cancelled');
            }
            if (next.kind === 'deliver') {
              const before = await recordOf(charge);
              const postsBefore = (await evidenceOf(bench, charge)).posts;
              const remove = plan(charge, next.outcome, next.cancelAt);
              deliveries += 1;
              await deliver(charge, Math.min(4, deliveries));
              remove();
              const isCalled = (await evidenceOf(bench, charge)).posts > postsBefore;
              const isFirstEffect = before?.effectPossibleSinceMs === undefined;
              const isAskedWhileRunning =
                next.cancelAt === 'after claim' || next.cancelAt === 'before settle';
              // It takes effect at the next point where no effect is proven.
              if (isCalled && next.outcome === '429' && isFirstEffect && isAskedWhileRunning)
                expect(await recordOf(charge)).toMatchObject({ state: 'cancelled' });
            }
            const { state } = Object(await recordOf(charge));
            if (cancelled) expect(state).toBe('cancelled');
            cancelled ||= state === 'cancelled';
            if (cancelled) expect(await moved()).toBe(0);
          }
          // Whatever is left in flight: it ends, and not against what was said.
          await pastTheLease(bench);
          await deliver(charge);
          const { state } = Object(await recordOf(charge));
          seen.add(state);
          expect(['succeeded', 'failed', 'cancelled', 'parked']).toContain(state);
          if (cancelled) expect([state, await moved()]).toEqual(['cancelled', 0]);
          if (state === 'succeeded') expect(await moved()).toBe(1);
          if (isAccepted) expect(await tenantOf(charge)).toMatchObject({ running: {}, accepted: {} });
        },
      ),
      { numRuns: 25 },
    );
    expect([...seen]).toEqual(expect.arrayContaining(['succeeded', 'cancelled']));
  });
});
