import fc from 'fast-check';
import { type LimitOverrides, limitsFrom } from '../../../lambdas/operation/limits';
import type { NotSentReason, Outcome } from '../../../lambdas/operation/outcome';
import {
  floorTokens,
  type Health,
  healthOf,
  isFailing,
  type ProviderState,
  retriesLeft,
  tokensPerRetry,
  windowStartOf,
} from '../../../lambdas/operation/provider-state';
import { nowMs } from '../fixtures';

const limits = limitsFrom();
const windowMs = limits.retryBudgetWindowSeconds * 1000;
const stateOf = (changes: Partial<ProviderState> = {}): ProviderState => ({
  shard: 0,
  windowStartMs: nowMs,
  windowCalls: 0,
  windowFailures: 0,
  retryTokens: 0,
  ...changes,
});

const error = { code: 'x', message: 'x' };
const unknown = (reason: string, keySpent = false) => ({ kind: 'unknown', reason, keySpent }) as const;

describe('what an outcome says of the provider', () => {
  test.each<[Health, Outcome]>([
    ['well', { kind: 'succeeded', providerRef: 'pi_1', result: {} }],
    ['well', { kind: 'accepted', providerRef: 'pi_1' }],
    ['well', { kind: 'declined', error }],
    ['well', { kind: 'invalid', error }],
    ['well', { kind: 'effectExists', error }],
    ['well', { kind: 'conflict', error }],
    // One foreign customer must not stop all.
    ['well', { kind: 'forbidden', error }],
    ['failing', unknown('timeout')],
    ['failing', unknown('connection_lost')],
    ['failing', unknown('status_500')],
    ['failing', unknown('status_503')],
    // What one key or one object meets is nobody else's trouble.
    ['well', unknown('status_500', true)],
    ['well', unknown('key_in_use')],
    ['well', unknown('unreadable_answer')],
    ['well', unknown('status_404')],
    ['well', unknown('intent_requires_capture')],
    ['well', unknown('cancel_unproven')],
  ])('%s: %j', (health, outcome) => {
    expect(healthOf(outcome)).toBe(health);
  });

  test.each<[Health, NotSentReason]>([
    ['failing', 'rate_limited'],
    ['failing', 'connection_refused'],
    ['failing', 'customer_unknown'],
    ['unauthorized', 'unauthorized'],
    ['well', 'lock_timeout'],
    ['uncalled', 'provider_key_missing'],
    ['uncalled', 'params_version_unknown'],
    ['uncalled', 'out_of_time'],
  ])('%s: not sent, %s', (health, reason) => {
    expect(healthOf({ kind: 'notSent', reason })).toBe(health);
  });
});

describe('a window', () => {
  test('begins at whole multiples of its length, whoever looks', () => {
    expect(windowStartOf(limits, undefined, nowMs)).toBe(nowMs);
    expect(windowStartOf(limits, undefined, nowMs + windowMs - 1)).toBe(nowMs);
    expect(windowStartOf(limits, undefined, nowMs + windowMs)).toBe(nowMs + windowMs);
  });

  test("is the record's where another worker's clock is ahead: none begins twice", () => {
    const ahead = stateOf({ windowStartMs: nowMs + windowMs });
    expect(windowStartOf(limits, ahead, nowMs + windowMs - 1)).toBe(nowMs + windowMs);
    expect(windowStartOf(limits, ahead, nowMs + 2 * windowMs)).toBe(nowMs + 2 * windowMs);
  });
});

describe('the retries that are left', () => {
  test('are the floor while nobody has taken or earned any in the window', () => {
    expect(retriesLeft(limits, undefined, nowMs)).toBe(limits.retryBudgetFloor);
    expect(retriesLeft(limits, stateOf({ retryTokens: 0 }), nowMs + windowMs)).toBe(limits.retryBudgetFloor);
  });

  test('are whole ones: ten first attempts earn a retry, nine none', () => {
    const earned = (firstAttempts: number) =>
      stateOf({ retryTokens: firstAttempts * limits.retryBudgetPercent });
    expect([9, 10, 19, 20].map((firsts) => retriesLeft(limits, earned(firsts), nowMs))).toEqual([0, 1, 1, 2]);
  });

  test('of all shards together are at most the floor, and of one of them all of it', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10_000 }), fc.integer({ min: 1, max: 100 }), (floor, shards) => {
        const of = limitsFrom({ retryBudgetFloor: floor, providerShards: shards });
        expect(shards * floorTokens(of)).toBeLessThanOrEqual(floor * tokensPerRetry);
        if (shards === 1) expect(floorTokens(of)).toBe(floor * tokensPerRetry);
      }),
    );
  });
});

describe('the provider is failing', () => {
  const failing = (windowCalls: number, windowFailures: number, overrides: LimitOverrides = {}) =>
    isFailing(limitsFrom(overrides), stateOf({ windowCalls, windowFailures }));

  test('from the ratio on, and not just below it', () => {
    expect([failing(20, 9), failing(20, 10), failing(21, 10), failing(1000, 500)]).toEqual([
      false,
      true,
      false,
      true,
    ]);
    expect([
      failing(20, 1, { breakerFailureRatio: 0.05 }),
      failing(20, 19, { breakerFailureRatio: 1 }),
    ]).toEqual([true, false]);
  });

  test('only where enough calls were made to say so', () => {
    expect([failing(19, 19), failing(20, 20), failing(0, 0)]).toEqual([false, true, false]);
    expect(failing(1, 1, { breakerMinCalls: 1 })).toBe(true);
  });
});
