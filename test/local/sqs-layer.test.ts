import {
  CancelMessageMoveTaskCommand,
  ChangeMessageVisibilityCommand,
  CreateQueueCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  ListDeadLetterSourceQueuesCommand,
  ListMessageMoveTasksCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  SQSClient,
  StartMessageMoveTaskCommand,
} from '@aws-sdk/client-sqs';
import { type Clock, createClock } from '../../local/clock';
import { type DeadLettered, type Emulators, startEmulators } from '../../local/emulators';
import { type HttpProxy, startHttpProxy } from '../../local/http-proxy';
import { waitFor } from '../../local/wait-for';

let clock: Clock;
let emulators: Emulators;
let proxy: HttpProxy;
let sqs: SQSClient;
let deadLettered: DeadLettered[];
let nextQueue = 0;

beforeAll(async () => {
  clock = createClock();
  emulators = await startEmulators(clock, (message) => deadLettered.push(message));
  proxy = await startHttpProxy(emulators.sqsPort);
  const credentials = { accessKeyId: 'x', secretAccessKey: 'x' };
  sqs = new SQSClient({ region: 'us-east-1', endpoint: proxy.url, credentials });
});
afterAll(async () => {
  sqs.destroy();
  await proxy.stop();
  await emulators.stop();
});
beforeEach(() => {
  deadLettered = [];
});

interface Queue {
  readonly url: string;
  readonly arn: string;
}

async function createQueue(attributes: Record<string, string> = {}): Promise<Queue> {
  nextQueue += 1;
  const name = `queue-${nextQueue}`;
  const { QueueUrl: url = '' } = await sqs.send(
    new CreateQueueCommand({ QueueName: name, Attributes: attributes }),
  );
  return { url, arn: `arn:aws:sqs:us-east-1:000000000000:${name}` };
}

const redriveTo = (deadLetters: Queue) => ({
  RedrivePolicy: JSON.stringify({ deadLetterTargetArn: deadLetters.arn, maxReceiveCount: 1 }),
});

async function receive(
  queue: Queue,
  options: { max?: number; waitSeconds?: number } = {},
): Promise<Message[]> {
  const { Messages: messages = [] } = await sqs.send(
    new ReceiveMessageCommand({
      QueueUrl: queue.url,
      MaxNumberOfMessages: options.max ?? 10,
      WaitTimeSeconds: options.waitSeconds ?? 0,
      MessageSystemAttributeNames: ['All'],
      MessageAttributeNames: ['All'],
    }),
  );
  return messages;
}

/** Sends messages and lets the redrive policy move them, as a worker does that rejects them. */
async function giveUp(queue: Queue, ...bodies: string[]): Promise<void> {
  for (const body of bodies) {
    await sqs.send(
      new SendMessageCommand({ QueueUrl: queue.url, MessageBody: body, MessageGroupId: `tenant-of-${body}` }),
    );
  }
  for (const message of await receive(queue)) {
    await sqs.send(
      new ChangeMessageVisibilityCommand({
        QueueUrl: queue.url,
        ReceiptHandle: message.ReceiptHandle,
        VisibilityTimeout: 0,
      }),
    );
  }
  expect(await receive(queue)).toEqual([]);
}

const startMove = (
  source: Queue,
  more: { DestinationArn?: string; MaxNumberOfMessagesPerSecond?: number } = {},
) => sqs.send(new StartMessageMoveTaskCommand({ SourceArn: source.arn, ...more }));

async function moveTasks(source: Queue) {
  const command = new ListMessageMoveTasksCommand({ SourceArn: source.arn, MaxResults: 10 });
  return (await sqs.send(command)).Results ?? [];
}

const moveEnded = (source: Queue) =>
  waitFor(async () => {
    const [task] = await moveTasks(source);
    return task?.Status !== 'RUNNING' && task;
  });

