import fc from 'fast-check';
import {
  type LimitOverrides,
  LimitsError,
  limitConflicts,
  limitsFrom,
  providerTimeoutMs,
  settleReserveMs,
  unknownLimits,
  visibilityTimeoutSeconds,
} from '../../../lambdas/operation/limits';
import { laptopLimits } from '../../../local/laptop-limits';

test('every default is exactly this one', () => {
  expect(limitsFrom()).toEqual({
    tenantMaxRunning: 2,
    tenantMaxWaiting: 5,
    queueMaxDepth: 10_000,
    maxConcurrency: 10,
    batchSize: 5,
    batchWindowSeconds: 0,
    providerMaxInFlight: 50,
    workerTimeoutSeconds: 30,
    leaseMarginSeconds: 30,
    maxReceiveCount: 8,
    maxAttempts: 5,
    retryBaseSeconds: 10,
    retryCapSeconds: 300,
    retryBudgetPercent: 10,
    retryBudgetFloor: 10,
    retryBudgetWindowSeconds: 60,
    breakerFailureRatio: 0.5,
    breakerMinCalls: 20,
    breakerOpenSeconds: 30,
    providerShards: 1,
    providerTimeoutSeconds: 10,
    providerWindowHours: 23,
    quietHours: 1,
    deadlineHours: 12,
    maxMessageBytes: 16_384,
    recordRetentionDays: 90,
    allowDirectRefunds: false,
    customerTenantCheck: false,
    openShards: 8,
  });
});

test.each([
  ['the defaults', {}],
  ['the laptop', laptopLimits],
  ['the slowest worker', { workerTimeoutSeconds: 900, providerTimeoutSeconds: 80, leaseMarginSeconds: 900 }],
  ['a shard for each retry', { providerShards: 10 }],
  ['no floor on purpose', { providerShards: 11, retryBudgetFloor: 0 }],
  ['the fastest worker', { workerTimeoutSeconds: 2, providerTimeoutSeconds: 1, leaseMarginSeconds: 1 }],
])('%s: no rule is broken', (_name, overrides) => {
  expect(limitConflicts(limitsFrom(overrides))).toEqual([]);
});

const whole = (max: number) => fc.integer({ min: 1, max });

test('BL-17 provider timeout < remaining time < lease < visibility in every configuration without a conflict', () => {
  let checked = 0;
  fc.assert(
    fc.property(
      whole(900),
      whole(80),
      whole(900),
      fc.integer({ min: 0, max: 300 }),
      (worker, call, margin, batchWindow) => {
        const limits = limitsFrom({
          workerTimeoutSeconds: worker,
          providerTimeoutSeconds: call,
          leaseMarginSeconds: margin,
          batchWindowSeconds: batchWindow,
        });
        if (limitConflicts(limits).length > 0) return;
        checked += 1;
        const leaseMs = (worker + margin) * 1000;
        expect(providerTimeoutMs(limits)).toBe(call * 1000);
        expect(providerTimeoutMs(limits) + 2 * settleReserveMs(limits)).toBeLessThanOrEqual(worker * 1000);
        expect(worker * 1000).toBeLessThan(leaseMs);
        expect(leaseMs).toBeLessThan(visibilityTimeoutSeconds(limits) * 1000);
        expect(visibilityTimeoutSeconds(limits)).toBeGreaterThanOrEqual(6 * worker + batchWindow);
      },
    ),
    { numRuns: 2000 },
  );
  expect(checked).toBeGreaterThan(100);
});

test('BL-17 a configuration with a conflict still leaves time to settle after the provider call', () => {
  fc.assert(
    fc.property(whole(900), whole(80), (worker, call) => {
      const limits = limitsFrom({ workerTimeoutSeconds: worker, providerTimeoutSeconds: call });
      expect(providerTimeoutMs(limits)).toBeGreaterThan(0);
      expect(settleReserveMs(limits)).toBeGreaterThan(0);
      expect(providerTimeoutMs(limits) + 2 * settleReserveMs(limits)).toBeLessThanOrEqual(worker * 1000);
    }),
  );
});

test.each<[string, LimitOverrides, RegExp]>([
  [
    'more calls than the provider allows',
    { maxConcurrency: 11 },
    /maxConcurrency 11 x batchSize 5 is 55 .* providerMaxInFlight 50/,
  ],
  [
    'a call longer than its worker',
    { workerTimeoutSeconds: 5, leaseMarginSeconds: 20 },
    /providerTimeoutSeconds 10 .* workerTimeoutSeconds 5; it may be at most 2\.5/,
  ],
  [
    'a lease beyond the visibility',
    { leaseMarginSeconds: 150 },
    /leaseMarginSeconds 150 is a lease of 180 s; it must be below .* 180 s/,
  ],
  [
    'a base above the cap',
    { retryBaseSeconds: 301 },
    /retryBaseSeconds 301 must be at most retryCapSeconds 300/,
  ],
  [
    'shards without a retry of their own',
    { providerShards: 11 },
    /providerShards 11 leaves each shard less than one retry of retryBudgetFloor 10/,
  ],
  ['a window beyond the key', { quietHours: 2 }, /providerWindowHours 23 \+ quietHours 2 must be at most 24/],
])('%s is a conflict that names both settings', (_name, overrides, problem) => {
  const conflicts = limitConflicts(limitsFrom(overrides));
  expect(conflicts).toHaveLength(1);
  expect(conflicts[0]).toMatch(problem);
});

test.each([
  ['maxConcurrency', [1, 1001, 2.5, '10', null]],
  ['batchSize', [0, 11]],
  ['maxReceiveCount', [1, 4]],
  ['maxAttempts', [0, 101]],
  ['workerTimeoutSeconds', [0, 901]],
  ['leaseMarginSeconds', [0, 901]],
  ['providerWindowHours', [0, 24]],
  ['breakerFailureRatio', [0, 1.1]],
  ['recordRetentionDays', [0, 44]],
  ['maxMessageBytes', [0, 1_048_577]],
])('%s outside its range is refused by name', (name, values) => {
  for (const value of values) {
    expect(() => limitsFrom({ [name]: value })).toThrow(LimitsError);
    expect(() => limitsFrom({ [name]: value })).toThrow(new RegExp(`${name} is .*; it must be a .* from`));
  }
});

test('every value outside its range is told at once', () => {
  try {
    limitsFrom({ maxAttempts: 0, batchSize: 11 });
    throw new Error('they were accepted');
  } catch (error) {
    expect(error instanceof LimitsError && error.violations.length).toBe(2);
  }
});

test('names that are no limit are told apart', () => {
  expect(unknownLimits({ maxAttempts: 5, maxAttemps: 5, toString: 1 })).toEqual(['maxAttemps', 'toString']);
});

test('records are kept beyond queue, dead-letter queue and a redrive through both', () => {
  expect(() => limitsFrom({ recordRetentionDays: 2 * (4 + 14) + 1 })).toThrow(/from 45/);
});
