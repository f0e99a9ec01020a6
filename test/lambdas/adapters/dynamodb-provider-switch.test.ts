import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DeleteCommand, DynamoDBDocumentClient, PutCommand } from '@aws-sdk/lib-dynamodb';
import fc from 'fast-check';
import { DynamoDbProviderSwitch } from '../../../lambdas/adapters/dynamodb-provider-switch';
import { DynamoDbStore } from '../../../lambdas/adapters/dynamodb-store';
import { providerPartition } from '../../../lambdas/adapters/provider-item';
import { TableClient } from '../../../lambdas/adapters/table-client';
import { type LimitOverrides, type Limits, limitsFrom } from '../../../lambdas/operation/limits';
import type { Calls } from '../../../lambdas/operation/ports';
import type { Breaker, ProviderState } from '../../../lambdas/operation/provider-state';
import { floorTokens, tokensPerRetry, windowStartOf } from '../../../lambdas/operation/provider-state';
import type { Fault } from '../../../local/proxy-faults';
import { type LocalStack, startLocalStack } from '../../../local/stack';
import { nowMs } from '../fixtures';

let stack: LocalStack;
let repeating: DynamoDBClient;
let once: DynamoDBClient;
let table: TableClient;
beforeAll(async () => {
  stack = await startLocalStack({ startEventSource: false });
  repeating = clientOf(3);
  once = clientOf(1);
  table = new TableClient(repeating, stack.tableName);
});
afterAll(async () => {
  for (const client of [repeating, once]) client.destroy();
  await stack.stop();
});

function clientOf(maxAttempts: number): DynamoDBClient {
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const { dynamodb: endpoint } = stack.endpoints;
  return new DynamoDBClient({ region: 'us-east-1', credentials, endpoint, maxAttempts });
}

const switchWith = (limits: Limits) =>
  new DynamoDbProviderSwitch(table, new TableClient(once, stack.tableName), limits);

/** A shard of its own for each test: no other test's counts are in it. */
let count = 0;
function fresh(overrides: LimitOverrides = {}) {
  count += 1;
  const shard = count;
  const limits = limitsFrom(overrides);
  const provider = switchWith(limits);
  const item = () => stack.item(providerPartition(shard));
  const seen = async (): Promise<ProviderState | undefined> =>
    (await new DynamoDbStore(table, limits).look([], [], shard)).provider;
  return {
    shard,
    limits,
    provider,
    item,
    seen,
    /** By a batch that looked just before, or saw what `from` says. */
    take: async (wanted: number, atMs = nowMs, from?: { readonly seen: ProviderState | undefined }) =>
      provider.takeRetries(shard, from ? from.seen : await seen(), wanted, atMs),
    report: async (calls: Partial<Calls> = {}, atMs = nowMs) =>
      provider.report(shard, await seen(), callsOf(calls), atMs),
    put: async (attributes: Readonly<Record<string, unknown>>) => {
      const documents = DynamoDBDocumentClient.from(repeating);
      const Item = { pk: providerPartition(shard), ...attributes };
      await documents.send(new PutCommand({ TableName: stack.tableName, Item }));
    },
    fault: (fault: Fault, times = 1) =>
      stack.dynamodbProxy.intercept(
        {
          action: 'UpdateItem',
          where: (body) => JSON.stringify(body).includes(`"${providerPartition(shard)}"`),
          times,
        },
        fault,
      ),
  };
}

const callsOf = (changes: Partial<Calls> = {}): Calls => ({
  calls: 1,
  failures: 0,
  earned: 0,
  unspent: 0,
  takenInWindowMs: 0,
  ...changes,
});
const windowMs = limitsFrom().retryBudgetWindowSeconds * 1000;
const breaker: Breaker = { reason: 'failures', openedAtMs: nowMs, probeAtMs: nowMs + 30_000 };
const untilMs = nowMs + 90_000;