const attributesOf = async (queue: Queue) =>
  (await sqs.send(new GetQueueAttributesCommand({ QueueUrl: queue.url, AttributeNames: ['All'] })))
    .Attributes ?? {};

describe('message group ids on a standard queue', () => {
  test('come back as an attribute, and hold no other message of the group', async () => {
    const queue = await createQueue();
    for (const body of ['a', 'b']) {
      const command = new SendMessageCommand({
        QueueUrl: queue.url,
        MessageBody: body,
        MessageGroupId: 'North',
      });
      await sqs.send(command);
    }
    await sqs.send(new SendMessageCommand({ QueueUrl: queue.url, MessageBody: 'c' }));
    const groups = (await receive(queue)).map(({ Body, Attributes }) => [Body, Attributes?.MessageGroupId]);
    expect(groups).toEqual([
      ['a', 'North'],
      ['b', 'North'],
      ['c', undefined],
    ]);
  });

  test('belong to their own entry of a batch', async () => {
    const queue = await createQueue();
    const Entries = ['North', 'South', undefined, 'East'].map((group, index) => ({
      Id: String(index),
      MessageBody: index === 3 ? 'other' : 'same',
      ...(group !== undefined && { MessageGroupId: group }),
    }));
    await sqs.send(new SendMessageBatchCommand({ QueueUrl: queue.url, Entries }));
    const messages = await receive(queue);
    expect(messages.map(({ Attributes }) => Attributes?.MessageGroupId)).toEqual([
      'North',
      'South',
      undefined,
      'East',
    ]);
  });
});

describe('a message that was received too often', () => {
  test('is in the dead-letter queue with its id, its times and the queue that it came from', async () => {
    const deadLetters = await createQueue();
    const queue = await createQueue(redriveTo(deadLetters));
    await giveUp(queue, 'poison');
    const [message] = await receive(deadLetters);
    expect(message?.Attributes).toMatchObject({
      DeadLetterQueueSourceArn: queue.arn,
      MessageGroupId: 'tenant-of-poison',
    });
    expect(deadLettered).toEqual([
      { messageId: message?.MessageId, body: 'poison', sourceArn: queue.arn, deadLetterArn: deadLetters.arn },
    ]);
  });

  test('shows its source only to those who ask', async () => {
    const deadLetters = await createQueue();
    await giveUp(await createQueue(redriveTo(deadLetters)), 'poison');
    const { Messages } = await sqs.send(
      new ReceiveMessageCommand({
        QueueUrl: deadLetters.url,
        MessageSystemAttributeNames: ['SentTimestamp'],
      }),
    );
    expect(Object.keys(Messages?.[0]?.Attributes ?? {})).toEqual(['SentTimestamp']);
  });

  test('ListDeadLetterSourceQueues names the queues that give up to one', async () => {
    const deadLetters = await createQueue();
    const queues = [await createQueue(redriveTo(deadLetters)), await createQueue(redriveTo(deadLetters))];
    const command = new ListDeadLetterSourceQueuesCommand({ QueueUrl: deadLetters.url });
    expect((await sqs.send(command)).queueUrls).toEqual(queues.map(({ url }) => url));
  });
});

