import { type OpsBench, startOpsBench } from '../support/ops-bench';
import { job, refundOf } from '../support/worker-bench';

// What a redrive would do with a dead-lettered refund depends on its charge: the verdict looks at it as the worker will.

const amountMinor = 1000;
const paid = { state: 'succeeded', attemptCount: 1, providerRef: 'pi_1' };
const partOf = (refundId: string, part: number) => ({
  refunds: { [refundId]: { amountMinor: part, reservedAtMs: 1 } },
  refundedMinor: part,
});

const runs = { outcome: 'runs' };
const ends = (why: string) => ({ outcome: 'ends', why });
const waits = (why: string) => ({ outcome: 'waits', why });

/** Refunds of 1000 by their ids: the record of the charge of 1999, if it has one, and what a redrive does. */
const refunds: [id: string, kind: string, charge: object | undefined, redrive: object][] = [
  ['of-a-paid-one', 'NEVER_STARTED', paid, runs],
  ['of-what-is-left', 'NEVER_STARTED', { ...paid, ...partOf('another', 999) }, runs],
  [
    'of-more-than-is-left',
    'NEVER_STARTED',
    { ...paid, ...partOf('another', 1000) },
    ends('refund_exceeds_charge'),
  ],
  ['of-a-failed-one', 'NEVER_STARTED', { state: 'failed', attemptCount: 1 }, ends('charge_not_succeeded')],
  ['of-a-cancelled-one', 'NEVER_STARTED', { state: 'cancelled' }, ends('charge_not_succeeded')],
  ['of-an-open-one', 'NEVER_STARTED', {}, waits('charge_not_final')],
  ['of-an-unknown-one', 'NEVER_STARTED', undefined, waits('charge_not_final')],
  ['of-a-newer-one', 'UNREADABLE_RECORD', { state: 'a state of next year' }, waits('unreadable_record')],
  ['parked-with-its-part', 'PARKED', { ...paid, ...partOf('parked-with-its-part', amountMinor) }, runs],
];

let bench: OpsBench;
let listed: Record<string, unknown>;

beforeAll(async () => {
  bench = await startOpsBench({ limits: { allowDirectRefunds: true } });
  const nowMs = bench.stack.clock.now();
  // A part whose refund has no record was left by a crash: the worker would give it back.
  await bench.record(refundOf(job(), amountMinor, { operationId: 'another' }), { state: 'succeeded' });
  for (const [operationId, kind, record] of refunds) {
    const charge = job({ operationId: `charge-${operationId}` });
    const refund = refundOf(charge, amountMinor, { operationId });
    if (record) await bench.record(charge, { ...record });
    if (kind === 'PARKED') {
      const parked = { state: 'parked', parkedReason: 'attempts_exhausted', attemptCount: 5 };
      await bench.record(refund, { ...parked, parkedAtMs: nowMs, effectPossibleSinceMs: nowMs });
    }
    await bench.deadLetter(refund);
  }
  await bench.stack.clock.advance(1000);
  listed = await bench.json('dlq list');
});
afterAll(() => bench.stop());

test.each(refunds)('the redrive of a refund %s (%s)', (operationId, kind, _, redrive) => {
  expect(listed.messages).toContainEqual(expect.objectContaining({ operationId, kind, redrive }));
});

test('what is said to end does, without a call', async () => {
  for (const [operationId, , , redrive] of refunds) {
    if (!('why' in redrive) || !('outcome' in redrive) || redrive.outcome !== 'ends') continue;
    await bench.json(`dlq redrive --operation acme/${operationId}`);
    await bench.work();
    expect(await bench.stack.operation('acme', operationId)).toMatchObject({
      state: 'failed',
      error: { code: redrive.why },
    });
  }
  expect(bench.stack.stripe?.requests()).toEqual([]);
});