describe('retries', () => {
  test('are granted up to the floor to a service that has called nobody yet, and then none', async () => {
    const { take, seen } = fresh({ retryBudgetFloor: 3 });
    expect(await take(2)).toEqual({ granted: 2, windowStartMs: nowMs });
    expect(await take(2)).toEqual({ granted: 1, windowStartMs: nowMs });
    expect(await take(2)).toMatchObject({ granted: 0 });
    expect(await seen()).toMatchObject({ windowStartMs: nowMs, retryTokens: 0 });
  });

  test('cost nobody a write where none is left', async () => {
    const { take } = fresh({ retryBudgetFloor: 1 });
    await take(1);
    stack.dynamodbProxy.resetCounts();
    await take(5);
    expect(stack.dynamodbProxy.count('UpdateItem')).toBe(0);
  });

  test('are granted again in the next window, and what the last one had left is gone', async () => {
    const { take, report, seen } = fresh({ retryBudgetFloor: 3 });
    await report({ earned: 700, calls: 70, failures: 9 });
    expect(await take(99, nowMs + windowMs)).toEqual({ granted: 3, windowStartMs: nowMs + windowMs });
    expect(await seen()).toMatchObject({ windowCalls: 0, windowFailures: 0, retryTokens: 0 });
  });

  test('isLaterWindow: a worker whose clock is behind takes of the window that is under way', async () => {
    const { take, seen } = fresh({ retryBudgetFloor: 3 });
    await take(2, nowMs + windowMs);
    // It looked before that window began.
    expect(await take(3, nowMs, { seen: undefined })).toEqual({
      granted: 1,
      windowStartMs: nowMs + windowMs,
    });
    expect(await seen()).toMatchObject({ windowStartMs: nowMs + windowMs, retryTokens: 0 });
  });

  test('hasTokens: what others took since the look is not granted twice', async () => {
    const { take, seen } = fresh({ retryBudgetFloor: 3 });
    await take(1);
    const looked = { seen: await seen() };
    expect(await take(2, nowMs, looked)).toMatchObject({ granted: 2 });
    expect(await take(2, nowMs, looked)).toMatchObject({ granted: 0 });
  });

  test('hasTokens: what was left in a window that ended since the look is not granted in the next', async () => {
    const { take, report, seen } = fresh({ retryBudgetFloor: 1 });
    await report({ earned: 5000 });
    const looked = { seen: await seen() };
    await take(1, nowMs + windowMs);
    expect(await take(5, nowMs, looked)).toMatchObject({ granted: 0 });
  });

  test('hasTokens: are of the window in which they were taken, whatever the worker saw and its clock says', async () => {
    const { take, report, seen } = fresh({ retryBudgetFloor: 5 });
    await report();
    const looked = { seen: await seen() };
    await report({}, nowMs + windowMs);
    expect(await take(2, nowMs, looked)).toEqual({ granted: 2, windowStartMs: nowMs + windowMs });
  });

  test('isLaterWindow: two that find the window new do not both get the floor', async () => {
    const { provider, shard } = fresh({ retryBudgetFloor: 3 });
    const both = [2, 2].map((wanted) => provider.takeRetries(shard, undefined, wanted, nowMs));
    const granted = (await Promise.all(both)).map((of) => of.granted);
    expect(granted.sort()).toEqual([1, 2]);
  });

  test.each([true, false])(
    'whose answer is lost are never granted twice (first of the window: %s)',
    async (isFirst) => {
      const { take, fault } = fresh({ retryBudgetFloor: 4 });
      if (!isFirst) await take(1);
      fault({ kind: 'loseAnswer' });
      const first = await take(2);
      const second = await take(9);
      expect(first.granted + second.granted).toBeLessThanOrEqual(isFirst ? 4 : 3);
    },
  );

  test('of all shards at once are at most the floor in a window', async () => {
    const limits = limitsFrom({ retryBudgetFloor: 10, providerShards: 4 });
    const all = switchWith(limits);
    const atMs = nowMs + 10 * windowMs;
    const takes = Array.from({ length: 4 }, (_, shard) => all.takeRetries(shard, undefined, 9, atMs));
    const granted = (await Promise.all(takes)).map((of) => of.granted);
    expect(granted).toEqual([2, 2, 2, 2]);
  });
});

