import {
  CancelMessageMoveTaskCommand,
  ListMessageMoveTasksCommand,
  PurgeQueueCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { visibilityTimeoutSeconds } from '../../lambdas/operation/limits';
import type { StripeStandIn } from '../../local/stripe-stand-in';
import { type OpsBench, startOpsBench } from '../support/ops-bench';
import { job } from '../support/worker-bench';

let bench: OpsBench;
let stripe: StripeStandIn;
let sqs: SQSClient;
beforeAll(async () => {
  bench = await startOpsBench();
  const { stack } = bench;
  if (!stack.stripe) throw new Error('There is no stand-in.');
  stripe = stack.stripe;
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  sqs = new SQSClient({ region: 'us-east-1', credentials, endpoint: stack.endpoints.sqs });
});
afterAll(async () => {
  sqs.destroy();
  await bench.stop();
});
afterEach(async () => {
  for (const QueueUrl of [bench.stack.queueUrl, bench.stack.deadLetterQueueUrl])
    await sqs.send(new PurgeQueueCommand({ QueueUrl }));
});

const deadLettered = async () =>
  (await bench.stack.deadLetters()).map((body) => String(JSON.parse(body).operationId)).toSorted();
const charges = (operationId: string) =>
  stripe.paymentIntents().filter(({ metadata }) => metadata.operationId === operationId).length;
const failing = { kind: 'answer', statusCode: 400, error: 'AccessDenied' } as const;

describe('dlq redrive of all', () => {
  test('moves every message back to the queue; a conflict is refused again and comes back', async () => {
    const started = job({ operationId: 'O1' });
    await bench.stack.send(started);
    await bench.work();
    await bench.deadLetter(job({ operationId: 'O2' }));
    await bench.deadLetter(job({ operationId: 'O1', input: { amountMinor: 9000 } }));

    const ran = await bench.ops('dlq redrive');
    expect(ran).toMatchObject({
      exitCode: 0,
      out: '2 redriven, 0 left in the dead-letter queue, 0 failed.',
      err: 'Warning: 1 message would be refused again and come back:\n  acme/O1  refused: input_conflict',
    });
    expect((await bench.stack.queueDepth()).visible).toBe(2);
    expect(await deadLettered()).toEqual([]);

    await bench.work();
    expect(await deadLettered()).toEqual(['O1']);
    expect([charges('O1'), charges('O2')]).toEqual([1, 1]);
    expect(await bench.json('dlq list')).toMatchObject({ byKind: { INPUT_CONFLICT: 1 } });
  });

  test('as a dry run says what would become of what, and moves nothing', async () => {
    await bench.deadLetter(job({ operationId: 'O3' }));
    await bench.deadLetter('{}');
    const dry = await bench.json('dlq redrive --dry-run');
    expect(dry).toMatchObject({
      isDryRun: true,
      count: 2,
      redriven: 0,
      byKind: { NEVER_STARTED: 1, MALFORMED: 1 },
      wouldBeRefused: [{ kind: 'MALFORMED', redrive: { outcome: 'refused', why: 'malformed' } }],
    });
    expect(bench.stack.sqsProxy.count('StartMessageMoveTask')).toBe(1);
    expect(await bench.stack.deadLetters()).toHaveLength(2);
    expect((await bench.stack.queueDepth()).total).toBe(0);
  });

  test('of an empty queue has nothing to do, and starts no task', async () => {
    const before = bench.stack.sqsProxy.count('StartMessageMoveTask');
    expect(await bench.json('dlq redrive')).toMatchObject({ redriven: 0, left: 0, failed: 0 });
    expect(bench.stack.sqsProxy.count('StartMessageMoveTask')).toBe(before);
  });

  test('at a rate is one task at a time; one that somebody cancels says what it moved and what it left', async () => {
    for (const operationId of ['O4', 'O5', 'O6']) await bench.deadLetter(job({ operationId }));
    const slow = bench.ops('dlq redrive --max-rate 1 --json');
    const SourceArn = bench.stack.deadLetterQueueArn;
    const running = await bench.stack.waitFor(async () => {
      const { Results: [task] = [] } = await sqs.send(new ListMessageMoveTasksCommand({ SourceArn }));
      return task?.Status === 'RUNNING' ? task : undefined;
    });
    expect(running.MaxNumberOfMessagesPerSecond).toBe(1);
    expect(running.DestinationArn).toBe(bench.stack.queueArn);
    const second = await bench.ops('dlq redrive');
    expect(second.exitCode).toBe(1);
    expect(second.err).toContain('A redrive of the laptop stack runs already');
    await sqs.send(new CancelMessageMoveTaskCommand({ TaskHandle: running.TaskHandle }));
    const { exitCode, json } = await slow;
    expect(exitCode).toBe(1);
    expect(json).toMatchObject({ task: 'CANCELLED', failed: 0 });
    expect(Number(json.redriven) + Number(json.left)).toBe(3);
    expect(Number(json.left)).toBeGreaterThan(0);
  });
});

test('a task that SQS does not start has moved nothing, which is said', async () => {
  await bench.deadLetter(job({ operationId: 'O12' }));
  const remove = bench.stack.sqsProxy.intercept({ action: 'StartMessageMoveTask', times: 1 }, failing);
  const { exitCode, err } = await bench.ops('dlq redrive');
  remove();
  expect(exitCode).toBe(1);
  expect(err).toContain('Nothing was redriven: AWS denied it');
  expect(await deadLettered()).toEqual(['O12']);
});

describe('dlq redrive of one operation', () => {
  test('sends its message again as it was, deletes it, and leaves the others where they are', async () => {
    const [wanted, other] = [job({ operationId: 'O7' }), job({ operationId: 'O8' })];
    await bench.deadLetter(wanted);
    await bench.deadLetter(other);
    expect(await bench.json('dlq redrive --operation acme/O7')).toMatchObject({
      redriven: 1,
      left: 0,
      failed: 0,
      messages: [{ operationId: 'O7', kind: 'NEVER_STARTED' }],
    });
    expect(await deadLettered()).toEqual(['O8']);
    expect((await bench.json('dlq list')).count).toBe(1);
    const [redriven] = await bench.stack.eventSource.receive(10);
    expect(redriven).toMatchObject({
      body: JSON.stringify(wanted),
      attributes: { MessageGroupId: 'acme', ApproximateReceiveCount: '1' },
      messageAttributes: { tenantId: { stringValue: 'acme' }, type: { stringValue: 'charge' } },
    });
  });

  test('as a dry run moves nothing', async () => {
    await bench.deadLetter(job({ operationId: 'O9' }));
    const dry = await bench.json('dlq redrive --operation acme/O9 --dry-run');
    expect(dry).toMatchObject({ isDryRun: true, redriven: 0, byKind: { NEVER_STARTED: 1 } });
    expect((await bench.json('dlq list')).count).toBe(1);
    expect((await bench.stack.queueDepth()).total).toBe(0);
  });

  test('counts honestly when one of two sends fails: exit code 1, and the other is where it was', async () => {
    const twice = job({ operationId: 'O10' });
    await bench.deadLetter(twice);
    await bench.deadLetter(twice);
    const remove = bench.stack.sqsProxy.intercept({ action: 'SendMessage', times: 1 }, failing);
    const { exitCode, out } = await bench.ops('dlq redrive --operation acme/O10');
    remove();
    expect(exitCode).toBe(1);
    expect(out).toContain('1 redriven, 1 left in the dead-letter queue, 1 failed.');
    expect(out).toContain('is left where it was: AWS denied it');
    expect((await bench.json('dlq list')).count).toBe(1);
    expect((await bench.stack.queueDepth()).visible).toBe(1);
  });

  test('that cannot be deleted is in both queues, which is said, and is charged once', async () => {
    await bench.deadLetter(job({ operationId: 'O11' }));
    const remove = bench.stack.sqsProxy.intercept({ action: 'DeleteMessage', times: 1 }, failing);
    const { exitCode, out } = await bench.ops('dlq redrive --operation acme/O11');
    remove();
    expect(exitCode).toBe(1);
    expect(out).toContain('1 redriven, 1 left in the dead-letter queue, 0 failed.');
    expect(out).toContain('in both queues, which is harmless');
    await bench.stack.clock.advance(61_000);
    expect(await bench.json('dlq redrive --operation acme/O11')).toMatchObject({ redriven: 1, left: 0 });
    await bench.work();
    expect(charges('O11')).toBe(1);
  });

  test('takes no rate: exit code 2', async () => {
    expect(await bench.ops('dlq redrive --operation acme/O7 --max-rate 5')).toMatchObject({ exitCode: 2 });
  });
});

test('BL-18 a message that is throttled into the dead-letter queue without ever being run says so, and a redrive charges it once', async () => {
  const throttled = job({ tenantId: 'throttled', operationId: 'O18' });
  await bench.stack.send(throttled);
  // Lambda receives it as often as it may be received, and has no concurrency for it.
  for (let receive = 1; receive <= bench.stack.limits.maxReceiveCount; receive++) {
    expect(await bench.stack.eventSource.receive(10)).toHaveLength(1);
    await bench.stack.clock.advance(visibilityTimeoutSeconds(bench.stack.limits) * 1000);
  }
  expect(await bench.stack.eventSource.receive(10)).toEqual([]);
  expect(await bench.json('dlq list')).toMatchObject({
    messages: [{ operationId: 'O18', kind: 'NEVER_STARTED', moneyMayHaveMoved: false }],
  });
  expect(charges('O18')).toBe(0);
  expect(await bench.json('dlq redrive --operation throttled/O18')).toMatchObject({ redriven: 1 });
  await bench.work();
  expect(await bench.stack.operation('throttled', 'O18')).toMatchObject({
    state: 'succeeded',
    attemptCount: 1,
  });
  expect(charges('O18')).toBe(1);
  expect(await deadLettered()).toEqual([]);
});
