import type { SqsQueue } from './sqs-layer';

/** What makes a group noisy: so many messages in flight and so large a share of all that are, or of the deliveries of late. */
const noisy = { messages: 30, share: 0.1, recentMs: 10_000 };

/**
 * The order in which a standard queue hands out its messages, as SQS's fair queues do it: those of noisy groups come
 * last, of several noisy ones that with the fewest in flight first. What has a visibility timeout is in flight. A
 * group stays noisy until none of its messages waits. SQS looks at a group's share of the consumers' time, too; this
 * at its share of the deliveries, which comes to the same where all take as long.
 * https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues-detailed.html
 */
export class FairOrder {
  #noisy = new Set<string>();
  #delivered: { readonly groupId: string; readonly atMs: number }[] = [];

  /** Sorts the messages that wait, each group's in their order. */
  sort(queue: SqsQueue): void {
    if (queue.isFifo()) return;
    if (queue.messages.length === 0) {
      this.#noisy.clear();
      return;
    }
    const inFlight = countsOf(
      [...queue.inflightMessages.values()].map(({ message }) => message.messageGroupId),
    );
    const since = Date.now() - noisy.recentMs;
    this.#delivered = this.#delivered.filter(({ atMs }) => atMs >= since);
    const delivered = countsOf(this.#delivered.map(({ groupId }) => groupId));
    const waiting = new Set(queue.messages.map(({ messageGroupId }) => messageGroupId));
    const isLoud = (groupId: string): boolean => {
      const [flying, handed] = [inFlight.get(groupId) ?? 0, delivered.get(groupId) ?? 0];
      const holdsMany = flying >= noisy.messages && flying > noisy.share * queue.inflightMessages.size;
      return holdsMany || handed > noisy.share * this.#delivered.length;
    };
    this.#noisy = new Set([
      ...[...this.#noisy].filter((groupId) => waiting.has(groupId)),
      ...[...inFlight.keys(), ...delivered.keys()].filter(isLoud),
    ]);
    const rank = (groupId: string | undefined): number =>
      groupId !== undefined && this.#noisy.has(groupId) ? 1 + (inFlight.get(groupId) ?? 0) : 0;
    queue.messages.sort((one, other) => rank(one.messageGroupId) - rank(other.messageGroupId));
  }

  /** Of messages that were handed out now. */
  count(groupIds: readonly (string | undefined)[]): void {
    const atMs = Date.now();
    for (const groupId of groupIds) if (groupId !== undefined) this.#delivered.push({ groupId, atMs });
  }
}

function countsOf(groupIds: readonly (string | undefined)[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const groupId of groupIds)
    if (groupId !== undefined) counts.set(groupId, (counts.get(groupId) ?? 0) + 1);
  return counts;
}
