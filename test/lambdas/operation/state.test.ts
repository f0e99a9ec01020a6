import type { Outcome } from '../../../lambdas/operation/outcome';
import {
  isTerminal,
  legalMoves,
  type Settlement,
  settlementOf,
  states,
} from '../../../lambdas/operation/state';

const error = { code: 'card_declined', message: 'no' };
const providerRef = 'pi_1';
const outcomes: readonly Outcome[] = [
  { kind: 'succeeded', providerRef, result: { amountMinor: 1999, currency: 'usd', chargeId: 'ch_1' } },
  { kind: 'accepted', providerRef },
  { kind: 'declined', error },
  { kind: 'declined', error, providerRef },
  { kind: 'invalid', error },
  { kind: 'effectExists', error },
  { kind: 'conflict', error },
  { kind: 'forbidden', error },
  { kind: 'notSent', reason: 'rate_limited' },
  { kind: 'unknown', reason: 'timeout', keySpent: false },
  { kind: 'unknown', reason: 'timeout', keySpent: false, providerRef },
  { kind: 'unknown', reason: 'status_500', keySpent: true },
];
const facts = [true, false].flatMap((isFirstEffect) =>
  [0, 1, 4].map((attemptsLeft) => ({ isFirstEffect, attemptsLeft })),
);
const all = outcomes.flatMap((outcome) =>
  facts.map((fact) => ({ outcome, ...fact, settlement: settlementOf(outcome, fact) })),
);

test('the table of legal moves is exactly this one', () => {
  expect(legalMoves.succeeded).toEqual([]);
  expect(legalMoves.failed).toEqual([]);
  expect(legalMoves.cancelled).toEqual([]);
  expect(states.filter(isTerminal)).toEqual(['succeeded', 'failed', 'cancelled']);
  for (const state of states) expect([...legalMoves[state]].sort()).toEqual([...moves[state]].sort());
  // Nothing that was accepted by the provider, parked or settled is ever forgotten by becoming new again.
  expect(legalMoves.settling).not.toContain('running');
  expect(legalMoves.settling).not.toContain('cancelled');
});

/** The states of ARCHITECTURE.md, and what proof (a reference that the provider returned, or an absence), a lapsed lease and a granted cancel add. */
const moves: Readonly<Record<(typeof states)[number], readonly string[]>> = {
  queued: ['queued', 'running', 'cancelled', 'failed', 'parked', 'succeeded', 'settling'],
  running: ['succeeded', 'failed', 'settling', 'queued', 'parked', 'running', 'cancelled'],
  settling: ['succeeded', 'failed', 'parked'],
  parked: ['running', 'succeeded', 'failed', 'cancelled', 'queued', 'settling'],
  succeeded: [],
  failed: [],
  cancelled: [],
};

test('every settlement of every outcome is a legal move from running', () => {
  for (const { settlement } of all) expect(legalMoves.running).toContain(settlement.state);
});

test('no outcome by itself cancels: only a wish that was asked for does', () => {
  for (const { settlement } of all) expect(settlement.state).not.toBe('cancelled');
});

test('a proof of an effect may settle every state that is not terminal', () => {
  for (const state of states.filter((of) => !isTerminal(of)))
    expect(legalMoves[state]).toContain('succeeded');
});

const settled = (outcome: Outcome, isFirstEffect: boolean, attemptsLeft: number): Settlement =>
  settlementOf(outcome, { isFirstEffect, attemptsLeft });

const keepsDoubt = { effect: 'unchanged', countsAsAttempt: true };

