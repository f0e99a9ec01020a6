import { GetQueueAttributesCommand, SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { messageOf, type Operation } from '../operation/operation';
import type { Clock, JobQueue } from '../operation/ports';
import { inTime } from './deadline';

/** How long a depth that was read is good for. */
const depthAgeMs = 5_000;

/** The queue that operations are sent to: the tenant as the fair queue's group, so that a flood delays its own tenant. */
export class SqsJobQueue implements JobQueue {
  #depth: { readonly messages: number; readonly readAtMs: number } | undefined;

  constructor(
    private readonly client: SQSClient,
    private readonly queueUrl: string,
    private readonly clock: Clock,
  ) {}

  async send(operation: Operation): Promise<void> {
    const { tenantId, type } = operation;
    const text = (StringValue: string) => ({ DataType: 'String', StringValue });
    await this.client.send(
      new SendMessageCommand({
        QueueUrl: this.queueUrl,
        MessageGroupId: tenantId,
        MessageBody: JSON.stringify(messageOf(operation)),
        MessageAttributes: { tenantId: text(tenantId), type: text(type) },
      }),
      inTime(),
    );
  }

  async depth(): Promise<number> {
    const nowMs = this.clock();
    if (this.#depth && nowMs - this.#depth.readAtMs < depthAgeMs) return this.#depth.messages;
    const { Attributes = {} } = await this.client.send(
      new GetQueueAttributesCommand({ QueueUrl: this.queueUrl, AttributeNames: [...counted] }),
      inTime(),
    );
    const messages = counted.reduce((sum, name) => sum + Number(Attributes[name] ?? 0), 0);
    this.#depth = { messages, readAtMs: nowMs };
    return messages;
  }
}

const counted = [
  'ApproximateNumberOfMessages',
  'ApproximateNumberOfMessagesNotVisible',
  'ApproximateNumberOfMessagesDelayed',
] as const;