describe("a batch's calls", () => {
  test('begin a window with the floor and what was earned', async () => {
    const { report, seen } = fresh({ retryBudgetFloor: 2 });
    const state = await report({ calls: 5, failures: 2, earned: 30 });
    expect(state).toMatchObject({
      windowStartMs: nowMs,
      windowCalls: 5,
      windowFailures: 2,
      retryTokens: 230,
    });
    expect(await seen()).toEqual(state);
  });

  test('add up within a window, and begin anew with the next', async () => {
    const { report } = fresh({ retryBudgetFloor: 2 });
    await report({ calls: 5, failures: 2, earned: 30 });
    expect(await report({ calls: 4, failures: 1, earned: 20 })).toMatchObject({
      windowCalls: 9,
      windowFailures: 3,
      retryTokens: 250,
    });
    expect(await report({ calls: 1, failures: 1, earned: 10 }, nowMs + windowMs)).toMatchObject({
      windowStartMs: nowMs + windowMs,
      windowCalls: 1,
      windowFailures: 1,
      retryTokens: 210,
    });
  });

  test('give back what was not spent to the window in which it was taken, and to no other', async () => {
    const { report, take, seen } = fresh({ retryBudgetFloor: 5 });
    const { windowStartMs } = await take(5);
    const unspent = { unspent: 200, takenInWindowMs: windowStartMs };
    await report(unspent);
    expect(await seen()).toMatchObject({ retryTokens: 200 });
    await report(unspent, nowMs + windowMs);
    expect(await seen()).toMatchObject({ windowStartMs: nowMs + windowMs, retryTokens: 500 });
  });

  test('isThisWindow: of a worker that looked in the last window are counted in the one under way', async () => {
    const { provider, shard, report, seen } = fresh({ retryBudgetFloor: 2 });
    await report();
    const looked = await seen();
    await report({ calls: 7, failures: 7 }, nowMs + windowMs);
    // Its clock is behind, so that it takes the last window to be under way.
    const state = await provider.report(shard, looked, callsOf({ calls: 2 }), nowMs);
    expect(state).toMatchObject({ windowStartMs: nowMs + windowMs, windowCalls: 9, windowFailures: 7 });
  });

  test('isThisWindow: bring nothing that was not spent from a window that ended since the look', async () => {
    const { provider, shard, report, take, seen } = fresh({ retryBudgetFloor: 2 });
    const { windowStartMs } = await take(2);
    const looked = await seen();
    await report({}, nowMs + windowMs);
    const unspent = callsOf({ unspent: 200, takenInWindowMs: windowStartMs });
    expect(await provider.report(shard, looked, unspent, nowMs)).toMatchObject({ retryTokens: 200 });
  });

  test('isLaterWindow: of two that find the window new both are counted', async () => {
    const { provider, shard, seen } = fresh();
    const both = [1, 2].map((calls) => provider.report(shard, undefined, callsOf({ calls }), nowMs));
    await Promise.all(both);
    expect(await seen()).toMatchObject({ windowCalls: 3 });
  });

  test('whose answer is lost are never sent again: a repeat after another batch would earn twice', async () => {
    const { report, fault, seen } = fresh({ retryBudgetFloor: 0 });
    await report();
    fault({ kind: 'loseAnswer' });
    await expect(report({ earned: 100 })).rejects.toThrow();
    expect(await seen()).toMatchObject({ windowCalls: 2, retryTokens: 100 });
  });

  test('leave the breaker as it is', async () => {
    const { report, provider, shard } = fresh();
    await provider.open(shard, breaker);
    expect(await report()).toMatchObject({ breaker });
    expect(await report({}, nowMs + windowMs)).toMatchObject({ breaker });
  });
});

