import fc from 'fast-check';
import {
  backOffSeconds,
  type Delivery,
  decide,
  maxRedrives,
  secondsUntil,
  windowOpensAtMs,
} from '../../../lambdas/operation/delivery';
import { digestOf } from '../../../lambdas/operation/digest';
import { leaseMs, limitsFrom } from '../../../lambdas/operation/limits';
import type { Operation } from '../../../lambdas/operation/operation';
import { isTerminal, parkedReasons, states } from '../../../lambdas/operation/state';
import { type Charge, hourMs, message, nowMs, operation } from '../fixtures';

const limits = limitsFrom();
/** The lease's length is off it: a request may land a quiet hour after its lease, and still within a day. */
const windowMs = limits.providerWindowHours * hourMs - leaseMs(limits);
const delivery = (changes: Partial<Delivery> = {}): Delivery => ({
  message,
  inputDigest: digestOf(message),
  receiveCount: 1,
  sentAtMs: nowMs - 1000,
  ...changes,
});
const decideNow = (seen: Operation | undefined, of = delivery()) => decide(of, seen, limits, nowMs);

/** Every state, digest, lease, window, attempts, redrive and reason, with the parts that decide. */
const combinations = states.flatMap((state) =>
  [true, false].flatMap((isSameDigest) =>
    [-1, 0, 1, 60_000].flatMap((leaseLeftMs) =>
      [undefined, nowMs - 1, nowMs - windowMs + 1, nowMs - windowMs, nowMs - windowMs - 1].flatMap(
        (effectSinceMs) =>
          [0, 4, 5, 6].flatMap((attemptCount) =>
            [-1, 0, 1].flatMap((sentAfterParkMs) =>
              [0, maxRedrives - 1, maxRedrives].flatMap((redriveCount) =>
                (state === 'parked' ? parkedReasons : [undefined]).map((parkedReason) => ({
                  isSameDigest,
                  isLive: state === 'running' && leaseLeftMs >= 0,
                  isWindowOpen: effectSinceMs === undefined || effectSinceMs > nowMs - windowMs,
                  hasAttempts: attemptCount < 5,
                  isRedriven: state === 'parked' && sentAfterParkMs > 0,
                  seen: operation({
                    state,
                    attemptCount,
                    redriveCount,
                    ...(isSameDigest ? {} : { inputDigest: 'another' }),
                    ...(state === 'running' ? { leaseExpiresAtMs: nowMs + leaseLeftMs } : {}),
                    ...(effectSinceMs === undefined ? {} : { effectPossibleSinceMs: effectSinceMs }),
                    ...(parkedReason ? { parkedReason, parkedAtMs: nowMs - 1000 - sentAfterParkMs } : {}),
                  }),
                })),
              ),
            ),
          ),
      ),
    ),
  ),
);

test('an operation that nobody knows is claimed', () => {
  expect(decideNow(undefined)).toEqual({ kind: 'claim', isRedrive: false });
});

test('other inputs under a known id are rejected in every state, with what to do', () => {
  const conflicts = combinations.filter(({ isSameDigest }) => !isSameDigest);
  expect(new Set(conflicts.map(({ seen }) => seen.state))).toEqual(new Set(states));
  for (const { seen } of conflicts) {
    expect(decideNow(seen)).toEqual({
      kind: 'reject',
      reason: 'input_conflict',
      problem:
        'operation op-1001 of tenant acme is bound to other inputs; send changed inputs under a new operationId',
    });
  }
});

test('a claim is made exactly when digest, state, lease, window, attempts and redrive all allow it', () => {
  const keyIsDead = ['provider_key_spent', 'provider_conflict'];
  let claims = 0;
  for (const { seen, isSameDigest, isLive, isWindowOpen, hasAttempts, isRedriven } of combinations) {
    const isOpen = seen.state === 'queued' || (seen.state === 'running' && !isLive);
    const mayRedrive =
      isRedriven && seen.redriveCount < maxRedrives && !keyIsDead.includes(seen.parkedReason ?? '');
    const may = isSameDigest && isWindowOpen && ((isOpen && hasAttempts) || mayRedrive);
    const decision = decideNow(seen);
    expect([decision.kind === 'claim', decision.kind === 'claim' && decision.isRedrive]).toEqual([
      may,
      may && isRedriven,
    ]);
    claims += may ? 1 : 0;
  }
  expect(claims).toBeGreaterThan(100);
});

test('a terminal or settling operation acknowledges its message as a replay, whatever its lease, window or attempts', () => {
  for (const { seen, isSameDigest } of combinations) {
    if (!isSameDigest || !(isTerminal(seen.state) || seen.state === 'settling')) continue;
    expect(decideNow(seen)).toEqual({ kind: 'acknowledge', reason: 'replay' });
  }
});

