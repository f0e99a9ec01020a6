import {
  ChangeMessageVisibilityBatchCommand,
  ChangeMessageVisibilityCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  type Message,
  type MessageAttributeValue,
  ReceiveMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import type { Progress } from './io';

/** A message in hand: nobody else sees it until it is released, or `holdSeconds` have passed. */
export interface HeldMessage {
  readonly messageId: string;
  readonly receiptHandle: string;
  readonly body: string;
  readonly sentAtMs: number;
  readonly receiveCount: number;
  readonly groupId: string | undefined;
  readonly attributes: Readonly<Record<string, MessageAttributeValue>>;
}

/** As SQS counts: approximately. */
export interface Depth {
  readonly visible: number;
  /** In somebody's hand. */
  readonly hidden: number;
}

export interface Reading {
  readonly messages: readonly HeldMessage[];
  /** Whether all that was visible was read. */
  readonly isComplete: boolean;
}

/** How long a message that was read stays hidden if this process dies; else it is released at once. */
export const holdSeconds = 60;
/** What is read within this time is released before it would come back by itself. */
const readForMs = 40_000;

/** The dead-letter queue as a person looks at it: SQS shows a message only to who takes it. */
export class DeadLetterQueue {
  /** @param pollSeconds how long a receive waits: 1 asks all of SQS's servers, 0 may miss what one of them has */
  constructor(
    private readonly sqs: SQSClient,
    private readonly url: string,
    private readonly pollSeconds: number,
  ) {}

  async depth(): Promise<Depth> {
    const { Attributes = {} } = await this.sqs.send(
      new GetQueueAttributesCommand({
        QueueUrl: this.url,
        AttributeNames: ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'],
      }),
    );
    return {
      visible: Number(Attributes.ApproximateNumberOfMessages ?? 0),
      hidden: Number(Attributes.ApproximateNumberOfMessagesNotVisible ?? 0),
    };
  }

  /**
   * Takes up to `limit` messages in hand, until there are no more or the last one `isLast`. What came before an error
   * is released.
   */
  async take(
    limit: number,
    progress: Progress,
    isLast: (message: HeldMessage) => boolean = () => false,
  ): Promise<Reading> {
    const held = new Map<string, HeldMessage>();
    const untilMs = performance.now() + readForMs;
    try {
      while (held.size < limit && performance.now() < untilMs) {
        const { Messages = [] } = await this.sqs.send(
          new ReceiveMessageCommand({
            QueueUrl: this.url,
            MaxNumberOfMessages: Math.min(10, limit - held.size),
            WaitTimeSeconds: this.pollSeconds,
            VisibilityTimeout: holdSeconds,
            MessageSystemAttributeNames: ['SentTimestamp', 'ApproximateReceiveCount', 'MessageGroupId'],
            MessageAttributeNames: ['All'],
          }),
        );
        const taken = Messages.map(heldFrom);
        // SQS may deliver one twice: its newest receipt counts.
        for (const message of taken) held.set(message.messageId, message);
        progress.update(held.size);
        if (taken.length === 0) return { messages: [...held.values()], isComplete: true };
        if (taken.some(isLast)) break;
      }
    } catch (error) {
      await this.release([...held.values()]);
      throw error;
    }
    return { messages: [...held.values()], isComplete: false };
  }

  /** Shows the messages to others again. @returns how many could not be shown: they stay hidden until their time has passed */
  async release(messages: readonly HeldMessage[]): Promise<number> {
    let hidden = 0;
    for (let at = 0; at < messages.length; at += 10) {
      const page = messages.slice(at, at + 10);
      const command = new ChangeMessageVisibilityBatchCommand({
        QueueUrl: this.url,
        Entries: page.map(({ receiptHandle }, index) => ({
          Id: String(index),
          ReceiptHandle: receiptHandle,
          VisibilityTimeout: 0,
        })),
      });
      hidden += await this.sqs.send(command).then(
        ({ Failed = [] }) => Failed.length,
        () => page.length,
      );
    }
    return hidden;
  }

  /** Keeps a message in hand for longer. @returns false when it no longer is: its time passed while the person thought */
  async keep({ receiptHandle }: HeldMessage): Promise<boolean> {
    try {
      await this.sqs.send(
        new ChangeMessageVisibilityCommand({
          QueueUrl: this.url,
          ReceiptHandle: receiptHandle,
          VisibilityTimeout: holdSeconds,
        }),
      );
      return true;
    } catch (error) {
      if (error instanceof Error && isLost.has(error.name)) return false;
      throw error;
    }
  }

  async delete({ receiptHandle }: HeldMessage): Promise<void> {
    await this.sqs.send(new DeleteMessageCommand({ QueueUrl: this.url, ReceiptHandle: receiptHandle }));
  }
}

/** What SQS says of a message that is not in this hand any more. https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibility.html */
const isLost = new Set(['MessageNotInflight', 'ReceiptHandleIsInvalid', 'InvalidParameterValue']);

function heldFrom(message: Message): HeldMessage {
  const system = message.Attributes ?? {};
  return {
    messageId: message.MessageId ?? '',
    receiptHandle: message.ReceiptHandle ?? '',
    body: message.Body ?? '',
    sentAtMs: Number(system.SentTimestamp ?? 0),
    receiveCount: Number(system.ApproximateReceiveCount ?? 0),
    groupId: system.MessageGroupId,
    attributes: message.MessageAttributes ?? {},
  };
}
