import { metricNamespace, metrics } from '../../lambdas/runtime/metrics';
import { type LocalStack, startLocalStack } from '../../local/stack';
import type { StripeStandIn } from '../../local/stripe-stand-in';
import { type Named, settleAsFailed } from '../lambdas/fixtures';
import { namedMetrics } from '../support/named-metrics';
import { RecordedMetrics } from '../support/recorded-metrics';
import { operationsStack } from '../support/stack-factory';
import { job } from '../support/worker-bench';

let stack: LocalStack;
let stripe: StripeStandIn;
const recorded = new RecordedMetrics();
beforeAll(async () => {
  stack = await startLocalStack({
    api: true,
    reconcileEveryMs: 500,
    limits: {
      // More than the laptop's: a busy machine is no cause of anything here.
      workerTimeoutSeconds: 10,
      tenantMaxRunning: 50,
      retryBudgetFloor: 1000,
      breakerMinCalls: 3,
      breakerOpenSeconds: 1,
    },
  });
  if (!stack.stripe) throw new Error('This needs the stand-in');
  stripe = stack.stripe;
  stack.onEvent((event) => {
    if (event.type === 'workerLine' && event.line.startsWith('{')) recorded.line(JSON.parse(event.line));
  });
});
afterAll(() => stack.stop());

type Job = ReturnType<typeof job>;
const stateOf = async ({ tenantId, operationId }: Named) =>
  (await stack.operation(tenantId, operationId))?.state;
const until = (of: Named, state: string) =>
  stack.waitFor(async () => (await stateOf(of)) === state, {
    timeoutMs: 30_000,
    what: `${of.operationId} ${state}`,
  });
const untilCounted = (name: keyof typeof metrics) =>
  stack.waitFor(() => recorded.names(metricNamespace).has(name), { timeoutMs: 30_000, what: name });

/** Sends a job that meets these faults, and waits for what becomes of it. */
async function run(
  of: Job,
  state: string,
  ...faults: Parameters<StripeStandIn['fault']>[0][]
): Promise<void> {
  for (const fault of faults) stripe.fault(fault, { operationId: of.operationId });
  await stack.send(of);
  await until(of, state);
}

async function api(method: string, { tenantId, operationId }: Named, kind: string, body?: object) {
  const path = `/tenants/${tenantId}/${kind}/${operationId}${method === 'POST' ? '/cancel' : ''}`;
  const answer = await fetch(`${stack.endpoints.api}${path}`, {
    method,
    ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
  return answer.status;
}

/** What happens to a service in its life, the rare things too. */
async function live(): Promise<void> {
  const operate = stack.handler('lambdas/operate.ts');
  const ask = (request: object) => operate.invoke({ by: 'test', ...request }, 20_000);

  // Accepted, charged, asked for again, with the same inputs and with others; a message twice.
  const charge = job();
  await api('PUT', charge, 'charges', charge.input);
  await until(charge, 'succeeded');
  await api('PUT', charge, 'charges', charge.input);
  await api('PUT', charge, 'charges', { ...charge.input, amountMinor: 1 });
  await stack.send(charge);

  // What ends otherwise, and what does not end at once. Nothing more is tried for a spent key.
  const spent = job();
  await Promise.all([
    stack.send('no JSON'),
    run(job({ input: { paymentMethodId: 'pm_card_chargeDeclined' } }), 'failed'),
    run(job({ input: { paymentMethodId: 'pm_usBankAccount_success' } }), 'settling'),
    run(job(), 'parked', { kind: 'answer', status: 403 }),
    run(spent, 'parked', { kind: 'answer', status: 500, effect: 'none' }),
  ]);
  await stack.send(spent);

  // The table fails once when the batch is read, and once when a place is given back.
  const refused = { kind: 'answer', statusCode: 400, error: 'ValidationException' } as const;
  const unread = job();
  const isItsRead = (body: unknown) => JSON.stringify(body).includes(unread.operationId);
  stack.dynamodbProxy.intercept({ action: 'BatchGetItem', where: isItsRead, times: 1 }, refused);
  await stack.send(unread);
  await untilCounted('CaughtError');
  const isRelease = (body: unknown) => /"UpdateExpression":"REMOVE #running/.test(JSON.stringify(body));
  stack.dynamodbProxy.intercept({ action: 'UpdateItem', where: isRelease, times: 1 }, refused);
  await run(job(), 'succeeded');

  // Somebody settles an operation as failed whose call then turns out to have succeeded.
  const denied = job();
  const settle = async () => {
    await stack.clock.advance(10_000);
    await settleAsFailed(stack, denied);
  };
  await run(denied, 'failed', { kind: 'hook', at: 'afterEffect', run: settle });
  await untilCounted('Contradicted');

  // Something that nobody has taken yet is cancelled; the service is paused and resumed.
  await stack.eventSource.stop();
  const unwanted = job();
  await api('PUT', unwanted, 'charges', unwanted.input);
  await api('POST', unwanted, 'operations');
  stack.eventSource.start();
  await ask({ action: 'pause', reason: 'test' });
  await ask({ action: 'resume' });

  // An outage: the breaker opens, a probe finds out that it is over, and what failed is tried again.
  stripe.fault({ kind: 'answer', status: 503 }, { times: 3 });
  const failing = [job(), job(), job()];
  await Promise.all(failing.map((one) => run(one, 'succeeded')));

  // An hour later nobody can tell what became of the spent key; a person gives its message up.
  await stack.clock.advance(3_700_000);
  await untilCounted('Escalated');
  await ask({ action: 'discard', ...named(spent) });
}

const named = ({ tenantId, operationId }: Named) => ({ tenantId, operationId });

test('every metric that an alarm or a widget names is one that the running service prints', async () => {
  await live();
  const shown = namedMetrics(operationsStack().template);
  expect(shown.size).toBeGreaterThan(40);
  const missing = () => [...shown].filter((name) => !recorded.names(metricNamespace).has(name));
  await stack.waitFor(() => missing().length === 0, { timeoutMs: 20_000 }).catch(() => {});
  expect(missing()).toEqual([]);
  expect([...shown].filter((name) => !Object.hasOwn(metrics, name))).toEqual([]);
}, 120_000);
