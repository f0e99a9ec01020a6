import { keyOf } from '../../lambdas/operation/ports';
import { job, startWorkerBench, type WorkerBench } from '../support/worker-bench';

// What an outage costs the provider, and what it must not cost anybody else: nothing lost, nothing parked, one charge each.

const limits = { tenantMaxRunning: 2, retryBudgetFloor: 10, breakerMinCalls: 20 } as const;
const secondMs = 1000;

let bench: WorkerBench;
// Throws when an operation used two keys for one step, or moved money twice.
afterEach(() => bench.stop());

/** 200 jobs of 50 tenants, on the queue. */
async function backlog(count = 200, tenants = 50) {
  const jobs = Array.from({ length: count }, (_, index) => job({ tenantId: `tenant-${index % tenants}` }));
  await Promise.all(jobs.map((each) => bench.stack.send(each)));
  return jobs;
}

/** Deliveries and the reconciler, as the clock goes on. */
async function goOnFor(ms: number, stepMs: number): Promise<void> {
  const endMs = bench.stack.clock.now() + ms;
  while (bench.stack.clock.now() < endMs) {
    await bench.drain();
    await bench.stack.clock.advance(stepMs);
    await bench.reconcile();
  }
}

const isCharge = ({ method, path }: { readonly method: string; readonly path: string }) =>
  method === 'POST' && path === '/v1/payment_intents';

/** What the provider saw, and what it may see: G8. */
function callsSince(startMs: number) {
  const calls = bench.stripe.requests().filter(isCharge);
  const firstAttempts = new Set(calls.map(({ operation }) => operation)).size;
  const windows = Math.floor((bench.stack.clock.now() - startMs) / 60_000) + 2;
  const probes = bench.logs().filter(({ message }) => message === 'breaker probed').length;
  return { calls: calls.length, firstAttempts, probes, most: firstAttempts * 1.1 + windows * 10 + probes };
}

async function states(jobs: readonly { tenantId: string; operationId: string }[]) {
  const records = await Promise.all(
    jobs.map(({ tenantId, operationId }) => bench.stack.operation(tenantId, operationId)),
  );
  return records.map((record) => record?.state ?? 'unheard');
}

async function untilAllSucceeded(jobs: readonly { tenantId: string; operationId: string }[], stepMs: number) {
  const startMs = bench.stack.clock.now();
  while ((await states(jobs)).some((state) => state !== 'succeeded')) {
    if (bench.stack.clock.now() - startMs > 3 * 3_600_000) throw new Error('It does not come to an end');
    await goOnFor(stepMs, stepMs);
  }
  return bench.stack.clock.now() - startMs;
}

const outage = () => bench.stripe.fault({ kind: 'answer', status: 503 }, { times: Number.POSITIVE_INFINITY });

/** The laptop's back-off, and the one of a deployment. */
describe.each([
  { name: '60 s', lengthMs: 60 * secondMs, stepMs: 2 * secondMs, backOff: {} },
  {
    name: '2 h',
    lengthMs: 2 * 3_600_000,
    stepMs: 60 * secondMs,
    backOff: { retryBaseSeconds: 10, retryCapSeconds: 300 },
  },
])('an outage of $name with 200 messages of 50 tenants', ({ lengthMs, stepMs, backOff }) => {
  test('costs a bounded number of calls, parks nothing, and all are charged once afterwards', async () => {
    bench = await startWorkerBench({ limits: { ...limits, ...backOff } });
    const jobs = await backlog();
    const startMs = bench.stack.clock.now();
    const end = outage();
    await goOnFor(lengthMs, stepMs);
    const { calls, most, firstAttempts, probes } = callsSince(startMs);
    expect(firstAttempts).toBeGreaterThan(0);
    expect(calls).toBeLessThanOrEqual(most);
    // The stock consumer made 1 200 and 3 000 calls in 60 s.
    if (lengthMs === 60_000) expect(calls).toBeLessThan(100);
    expect(probes).toBeLessThanOrEqual((bench.stack.clock.now() - startMs) / 30_000 + 1);
    expect(await bench.stack.deadLetters()).toEqual([]);
    expect(new Set(await states(jobs))).not.toContain('parked');

    end();
    await untilAllSucceeded(jobs, stepMs);
    expect(await bench.stack.deadLetters()).toEqual([]);
    const charged = bench.stripe
      .ledger()
      .map(({ metadata }) => `${metadata.tenantId}#${metadata.operationId}`);
    expect(charged.toSorted()).toEqual(jobs.map(keyOf).toSorted());
  }, 240_000);
});
