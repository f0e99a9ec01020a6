import { type OpsBench, startOpsBench } from '../support/ops-bench';
import { job } from '../support/worker-bench';

let bench: OpsBench;
beforeAll(async () => {
  bench = await startOpsBench({ limits: { providerDailyCalls: 1000, tenantDailyCalls: 100 } });
});
afterAll(() => bench.stop());

describe('tenant show', () => {
  test('shows what the tenant has in hand, its limits, and which leases have lapsed', async () => {
    const nowMs = bench.stack.clock.now();
    await bench.put({
      pk: 'tenant#North',
      running: {
        O1: { claimId: 'a', leaseExpiresAtMs: nowMs + 60_000 },
        O2: { claimId: 'b', leaseExpiresAtMs: nowMs - 60_000 },
      },
      accepted: { O1: nowMs - 90_000 },
      maxAccepted: 20,
    });
    expect(await bench.json('tenant show North')).toMatchObject({
      tenantId: 'North',
      running: [
        { operationId: 'O1', hasLapsed: false },
        { operationId: 'O2', hasLapsed: true },
      ],
      accepted: [{ operationId: 'O1', ageSeconds: expect.closeTo(90, -1) }],
      maxRunning: 2,
      maxAccepted: 20,
      callsToday: 0,
    });
    const { out } = await bench.ops('tenant show North');
    expect(out).toMatch(/calls in flight +1 of 2/);
    expect(out).toMatch(/accepted and not ended +1 of 20, its own limit/);
    expect(out).toMatch(/calls today \(UTC\) +0 of 100/);
  });

  test('of a tenant without a record says that it has nothing in hand: exit code 1', async () => {
    const { exitCode, err } = await bench.ops('tenant show nobody');
    expect(exitCode).toBe(1);
    expect(err).toContain('it has nothing in hand');
  });

  test.each(['tenant show', 'tenant show a/b', 'tenant list'])(
    '%s is called wrongly: exit code 2',
    async (command) => {
      expect(await bench.ops(command)).toMatchObject({ exitCode: 2, out: '' });
    },
  );
});

describe('provider', () => {
  test('show says that calls are made, how they went, and what retries are left', async () => {
    await bench.stack.send(job());
    await bench.work();
    expect(await bench.json('provider show')).toMatchObject({
      areCallsMade: true,
      windowCalls: 1,
      windowFailures: 0,
      retriesLeft: 10,
      callsToday: 1,
      dailyCalls: 1000,
    });
  });

  test('pause stops all calls until resume; who did it and why is shown', async () => {
    expect(await bench.json('provider pause --reason "Stripe reports an incident" --by noor')).toMatchObject({
      done: true,
    });
    expect(await bench.json('provider show')).toMatchObject({
      areCallsMade: false,
      breaker: { reason: 'paused', note: 'noor: Stripe reports an incident' },
    });
    expect((await bench.ops('provider show')).out).toMatch(/calls +are paused by a person/);

    const waiting = job({ operationId: 'waits' });
    await bench.deadLetter(waiting);
    const redriven = await bench.ops('dlq redrive --operation acme/waits');
    expect(redriven.exitCode).toBe(0);
    expect(redriven.err).toBe(
      'Calls of Stripe are paused by a person (noor: Stripe reports an incident): what is redriven waits until that is over.',
    );
    expect(await bench.json('provider resume')).toMatchObject({ done: true });
    expect(await bench.json('provider show')).toMatchObject({ areCallsMade: true });
  });

  test('resume of what is not paused is refused: exit code 1', async () => {
    expect(await bench.json('provider resume', 1)).toMatchObject({ done: false });
  });

  test('show of an open breaker says why, and when the next call is tried', async () => {
    const nowMs = bench.stack.clock.now();
    await bench.put({
      pk: 'provider#stripe',
      windowStartMs: nowMs,
      windowCalls: 0,
      windowFailures: 0,
      retryTokens: 0,
      breakerReason: 'unauthorized',
      breakerOpenedAtMs: nowMs,
      breakerProbeAtMs: nowMs + 30_000,
    });
    const { out } = await bench.ops('provider show');
    expect(out).toMatch(/calls +are stopped, because Stripe does not take the key/);
    expect(out).toMatch(/next probe .*\(in (30|29) s\)/);
    expect(await bench.json('provider show')).toMatchObject({ retriesLeft: 0, shards: [{ shard: 0 }] });
  });

  test('check says of each right of the key whether it is there', async () => {
    const { checks, done } = await bench.json('provider check');
    expect(done).toBe(true);
    expect(checks).toEqual(
      expect.arrayContaining([{ name: expect.any(String), ok: true, said: expect.any(String) }]),
    );
  });

  test('check of a Stripe that does not answer is exit code 1', async () => {
    const remove = bench.stack.stripe?.fault({ kind: 'reset', effect: 'none' });
    const ran = await bench.ops('provider check');
    remove?.();
    expect(ran.exitCode).toBe(1);
    expect(ran.out).toContain('NOT OK');
  });

  test('pause without a reason is called wrongly: exit code 2', async () => {
    expect(await bench.ops('provider pause')).toMatchObject({ exitCode: 2, out: '' });
  });
});
