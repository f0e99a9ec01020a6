import { parseMessage } from '../lambdas/operation/message';
import { nameOf, type OperationId } from '../lambdas/operation/operation';
import { keyOf } from '../lambdas/operation/ports';
import {
  DeadLetterQueue,
  type Depth,
  type HeldMessage,
  holdSeconds,
  type Reading,
} from './dead-letter-queue';
import type { Judged } from './dlq-view';
import { CalledWrongly, Failure } from './failure';
import type { Session } from './session';
import { counted } from './text';
import { idOf, judgeAll } from './verdict';

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
  // The laptop's SQS is one server.
  new DeadLetterQueue(target.sqs, target.deadLetterQueueUrl, target.sqsEndpoint === undefined ? 1 : 0);

/** Takes up to `limit` messages in hand, looks at their records, and releases them. */
export async function lookAtAll(session: Session, limit: number): Promise<Look> {
  const queue = deadLettersOf(session);
  const depth = await queue.depth();
  const { messages, isComplete } = await read(session, queue, { depth, limit });
  const judged = await judgeOrRelease(session, queue, messages);
  const stillHidden = await queue.release(messages);
  return { judged, isComplete, hiddenBefore: depth.hidden, stillHidden };
}

/**
 * Takes the messages that are meant in hand and shows the others again.
 * @throws Failure when there is none
 */
export async function takeChosen(session: Session, choice: Choice): Promise<readonly Judged[]> {
  const { maxMessageBytes } = session.target.limits;
  const queue = deadLettersOf(session);
  const isChosen = (message: HeldMessage): boolean => {
    if ('messageId' in choice) return message.messageId === choice.messageId;
    const id = idOf(parseMessage(message.body, maxMessageBytes));
    return id !== undefined && keyOf(id) === keyOf(choice.operation);
  };
  const depth = await queue.depth();
  // An operation may have several messages: all have to be looked at.
  const isLast = 'messageId' in choice ? isChosen : undefined;
  const { messages, isComplete } = await read(session, queue, { depth, limit: searched, isLast });
  const [chosen = [], others = []] = [true, false].map((is) =>
    messages.filter((one) => isChosen(one) === is),
  );
  await queue.release(others);
  if (chosen.length > 0) return judgeOrRelease(session, queue, chosen);
  const wanted = 'operation' in choice ? `of operation ${nameOf(choice.operation)}` : choice.messageId;
  const extent = isComplete
    ? `${counted(messages.length, 'message')} there were seen`
    : `only the first ${messages.length} were read`;
  throw new Failure(
    `There is no dead-lettered message ${wanted}: ${extent}. One that somebody else looks at now is hidden for up to ${holdSeconds} s.`,
  );
}

interface ReadOptions {
  readonly depth: Depth;
  readonly limit: number;
  readonly isLast?: ((message: HeldMessage) => boolean) | undefined;
}

async function read(
  { io }: Session,
  queue: DeadLetterQueue,
  { depth, limit, isLast }: ReadOptions,
): Promise<Reading> {
  const progress = io.progress('Reading', Math.min(depth.visible, limit));
  try {
    return await queue.take(limit, progress, isLast);
  } finally {
    progress.stop();
  }
}

async function judgeOrRelease(
  { target }: Session,
  queue: DeadLetterQueue,
  messages: readonly HeldMessage[],
): Promise<readonly Judged[]> {
  try {
    return [...(await judgeAll(messages, target.table, target.limits, target.now()))];
  } catch (error) {
    await queue.release(messages);
    throw error;
  }
}
