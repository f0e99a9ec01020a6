import fc from 'fast-check';
import { Gate, type Shut } from '../../../lambdas/operation/gate';
import { type LimitOverrides, limitsFrom } from '../../../lambdas/operation/limits';
import type { Outcome } from '../../../lambdas/operation/outcome';
import type { Calls, ProviderSwitch } from '../../../lambdas/operation/ports';
import type { Breaker, ProviderState } from '../../../lambdas/operation/provider-state';
import { nowMs } from '../fixtures';

const windowStartMs = nowMs;
const stateOf = (changes: Partial<ProviderState> = {}): ProviderState => ({
  shard: 0,
  windowStartMs,
  windowCalls: 0,
  windowFailures: 0,
  retryTokens: 1000,
  ...changes,
});
const open = (changes: Partial<Breaker> = {}): Breaker => ({
  reason: 'failures',
  openedAtMs: nowMs - 31_000,
  probeAtMs: nowMs - 1000,
  ...changes,
});
const paused: Breaker = { reason: 'paused', openedAtMs: nowMs - 1000, note: 'Ada: a bug' };

const error = { code: 'x', message: 'x' };
const succeeded: Outcome = { kind: 'succeeded', providerRef: 'pi_1', result: {} };
const declined: Outcome = { kind: 'declined', error };
const timedOut: Outcome = { kind: 'unknown', reason: 'timeout', keySpent: false };
const limited: Outcome = { kind: 'notSent', reason: 'rate_limited' };
const unauthorized: Outcome = { kind: 'notSent', reason: 'unauthorized' };
const outOfTime: Outcome = { kind: 'notSent', reason: 'out_of_time' };

interface Setup {
  readonly seen?: ProviderState | undefined;
  readonly retries?: number;
  /** What the record grants, whoever asks. */
  readonly granted?: number;
  /** Whether this batch is the one that wins the probe, or opens the breaker. */
  readonly wins?: boolean;
  /** Whether the probe finds the switch as it left it. */
  readonly isOurs?: boolean;
  /** The window after the batch's report. */
  readonly after?: ProviderState;
  readonly limits?: LimitOverrides;
  readonly random?: () => number;
}

/** A gate before a record that answers as it is told, and what it was asked for. */
function setUp({
  seen = stateOf(),
  retries = 3,
  granted = retries,
  wins = true,
  isOurs = true,
  ...setup
}: Setup = {}) {
  const asked: [what: string, ...of: unknown[]][] = [];
  const told: unknown[][] = [];
  const clock = { nowMs };
  const provider: ProviderSwitch = {
    takeRetries: async (_shard, _seen, wanted) => {
      asked.push(['takeRetries', wanted]);
      await Promise.resolve();
      return { granted: Math.min(granted, wanted), windowStartMs };
    },
    takeProbe: async (_seen, _nowMs, untilMs) => {
      asked.push(['takeProbe', untilMs]);
      await Promise.resolve();
      return wins;
    },
    report: async (_shard, _seen, calls) => {
      asked.push(['report', calls]);
      return setup.after ?? stateOf();
    },
    open: async (_shard, breaker) => {
      asked.push(['open', breaker]);
      return wins;
    },
    close: async (_shard, untilMs) => {
      asked.push(['close', untilMs]);
      return isOurs;
    },
    probeLater: async (_shard, untilMs, probeAtMs, reason) => {
      asked.push(['probeLater', untilMs, probeAtMs, reason]);
    },
    states: async () => [],
    pause: async () => {},
    resume: async () => false,
  };
  const telemetry = {
    provider: () => {},
    breaker: (...of: unknown[]) => told.push(of.slice(0, 2)),
  };
  const limits = limitsFrom(setup.limits);
  const random = setup.random ?? (() => 0.5);
  const ports = { provider, telemetry, clock: () => clock.nowMs, limits, random };
  return { gate: new Gate(ports, 0, seen, retries), asked, told, clock, limits };
}

const leaseEndMs = nowMs + 60_000;
const enter = (gate: Gate, isRetry: boolean) => gate.enter(isRetry, 1, leaseEndMs);
const reportOf = (asked: readonly [string, ...unknown[]][]) => asked.find(([what]) => what === 'report')?.[1];
const noCalls: Calls = { calls: 0, failures: 0, earned: 0, unspent: 0, takenInWindowMs: 0 };