describe('a redrive', () => {
  test('brings each message back to its source as a new one', async () => {
    const deadLetters = await createQueue();
    const queues = [
      await createQueue(redriveTo(deadLetters)),
      await createQueue(redriveTo(deadLetters)),
    ] as const;
    await giveUp(queues[0], 'first');
    await giveUp(queues[1], 'second');
    await clock.advance(60_000);

    await startMove(deadLetters);
    expect(await moveEnded(deadLetters)).toMatchObject({
      Status: 'COMPLETED',
      SourceArn: deadLetters.arn,
      ApproximateNumberOfMessagesMoved: 2,
      ApproximateNumberOfMessagesToMove: 2,
    });
    for (const [index, body] of ['first', 'second'].entries()) {
      const queue = queues[index] ?? queues[0];
      const [message, ...others] = await receive(queue);
      expect(others).toEqual([]);
      expect(message).toMatchObject({
        Body: body,
        Attributes: { ApproximateReceiveCount: '1', MessageGroupId: `tenant-of-${body}` },
      });
      expect(deadLettered.map(({ messageId }) => messageId)).not.toContain(message?.MessageId);
      expect(clock.now() - Number(message?.Attributes?.SentTimestamp)).toBeLessThan(10_000);
      expect(message?.Attributes).not.toHaveProperty('DeadLetterQueueSourceArn');
    }
    expect(await attributesOf(deadLetters)).toMatchObject({ ApproximateNumberOfMessages: '0' });
  });

  test('with a rate moves so many a second of the stack clock, and can be cancelled', async () => {
    const deadLetters = await createQueue();
    const queue = await createQueue(redriveTo(deadLetters));
    await giveUp(queue, '1', '2', '3', '4', '5');
    const { TaskHandle } = await startMove(deadLetters, { MaxNumberOfMessagesPerSecond: 1 });
    expect(await moveTasks(deadLetters)).toMatchObject([
      {
        Status: 'RUNNING',
        TaskHandle,
        MaxNumberOfMessagesPerSecond: 1,
        ApproximateNumberOfMessagesToMove: 5,
      },
    ]);
    await clock.advance(2000);
    await waitFor(async () => Number((await attributesOf(queue)).ApproximateNumberOfMessages) >= 3);
    await sqs.send(new CancelMessageMoveTaskCommand({ TaskHandle }));
    await clock.advance(60_000);
    const [task] = await moveTasks(deadLetters);
    expect(task?.Status).toBe('CANCELLED');
    expect(task).not.toHaveProperty('TaskHandle');
    expect(Number((await attributesOf(deadLetters)).ApproximateNumberOfMessages)).toBeGreaterThan(0);
    await expect(sqs.send(new CancelMessageMoveTaskCommand({ TaskHandle }))).rejects.toMatchObject({
      name: 'UnsupportedOperation',
    });
  });

  test('to a destination of its own moves messages there that no policy moved', async () => {
    const [deadLetters, elsewhere] = [await createQueue(), await createQueue()];
    await createQueue(redriveTo(deadLetters));
    await sqs.send(new SendMessageCommand({ QueueUrl: deadLetters.url, MessageBody: 'direct' }));
    await startMove(deadLetters, { DestinationArn: elsewhere.arn });
    expect(await moveEnded(deadLetters)).toMatchObject({
      Status: 'COMPLETED',
      DestinationArn: elsewhere.arn,
    });
    expect((await receive(elsewhere)).map(({ Body }) => Body)).toEqual(['direct']);
  });

  test('fails on a message that was sent to the dead-letter queue directly, and leaves it there', async () => {
    const deadLetters = await createQueue();
    await createQueue(redriveTo(deadLetters));
    await sqs.send(new SendMessageCommand({ QueueUrl: deadLetters.url, MessageBody: 'direct' }));
    await startMove(deadLetters);
    expect(await moveEnded(deadLetters)).toMatchObject({
      Status: 'FAILED',
      FailureReason: 'CouldNotDetermineMessageSource',
    });
    expect((await receive(deadLetters)).map(({ Body }) => Body)).toEqual(['direct']);
  });

  test('fails when the source is gone, and loses nothing', async () => {
    const deadLetters = await createQueue();
    const queue = await createQueue(redriveTo(deadLetters));
    await createQueue(redriveTo(deadLetters));
    await giveUp(queue, 'orphan');
    await sqs.send(new DeleteQueueCommand({ QueueUrl: queue.url }));
    await startMove(deadLetters);
    expect(await moveEnded(deadLetters)).toMatchObject({
      Status: 'FAILED',
      FailureReason: 'AWS.SimpleQueueService.NonExistentQueue',
    });
    expect(await receive(deadLetters)).toHaveLength(1);
  });

  test('is refused for a queue that is no dead-letter queue', async () => {
    await expect(startMove(await createQueue())).rejects.toMatchObject({
      name: 'InvalidParameterValue',
      message: 'Source queue must be configured as a Dead Letter Queue.',
    });
  });

  test('is refused for a queue that does not exist', async () => {
    await expect(startMove({ url: '', arn: 'arn:aws:sqs:us-east-1:000000000000:no' })).rejects.toMatchObject({
      name: 'ResourceNotFoundException',
      $metadata: { httpStatusCode: 404 },
    });
  });

  test('is refused while another one runs', async () => {
    const deadLetters = await createQueue();
    await giveUp(await createQueue(redriveTo(deadLetters)), '1', '2', '3');
    await startMove(deadLetters, { MaxNumberOfMessagesPerSecond: 1 });
    await expect(startMove(deadLetters)).rejects.toMatchObject({ name: 'InvalidParameterValue' });
  });

  test('an invented task handle is refused', async () => {
    const cancel = (TaskHandle: string) => sqs.send(new CancelMessageMoveTaskCommand({ TaskHandle }));
    await expect(cancel('nonsense')).rejects.toMatchObject({ name: 'InvalidParameterValue' });
    const unknown = { taskId: 'no', sourceArn: (await createQueue()).arn };
    const handle = Buffer.from(JSON.stringify(unknown)).toString('base64');
    await expect(cancel(handle)).rejects.toMatchObject({ name: 'ResourceNotFoundException' });
  });
});

