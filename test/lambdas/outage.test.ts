import { keyOf } from '../../lambdas/operation/ports';
import { job, record, startWorkerBench, type WorkerBench } from '../support/worker-bench';

// An outage of the provider, and what else an outage may be. What an outage costs the provider, and what it must not cost anybody else: nothing lost, nothing parked, one charge each.

/** The defaults that the bench widens, and time enough for a slow machine: what is counted here are calls. */
const limits = {
  tenantMaxRunning: 2,
  retryBudgetFloor: 10,
  breakerMinCalls: 20,
  workerTimeoutSeconds: 20,
  leaseMarginSeconds: 2,
} as const;
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

/** The laptop's back-off, and the default one of a deployment. */
describe.each([
  { name: '60 s', lengthMs: 60 * secondMs, stepMs: 2 * secondMs, backOff: {} },
  {
    name: '2 h',
    lengthMs: 2 * 3_600_000,
    stepMs: 120 * secondMs,
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

describe('BL-22 a minute of 429, rate limits and lock time-outs in turn', () => {
  test('parks nothing, uses up no attempt, and all 100 jobs of one customer succeed', async () => {
    bench = await startWorkerBench({ limits });
    const jobs = await backlog(100, 20);
    const startMs = bench.stack.clock.now();
    const answers = Array.from({ length: 1000 }, (_, index) =>
      bench.stripe.fault({
        kind: 'answer',
        status: 429,
        error: { type: 'rate_limit_error', code: index % 2 === 0 ? 'lock_timeout' : 'rate_limit' },
      }),
    );
    while (bench.stack.clock.now() - startMs < 60_000) await goOnFor(2000, 2000);
    const records = await Promise.all(
      jobs.map(({ tenantId, operationId }) => bench.stack.operation(tenantId, operationId)),
    );
    for (const kept of records) {
      expect(kept ?? { attemptCount: 0 }).toMatchObject({ attemptCount: 0 });
      expect(kept ?? {}).not.toHaveProperty('effectPossibleSinceMs');
    }
    expect(await bench.stack.deadLetters()).toEqual([]);
    for (const takeBack of answers) takeBack();
    await untilAllSucceeded(jobs, 2000);
    expect(await bench.stack.deadLetters()).toEqual([]);
    expect(bench.stripe.ledger()).toHaveLength(100);
  }, 240_000);

  test('a lock time-out of one customer does not open the breaker for the others', async () => {
    bench = await startWorkerBench({ limits: { ...limits, breakerMinCalls: 5 } });
    await backlog(20, 10);
    bench.stripe.fault(
      { kind: 'answer', status: 429, error: { type: 'invalid_request_error', code: 'lock_timeout' } },
      { times: 20 },
    );
    await bench.drain();
    expect(await bench.stack.item('provider#stripe')).not.toHaveProperty('breakerOpenedAtMs');
  });
});

describe('a pause', () => {
  test("holds where the provider's record gets more parts meanwhile, and its end is the end in all of them", async () => {
    bench = await startWorkerBench({ limits });
    const by = 'ada';
    await bench.operate({ action: 'pause', by, reason: 'maintenance' });
    const { SETTINGS = '{}' } = bench.stack.environment;
    bench.restart({ SETTINGS: JSON.stringify({ ...JSON.parse(SETTINGS), providerShards: 8 }) });
    // Each batch takes a part by chance.
    const jobs = Array.from({ length: 16 }, (_, index) => job({ tenantId: `tenant-${index}` }));
    for (const each of jobs) expect(await bench.deliver([record(each)])).toHaveLength(1);
    expect(bench.stripe.requests()).toEqual([]);
    expect(await bench.operate({ action: 'resume', by })).toMatchObject({ done: true });
    for (const each of jobs) expect(await bench.deliver([record(each)])).toEqual([]);
    expect(bench.stripe.ledger()).toHaveLength(16);
  });
});

describe('a refused key', () => {
  test('one 403 parks one operation, and a redrive runs it; the others go on', async () => {
    bench = await startWorkerBench({ limits });
    const jobs = await backlog(10, 10);
    const [foreign] = jobs;
    if (!foreign) throw new Error('no jobs');
    bench.stripe.fault({ kind: 'answer', status: 403 }, { operationId: foreign.operationId });
    await goOnFor(30_000, 2000);
    expect((await states(jobs)).filter((state) => state === 'succeeded')).toHaveLength(9);
    expect(await bench.stack.operation(foreign.tenantId, foreign.operationId)).toMatchObject({
      state: 'parked',
      parkedReason: 'provider_forbidden',
      attemptCount: 0,
    });
    expect(await bench.stack.deadLetters()).toHaveLength(1);
    await bench.stack.send(foreign);
    await untilAllSucceeded(jobs, 2000);
    expect(bench.stripe.ledger()).toHaveLength(10);
  }, 240_000);

  test('a 401 stops all at once, loses none, and all are charged once after the key is good again', async () => {
    bench = await startWorkerBench({ limits });
    const jobs = await backlog(40, 20);
    const startMs = bench.stack.clock.now();
    const takeBack = bench.stripe.fault({ kind: 'answer', status: 401 }, { times: Number.POSITIVE_INFINITY });
    await goOnFor(60_000, 2000);
    expect(await bench.stack.item('provider#stripe')).toMatchObject({ breakerReason: 'unauthorized' });
    // The first batch, and a probe each half minute.
    const probes = Math.ceil((bench.stack.clock.now() - startMs) / 30_000);
    expect(bench.stripe.requests().length).toBeLessThanOrEqual(bench.stack.limits.batchSize + probes);
    expect(new Set(await states(jobs))).not.toContain('parked');
    expect(await bench.stack.deadLetters()).toEqual([]);
    takeBack();
    await untilAllSucceeded(jobs, 2000);
    expect(bench.stripe.ledger()).toHaveLength(40);
  }, 240_000);

  test('behind an open breaker what is parked is brought to its end, also where no message is left to probe', async () => {
    bench = await startWorkerBench({ limits: { maxAttempts: 1 } });
    const [parked, refused] = [job(), job({ tenantId: 'another' })];
    bench.stripe.fault({ kind: 'reset', effect: 'done' }, { operationId: parked.operationId, times: 1 });
    await bench.deliver([record(parked)]);
    const takeBack = bench.stripe.fault({ kind: 'answer', status: 401 }, { times: Number.POSITIVE_INFINITY });
    await bench.deliver([record(refused)]);
    takeBack();
    expect(await bench.stack.item('provider#stripe')).toMatchObject({ breakerReason: 'unauthorized' });
    await bench.stack.clock.advance(61_000);
    await bench.reconcile();
    expect(await states([parked])).toEqual(['succeeded']);
    expect(bench.stripe.ledger()).toHaveLength(1);
  });
});