test('a parked operation never acknowledges its message, and a running one never before its settle', () => {
  for (const { seen, isSameDigest } of combinations) {
    if (!isSameDigest || !['parked', 'running', 'queued'].includes(seen.state)) continue;
    expect(decideNow(seen).kind).not.toBe('acknowledge');
  }
});

test('a live lease defers to just after its end, even when window or attempts are used up', () => {
  for (const { seen, isSameDigest, isLive } of combinations) {
    if (!isSameDigest || !isLive) continue;
    const delaySeconds = seen.leaseExpiresAtMs === nowMs + 60_000 ? 61 : 1;
    expect(decideNow(seen)).toEqual({ kind: 'defer', reason: 'live_lease', delaySeconds });
  }
});

test('outside the window an open operation is reconciled before anything else, and one without attempts is parked', () => {
  for (const { seen, isSameDigest, isLive, isWindowOpen, hasAttempts } of combinations) {
    if (!isSameDigest || isLive || !['queued', 'running'].includes(seen.state)) continue;
    if (isWindowOpen && hasAttempts) continue;
    expect(decideNow(seen)).toEqual(
      isWindowOpen
        ? { kind: 'park', parkedReason: 'attempts_exhausted' }
        : { kind: 'reconcile', parkedReason: 'provider_window_closed' },
    );
  }
});

test('a redrive is reconciled first where the key is spent or the window closed, and keeps its reason where that tells nothing', () => {
  let reconciled = 0;
  for (const { seen, isSameDigest, isWindowOpen, isRedriven } of combinations) {
    if (!isSameDigest || !isRedriven) continue;
    const isSpent = ['provider_key_spent', 'provider_conflict'].includes(seen.parkedReason ?? '');
    if (!isSpent && isWindowOpen) continue;
    const parkedReason = isSpent ? seen.parkedReason : 'provider_window_closed';
    expect(decideNow(seen)).toEqual({ kind: 'reconcile', parkedReason });
    reconciled += 1;
  }
  expect(reconciled).toBeGreaterThan(100);
});

test('where an absence was proven, the window counts from that listing', () => {
  const since = (changes: Partial<Charge>) => decideNow(operation({ attemptCount: 1, ...changes })).kind;
  expect(since({ absentProvenAtMs: nowMs - windowMs + 1 })).toBe('claim');
  expect(since({ absentProvenAtMs: nowMs - windowMs })).toBe('reconcile');
  // What became possible after it was counted from it already.
  expect(since({ absentProvenAtMs: nowMs - windowMs, effectPossibleSinceMs: nowMs - windowMs + 1 })).toBe(
    'claim',
  );
});

test('a message sent before the park, or at that very time, drains with the reason of the park', () => {
  for (const { seen, isSameDigest, isRedriven } of combinations) {
    if (!isSameDigest || seen.state !== 'parked' || isRedriven) continue;
    expect(decideNow(seen)).toEqual({ kind: 'giveUp', reason: seen.parkedReason });
  }
});

test('a redrive that can do nothing says why', () => {
  const parked = (changes: Partial<Charge>) =>
    decideNow(operation({ state: 'parked', parkedAtMs: 0, parkedReason: 'attempts_exhausted', ...changes }));
  expect(parked({ redriveCount: 5 })).toEqual({ kind: 'giveUp', reason: 'redrives_exhausted' });
  expect(parked({ redriveCount: 4 })).toEqual({ kind: 'claim', isRedrive: true });
});

test('the window is a comparison of milliseconds', () => {
  expect(windowOpensAtMs(limits, nowMs)).toBe(nowMs - 23 * 3600 * 1000 + 60 * 1000);
});

test('a delay until a time ends just after it, never before and never more than a second late', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 43_000_000 }), (aheadMs) => {
      const endsMs = secondsUntil(nowMs + aheadMs, nowMs) * 1000;
      expect(endsMs).toBeGreaterThan(aheadMs);
      expect(endsMs).toBeLessThanOrEqual(aheadMs + 1000);
    }),
  );
});

test('a back-off is a whole number of seconds from 1 to the base doubled with every delivery, at most the cap', () => {
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1000 }),
      random,
      fc.integer({ min: 1, max: 900 }),
      (count, at, base) => {
        const of = limitsFrom({ retryBaseSeconds: base, retryCapSeconds: 900 });
        const seconds = backOffSeconds(of, count, () => at);
        expect(Number.isInteger(seconds)).toBe(true);
        expect(seconds).toBeGreaterThanOrEqual(1);
        expect(seconds).toBeLessThanOrEqual(Math.min(900, base * 2 ** (count - 1)));
      },
    ),
  );
});

test('a back-off has full jitter: the whole range is reached', () => {
  expect([1, 2, 3, 6, 9, 99].map((count) => backOffSeconds(limits, count, () => 0.999999))).toEqual([
    10, 20, 40, 300, 300, 300,
  ]);
  expect([1, 3, 99].map((count) => backOffSeconds(limits, count, () => 0))).toEqual([1, 1, 1]);
});
