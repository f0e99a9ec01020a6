import { SQSClient, StartMessageMoveTaskCommand } from '@aws-sdk/client-sqs';
import { type LocalStack, type StackEvent, startLocalStack } from '../../local/stack';
import { job } from '../support/worker-bench';

// What can never run, or was given up, on the real stack: in the dead-letter queue soon, told three times over, and back by a redrive.

let stack: LocalStack;
const lines: Record<string, unknown>[] = [];

beforeAll(async () => {
  // Without the reconciler, which would find the payment before the message has come to the dead-letter queue.
  stack = await startLocalStack({ limits: { maxAttempts: 2 } });
  stack.onEvent((event: StackEvent) => {
    if (event.type !== 'workerLine' || !event.line.startsWith('{')) return;
    lines.push(JSON.parse(event.line));
  });
});
afterAll(() => stack.stop());

const isIn = async (part: string) => (await stack.deadLetters()).some((body) => body.includes(part));
const within10Seconds = { timeoutMs: 10_000 };
const logged = (message: string, reason: string) =>
  lines.some((line) => line.message === message && (line.reason === reason || line.parkedReason === reason));
const counted = (name: string, reason: string) =>
  lines.some((line) => '_aws' in line && name in line && line.reason === reason);

async function redriveAll(): Promise<void> {
  const sqs = new SQSClient({
    region: 'us-east-1',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    endpoint: stack.endpoints.sqs,
  });
  await sqs.send(new StartMessageMoveTaskCommand({ SourceArn: stack.deadLetterQueueArn }));
  sqs.destroy();
}

test('a conflict, a malformed body and an exhausted operation are dead letters within 10 s, each told by log, metric and record', async () => {
  const paid = job({ operationId: 'paid' });
  await stack.send(paid);
  await stack.waitFor(
    async () => (await stack.operation('acme', 'paid'))?.state === 'succeeded',
    within10Seconds,
  );
  const before = await stack.operation('acme', 'paid');

  const stuck = job({ operationId: 'stuck' });
  const end = stack.stripe?.fault({ kind: 'reset', effect: 'done' }, { operationId: 'stuck', times: 2 });
  await stack.send(stuck);
  await stack.send(job({ operationId: 'paid', input: { amountMinor: 9000 } }));
  await stack.send('{"version":1,"tenantId":"acme","operationId":"no-input"}');
  await stack.waitFor(
    async () => (await isIn('9000')) && (await isIn('no-input')) && (await isIn('stuck')),
    within10Seconds,
  );
  end?.();

  expect(logged('message rejected', 'input_conflict')).toBe(true);
  expect(counted('Rejected', 'input_conflict')).toBe(true);
  expect(await stack.operation('acme', 'paid')).toEqual(before);
  expect(logged('message rejected', 'malformed')).toBe(true);
  expect(counted('Rejected', 'malformed')).toBe(true);
  expect(logged('operation parked', 'attempts_exhausted')).toBe(true);
  expect(counted('Parked', 'attempts_exhausted')).toBe(true);
  for (const reason of ['input_conflict', 'malformed', 'attempts_exhausted'])
    expect(counted('DeadLettered', reason)).toBe(true);
}, 60_000);

test('a redrive brings them back through the source queue: what ended is done, what can never run is refused again', async () => {
  expect(await stack.deadLetters()).toHaveLength(3);
  lines.length = 0;
  await redriveAll();
  // The exhausted operation had moved money at its first call: it is found, or repeated under its key, and ends.
  await stack.waitFor(async () => (await stack.operation('acme', 'stuck'))?.state === 'succeeded', {
    timeoutMs: 20_000,
  });
  await stack.waitFor(async () => (await stack.deadLetters()).length === 2, { timeoutMs: 20_000 });
  expect(await isIn('9000')).toBe(true);
  expect(await isIn('no-input')).toBe(true);
  expect(logged('message rejected', 'input_conflict')).toBe(true);
  expect(stack.stripe?.ledger()).toHaveLength(2);
}, 60_000);

test('BL-41 a message of a future version is deferred by the longest delay, and is a dead letter only at the receive limit', async () => {
  const future = { ...job({ operationId: 'future' }), version: 99 };
  lines.length = 0;
  await stack.send(future);
  const deliveries = () =>
    lines.filter(({ reason, message }) => reason === 'version_unknown' && message === 'message deferred')
      .length;
  for (let delivery = 1; delivery <= stack.limits.maxReceiveCount; delivery++) {
    await stack.waitFor(() => deliveries() >= delivery, { timeoutMs: 30_000 });
    expect(await isIn('future')).toBe(false);
    // Not a second sooner than the longest delay.
    await stack.clock.advance(stack.limits.retryCapSeconds * 1000);
  }
  await stack.waitFor(() => isIn('future'), within10Seconds);
  expect(await stack.operation('acme', 'future')).toBeUndefined();
}, 120_000);
