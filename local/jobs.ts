import { SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import * as z from 'zod/mini';

export interface SendOptions {
  /** @default the body's `tenantId` when it has one; null sends none */
  readonly messageGroupId?: string | null;
  /** String attributes. @default the body's `tenantId` and `type`, as far as it has them */
  readonly attributes?: Readonly<Record<string, string>>;
}

/**
 * Sends a job as other services do: a body, its tenant and type as attributes, its tenant as the fair
 * queue's group.
 */
export async function sendJob(
  sqs: SQSClient,
  queueUrl: string,
  body: string | object,
  options: SendOptions = {},
): Promise<string> {
  const named: Record<string, unknown> = typeof body === 'string' ? {} : { ...body };
  const { tenantId, type } = named;
  const attributes = options.attributes ?? {
    ...(typeof tenantId === 'string' && { tenantId }),
    ...(typeof type === 'string' && { type }),
  };
  const groupId = options.messageGroupId === undefined ? tenantId : options.messageGroupId;
  const { MessageId: messageId } = await sqs.send(
    new SendMessageCommand({
      QueueUrl: queueUrl,
      MessageBody: typeof body === 'string' ? body : JSON.stringify(body),
      ...(typeof groupId === 'string' && { MessageGroupId: groupId }),
      MessageAttributes: Object.fromEntries(
        Object.entries(attributes).map(([name, value]) => [name, { DataType: 'String', StringValue: value }]),
      ),
    }),
  );
  if (messageId === undefined) throw new Error('SQS gave no message id.');
  return messageId;
}

/** Messages of a queue by what a receiver may do with them. */
export interface QueueDepth {
  readonly visible: number;
  readonly inFlight: number;
  readonly delayed: number;
  readonly total: number;
}

export interface QueueContent {
  readonly depth: QueueDepth;
  readonly bodies: string[];
}

const message = z.object({ body: z.string() });
const inspection = z.object({
  messages: z.object({
    ready: z.array(message),
    delayed: z.array(message),
    inflight: z.array(z.object({ message })),
  }),
});

/** What a queue holds, by fauxqs's own page, which hides nothing from receivers. */
export async function inspectQueue(sqsPort: number, queueName: string): Promise<QueueContent> {
  const response = await fetch(`http://127.0.0.1:${sqsPort}/_fauxqs/queues/${queueName}`);
  const { ready, delayed, inflight } = inspection.parse(await response.json()).messages;
  const all = [...ready, ...delayed, ...inflight.map((taken) => taken.message)];
  return {
    depth: { visible: ready.length, inFlight: inflight.length, delayed: delayed.length, total: all.length },
    bodies: all.map(({ body }) => body),
  };
}
