import type { Fault } from '../../../local/stripe-faults';
import { job, record, startWorkerBench, type WorkerBench } from '../../support/worker-bench';
import { evidenceOf } from '../fixtures';

let bench: WorkerBench;
beforeAll(async () => {
  bench = await startWorkerBench();
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => bench.stop());
afterEach(() => bench.stripe.clearFaults());

type Job = ReturnType<typeof job>;
const evidence = (of: Job) => evidenceOf(bench, of);
const deliver = async (of: Job, receiveCount = 1) => {
  bench.visibilities();
  const delivered = record(of, { receiveCount });
  const failed = await bench.deliver([delivered]);
  if (failed.length === 0) return 'acknowledged';
  return bench.visibilities().get(delivered.messageId) === 0 ? 'given up' : 'deferred';
};
const refused = (status: number, error: Readonly<Record<string, string>>): Fault => ({
  kind: 'answer',
  status,
  error,
  save: status === 402,
});
const invalid = (code: string, message = 'no') =>
  refused(400, { type: 'invalid_request_error', code, message });

describe('BL-15 a final answer', () => {
  test.each<[string, Fault, string]>([
    [
      '402 insufficient_funds',
      refused(402, { type: 'card_error', code: 'card_declined', decline_code: 'insufficient_funds' }),
      'card_declined',
    ],
    [
      '402 expired_card',
      refused(402, { type: 'card_error', code: 'expired_card', decline_code: 'expired_card' }),
      'expired_card',
    ],
    ['400 no such customer', invalid('resource_missing'), 'resource_missing'],
    [
      '400 payment method not attached',
      invalid('payment_method_unexpected_state'),
      'payment_method_unexpected_state',
    ],
    [
      '400 exists in test mode',
      invalid('resource_missing', 'a similar object exists in test mode'),
      'resource_missing',
    ],
    ['400 amount too small', invalid('amount_too_small'), 'amount_too_small'],
    ['404', refused(404, { type: 'invalid_request_error', code: 'resource_missing' }), 'resource_missing'],
  ])('BL-15 %s fails at once with its code; two redeliveries do nothing', async (_name, answer, code) => {
    const charge = job();
    bench.stripe.fault(answer, { operationId: charge.operationId });
    expect(await deliver(charge)).toBe('acknowledged');
    const failed = await evidence(charge);
    expect(failed).toMatchObject({
      charges: 0,
      posts: 1,
      keys: [expect.any(String)],
      record: { state: 'failed', error: { code } },
    });
    expect(failed.record).not.toHaveProperty('leaseExpiresAtMs');
    for (const receiveCount of [2, 3]) expect(await deliver(charge, receiveCount)).toBe('acknowledged');
    expect(await evidence(charge)).toEqual(failed);
  });

  test.each([
    ['its words', invalid('resource_missing', 'No such customer; a similar object exists in live mode')],
    ['its code', invalid('livemode_mismatch')],
  ])('BL-15 a key of the other mode, by %s, pages somebody', async (_how, answer) => {
    const charge = job();
    bench.stripe.fault(answer, { operationId: charge.operationId });
    bench.logs();
    expect(await deliver(charge)).toBe('acknowledged');
    // The alarm OtherMode counts the calls with this outcome.
    expect(bench.logs()).toContainEqual(
      expect.objectContaining({ operationId: charge.operationId, outcome: 'invalid:other_mode' }),
    );
    expect(await evidence(charge)).toMatchObject({ charges: 0, posts: 1, record: { state: 'failed' } });
  });

  test('BL-15 403 is parked, and its message goes to the dead-letter queue', async () => {
    const charge = job();
    bench.stripe.fault(refused(403, {}), { operationId: charge.operationId });
    const sent = record(charge);
    expect(await bench.deliver([sent])).toEqual([sent.messageId]);
    expect(await evidence(charge)).toMatchObject({
      charges: 0,
      posts: 1,
      record: { state: 'parked', parkedReason: 'provider_forbidden' },
    });
    for (let more = 0; more < 2; more++) expect(await bench.deliver([sent])).toEqual([sent.messageId]);
    expect(await evidence(charge)).toMatchObject({ posts: 1 });
  });

  test('BL-15 a decline leaves a second try to a new operation id', async () => {
    const charge = job({ input: { paymentMethodId: 'pm_card_chargeDeclined' } });
    await deliver(charge);
    const again = job({ input: charge.input, operationId: `${charge.operationId}-b` });
    expect(await deliver({ ...again, input: { ...again.input, paymentMethodId: 'pm_A' } })).toBe(
      'acknowledged',
    );
    expect(await evidence(again)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
  });

  test.each<[string, Fault]>([
    ['a reset', { kind: 'reset', effect: 'none' }],
    ['409', refused(409, {})],
    ['429', refused(429, {})],
    ['500', { kind: 'answer', status: 500, save: false }],
    ['503', { kind: 'answer', status: 503 }],
  ])('BL-15 %s is not final: deferred, and the next delivery charges', async (_name, answer) => {
    const charge = job();
    bench.stripe.fault(answer, { operationId: charge.operationId });
    expect(await deliver(charge)).toBe('deferred');
    expect(await deliver(charge, 2)).toBe('acknowledged');
    expect(await evidence(charge)).toMatchObject({
      charges: 1,
      posts: 2,
      keys: [expect.any(String)],
      record: { state: 'succeeded' },
    });
  });
});

describe('BL-16 a payment that needs the customer', () => {
  test.each([
    ['a: the 402', 'pm_card_authenticationRequired', 'requires_payment_method'],
    ['b: the 200', 'pm_requiresAction', 'canceled'],
  ])(
    'BL-16 %s ends failed with the intent stored, not paid, not retried, not payable later',
    async (_shape, paymentMethodId, status) => {
      const charge = job({ input: { paymentMethodId } });
      expect(await deliver(charge)).toBe('acknowledged');
      const failed = await evidence(charge);
      expect(failed).toMatchObject({
        charges: 0,
        posts: 1,
        record: {
          state: 'failed',
          error: { code: 'authentication_required' },
          providerRef: expect.stringMatching(/^pi_/),
        },
      });
      const intents = bench.stripe
        .paymentIntents()
        .filter(({ metadata }) => metadata.operationId === charge.operationId);
      expect(intents).toEqual([expect.objectContaining({ id: failed.record?.providerRef, status })]);
      expect(await deliver(charge, 2)).toBe('acknowledged');
      expect(await evidence(charge)).toEqual(failed);
    },
  );

  test.each(['requires_confirmation', 'requires_capture', 'a_status_of_the_future'])(
    'BL-16 200 with %s is unknown with its reference, never success, and ends parked',
    async (status) => {
      const charge = job({ input: { paymentMethodId: `pm_status_${status}` } });
      for (let receiveCount = 1; receiveCount <= 4; receiveCount++)
        expect(await deliver(charge, receiveCount)).toBe('deferred');
      expect(await deliver(charge, 5)).toBe('given up');
      expect(await evidence(charge)).toMatchObject({
        charges: 0,
        posts: 5,
        keys: [expect.any(String)],
        record: {
          state: 'parked',
          parkedReason: 'attempts_exhausted',
          providerRef: expect.stringMatching(/^pi_/),
        },
      });
    },
  );

  test('BL-16 200 with canceled is failed', async () => {
    const charge = job({ input: { paymentMethodId: 'pm_status_canceled' } });
    expect(await deliver(charge)).toBe('acknowledged');
    expect(await evidence(charge)).toMatchObject({
      charges: 0,
      record: { state: 'failed', error: { code: 'canceled' } },
    });
  });
});

describe('BL-17 time-outs and retries fit inside the function', () => {
  test.each<[string, Fault, number]>([
    ['a: the charge is made and no answer comes', { kind: 'stall', ms: 60_000, effect: 'done' }, 1],
    ['b: the socket is reset after the body was read and used', { kind: 'reset', effect: 'done' }, 1],
    ['c: the socket is reset and nothing was done', { kind: 'reset', effect: 'none' }, 0],
    ['d: the answer comes after 25 s', { kind: 'stall', ms: 25_000, effect: 'none' }, 0],
  ])('BL-17 %s: unknown, one POST, and the batch is answered in time', async (_name, answer, charges) => {
    const [charge, ...others] = [job(), job(), job()];
    if (!charge) throw new Error('it is there');
    bench.stripe.fault(answer, { operationId: charge.operationId });
    const startMs = performance.now();
    const sent = record(charge);
    expect(await bench.deliver([sent, ...others.map((of) => record(of))])).toEqual([sent.messageId]);
    expect(performance.now() - startMs).toBeLessThan(bench.stack.limits.workerTimeoutSeconds * 1000);
    expect(await evidence(charge)).toMatchObject({
      charges,
      posts: 1,
      keys: [expect.any(String)],
      record: { state: 'queued', attemptCount: 1, effectPossibleSinceMs: expect.any(Number) },
    });
    for (const each of others) expect(await evidence(each)).toMatchObject({ charges: 1 });
    expect(await deliver(charge, 2)).toBe('acknowledged');
    expect(await evidence(charge)).toMatchObject({
      charges: 1,
      posts: 2,
      keys: [expect.any(String)],
      record: { state: 'succeeded' },
    });
  });

  test('BL-17 a request that lands after its sender gave up, and after the next attempt, moves no money again', async () => {
    const charge = job();
    bench.stripe.fault({ kind: 'lateEffect', ms: 150 }, { operationId: charge.operationId });
    expect(await deliver(charge)).toBe('deferred');
    expect(await deliver(charge, 2)).toBe('acknowledged');
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(await evidence(charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
  });
});