describe('the advice of a look', () => {
  test('lets first attempts and retries on while the window has tokens', () => {
    const { gate } = setUp({ seen: stateOf({ retryTokens: 100 }) });
    expect([gate.advice(false, 1), gate.advice(true, 1)]).toEqual([undefined, undefined]);
  });

  test('turns retries away where none is left, and first attempts never', () => {
    const { gate } = setUp({ seen: stateOf({ retryTokens: 99 }) });
    expect(gate.advice(true, 1)).toMatchObject({ reason: 'retry_budget' });
    expect(gate.advice(false, 1)).toBeUndefined();
  });

  test('takes a new window to have its floor, whatever the last one has left', () => {
    const { gate } = setUp({ seen: stateOf({ retryTokens: 0, windowStartMs: windowStartMs - 60_000 }) });
    expect(gate.advice(true, 1)).toBeUndefined();
  });

  test('takes a provider that nobody has called yet to be well', () => {
    const { gate } = setUp({ seen: undefined });
    expect([gate.advice(false, 1), gate.advice(true, 1)]).toEqual([undefined, undefined]);
  });

  test('goes by what was bought once that is known, and turns nobody away while it is not', async () => {
    const { gate } = setUp({ granted: 1 });
    const bought = enter(gate, true);
    expect(gate.advice(true, 1)).toBeUndefined();
    expect(await bought).toBe('budget');
    expect(gate.advice(true, 1)).toMatchObject({ reason: 'retry_budget' });
    gate.leave('budget');
    expect(gate.advice(true, 1)).toBeUndefined();
  });

  test('turns all away while the breaker is open, also past the window, until the next probe is due', () => {
    const { gate, clock } = setUp({ seen: stateOf({ breaker: open({ probeAtMs: nowMs + 1 }) }) });
    for (const isRetry of [false, true])
      expect(gate.advice(isRetry, 1)).toMatchObject({ reason: 'breaker_open' });
    clock.nowMs += 1;
    for (const isRetry of [false, true]) expect(gate.advice(isRetry, 1)).toBeUndefined();
  });

  test('turns all away for as long as a person keeps the service paused', () => {
    const { gate, clock } = setUp({ seen: stateOf({ breaker: paused }) });
    clock.nowMs += 365 * 86_400_000;
    for (const isRetry of [false, true]) expect(gate.advice(isRetry, 1)).toMatchObject({ reason: 'paused' });
  });
});

describe('the retry budget', () => {
  test('is asked once a batch, for all of its retries, when the first of them enters', async () => {
    const { gate, asked } = setUp({ retries: 3 });
    expect(await enter(gate, false)).toBe('nobody');
    expect(asked).toEqual([]);
    expect(await Promise.all([enter(gate, true), enter(gate, true), enter(gate, true)])).toEqual([
      'budget',
      'budget',
      'budget',
    ]);
    expect(asked).toEqual([['takeRetries', 3]]);
  });

  test('lets through what was granted, defers the rest, and first attempts go on', async () => {
    const { gate } = setUp({ retries: 3, granted: 2 });
    const answers = await Promise.all([enter(gate, true), enter(gate, true), enter(gate, true)]);
    expect(answers).toEqual([
      'budget',
      'budget',
      { reason: 'retry_budget', delaySeconds: expect.any(Number) },
    ]);
    expect(await enter(gate, false)).toBe('nobody');
  });

  test('pays another retry of the batch with what the first did not need', async () => {
    const { gate, asked } = setUp({ retries: 2, granted: 1 });
    const payer = await enter(gate, true);
    expect(payer).toBe('budget');
    gate.leave('budget');
    expect(await enter(gate, true)).toBe('budget');
    expect(asked).toHaveLength(1);
  });

  test('gets back what was not spent, of the window in which it was taken', async () => {
    const { gate, asked } = setUp({ retries: 3 });
    await enter(gate, true);
    await enter(gate, true);
    gate.leave('budget');
    gate.count('budget', succeeded);
    await gate.close();
    expect(reportOf(asked)).toEqual({ ...noCalls, calls: 1, unspent: 200, takenInWindowMs: windowStartMs });
  });

  test('is given nothing back for a first attempt or a probe that was not made', async () => {
    const { gate, asked } = setUp();
    await enter(gate, false);
    gate.leave('nobody');
    gate.leave('probe');
    await gate.close();
    expect(asked).toEqual([]);
  });

  test.each<[string, Outcome, number]>([
    ['succeeded', succeeded, 10],
    ['was declined', declined, 10],
    ['may have had an effect', timedOut, 10],
    ['was not sent: it comes again as a first one', limited, 0],
    ['was never called', outOfTime, 0],
  ])('earns by a first attempt that %s', async (_name, outcome, earned) => {
    const { gate, asked } = setUp();
    await enter(gate, false);
    gate.count('nobody', outcome);
    gate.count('nobody', succeeded);
    await gate.close();
    expect(reportOf(asked)).toMatchObject({ earned: earned + 10 });
  });

  test('earns nothing by a retry', async () => {
    const { gate, asked } = setUp();
    await enter(gate, true);
    gate.count('budget', succeeded);
    await gate.close();
    expect(reportOf(asked)).toMatchObject({ calls: 1, earned: 0 });
  });

  test('earns what the setting says', async () => {
    const { gate, asked } = setUp({ limits: { retryBudgetPercent: 25 } });
    for (let n = 0; n < 3; n++) gate.count('nobody', succeeded);
    await gate.close();
    expect(reportOf(asked)).toMatchObject({ earned: 75 });
  });
});