describe('visibility', () => {
  test('a hidden message is visible, and counted so, when the clock has passed its timeout', async () => {
    const queue = await createQueue({ VisibilityTimeout: '12' });
    await sqs.send(new SendMessageCommand({ QueueUrl: queue.url, MessageBody: 'a' }));
    expect(await receive(queue)).toHaveLength(1);
    await clock.advance(11_000);
    expect(await receive(queue)).toEqual([]);
    await clock.advance(1001);
    expect(await attributesOf(queue)).toMatchObject({
      ApproximateNumberOfMessages: '1',
      ApproximateNumberOfMessagesNotVisible: '0',
    });
    const [message] = await receive(queue);
    expect(message?.Attributes?.ApproximateReceiveCount).toBe('2');
  });

  test('a poll that waits gets the message as soon as the clock makes it visible', async () => {
    const queue = await createQueue({ VisibilityTimeout: '12' });
    await sqs.send(new SendMessageCommand({ QueueUrl: queue.url, MessageBody: 'a' }));
    await receive(queue);
    const start = performance.now();
    const waiting = receive(queue, { waitSeconds: 20 });
    await clock.advance(12_001);
    expect(await waiting).toHaveLength(1);
    expect(performance.now() - start).toBeLessThan(5000);
  });

  test('a poller that has left takes no message away', async () => {
    const queue = await createQueue();
    const command = new ReceiveMessageCommand({ QueueUrl: queue.url, WaitTimeSeconds: 20 });
    await expect(sqs.send(command, { abortSignal: AbortSignal.timeout(100) })).rejects.toThrow();
    await new Promise((resolve) => setTimeout(resolve, 50));
    await sqs.send(new SendMessageCommand({ QueueUrl: queue.url, MessageBody: 'a' }));
    expect(await receive(queue, { waitSeconds: 1 })).toHaveLength(1);
  });

  test('of two pollers that wait, one gets the one message and the other waits on', async () => {
    const queue = await createQueue();
    const start = performance.now();
    const polls = [receive(queue, { waitSeconds: 1 }), receive(queue, { waitSeconds: 1 })];
    await new Promise((resolve) => setTimeout(resolve, 100));
    await sqs.send(new SendMessageCommand({ QueueUrl: queue.url, MessageBody: 'a' }));
    const taken = (await Promise.all(polls)).map(({ length }) => length);
    expect(taken.toSorted()).toEqual([0, 1]);
    expect(performance.now() - start).toBeGreaterThan(900);
  });
});
