import { censusEvent } from '../../lambdas/operation/census';
import { type AlarmId, alarms } from '../../lib/alarms';
import { laptopLimits } from '../../local/stack';
import { hourMs, onWrites, pastTheLease, settleAsFailed } from '../lambdas/fixtures';
import { type ApiBench, chargeOf, startApiBench } from '../lambdas/http/api-bench';
import { alarmsOf, stateOf } from '../support/alarm-evaluation';
import { LaptopCloudWatch } from '../support/laptop-cloudwatch';
import { operationsStack } from '../support/stack-factory';
import { job, record, refundOf } from '../support/worker-bench';

const minuteMs = 60_000;
/** Longer than the laptop's, so that a busy machine is no cause. */
const limits = { ...laptopLimits, workerTimeoutSeconds: 10, providerTimeoutSeconds: 2 };
/** With no more time than this a slow table brings a worker close to its timeout within two seconds. */
const shortTime = { workerTimeoutSeconds: 2, providerTimeoutSeconds: 1 };
/** Of a stage with these limits, and a bound of messages in flight that a laptop can pass. */
const definitionsWith = (changes: object) => {
  const stage = { stage: 'local', providerKeyPrefix: 'local', alarmInFlightMessages: 3 };
  return alarmsOf(operationsStack({ ...limits, ...stage, ...changes }).template);
};
const definitions = definitionsWith({});

let bench: ApiBench;
let watch: LaptopCloudWatch;
beforeAll(async () => {
  bench = await startApiBench({ limits: { ...limits, tenantMaxRunning: 50 } });
  watch = new LaptopCloudWatch(bench.stack, bench.logs);
});
afterAll(() => bench.stop());
const undo: (() => unknown)[] = [];
beforeEach(() => watch.begin());
afterEach(async () => {
  for (const remove of undo.splice(0)) await remove();
  bench.stripe.clearFaults();
});

type Job = ReturnType<typeof job>;
const deliver = (of: string | object, options: Parameters<typeof record>[1] = {}) =>
  watch.invocation(async () => {
    await bench.deliver([record(of, options)]);
    return { failed: false };
  });
const fault = (of: Job, ...[planned, match = {}]: Parameters<ApiBench['stripe']['fault']>) =>
  undo.push(bench.stripe.fault(planned, { operationId: of.operationId, ...match }));
const onTable = (...rule: Parameters<ApiBench['stack']['dynamodbProxy']['intercept']>) =>
  undo.push(bench.stack.dynamodbProxy.intercept(...rule));
const advance = (ms: number) => bench.stack.clock.advance(ms);
const census = () => bench.reconcile(censusEvent);
const put = async (of: Parameters<ApiBench['charge']>[0]) => {
  const answer = await bench.charge(of);
  watch.answered(answer.status);
  return answer;
};
/** Other variables for the worker, for this test. */
const restart = (environment: Readonly<Record<string, string>>) => {
  bench.restart(environment);
  undo.push(() => bench.restart());
};
const settings = (changes: object) => ({
  SETTINGS: JSON.stringify({ ...JSON.parse(bench.stack.environment.SETTINGS ?? '{}'), ...changes }),
});

async function stateAfterSample(id: AlarmId, of = definitions) {
  await watch.sample();
  const definition = of.get(id);
  if (!definition) throw new Error(`The template has no alarm ${id}.`);
  return stateOf(definition, watch.recorded, watch.fromMs, bench.stack.clock.now());
}