test.each<[string, Outcome, { first: object; later: object; last: object }]>([
  [
    'succeeded',
    { kind: 'succeeded', providerRef, result: {} },
    same({ state: 'succeeded', providerRef, result: {} }),
  ],
  ['accepted', { kind: 'accepted', providerRef }, same({ state: 'settling', providerRef })],
  ['declined', { kind: 'declined', error, providerRef }, same({ state: 'failed', error, providerRef })],
  [
    'invalid',
    { kind: 'invalid', error },
    {
      first: { state: 'failed', error },
      later: { state: 'parked', parkedReason: 'earlier_attempt_unproven', error, ...keepsDoubt },
      last: { state: 'parked', parkedReason: 'earlier_attempt_unproven', error, ...keepsDoubt },
    },
  ],
  [
    'effectExists',
    { kind: 'effectExists', error },
    same({ state: 'parked', parkedReason: 'effect_exists', error, ...keepsDoubt }),
  ],
  [
    'conflict',
    { kind: 'conflict', error },
    same({ state: 'parked', parkedReason: 'provider_conflict', error, ...keepsDoubt }),
  ],
  [
    'forbidden',
    { kind: 'forbidden', error },
    {
      first: {
        state: 'parked',
        parkedReason: 'provider_forbidden',
        error,
        effect: 'none',
        countsAsAttempt: false,
      },
      later: {
        state: 'parked',
        parkedReason: 'provider_forbidden',
        error,
        effect: 'unchanged',
        countsAsAttempt: false,
      },
      last: {
        state: 'parked',
        parkedReason: 'provider_forbidden',
        error,
        effect: 'unchanged',
        countsAsAttempt: false,
      },
    },
  ],
  [
    'notSent',
    { kind: 'notSent', reason: 'rate_limited' },
    {
      first: { state: 'queued', reason: 'rate_limited', effect: 'none', countsAsAttempt: false },
      later: { state: 'queued', reason: 'rate_limited', effect: 'unchanged', countsAsAttempt: false },
      // Nothing was sent: being at the limit does not matter.
      last: { state: 'queued', reason: 'rate_limited', effect: 'unchanged', countsAsAttempt: false },
    },
  ],
  [
    'unknown',
    { kind: 'unknown', reason: 'timeout', keySpent: false, providerRef },
    {
      first: { state: 'queued', reason: 'timeout', providerRef, ...keepsDoubt },
      later: { state: 'queued', reason: 'timeout', providerRef, ...keepsDoubt },
      last: { state: 'parked', parkedReason: 'attempts_exhausted', providerRef, ...keepsDoubt },
    },
  ],
  [
    'unknown, key spent',
    { kind: 'unknown', reason: 'status_500', keySpent: true },
    same({ state: 'parked', parkedReason: 'provider_key_spent', ...keepsDoubt }),
  ],
])('%s settles as its outcome says', (_name, outcome, { first, later, last }) => {
  expect(settled(outcome, true, 4)).toEqual(first);
  expect(settled(outcome, false, 4)).toEqual(later);
  expect(settled(outcome, false, 0)).toEqual(last);
});

function same(settlement: object) {
  return { first: settlement, later: settlement, last: settlement };
}

test('only the claim that made an effect possible can take that back, and never after an unknown outcome', () => {
  for (const { outcome, isFirstEffect, settlement } of all) {
    if (!('effect' in settlement) || settlement.effect !== 'none') continue;
    expect(isFirstEffect).toBe(true);
    expect(['notSent', 'forbidden']).toContain(outcome.kind);
  }
});

test('an earlier attempt in doubt is never overruled by a later refusal', () => {
  for (const { outcome, isFirstEffect, settlement } of all) {
    if (
      isFirstEffect ||
      !['invalid', 'forbidden', 'notSent', 'effectExists', 'conflict'].includes(outcome.kind)
    )
      continue;
    expect(['queued', 'parked']).toContain(settlement.state);
    expect(settlement).toMatchObject({ effect: 'unchanged' });
  }
});

test('every attempt that may have had an effect is counted', () => {
  for (const { outcome, settlement } of all) {
    if (!('countsAsAttempt' in settlement)) continue;
    expect(settlement.countsAsAttempt).toBe(!['notSent', 'forbidden'].includes(outcome.kind));
  }
});
