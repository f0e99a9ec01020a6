import { ReceiveMessageCommand, SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import { type LocalStack, startLocalStack } from '../../local/stack';

let stack: LocalStack;
let sqs: SQSClient;
beforeAll(async () => {
  stack = await startLocalStack({ handler: 'test/support/dummy-handler.ts', startEventSource: false });
  const credentials = { accessKeyId: 'x', secretAccessKey: 'x' };
  sqs = new SQSClient({ region: 'us-east-1', endpoint: stack.endpoints.sqs, credentials });
});
afterAll(async () => {
  sqs.destroy();
  await stack.stop();
});

async function send(groupId: string, count: number) {
  for (let from = 0; from < count; from += 10) {
    const entries = Array.from({ length: Math.min(10, count - from) }, (_, index) => ({
      Id: String(index),
      MessageBody: `${groupId} ${from + index}`,
      MessageGroupId: groupId,
    }));
    await sqs.send(new SendMessageBatchCommand({ QueueUrl: stack.queueUrl, Entries: entries }));
  }
}

/** Receives and leaves in flight. */
async function receive(count: number) {
  const bodies: string[] = [];
  while (bodies.length < count) {
    const { Messages: messages = [] } = await sqs.send(
      new ReceiveMessageCommand({
        QueueUrl: stack.queueUrl,
        MaxNumberOfMessages: Math.min(10, count - bodies.length),
        VisibilityTimeout: 600,
      }),
    );
    if (messages.length === 0) return bodies;
    bodies.push(...messages.map(({ Body: body = '' }) => body));
  }
  return bodies;
}

test('a group with most of the deliveries comes after the others, each in its order', async () => {
  await send('loud', 50);
  await send('quiet', 2);
  expect((await receive(10)).every((body) => body.startsWith('loud'))).toBe(true);
  expect(await receive(4)).toEqual(['quiet 0', 'quiet 1', 'loud 10', 'loud 11']);
});

test('so does a group with thirty messages in flight and more than a tenth of all, however long ago they were delivered', async () => {
  expect(await receive(28)).toHaveLength(28);
  await stack.clock.advance(11_000);
  await send('late', 1);
  expect(await receive(3)).toEqual(['late 0', 'loud 40', 'loud 41']);
});

test('a noisy group is handed out where nobody else waits, and is quiet once nothing of it waits', async () => {
  expect(await receive(20)).toHaveLength(8);
  await stack.clock.advance(601_000);
  // All of it waits again, and none is in flight: it comes first, as it was sent first, until it is noisy again.
  await send('last', 1);
  const bodies = await receive(54);
  expect(bodies).toHaveLength(54);
  expect(bodies.slice(0, 10)).not.toContain('last 0');
  expect(bodies.slice(10, 16)).toContain('last 0');
});