describe('the breaker', () => {
  test('isClosed: opens once, and not over a pause', async () => {
    const { provider, shard, seen } = fresh();
    expect(await provider.open(shard, breaker)).toBe(true);
    expect(await provider.open(shard, { ...breaker, reason: 'unauthorized', probeAtMs: nowMs })).toBe(false);
    expect((await seen())?.breaker).toEqual(breaker);
  });

  test('of many workers that see it fail is opened by one', async () => {
    const { provider, shard } = fresh();
    const opened = await Promise.all(Array.from({ length: 5 }, () => provider.open(shard, breaker)));
    expect(opened.filter(Boolean)).toHaveLength(1);
  });

  test('probeIsDue: is probed by one worker, from its time on, until the end of that lease', async () => {
    const { provider, shard, seen } = fresh();
    await provider.open(shard, breaker);
    const probe = async (atMs: number, until = untilMs) => provider.takeProbe(await open(seen), atMs, until);
    expect(await probe(nowMs + 29_999)).toBe(false);
    const won = await Promise.all(Array.from({ length: 6 }, (_, n) => probe(nowMs + 30_000, untilMs + n)));
    expect(won.filter(Boolean)).toHaveLength(1);
    expect(await probe(untilMs - 1, untilMs + 99)).toBe(false);
    // Its worker died: the next may try.
    expect(await probe(untilMs + 6, untilMs + 99)).toBe(true);
  });

  test('probeIsDue: is not probed when it was closed since the look', async () => {
    const { provider, shard, seen, item } = fresh();
    await provider.open(shard, breaker);
    const looked = await open(seen);
    await provider.takeProbe(looked, nowMs + 30_000, untilMs);
    await provider.close(shard, untilMs);
    expect(await provider.takeProbe(looked, untilMs, untilMs + 1)).toBe(false);
    expect(await item()).not.toHaveProperty('breakerProbeAtMs');
  });

  test('probeIsDue: is not probed while it is closed, whatever an earlier probe left behind', async () => {
    const { provider, shard, item, put } = fresh();
    await put({ windowStartMs: nowMs, breakerProbeAtMs: nowMs - 1 });
    const state = { shard, windowStartMs: nowMs, windowCalls: 0, windowFailures: 0, retryTokens: 0, breaker };
    expect(await provider.takeProbe(state, nowMs, untilMs)).toBe(false);
    expect(await item()).toMatchObject({ breakerProbeAtMs: nowMs - 1 });
  });

  test('isOurProbe: closes after the probe that holds it, and forgets the calls that opened it, but no token', async () => {
    const { provider, shard, seen, report } = fresh();
    await report({ calls: 30, failures: 30, earned: 50 });
    await provider.open(shard, breaker);
    await provider.takeProbe(await open(seen), nowMs + 30_000, untilMs);
    expect(await provider.close(shard, untilMs - 1)).toBe(false);
    expect((await seen())?.breaker).toMatchObject({ probeAtMs: untilMs });
    expect(await provider.close(shard, untilMs)).toBe(true);
    expect(await seen()).toEqual({
      shard,
      windowStartMs: nowMs,
      windowCalls: 0,
      windowFailures: 0,
      retryTokens: 1050,
    });
  });

  test('isOurProbe: a probe that failed arms the next, and one that lost its turn arms none', async () => {
    const { provider, shard, seen } = fresh();
    await provider.open(shard, breaker);
    await provider.takeProbe(await open(seen), nowMs + 30_000, untilMs);
    await provider.probeLater(shard, untilMs + 1, 0, 'failures');
    expect((await seen())?.breaker).toMatchObject({ probeAtMs: untilMs, reason: 'failures' });
    await provider.probeLater(shard, untilMs, untilMs + 30_000, 'unauthorized');
    expect((await seen())?.breaker).toEqual({
      ...breaker,
      probeAtMs: untilMs + 30_000,
      reason: 'unauthorized',
    });
  });

  test('isOurProbe: the end of a probe neither opens nor arms a breaker that somebody closed meanwhile', async () => {
    const { provider, shard, item, put } = fresh();
    await put({ windowStartMs: nowMs, breakerProbeAtMs: untilMs });
    const before = await item();
    await provider.probeLater(shard, untilMs, nowMs, 'failures');
    expect(await provider.close(shard, untilMs)).toBe(false);
    expect(await item()).toEqual(before);
  });

  test.each([
    ['failures', { ...breaker, note: undefined }],
    ['a key that is refused', { ...breaker, reason: 'unauthorized', note: undefined }],
  ] as const)('that opened for %s is read as it was written', async (_name, { note: _, ...written }) => {
    const { provider, shard, seen } = fresh();
    await provider.open(shard, written);
    expect((await seen())?.breaker).toEqual(written);
  });
});

