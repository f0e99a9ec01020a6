import type { SQSRecord } from 'aws-lambda';
import type { VirtualTime } from './virtual-time';

export interface QueuedMessage {
  readonly messageId: string;
  readonly body: string;
  readonly sentAtMs: number;
  receiveCount: number;
  /** When it was received, the first time first. */
  readonly receivedAtMs: number[];
  visibleAtMs: number;
  /** Of the last receive: an older one does nothing any more. */
  receiptHandle: string;
}

export interface QueueOptions {
  readonly visibilityTimeoutMs: number;
  readonly maxReceiveCount: number;
  /** A message can be received at that time. */
  readonly onVisible: (atMs: number) => void;
  readonly onDeadLettered: (message: QueuedMessage) => void;
  /** @param afterMs how long it was a dead letter */
  readonly onRedriven: (message: QueuedMessage, afterMs: number) => void;
}

/** A standard queue and its dead-letter queue, by SQS's rules of visibility, receives and redrives. */
export class QueueTwin {
  readonly #messages = new Map<string, QueuedMessage>();
  readonly deadLetters: QueuedMessage[] = [];
  #count = 0;

  constructor(
    private readonly time: VirtualTime,
    private readonly options: QueueOptions,
  ) {}

  messages(): QueuedMessage[] {
    return [...this.#messages.values()];
  }

  send(body: string): void {
    const nowMs = this.time.nowMs();
    this.#count += 1;
    const messageId = `m${this.#count}`;
    this.#messages.set(messageId, {
      messageId,
      body,
      sentAtMs: nowMs,
      receiveCount: 0,
      receivedAtMs: [],
      visibleAtMs: nowMs,
      receiptHandle: '',
    });
    this.options.onVisible(nowMs);
  }

  /** Up to `most` messages; those that were received too often go to the dead-letter queue. */
  receive(most: number, order: (messages: QueuedMessage[]) => QueuedMessage[]): SQSRecord[] {
    const nowMs = this.time.nowMs();
    const visible = order(this.messages().filter(({ visibleAtMs }) => visibleAtMs <= nowMs));
    const records: SQSRecord[] = [];
    for (const message of visible) {
      if (records.length === most) break;
      if (message.receiveCount >= this.options.maxReceiveCount) {
        this.#messages.delete(message.messageId);
        this.deadLetters.push(message);
        this.options.onDeadLettered(message);
        continue;
      }
      message.receiveCount += 1;
      message.receivedAtMs.push(nowMs);
      message.receiptHandle = `${message.messageId}/${message.receiveCount}`;
      this.#show(message, nowMs + this.options.visibilityTimeoutMs);
      records.push(recordOf(message));
    }
    return records;
  }

  changeVisibility(receiptHandle: string, seconds: number): void {
    const message = this.messages().find((one) => one.receiptHandle === receiptHandle);
    if (!message || message.visibleAtMs <= this.time.nowMs())
      throw new Error('The receipt handle is of no message in flight');
    this.#show(message, this.time.nowMs() + seconds * 1000);
  }

  /** A standard queue may deliver a message again while it is received. */
  showAgain(messageId: string, afterMs: number): void {
    const message = this.#messages.get(messageId);
    if (message) this.#show(message, this.time.nowMs() + afterMs);
  }

  delete(receiptHandle: string): void {
    const [messageId = ''] = receiptHandle.split('/');
    if (this.#messages.get(messageId)?.receiptHandle === receiptHandle) this.#messages.delete(messageId);
  }

  /** The console's redrive to source: each is sent again as it is. @returns how many */
  redrive(): number {
    const redriven = this.deadLetters.splice(0);
    for (const message of redriven) {
      // Its last receive found it to be a dead letter.
      this.options.onRedriven(message, this.time.nowMs() - (message.receivedAtMs.at(-1) ?? 0));
      this.send(message.body);
    }
    return redriven.length;
  }

  #show(message: QueuedMessage, atMs: number): void {
    message.visibleAtMs = atMs;
    this.options.onVisible(atMs);
  }
}

const recordOf = ({ messageId, receiptHandle, body, sentAtMs, receiveCount }: QueuedMessage): SQSRecord => ({
  messageId,
  receiptHandle,
  body,
  attributes: {
    ApproximateReceiveCount: String(receiveCount),
    SentTimestamp: String(sentAtMs),
    SenderId: 'simulation',
    ApproximateFirstReceiveTimestamp: String(sentAtMs),
  },
  messageAttributes: {},
  md5OfBody: '',
  eventSource: 'aws:sqs',
  eventSourceARN: 'arn:aws:sqs:us-east-1:000000000000:charge-once-jobs',
  awsRegion: 'us-east-1',
});