describe("a batch's calls", () => {
  test('are written once, with those that say that the provider is not well', async () => {
    const { gate, asked } = setUp();
    for (const outcome of [succeeded, declined, timedOut, limited]) gate.count('nobody', outcome);
    gate.count('nobody', outOfTime);
    await gate.close();
    expect(asked).toEqual([['report', { ...noCalls, calls: 4, failures: 2, earned: 30 }]]);
  });

  test('cost no write where nothing was called and nothing taken', async () => {
    const { gate, asked } = setUp();
    await enter(gate, false);
    gate.count('nobody', outOfTime);
    await gate.close();
    expect(asked).toEqual([]);
  });
});

describe('the breaker', () => {
  const failing = stateOf({ windowCalls: 20, windowFailures: 10 });

  test('opens when too many calls of the window failed, for the time of the setting', async () => {
    const { gate, asked, told } = setUp({ after: failing });
    gate.count('nobody', timedOut);
    await gate.close();
    const breaker = { reason: 'failures', openedAtMs: nowMs, probeAtMs: nowMs + 30_000 };
    expect(asked.at(-1)).toEqual(['open', breaker]);
    expect(told).toEqual([['opened', 'failures']]);
  });

  test('stays closed below that', async () => {
    const { gate, asked, told } = setUp({ after: { ...failing, windowFailures: 9 } });
    gate.count('nobody', timedOut);
    await gate.close();
    expect(asked.map(([what]) => what)).toEqual(['report']);
    expect(told).toEqual([]);
  });

  test('opens at once when the key is refused: every further call would be', async () => {
    const { gate, asked, told } = setUp();
    gate.count('nobody', unauthorized);
    gate.count('nobody', succeeded);
    await gate.close();
    expect(asked.at(-1)).toMatchObject(['open', { reason: 'unauthorized', probeAtMs: nowMs + 30_000 }]);
    expect(told).toEqual([['opened', 'unauthorized']]);
  });

  test('is not opened over one that is open, or over a pause', async () => {
    for (const breaker of [open(), paused]) {
      const { gate, asked, told } = setUp({ after: { ...failing, breaker } });
      gate.count('nobody', unauthorized);
      await gate.close();
      expect(asked.map(([what]) => what)).toEqual(['report']);
      expect(told).toEqual([]);
    }
  });

  test('is told of by the batch that opened it, and by no other', async () => {
    const { gate, asked, told } = setUp({ after: failing, wins: false });
    gate.count('nobody', timedOut);
    await gate.close();
    expect(asked.at(-1)?.[0]).toBe('open');
    expect(told).toEqual([]);
  });
});

