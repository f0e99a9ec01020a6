import type { OperationId } from '../lambdas/operation/operation';
import { DeadLetterQueue, type HeldMessage, holdSeconds } from './dead-letter-queue';
import type { Judged } from './dlq-view';
import { CalledWrongly, Failure } from './failure';
import { nameOf, type Session } from './session';
import { counted } from './text';
import { isOf, judgeAll } from './verdict';

/** What a look at the queue found. All of it is released again. */
export interface Look {
  readonly judged: readonly Judged[];
  /** Whether all that was visible was read. */
  readonly isComplete: boolean;
  /** In somebody else's hand before the look, and so not seen. */
  readonly hiddenBefore: number;
  /** Could not be released: hidden until their time has passed. */
  readonly stillHidden: number;
}

/** Which messages are meant: all of an operation, or one. */
export type Choice = { readonly operation: OperationId } | { readonly messageId: string };

/** The most messages that are read in search of one. */
const searched = 10_000;

/** @throws CalledWrongly unless there is exactly one of the two */
export function choiceFrom(options: {
  readonly operation?: OperationId | undefined;
  readonly messageId?: string | undefined;
}): Choice {
  const { operation, messageId } = options;
  if (operation !== undefined && messageId === undefined) return { operation };
  if (messageId !== undefined && operation === undefined) return { messageId };
  throw new CalledWrongly('name the message by either --operation TENANT/ID or --message-id ID');
}

export const deadLettersOf = ({ target }: Session): DeadLetterQueue =>
  new DeadLetterQueue(target.sqs, target.deadLetterQueueUrl);

/** Takes up to `limit` messages in hand, looks at their records, and releases them. */
export async function lookAtAll(session: Session, limit: number): Promise<Look> {
  const queue = deadLettersOf(session);
  const { hidden } = await queue.depth();
  const { judged, isComplete } = await take(session, queue, limit);
  const stillHidden = await queue.release(judged.map(([message]) => message));
  return { judged, isComplete, hiddenBefore: hidden, stillHidden };
}

/**
 * Takes the messages that are meant in hand and shows the others again.
 * @throws Failure when there is none
 */
export async function takeChosen(session: Session, choice: Choice): Promise<readonly Judged[]> {
  const queue = deadLettersOf(session);
  const isWanted = ({ messageId }: HeldMessage) => 'messageId' in choice && messageId === choice.messageId;
  const { judged, isComplete } = await take(session, queue, searched, isWanted);
  const chosen = judged.filter(([message, verdict]) =>
    'operation' in choice ? isOf(verdict, choice.operation) : isWanted(message),
  );
  await queue.release(judged.filter((one) => !chosen.includes(one)).map(([message]) => message));
  if (chosen.length > 0) return chosen;
  const wanted = 'operation' in choice ? `of operation ${nameOf(choice.operation)}` : choice.messageId;
  const extent = isComplete
    ? `${counted(judged.length, 'message')} there were seen`
    : `only the first ${judged.length} were read`;
  throw new Failure(
    `There is no dead-lettered message ${wanted}: ${extent}. One that somebody else looks at now is hidden for up to ${holdSeconds} s.`,
  );
}

async function take(
  { target, io }: Session,
  queue: DeadLetterQueue,
  limit: number,
  isLast?: (message: HeldMessage) => boolean,
): Promise<{ readonly judged: readonly Judged[]; readonly isComplete: boolean }> {
  const { visible } = await queue.depth();
  const progress = io.progress('Reading', Math.min(visible, limit));
  try {
    const { messages, isComplete } = await queue.take(limit, progress, isLast);
    try {
      const verdicts = await judgeAll(messages, target.table, target.limits, target.now());
      return { judged: [...verdicts], isComplete };
    } catch (error) {
      await queue.release(messages);
      throw error;
    }
  } finally {
    progress.stop();
  }
}
