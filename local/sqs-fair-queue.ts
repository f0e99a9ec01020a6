import type { SqsQueue } from './sqs-layer';

/** A group is noisy with so many messages in flight, and so large a share of all that are. */
const noisy = { messages: 30, share: 0.1 };

/**
 * The order in which a standard queue hands out its messages, as SQS's fair queues do it: those of noisy groups come
 * last, of several noisy ones that with the fewest in flight first. What has a visibility timeout is in flight. A
 * group stays noisy until none of its messages waits. SQS's second measure, a group's share of the consumers' time,
 * is left out.
 * https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues-detailed.html
 */
export class FairOrder {
  #noisy = new Set<string>();

  /** Sorts the messages that wait, each group's in their order. */
  sort(queue: SqsQueue): void {
    if (queue.isFifo()) return;
    if (queue.messages.length === 0) {
      this.#noisy.clear();
      return;
    }
    const inFlight = new Map<string, number>();
    for (const { message } of queue.inflightMessages.values()) {
      const { messageGroupId } = message;
      if (messageGroupId !== undefined) inFlight.set(messageGroupId, (inFlight.get(messageGroupId) ?? 0) + 1);
    }
    const waiting = new Set(queue.messages.map(({ messageGroupId }) => messageGroupId));
    const stillNoisy = [...this.#noisy].filter((groupId) => waiting.has(groupId));
    const loud = [...inFlight]
      .filter(([, count]) => count >= noisy.messages && count > noisy.share * queue.inflightMessages.size)
      .map(([groupId]) => groupId);
    this.#noisy = new Set([...stillNoisy, ...loud]);
    if (this.#noisy.size === 0) return;
    const rank = (groupId: string | undefined): number =>
      groupId !== undefined && this.#noisy.has(groupId) ? 1 + (inFlight.get(groupId) ?? 0) : 0;
    queue.messages.sort((one, other) => rank(one.messageGroupId) - rank(other.messageGroupId));
  }
}
