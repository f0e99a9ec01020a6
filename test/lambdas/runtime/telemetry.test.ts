import type { Outcome } from '../../../lambdas/operation/outcome';
import { Telemetry } from '../../../lambdas/runtime/telemetry';
import { RecordedMetrics } from '../../support/recorded-metrics';
import { saidBy } from '../../support/said';
import { nowMs, operation } from '../fixtures';

const before = { ...process.env };
beforeAll(() => Object.assign(process.env, { POWERTOOLS_DEV: 'true', POWERTOOLS_METRICS_DISABLED: 'false' }));
afterAll(() => {
  process.env = before;
});

const telemetry = () => new Telemetry({ service: 'shop', stage: 'test', maxReceiveCount: 8 });
const source = { messageId: 'm1', receiveCount: 1, requestId: 'r1' };
const provider = { shard: 0, windowStartMs: nowMs, windowCalls: 0, windowFailures: 0, retryTokens: 0 };
const succeeded: Outcome = { kind: 'succeeded', providerRef: 'pi_1', result: {} };
const running = operation({ state: 'running', updatedAtMs: nowMs });
const ended = operation({ state: 'succeeded', updatedAtMs: nowMs + 250, providerRef: 'pi_1' });

/** What was printed, apart: log lines, documents of metrics, and the metrics as CloudWatch has them. */
function observe(run: (telemetry: Telemetry) => void) {
  const told = telemetry();
  const lines = saidBy(() => {
    run(told);
    told.flush();
  });
  const recorded = new RecordedMetrics();
  for (const line of lines) recorded.line(line);
  const valuesOf = (MetricName: string, dimensions: Readonly<Record<string, string>> = {}) =>
    recorded.values(
      {
        Namespace: 'ChargeOnce',
        MetricName,
        Dimensions: Object.entries({ service: 'shop', stage: 'test', ...dimensions }).map(
          ([Name, Value]) => ({
            Name,
            Value,
          }),
        ),
      },
      0,
      Number.MAX_SAFE_INTEGER,
    );
  return {
    log: lines.filter((line) => !('_aws' in line)),
    documents: lines.filter((line) => '_aws' in line),
    names: recorded.names('ChargeOnce'),
    valuesOf,
  };
}

