import {
  asksForCensus,
  censusEvent,
  type OpenOperation,
  type OpenOperations,
  takeCensus,
} from '../../../lambdas/operation/census';
import type { ProviderState } from '../../../lambdas/operation/provider-state';
import { hourMs, nowMs } from '../fixtures';

const open = (changes: Partial<OpenOperation> = {}): OpenOperation => ({
  state: 'queued',
  type: 'charge',
  createdAtMs: nowMs - hourMs,
  dueAtMs: nowMs + hourMs,
  ...changes,
});

/** Shards of pages, and how many of those were asked for. */
function index(
  ...shards: (OpenOperation | undefined)[][][]
): OpenOperations & { readonly pagesRead: () => number } {
  let read = 0;
  return {
    shards: shards.length,
    async *pages(shard) {
      for (const page of shards[shard] ?? []) {
        read += 1;
        yield page;
      }
    },
    pagesRead: () => read,
  };
}
const well: ProviderState = {
  shard: 0,
  windowStartMs: nowMs,
  windowCalls: 0,
  windowFailures: 0,
  retryTokens: 1000,
};
const censusOf = (operations: OpenOperations, untilMs = nowMs + 1000, states = [well]) =>
  takeCensus({ open: operations, provider: { states: async () => states }, clock: () => nowMs }, untilMs);

test('all shards are counted by type and state', async () => {
  const operations = index(
    [[open(), open({ type: 'refund' })], [open({ state: 'running' })]],
    [[open(), open({ state: 'settling' }), open({ state: 'parked', type: 'refund' })]],
  );
  expect(await censusOf(operations)).toMatchObject({
    open: {
      charge: { queued: 2, running: 1, settling: 1, parked: 0 },
      refund: { queued: 1, running: 0, settling: 0, parked: 1 },
    },
    isWhole: true,
    unreadable: 0,
  });
});

test('an operation waits since it was heard of, settles since its effect was possible, and is parked since then', async () => {
  const operations = index([
    [
      open({ createdAtMs: nowMs - 2 * hourMs }),
      open({ state: 'running', createdAtMs: nowMs - 3 * hourMs, effectPossibleSinceMs: nowMs - 1 }),
      open({ state: 'settling', createdAtMs: nowMs - 9 * hourMs, effectPossibleSinceMs: nowMs - 4 * hourMs }),
      open({ state: 'parked', createdAtMs: nowMs - 9 * hourMs, parkedAtMs: nowMs - 5 * hourMs }),
    ],
  ]);
  expect((await censusOf(operations)).oldestMs).toEqual({
    waiting: 3 * hourMs,
    settling: 4 * hourMs,
    parked: 5 * hourMs,
    due: 0,
  });
});

test('what is due says how late it is', async () => {
  const operations = index([[open({ dueAtMs: nowMs - 7000 }), open({ dueAtMs: nowMs - 2000 })]]);
  expect((await censusOf(operations)).oldestMs.due).toBe(7000);
});

test('it says whether calls are made', async () => {
  const paused = { ...well, shard: 1, breaker: { reason: 'paused', openedAtMs: nowMs } as const };
  expect((await censusOf(index([]))).isStopped).toBe(false);
  expect((await censusOf(index([]), nowMs + 1000, [well, paused])).isStopped).toBe(true);
  expect((await censusOf(index([]), nowMs + 1000, [])).isStopped).toBe(false);
});

test('nothing open is as old as nothing', async () => {
  expect((await censusOf(index([], [[]]))).oldestMs).toEqual({ waiting: 0, settling: 0, parked: 0, due: 0 });
});

test('what this build cannot read is counted apart', async () => {
  expect(await censusOf(index([[undefined, open()]]))).toMatchObject({
    unreadable: 1,
    open: { charge: { queued: 1 } },
  });
});

test('no shard is read further than five pages, and the others all the same', async () => {
  const many = Array.from({ length: 9 }, () => [open()]);
  const operations = index(many, [[open({ state: 'parked' })]]);
  const { open: counted, isWhole } = await censusOf(operations);
  expect(isWhole).toBe(false);
  expect(counted.charge).toMatchObject({ queued: 5, parked: 1 });
  expect(operations.pagesRead()).toBe(5 + 1 + 1);
});

test('it ends when the time is up', async () => {
  expect(await censusOf(index([[open()]]), nowMs)).toMatchObject({
    isWhole: false,
    open: { charge: { queued: 0 } },
  });
});

test('only its own event asks for it', () => {
  expect([censusEvent, {}, { census: 'true' }, undefined, 'census'].map(asksForCensus)).toEqual([
    true,
    false,
    false,
    false,
    false,
  ]);
});