describe('a breaker that opened for a reason of a newer build', () => {
  test('is read as a pause: nothing is called, and no probe is made', async () => {
    const { put, seen } = fresh();
    await put({
      windowStartMs: nowMs,
      breakerReason: 'a_reason_of_a_newer_build',
      breakerOpenedAtMs: nowMs,
    });
    expect((await seen())?.breaker).toMatchObject({ reason: 'paused', openedAtMs: nowMs });
    expect((await seen())?.breaker).not.toHaveProperty('probeAtMs');
  });
});

describe('a pause', () => {
  const limits = limitsFrom({ providerShards: 2 });
  const pause: Breaker = { reason: 'paused', openedAtMs: nowMs, note: 'Ada: a bug' };
  const all = () => switchWith(limits);
  const breakers = async () => (await all().states()).map((state) => state.breaker);
  afterEach(() => all().resume());

  test('stops every shard, of a service that has called nobody too, and leaves counts and tokens', async () => {
    await all().report(1, undefined, callsOf({ calls: 3, earned: 30 }), nowMs);
    const [before] = (await all().states()).filter(({ shard }) => shard === 1);
    await all().pause(pause);
    expect(await breakers()).toEqual([pause, pause]);
    expect(await all().states()).toContainEqual({ ...before, breaker: pause });
  });

  test('goes over an open breaker and takes its probe away, also one that is under way', async () => {
    await all().open(0, breaker);
    const seen = (await all().states()).find(({ shard }) => shard === 0);
    expect(seen && (await all().takeProbe(seen, nowMs + 30_000, untilMs))).toBe(true);
    await all().pause(pause);
    expect(await all().close(0, untilMs)).toBe(false);
    await all().probeLater(0, untilMs, nowMs, 'failures');
    expect(await breakers()).toEqual([pause, pause]);
    expect(seen && (await all().takeProbe(seen, nowMs + 10 ** 9, untilMs))).toBe(false);
  });

  test('isOpen: is ended in every shard by a resume, which says whether there was one', async () => {
    expect(await all().resume()).toBe(false);
    await all().pause(pause);
    expect(await all().resume()).toBe(true);
    expect(await breakers()).toEqual([undefined, undefined]);
    await all().open(1, breaker);
    expect(await all().resume()).toBe(true);
    expect(await breakers()).toEqual([undefined, undefined]);
  });

  test('isOpen: a resume of what is not open makes no record', async () => {
    const Key = { pk: providerPartition(0) };
    await DynamoDBDocumentClient.from(repeating).send(new DeleteCommand({ TableName: stack.tableName, Key }));
    expect(await switchWith(limitsFrom()).resume()).toBe(false);
    expect(await stack.item(providerPartition(0))).toBeUndefined();
  });

  test('forgets the calls that were counted before', async () => {
    await all().report(0, undefined, callsOf({ calls: 30, failures: 30 }), nowMs);
    await all().pause(pause);
    await all().resume();
    const state = (await all().states()).find(({ shard }) => shard === 0);
    expect(state).toMatchObject({ windowCalls: 0, windowFailures: 0 });
  });
});