describe('metrics', () => {
  test('five ordinary deliveries of one batch are three documents, and each value is in them', () => {
    const { documents, valuesOf } = observe((told) => {
      for (let message = 0; message < 5; message++) {
        told.delivered({ type: 'charge' }, 40);
        const delivery = told.of(source);
        delivery.changed(running, 'new');
        delivery.attempted(running, succeeded, 120.4);
        delivery.changed(ended, 'running', succeeded);
        delivery.disposed({ kind: 'acknowledge', reason: 'settled' }, ended);
      }
      told.provider({ ...provider, windowCalls: 5, windowFailures: 1, retryTokens: 900 });
    });
    expect(documents).toHaveLength(3);
    const type = 'charge';
    expect(valuesOf('QueueAgeMs', { type })).toEqual([40, 40, 40, 40, 40]);
    expect(valuesOf('FirstAttempt', { type })).toEqual([5]);
    expect(valuesOf('ExecutionMs', { type })).toEqual([250, 250, 250, 250, 250]);
    expect(valuesOf('DoneAfterMs', { type })).toEqual(Array(5).fill(60_250));
    expect(valuesOf('Succeeded', { type })).toEqual([5]);
    expect(valuesOf('ProviderCallMs', { type, reason: 'succeeded' })).toEqual([120, 120, 120, 120, 120]);
    expect(valuesOf('ProviderCallMs', { reason: 'succeeded' })).toHaveLength(5);
    expect([valuesOf('BreakerOpen'), valuesOf('WindowCalls'), valuesOf('WindowFailures')]).toEqual([
      [0],
      [5],
      [1],
    ]);
    expect(valuesOf('RetryTokens')).toEqual([900]);
  });

  test('nothing is printed twice, and nothing when nothing happened', () => {
    const told = telemetry();
    expect(saidBy(() => told.flush())).toEqual([]);
    saidBy(() => told.of(source).changed(running, 'new'));
    expect(saidBy(() => told.flush())).toHaveLength(1);
    expect(saidBy(() => told.flush())).toEqual([]);
  });

  test('more values than CloudWatch takes in one document are printed in several, and all are there', () => {
    const { valuesOf } = observe((told) => {
      for (let message = 0; message < 250; message++) told.delivered({ type: 'charge' }, message);
    });
    expect(valuesOf('QueueAgeMs', { type: 'charge' })).toHaveLength(250);
  });

  test.each([
    ['Retried', { type: 'charge' }, operation({ state: 'running', attemptCount: 2 }), 'queued'],
    ['Accepted', { type: 'charge' }, operation({ attemptCount: 0 }), 'new'],
    ['Requeued', { type: 'charge' }, operation(), 'running'],
    ['Settling', { type: 'charge' }, operation({ state: 'settling' }), 'running'],
    ['Cancelled', { type: 'charge' }, operation({ state: 'cancelled' }), 'queued'],
    [
      'Parked',
      { type: 'charge', reason: 'attempts_exhausted' },
      operation({ state: 'parked', parkedReason: 'attempts_exhausted' }),
      'running',
    ],
    [
      'Failed',
      { type: 'charge', reason: 'card_declined' },
      operation({ state: 'failed', error: { code: 'card_declined', message: 'no' } }),
      'running',
    ],
  ] as const)('a change of state counts as %s, by %j', (name, dimensions, changed, from) => {
    const { valuesOf, log } = observe((told) => told.of(source).changed(changed, from));
    expect(valuesOf(name, dimensions)).toEqual([1]);
    if ('reason' in dimensions) expect(valuesOf(name, { reason: dimensions.reason })).toEqual([1]);
    expect(log).toHaveLength(1);
  });

  test('a wait that a settle keeps in the table is a deferral, with its reason', () => {
    const kept = operation({ dueAtMs: nowMs + 9000, openShard: 1 });
    const outcome: Outcome = { kind: 'notSent', reason: 'rate_limited' };
    const { valuesOf, log } = observe((told) => told.of(source).changed(kept, 'running', outcome));
    expect(valuesOf('Deferred', { reason: 'notSent:rate_limited' })).toEqual([1]);
    expect(log).toEqual([expect.objectContaining({ dueAt: '2026-01-15T00:00:09.000Z' })]);
  });

  test.each([
    ['Deferred', { kind: 'defer', reason: 'retry_budget', delaySeconds: 3 }],
    ['Rejected', { kind: 'reject', reason: 'malformed', problem: 'not JSON' }],
    ['GivenUp', { kind: 'giveUp', reason: 'provider_forbidden' }],
  ] as const)('%s is counted by reason, over all types too', (name, disposition) => {
    const { valuesOf } = observe((told) => told.of(source).disposed(disposition, { type: 'refund' }));
    expect(valuesOf(name, { type: 'refund', reason: disposition.reason })).toEqual([1]);
    expect(valuesOf(name, { reason: disposition.reason })).toEqual([1]);
  });

  test('a replay is a replay, and a settled message is no event of its own', () => {
    const { valuesOf, log } = observe((told) => {
      told.of(source).disposed({ kind: 'acknowledge', reason: 'replay' }, { type: 'charge' });
      told.of(source).disposed({ kind: 'acknowledge', reason: 'settled' }, { type: 'charge' });
    });
    expect(valuesOf('Replayed', { type: 'charge' })).toEqual([1]);
    expect(log).toHaveLength(1);
  });

  test('a message that cannot be read is of no type', () => {
    const { valuesOf } = observe((told) =>
      told.of(source).disposed({ kind: 'reject', reason: 'malformed', problem: 'not JSON' }, {}),
    );
    expect(valuesOf('Rejected', { type: 'unknown', reason: 'malformed' })).toEqual([1]);
  });

  test.each([
    [
      'of the queue',
      (told: Telemetry) =>
        told.of(source).disposed({ kind: 'reject', reason: 'input_conflict', problem: 'bound' }, ended),
    ],
    [
      'of the API',
      (told: Telemetry) => told.refused({ requestId: 'r1', route: 'charge', ...ended }, 'inputs-conflict'),
    ],
    [
      'of a provider key',
      (told: Telemetry) =>
        told
          .of(source)
          .attempted(running, { kind: 'conflict', error: { code: 'idempotency_error', message: '' } }, 9),
    ],
  ])('a conflict %s is counted as one', (_which, happen) => {
    expect(observe(happen).valuesOf('Conflict')).toEqual([1]);
  });

  test("the reconciler's heartbeat is there in a run that had nothing to do, without a log line", () => {
    const idle = { sent: 0, settled: 0, left: 0, failed: 0, escalated: 0 };
    const { valuesOf, log } = observe((told) => told.ran(idle));
    expect(valuesOf('ReconcilerRun')).toEqual([1]);
    expect(log).toEqual([]);
    const busy = observe((told) => told.ran({ ...idle, sent: 3, settled: 2, failed: 1 }));
    expect(['DueSent', 'DueSettled', 'DueFailed'].map((name) => busy.valuesOf(name))).toEqual([
      [3],
      [2],
      [1],
    ]);
    expect(busy.log).toHaveLength(1);
  });

  test('a reconciliation is counted by what it found, and what cannot be told wakes a person', () => {
    const parked = operation({ state: 'parked', parkedReason: 'attempts_exhausted' });
    const { valuesOf, log } = observe((told) => {
      told.of({ requestId: 'r1' }).reconciled(parked, 'found');
      told.of({ requestId: 'r1' }).reconciled(parked, 'unknown', 'key_spent');
      told.of({ requestId: 'r1' }).escalated(parked);
    });
    expect(valuesOf('Reconciled', { reason: 'found' })).toEqual([1]);
    expect(valuesOf('Reconciled', { type: 'charge', reason: 'unknown:key_spent' })).toEqual([1]);
    expect(valuesOf('Escalated')).toEqual([1]);
    expect(log.at(-1)).toMatchObject({
      level: 'WARN',
      operationId: 'op-1001',
      parkedReason: 'attempts_exhausted',
    });
  });

  test('what a person did is counted by what it was, with who and why in the log', () => {
    const intervention = {
      action: 'settled',
      by: 'Kim',
      evidence: 'seen "cus_A" in the dashboard',
      atMs: nowMs,
    } as const;
    const { valuesOf, log } = observe((told) => told.of({ requestId: 'r1' }).intervened(ended, intervention));
    expect(valuesOf('Intervened', { reason: 'settled' })).toEqual([1]);
    expect(log).toEqual([
      expect.objectContaining({
        by: 'Kim',
        evidence: 'seen (not shown) in the dashboard',
        operationId: 'op-1001',
      }),
    ]);
  });

  test('the breaker is open from its opening to its closing, and each change has a line', () => {
    const changes = (['opened', 'probed', 'closed'] as const).map((change) =>
      observe((told) => told.breaker(change, 'failures', { shard: 0 })),
    );
    expect(changes.map(({ valuesOf }) => valuesOf('BreakerOpen'))).toEqual([[1], [1], [0]]);
    expect(changes.map(({ log }) => log.map(({ message }) => message))).toEqual([
      ['breaker opened'],
      ['breaker probed'],
      ['breaker closed'],
    ]);
    const breaker = { reason: 'paused', openedAtMs: nowMs } as const;
    const paused = observe((told) => told.provider({ ...provider, breaker }));
    expect(paused.valuesOf('BreakerOpen')).toEqual([1]);
  });
});

test('every line has the ids: tenant, operation, message and request', () => {
  const { log } = observe((told) => {
    const delivery = told.of(source);
    delivery.changed(running, 'new');
    delivery.kept(running, 'tenant_full', nowMs);
    delivery.contradicted(ended, 'pi_2');
    delivery.reconciled(ended, 'found');
    delivery.escalated(ended);
    delivery.tolerated('a slot was not given back', ended, new Error('gone'));
    delivery.disposed({ kind: 'defer', reason: 'tenant_full', delaySeconds: 2 }, ended);
    told.failed('the delivery failed', new Error('gone'), { ...source, ...ended });
  });
  expect(log).toHaveLength(8);
  for (const line of log)
    expect(line).toMatchObject({
      tenantId: 'acme',
      operationId: 'op-1001',
      messageId: 'm1',
      requestId: 'r1',
    });
});
