import { Duration, type Stack } from 'aws-cdk-lib';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { foreignStack } from '../support/stack-factory';

const arn = (name: string) => `arn:aws:sqs:eu-west-1:111122223333:${name}`;
const imported = (stack: Stack, id: string, name: string) => Queue.fromQueueArn(stack, id, arn(name));

const ownQueue = (stack: Stack, visibilitySeconds: number, maxReceiveCount: number) =>
  new Queue(stack, 'Jobs', {
    visibilityTimeout: Duration.seconds(visibilitySeconds),
    deadLetterQueue: { queue: new Queue(stack, 'DeadJobs'), maxReceiveCount },
  });

test('a queue of the same app with the right timeout and redrive policy is taken as it is', () => {
  const { chargeOnce, template } = foreignStack((stack) => ({ queues: { queue: ownQueue(stack, 180, 8) } }));
  expect(chargeOnce.queues.deadLetterQueue.node.path).toBe('Shop/DeadJobs');
  template().resourceCountIs('AWS::SQS::Queue', 2);
});

test('BL-42: an imported FIFO queue is refused', () => {
  const bring = (stack: Stack) => ({
    queues: { queue: imported(stack, 'Jobs', 'jobs.fifo'), deadLetterQueue: imported(stack, 'Dead', 'dead') },
  });
  expect(() => foreignStack(bring)).toThrow('Shop/Jobs cannot be the work queue:\n  - queue is a FIFO queue');
});

test('BL-42: a FIFO dead-letter queue is refused', () => {
  const bring = (stack: Stack) => ({
    queues: { queue: imported(stack, 'Jobs', 'jobs'), deadLetterQueue: imported(stack, 'Dead', 'dead.fifo') },
  });
  expect(() => foreignStack(bring)).toThrow('deadLetterQueue is a FIFO queue');
});

test('another dead-letter queue than the one that the queue uses is refused', () => {
  const bring = (stack: Stack) => ({
    queues: { queue: ownQueue(stack, 180, 8), deadLetterQueue: imported(stack, 'Dead', 'dead') },
  });
  expect(() => foreignStack(bring)).toThrow(
    'deadLetterQueue is Shop/Dead; its redrive policy names Shop/DeadJobs',
  );
});

test('an imported queue without its dead-letter queue is refused', () => {
  const bring = (stack: Stack) => ({ queues: { queue: imported(stack, 'Jobs', 'jobs') } });
  expect(() => foreignStack(bring)).toThrow('deadLetterQueue is missing');
});

test('BL-45: a queue that hides messages too shortly or gives up elsewhere is refused, both reasons at once', () => {
  const bring = (stack: Stack) => ({
    settings: { workerTimeoutSeconds: 120 },
    queues: { queue: ownQueue(stack, 60, 3) },
  });
  expect(() => foreignStack(bring)).toThrow(
    /visibilityTimeout is 60 s; it must be at least 720 s .*\n.*has maxReceiveCount 3; it must be the setting maxReceiveCount 8/,
  );
});

test('BL-45: a queue without a timeout of its own or a redrive policy is refused', () => {
  const bring = (stack: Stack) => ({
    queues: { queue: new Queue(stack, 'Jobs'), deadLetterQueue: imported(stack, 'Dead', 'dead') },
  });
  expect(() => foreignStack(bring)).toThrow(/visibilityTimeout is 30 s.*\n.*has no maxReceiveCount/);
});