describe('a probe', () => {
  const seen = stateOf({ breaker: open() });

  test('is one call at a time: of a batch one enters, retry or not, and the others wait for what it tells', async () => {
    const { gate, asked, told } = setUp({ seen });
    const answers = await Promise.all([true, false, true].map((isRetry) => enter(gate, isRetry)));
    expect(answers).toEqual([
      'probe',
      { reason: 'breaker_open', delaySeconds: expect.any(Number) },
      { reason: 'breaker_open', delaySeconds: expect.any(Number) },
    ]);
    expect(asked).toEqual([['takeProbe', leaseEndMs]]);
    expect(told).toEqual([['probed', 'failures']]);
    expect(gate.advice(false, 1)).toMatchObject({ reason: 'breaker_open' });
  });

  test('of another batch that was faster leaves all of this one waiting, and nothing to end', async () => {
    const { gate, asked, told } = setUp({ seen, wins: false });
    expect(await enter(gate, false)).toMatchObject({ reason: 'breaker_open' });
    await gate.close();
    expect(asked.map(([what]) => what)).toEqual(['takeProbe']);
    expect(told).toEqual([]);
  });

  test('is not asked for before its time, nor ever while a person keeps the service paused', async () => {
    for (const breaker of [open({ probeAtMs: nowMs + 1 }), paused]) {
      const { gate, asked } = setUp({ seen: stateOf({ breaker }) });
      expect(await enter(gate, true)).toMatchObject({
        reason: breaker === paused ? 'paused' : 'breaker_open',
      });
      expect(asked).toEqual([]);
    }
  });

  test.each([succeeded, declined])(
    'that finds the provider well closes the breaker (%j)',
    async (outcome) => {
      const { gate, asked, told } = setUp({ seen });
      gate.count(await payerOf(gate), outcome);
      await gate.close();
      expect(asked.slice(1)).toEqual([['close', leaseEndMs]]);
      expect(told.at(-1)).toEqual(['closed', 'failures']);
    },
  );

  test('whose place was taken meanwhile, by a later probe or a pause, does not say that it closed anything', async () => {
    const { gate, asked, told } = setUp({ seen, isOurs: false });
    gate.count(await payerOf(gate), succeeded);
    await gate.close();
    expect(asked.slice(1)).toEqual([['close', leaseEndMs]]);
    expect(told).toEqual([['probed', 'failures']]);
  });

  test.each<[string, Outcome, string]>([
    ['fails', timedOut, 'failures'],
    ['is limited', limited, 'failures'],
    ['is refused for its key', unauthorized, 'unauthorized'],
  ])('that %s arms the next for the time of the setting', async (_name, outcome, reason) => {
    const { gate, asked, told, clock } = setUp({ seen });
    gate.count(await payerOf(gate), outcome);
    clock.nowMs += 10_000;
    await gate.close();
    expect(asked.slice(1)).toEqual([['probeLater', leaseEndMs, nowMs + 40_000, reason]]);
    expect(told).toEqual([['probed', 'failures']]);
  });

  test('that called nobody leaves its turn to the next at once, and the reason as it was', async () => {
    const seenUnauthorized = stateOf({ breaker: open({ reason: 'unauthorized' }) });
    for (const end of [(gate: Gate) => gate.leave('probe'), (gate: Gate) => gate.count('probe', outOfTime)]) {
      const { gate, asked } = setUp({ seen: seenUnauthorized });
      await payerOf(gate);
      end(gate);
      await gate.close();
      expect(asked.slice(1)).toEqual([['probeLater', leaseEndMs, nowMs, 'unauthorized']]);
    }
  });

  test('that died holds the others up until its lease ends, and no longer', () => {
    const { gate, clock } = setUp({ seen: stateOf({ breaker: open({ probeAtMs: leaseEndMs }) }) });
    clock.nowMs = leaseEndMs - 1;
    expect(gate.advice(false, 1)).toMatchObject({ reason: 'breaker_open' });
    clock.nowMs = leaseEndMs;
    expect(gate.advice(false, 1)).toBeUndefined();
  });

  async function payerOf(gate: Gate) {
    const payer = await enter(gate, false);
    expect(payer).toBe('probe');
    return 'probe' as const;
  }
});

describe('a wait', () => {
  const isShut = (answer: unknown): answer is Shut =>
    typeof answer === 'object' && answer !== null && 'delaySeconds' in answer;
  const reasons: [string, ProviderState][] = [
    ['the budget', stateOf({ retryTokens: 0 })],
    ['the breaker', stateOf({ breaker: open({ probeAtMs: nowMs + 30_000 }) })],
    ['a probe in another worker', stateOf({ breaker: open({ probeAtMs: nowMs + 60_000 }) })],
    [
      'a breaker of a worker whose clock is far ahead',
      stateOf({ breaker: open({ probeAtMs: nowMs + 10 ** 9 }) }),
    ],
    ['a person', stateOf({ breaker: paused })],
  ];
  const waitFor = (seen: ProviderState, receiveCount: number, random: number, limits: LimitOverrides) => {
    const answer = setUp({ seen, random: () => random, limits }).gate.advice(true, receiveCount);
    if (!isShut(answer)) throw new Error('It is let through');
    return answer.delaySeconds;
  };

  test.each(reasons)('for %s is a whole number of seconds from 1 to the longest back-off', (_name, seen) => {
    const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(
        random,
        fc.integer({ min: 1, max: 50 }),
        fc.integer({ min: 1, max: 900 }),
        (at, count, cap) => {
          const seconds = waitFor(seen, count, at, { retryCapSeconds: cap, retryBaseSeconds: 1 });
          expect(Number.isInteger(seconds)).toBe(true);
          expect(seconds).toBeGreaterThanOrEqual(1);
          expect(seconds).toBeLessThanOrEqual(cap);
        },
      ),
    );
  });

  test.each(reasons)('for %s is spread: not all come back at once', (_name, seen) => {
    const [soonest = 0, latest = 0] = [0, 0.999].map((at) => waitFor(seen, 6, at, {}));
    expect(latest - soonest).toBeGreaterThan(30);
  });

  test('for the breaker ends no sooner than its next probe, where that is within the longest back-off', () => {
    const seen = stateOf({ breaker: open({ probeAtMs: nowMs + 30_000 }) });
    expect(waitFor(seen, 1, 0, {})).toBeGreaterThan(30);
  });
});
