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

/** A message as it lies in a queue. Times are milliseconds since the epoch. */
export interface QueuedMessage {
  readonly messageId: string;
  readonly body: string;
  readonly place: 'waiting' | 'inFlight' | 'delayed';
  /** Deliveries so far. */
  readonly receiveCount: number;
  readonly sentAtMs: number;
  /** When it may be received again; undefined while it may be now. */
  readonly backAtMs?: number;
}

export interface QueueContent {
  readonly depth: QueueDepth;
  /** Oldest first, as far as the queue knows. */
  readonly messages: QueuedMessage[];
}

const message = z.object({
  messageId: z.string(),
  body: z.string(),
  sentTimestamp: z.number(),
  approximateReceiveCount: z.number(),
  delayUntil: z.optional(z.number()),
});
const inspection = z.object({
  messages: z.object({
    ready: z.array(message),
    delayed: z.array(message),
    inflight: z.array(z.object({ message, visibilityDeadline: z.number() })),
  }),
});

/** What a queue holds, by fauxqs's own page, which hides nothing from receivers. */
export async function inspectQueue(sqsPort: number, queueName: string): Promise<QueueContent> {
  const response = await fetch(`http://127.0.0.1:${sqsPort}/_fauxqs/queues/${queueName}`);
  const { ready, delayed, inflight } = inspection.parse(await response.json()).messages;
  const messages = [
    ...ready.map((waiting) => queued(waiting, 'waiting')),
    ...delayed.map((later) => queued(later, 'delayed', later.delayUntil)),
    ...inflight.map((taken) => queued(taken.message, 'inFlight', taken.visibilityDeadline)),
  ];
  return {
    depth: {
      visible: ready.length,
      inFlight: inflight.length,
      delayed: delayed.length,
      total: messages.length,
    },
    messages: messages.sort((a, b) => a.sentAtMs - b.sentAtMs),
  };
}

const queued = (
  { messageId, body, sentTimestamp, approximateReceiveCount }: z.infer<typeof message>,
  place: QueuedMessage['place'],
  backAtMs?: number,
): QueuedMessage => ({
  messageId,
  body,
  place,
  receiveCount: approximateReceiveCount,
  sentAtMs: sentTimestamp,
  ...(backAtMs !== undefined && { backAtMs }),
});
