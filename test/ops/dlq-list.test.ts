import { currentVersion } from '../../lambdas/operation/message';
import type { OpsBench } from '../support/ops-bench';
import { startOpsBench } from '../support/ops-bench';
import { job, refundOf } from '../support/worker-bench';

const hourMs = 3_600_000;
const card = '4242424242424242';

/** Jobs by why they are in the dead-letter queue. */
const neverHeardOf = job({ operationId: 'never-heard-of' });
const neverAttempted = job({ operationId: 'never-attempted' });
const parked = job({ operationId: 'parked' });
const exhausted = job({ operationId: 'redriven-too-often' });
const ended = job({ operationId: 'ended' });
const conflicting = job({ operationId: 'ended', input: { amountMinor: 9000 } });
const underWay = job({ operationId: 'under-way' });
const newer = { ...job({ operationId: 'newer' }), version: currentVersion + 1 };
const refund = refundOf(ended, 100, { operationId: 'refund' });
const unreadable = job({ operationId: 'unreadable' });
const broken = { ...job({ operationId: 'broken' }), input: { amountMinor: '19.99', note: card } };

let bench: OpsBench;
let listed: Record<string, unknown>;

beforeAll(async () => {
  bench = await startOpsBench();
  const nowMs = bench.stack.clock.now();
  const parking = { state: 'parked', attemptCount: 5, parkedAtMs: nowMs, effectPossibleSinceMs: nowMs - 1 };
  await Promise.all([
    bench.record(neverAttempted),
    bench.record(parked, { ...parking, parkedReason: 'attempts_exhausted' }),
    bench.record(exhausted, { ...parking, parkedReason: 'attempts_exhausted', redriveCount: 5 }),
    bench.record(ended, { state: 'succeeded', attemptCount: 1, providerRef: 'pi_1' }),
    bench.record(underWay, { attemptCount: 2, effectPossibleSinceMs: nowMs - 1 }),
    bench.put({ pk: 'op#acme#unreadable', state: 'a state of next year' }),
  ]);
  const bodies = [
    neverHeardOf,
    neverAttempted,
    parked,
    exhausted,
    ended,
    conflicting,
    underWay,
    newer,
    refund,
    unreadable,
    broken,
    'no JSON at all',
  ];
  for (const body of bodies) await bench.deadLetter(body);
  await bench.stack.clock.advance(hourMs);
  listed = await bench.json('dlq list');
});
afterAll(() => bench.stop());

const messages = (): Record<string, unknown>[] => {
  if (!Array.isArray(listed.messages)) throw new Error('There are no messages.');
  return listed.messages;
};
const shown = (operationId: string | undefined, kind: string) =>
  messages().find((message) => message.operationId === operationId && message.kind === kind);

describe('dlq list', () => {
  test.each([
    ['never-heard-of', 'NEVER_STARTED', false, { outcome: 'runs' }],
    ['never-attempted', 'NEVER_STARTED', false, { outcome: 'runs' }],
    ['parked', 'PARKED', true, { outcome: 'runs' }],
    ['redriven-too-often', 'PARKED', true, { outcome: 'refused', why: 'redrives_exhausted' }],
    ['ended', 'ENDED', true, { outcome: 'acknowledged' }],
    ['ended', 'INPUT_CONFLICT', false, { outcome: 'refused', why: 'input_conflict' }],
    ['under-way', 'UNDER_WAY', true, { outcome: 'runs' }],
    ['newer', 'UNSUPPORTED_VERSION', false, { outcome: 'refused', why: 'unsupported_version' }],
    ['refund', 'DIRECT_REFUND', false, { outcome: 'refused', why: 'direct_refund' }],
    ['unreadable', 'UNREADABLE_RECORD', true, { outcome: 'waits', why: 'unreadable_record' }],
    ['broken', 'MALFORMED', false, { outcome: 'refused', why: 'malformed' }],
    [undefined, 'MALFORMED', false, { outcome: 'refused', why: 'malformed' }],
  ])('shows %s as %s, with whether money may have moved', (id, kind, moneyMayHaveMoved, redrive) => {
    expect(shown(id, kind)).toMatchObject({ kind, moneyMayHaveMoved, redrive });
  });

  test('says of each its state, reason, attempts, age and receives', () => {
    expect(shown('parked', 'PARKED')).toMatchObject({
      tenantId: 'acme',
      type: 'charge',
      state: 'parked',
      parkedReason: 'attempts_exhausted',
      attemptCount: 5,
      redriveCount: 0,
      receiveCount: 1,
      ageSeconds: expect.closeTo(3600, -1),
    });
    expect(shown('broken', 'MALFORMED')?.problem).toContain('input.amountMinor is "19.99"');
  });

  test('counts by kind, and says that it saw all', () => {
    expect(listed).toMatchObject({
      target: 'the laptop stack',
      count: 12,
      byKind: { NEVER_STARTED: 2, PARKED: 2, MALFORMED: 2, INPUT_CONFLICT: 1 },
      isComplete: true,
      hiddenBefore: 0,
      stillHidden: 0,
    });
  });

  test('shows each message to others again, and says that it hid them', async () => {
    const again = await bench.ops('dlq list');
    expect(again.exitCode).toBe(0);
    expect(again.out).toContain('12 messages in the dead-letter queue of the laptop stack');
    expect(again.out).toContain('hid each of them for a moment');
    expect(again.out).toMatch(/acme\/ended +INPUT_CONFLICT +succeeded +no +1 h/);
  });

  test('shows no card number and no body', async () => {
    const { out } = await bench.ops('dlq list');
    expect(`${JSON.stringify(listed)}${out}`).not.toContain(card);
    expect(out).not.toContain('no JSON at all');
  });

  test('with --limit says that there may be more', async () => {
    expect(await bench.json('dlq list --limit 3')).toMatchObject({ count: 3, isComplete: false });
  });

  test('says how many messages stay hidden that could not be shown again', async () => {
    const fault = { kind: 'answer', statusCode: 400, error: 'AccessDenied' } as const;
    const remove = bench.stack.sqsProxy.intercept(
      { action: 'ChangeMessageVisibilityBatch', times: 1 },
      fault,
    );
    const limited = await bench.json('dlq list --limit 2');
    remove();
    expect(limited).toMatchObject({ count: 2, stillHidden: 2 });
    expect(await bench.json('dlq list')).toMatchObject({ count: 10, hiddenBefore: 2 });
    await bench.stack.clock.advance(61_000);
  });

  test('without the table shows all messages to others again, and says what is wrong', async () => {
    const fault = { kind: 'answer', statusCode: 400, error: 'AccessDeniedException' } as const;
    const remove = bench.stack.dynamodbProxy.intercept({ action: 'BatchGetItem' }, fault);
    const failed = await bench.ops('dlq list');
    remove();
    expect(failed.exitCode).toBe(1);
    expect(failed.err).toContain('AWS denied it');
    expect(await bench.json('dlq list')).toMatchObject({ count: 12, hiddenBefore: 0 });
  });
});