/** What each alarm is for, done to the running stack. A new alarm does not compile without. */
const causes: Readonly<Record<AlarmId, () => Promise<void>>> = {
  DeadLetters: async () => {
    await watch.send('no JSON');
    await bench.drain();
  },
  QueueAge: async () => {
    await watch.send(job());
    await advance(16 * minuteMs);
    for (let minute = 0; minute < 3; minute++) {
      await watch.sample();
      await advance(minuteMs);
    }
  },
  InFlight: async () => {
    for (let count = 0; count < 4; count++) await watch.send(job());
    await bench.stack.eventSource.receive(4);
  },
  OldestOpen: async () => {
    const waiting = chargeOf();
    await put(waiting);
    await advance(7 * hourMs);
    await census();
  },
  ParkedTooLong: async () => {
    await park(job());
    await advance(hourMs + minuteMs);
    await census();
  },
  SettlingTooLong: async () => {
    await deliver(job({ input: { paymentMethodId: 'pm_usBankAccount_success' } }));
    await advance(25 * hourMs);
    await census();
  },
  OutcomeUnknown: async () => {
    await park(job());
    await advance(hourMs + minuteMs);
    await bench.reconcile();
  },
  Contradiction: async () => {
    const charge = job();
    // While the call runs, its lease lapses and somebody settles the operation as failed.
    const run = async () => {
      await pastTheLease(bench);
      await settleAsFailed(bench.stack, charge);
    };
    fault(charge, { kind: 'hook', at: 'afterEffect', run });
    await deliver(charge);
  },
  ProviderStopped: async () => {
    restart(settings({ breakerMinCalls: 20 }));
    // All calls in one window.
    await advance(minuteMs - (bench.stack.clock.now() % minuteMs));
    undo.push(() => bench.operate({ action: 'resume', by: 'test' }));
    bench.stripe.fault({ kind: 'answer', status: 503 }, { times: 100 });
    for (let batch = 0; batch < 4; batch++) await bench.deliver([1, 2, 3, 4, 5].map(() => record(job())));
  },
  Conflicts: async () => {
    const charge = job();
    await deliver(charge);
    await deliver(job({ operationId: charge.operationId, input: { amountMinor: 2000 } }));
  },
  RetryBudget: async () => {
    restart(settings({ retryBudgetPercent: 0, retryBudgetFloor: 0 }));
    const failing = job();
    fault(failing, { kind: 'answer', status: 503 });
    await deliver(failing);
    for (let minute = 0; minute < 3; minute++) {
      await deliver(failing, { receiveCount: 2 });
      await advance(minuteMs);
    }
  },
  DailyCalls: async () => {
    restart(settings({ providerDailyCalls: 1 }));
    await deliver(job());
    await deliver(job());
  },
  Forbidden: async () => {
    const charge = job();
    fault(charge, { kind: 'answer', status: 403 });
    await deliver(charge);
  },
  Unauthorized: async () => {
    undo.push(() => bench.operate({ action: 'resume', by: 'test' }));
    const charge = job();
    fault(charge, { kind: 'answer', status: 401 }, { times: 2 });
    await deliver(charge);
  },
  OtherMode: async () => {
    const charge = job();
    const message = 'No such customer: a similar object exists in test mode, but a live mode key was used';
    const error = { type: 'invalid_request_error', code: 'resource_missing', message };
    fault(charge, { kind: 'answer', status: 400, error, save: false });
    await deliver(charge);
  },
  KeyMissing: async () => {
    restart({ STRIPE_API_KEY: 'placeholder-set-me' });
    await deliver(job());
  },
  WorkerErrors: async () => {
    const charge = job();
    fault(charge, {
      kind: 'hook',
      at: 'beforeEffect',
      run: () => void bench.stack.workers.killAll(),
      next: 'drop',
    });
    await watch.processInvocation([record(charge, { sentAtMs: bench.stack.clock.now() })]);
  },
  WorkerThrottles: async () => {
    const invoke = () =>
      watch.invocation(async () => ({ failed: (await bench.deliver([record(job())])).length > 0 }), 2);
    await Promise.all([invoke(), invoke(), invoke()]);
  },
  WorkerDuration: async () => {
    restart(settings(shortTime));
    const charge = job();
    fault(charge, { kind: 'stall', ms: 2000, effect: 'done' });
    onWrites(bench, charge, 'settle', [{ kind: 'stall' }, { kind: 'stall' }, { kind: 'stall' }]);
    await deliver(charge);
  },
  CaughtErrors: async () => {
    onTable(
      { action: 'BatchGetItem' },
      { kind: 'answer', statusCode: 400, error: 'ResourceNotFoundException' },
    );
    for (let count = 0; count < 5; count++) await deliver(job());
  },
  ReconcilerStopped: async () => {
    await bench.reconcile();
    await advance(15 * minuteMs);
  },
  ApiErrors: async () => {
    onTable(
      { action: 'BatchGetItem' },
      { kind: 'answer', statusCode: 400, error: 'ResourceNotFoundException' },
    );
    for (let count = 0; count < 5; count++) await put(chargeOf());
  },
};

/** Stripe saved an error under the operation's key: it stays parked until a person knows more. */
async function park(spent: Job): Promise<void> {
  fault(spent, { kind: 'answer', status: 500, effect: 'none' });
  await deliver(spent);
  await deliver(spent, { receiveCount: 2 });
}

/** Half an hour of a service that is well: minute by minute, with work of both types, a replay and a decline. */
async function calmHalfHour(): Promise<void> {
  for (let minute = 0; minute < 30; minute++) {
    if (minute % 10 === 0) {
      const charge = chargeOf();
      await put(charge);
      await bench.drain();
      await deliver(refundOf(charge, 500));
      await deliver({ ...charge, type: 'charge' });
      await deliver(job({ input: { paymentMethodId: 'pm_card_chargeDeclined' } }));
      await census();
    } else await bench.reconcile();
    await watch.sample();
    await advance(minuteMs);
  }
}

test('no alarm fires in a calm half hour', async () => {
  await calmHalfHour();
  const states = await Promise.all(alarms.map(async ({ id }) => [id, await stateAfterSample(id)]));
  expect(Object.fromEntries(states)).toEqual(Object.fromEntries(alarms.map(({ id }) => [id, 'OK'])));
});

test.each(alarms.map(({ id, title }) => [title, id] as const))(
  '"%s" fires from its cause',
  async (_title, id) => {
    await causes[id]();
    const of = id === 'WorkerDuration' ? definitionsWith(shortTime) : definitions;
    expect(await stateAfterSample(id, of)).toBe('ALARM');
  },
);

test('a pause fires the alarm too, whether anything is called or not, and the resume ends it', async () => {
  await bench.operate({ action: 'pause', by: 'Kim', reason: 'maintenance' });
  expect(await stateAfterSample('ProviderStopped')).toBe('ALARM');
  await advance(20 * minuteMs);
  await census();
  expect(await stateAfterSample('ProviderStopped')).toBe('ALARM');
  await bench.operate({ action: 'resume', by: 'Kim' });
  await advance(minuteMs);
  await census();
  expect(await stateAfterSample('ProviderStopped')).toBe('OK');
});

test('an alarm is over when its cause is', async () => {
  await causes.Conflicts();
  expect(await stateAfterSample('Conflicts')).toBe('ALARM');
  await advance(6 * minuteMs);
  expect(await stateAfterSample('Conflicts')).toBe('OK');
});
