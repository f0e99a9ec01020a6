import { type LocalStack, startLocalStack } from '../../local/stack';
import { job } from '../support/worker-bench';

let stack: LocalStack;
beforeAll(async () => {
  stack = await startLocalStack({ stripeLatencyMs: 500, reconcileEveryMs: 1000, startEventSource: false });
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => stack.stop());

/** The most calls of a tenant that the provider worked on at once, from when each came in and was answered. */
function mostInFlight(tenantId: string): number {
  const calls = (stack.stripe?.requests() ?? []).filter(
    ({ method, operation }) => method === 'POST' && operation?.startsWith(`${tenantId}/`),
  );
  const edges = calls.flatMap(({ startedAtMs, endedAtMs = Number.POSITIVE_INFINITY }) => [
    { atMs: startedAtMs, change: 1 },
    { atMs: endedAtMs, change: -1 },
  ]);
  // An answer makes room for the call that comes in the same millisecond.
  edges.sort((one, other) => one.atMs - other.atMs || one.change - other.change);
  let now = 0;
  return Math.max(...edges.map(({ change }) => (now += change)));
}

test('9: 150 messages of one tenant, then 5 of another: the five do not wait for the flood, which never has more than two calls in flight', async () => {
  const flood = Array.from({ length: 150 }, () => job({ tenantId: 'A' }));
  const few = Array.from({ length: 5 }, () => job({ tenantId: 'B' }));
  for (const each of flood) await stack.send(each);
  for (const each of few) await stack.send(each);
  await stack.workers.warm(stack.limits.maxConcurrency);
  stack.eventSource.start();
  const chargesOf = (tenantId: string) =>
    (stack.stripe?.ledger() ?? []).filter(({ metadata }) => metadata.tenantId === tenantId);

  await stack.waitFor(() => chargesOf('A').length === 150, { timeoutMs: 110_000, intervalMs: 200 });
  await stack.waitFor(async () => (await stack.queueDepth()).total === 0, { timeoutMs: 20_000 });
  for (const tenantId of ['A', 'B']) {
    expect(mostInFlight(tenantId)).toBeLessThanOrEqual(2);
    expect(await stack.item(`tenant#${tenantId}`)).toMatchObject({ running: {}, accepted: {} });
  }
  for (const { tenantId, operationId } of [...flood, ...few])
    expect(await stack.operation(tenantId, operationId)).toMatchObject({ state: 'succeeded' });
  expect(await stack.deadLetters()).toEqual([]);
  // Of the flood, in the order of the ledger, before the last of the five: those that ran beside the five's own waits
  // (two of them at a time), whatever the flood's size.
  const ledger = stack.stripe?.ledger() ?? [];
  const before = ledger.slice(
    0,
    ledger.findLastIndex(({ metadata }) => metadata.tenantId === 'B'),
  );
  expect(before.filter(({ metadata }) => metadata.tenantId === 'A').length).toBeLessThan(50);
}, 180_000);