describe('G8: whatever batches do at once, whatever their clocks say and whatever answers are lost', () => {
  /** What one batch does: looks, takes for its retries, and reports later. */
  const batch = fc.record({
    /** Steps that others make between its look and its take, and before its report. */
    staleBy: fc.nat({ max: 2 }),
    wanted: fc.nat({ max: 3 }),
    unspent: fc.nat({ max: 2 }),
    firstAttempts: fc.nat({ max: 12 }),
    skewMs: fc.constantFrom(0, 0, 0, -20_000, 20_000, -70_000),
    waitMs: fc.constantFrom(0, 0, 0, 0, 15_000, 61_000),
    fault: fc.constantFrom(undefined, undefined, undefined, 'loseAnswer', 'loseRequest'),
    faultOn: fc.constantFrom('take', 'report'),
  });
  const limits = limitsFrom({ retryBudgetFloor: 2 });

  test('the retries granted in a window are at most the floor and a tenth of the first attempts', async () => {
    let grants = 0;
    let refusals = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(batch, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 4 }),
        async (rounds) => {
          const { shard, provider, seen, fault } = fresh({ retryBudgetFloor: 2 });
          const granted = new Map<number, number>();
          const earned = new Map<number, number>();
          const add = (to: Map<number, number>, window: number, more: number) =>
            to.set(window, (to.get(window) ?? 0) + more);
          const looks: (ProviderState | undefined)[] = [];
          let atMs = nowMs;
          for (const batches of rounds) {
            looks.push(await seen());
            await Promise.all(
              batches.map(async (each) => {
                const clockMs = atMs + each.skewMs;
                const looked = looks[Math.max(0, looks.length - 1 - each.staleBy)];
                const meet = (step: 'take' | 'report') =>
                  each.fault !== undefined && each.faultOn === step && fault({ kind: each.fault });
                let taken = { granted: 0, windowStartMs: 0 };
                if (each.wanted > 0) {
                  meet('take');
                  taken = await provider.takeRetries(shard, looked, each.wanted, clockMs);
                  if (taken.granted > 0) grants += 1;
                  else refusals += 1;
                }
                const unspent = Math.min(each.unspent, taken.granted);
                // Used: what it gave back may be granted again.
                add(granted, taken.windowStartMs, taken.granted - unspent);
                const tokens = each.firstAttempts * limits.retryBudgetPercent;
                const calls = callsOf({
                  earned: tokens,
                  unspent: unspent * tokensPerRetry,
                  takenInWindowMs: taken.windowStartMs,
                });
                meet('report');
                const told = await provider.report(shard, looked, calls, clockMs).catch(() => undefined);
                // What cannot be told may have been counted, in the window that the record had or in the batch's own.
                const now = told ?? (await seen());
                const windows = new Set([
                  now?.windowStartMs ?? 0,
                  ...(told ? [] : [windowStartOf(limits, looked, clockMs)]),
                ]);
                for (const window of windows) add(earned, window, tokens);
              }),
            );
            atMs += Math.max(...batches.map(({ waitMs }) => waitMs));
          }
          // What is left could still be granted: it is within the bound too.
          const last = await seen();
          if (last) add(granted, last.windowStartMs, Math.floor(last.retryTokens / tokensPerRetry));
          granted.delete(0);
          for (const [window, retries] of granted) {
            const bound = floorTokens(limits) + (earned.get(window) ?? 0);
            expect(retries * tokensPerRetry).toBeLessThanOrEqual(bound);
          }
        },
      ),
      { numRuns: 40 },
    );
    expect(grants).toBeGreaterThan(20);
    expect(refusals).toBeGreaterThan(20);
  }, 120_000);
});

async function open(seen: () => Promise<ProviderState | undefined>): Promise<ProviderState> {
  const state = await seen();
  if (!state?.breaker) throw new Error('It is closed');
  return state;
}
