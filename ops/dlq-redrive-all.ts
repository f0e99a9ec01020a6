import { setTimeout as sleep } from 'node:timers/promises';
import {
  GetQueueAttributesCommand,
  ListMessageMoveTasksCommand,
  type ListMessageMoveTasksResultEntry,
  StartMessageMoveTaskCommand,
} from '@aws-sdk/client-sqs';
import { remarksOn } from './dlq-list';
import { deadLettersOf, type Look, lookAtAll } from './dlq-look';
import { byKind, kindsText, refusedText, viewOfMessage } from './dlq-view';
import { explain, Failure } from './failure';
import type { Report } from './io';
import { pauseRemark } from './provider-show';
import type { Session } from './session';
import { counted } from './text';

/** How often a move task is asked how far it is, in milliseconds. */
const pollEveryMs = 500;
/** So often a task that was started may be missing in the answer. */
const maxUnlisted = 20;
/** The most messages that are classified before all are redriven. */
const classified = 1000;

export interface RedriveAll {
  /** Messages a second, 1 to 500; as fast as SQS likes when undefined. */
  readonly maxRate?: number | undefined;
  readonly isDryRun: boolean;
}

/** `dlq redrive`: SQS's own move task, back to the queue that they came from. */
export async function redriveAll(session: Session, { maxRate, isDryRun }: RedriveAll): Promise<Report> {
  const { target } = session;
  const queue = deadLettersOf(session);
  const [sourceArn, destinationArn] = await Promise.all([
    arnOf(session, target.deadLetterQueueUrl),
    arnOf(session, target.queueUrl),
  ]);
  const earlier = await latestTask(session, sourceArn);
  // A look would hide the messages from the task that moves them.
  if (earlier && isRunning(earlier)) throw new Failure(runsAlready(target.name, earlier));
  const look = await lookAtAll(session, classified);
  const { judged } = look;
  const found = foundIn(look, session);
  const refused = refusedText(judged);
  const summary = [
    `${counted(judged.length, 'message')} in the dead-letter queue of ${target.name}${judged.length > 0 ? `: ${kindsText(judged)}` : ''}.`,
    ...remarksOn(look),
  ].join('\n');
  if (isDryRun) {
    const text = [summary, ...(refused === '' ? [] : [`Warning: ${refused}`]), dryRun].join('\n');
    return { ok: true, text, document: { ...found, isDryRun, redriven: 0 } };
  }
  const depth = await queue.depth();
  if (judged.length === 0 && depth.visible === 0) {
    const counts = { redriven: 0, left: depth.hidden, failed: 0 };
    return { ok: true, text: `${summary}\nNothing to redrive.`, document: { ...found, ...counts } };
  }
  await warn(session, refused);
  const task = await move(session, {
    sourceArn,
    destinationArn,
    maxRate,
    expected: judged.length,
    earlierStartedAt: earlier?.StartedTimestamp,
  });
  const { visible, hidden } = await queue.depth();
  return reportOf(task, visible + hidden, found);
}

export const dryRun = 'A dry run: nothing was redriven.';

const runsAlready = (name: string, task: ListMessageMoveTasksResultEntry): string =>
  `A redrive of ${name} runs already: ${task.ApproximateNumberOfMessagesMoved ?? 0} of about ${task.ApproximateNumberOfMessagesToMove ?? 0} messages are moved. Nothing was done.`;

const foundIn = ({ judged, ...look }: Look, { target }: Session) => ({
  target: target.name,
  count: judged.length,
  byKind: byKind(judged),
  ...look,
  wouldBeRefused: judged
    .filter(([, { redrive }]) => redrive.outcome === 'refused')
    .map((one) => viewOfMessage(one, target.now())),
});

/** What a person should know before messages go back, on stderr. */
export async function warn(session: Session, refused: string): Promise<void> {
  if (refused !== '') session.io.err(`Warning: ${refused}`);
  // What cannot be found out here stops no redrive.
  const pause = await pauseRemark(session).catch(() => undefined);
  if (pause !== undefined) session.io.err(pause);
}

/** @param left messages in the dead-letter queue after the task, as SQS counts */
function reportOf(task: ListMessageMoveTasksResultEntry, left: number, found: object): Report {
  const { Status, FailureReason, ApproximateNumberOfMessagesToMove: all = 0 } = task;
  const redriven = task.ApproximateNumberOfMessagesMoved ?? 0;
  const failed = Status === 'FAILED' ? Math.max(0, all - redriven) : 0;
  const isDone = Status === 'COMPLETED';
  const reason = FailureReason === undefined ? '' : `: ${FailureReason}`;
  const remark = isDone
    ? left > 0 && ' What is left came meanwhile, came back, or was in the hand of somebody else.'
    : ` The move task is ${Status}${reason}.`;
  return {
    ok: isDone,
    text: `${redriven} redriven, ${left} left in the dead-letter queue, ${failed} failed.${remark || ''}`,
    document: {
      ...found,
      redriven,
      left,
      failed,
      task: Status,
      ...(FailureReason === undefined ? {} : { failureReason: FailureReason }),
    },
  };
}

interface Move {
  readonly sourceArn: string;
  readonly destinationArn: string;
  readonly maxRate: number | undefined;
  /** Messages that were seen. */
  readonly expected: number;
  /** Of the task before, which SQS may go on to list for a moment. */
  readonly earlierStartedAt: number | undefined;
}

/** Starts a move task and watches it until it ends. */
async function move(
  session: Session,
  { sourceArn, destinationArn, maxRate, expected, earlierStartedAt }: Move,
): Promise<ListMessageMoveTasksResultEntry> {
  const start = new StartMessageMoveTaskCommand({
    SourceArn: sourceArn,
    // Also for messages that somebody sent to the dead-letter queue, of which SQS knows no source.
    DestinationArn: destinationArn,
    MaxNumberOfMessagesPerSecond: maxRate,
  });
  try {
    await session.target.sqs.send(start);
  } catch (error) {
    throw new Failure(`Nothing was redriven: ${explain(error)}`);
  }
  const progress = session.io.progress('Redriving', expected);
  try {
    for (let unlisted = 0; unlisted < maxUnlisted; await sleep(pollEveryMs)) {
      const task = await latestTask(session, sourceArn);
      if (!task || task.StartedTimestamp === earlierStartedAt) {
        unlisted += 1;
        continue;
      }
      progress.update(
        task.ApproximateNumberOfMessagesMoved ?? 0,
        task.ApproximateNumberOfMessagesToMove ?? expected,
      );
      if (!isRunning(task)) return task;
    }
    throw new Failure('SQS started the redrive and does not list it: look in its console.');
  } finally {
    progress.stop();
  }
}

async function latestTask(
  { target }: Session,
  sourceArn: string,
): Promise<ListMessageMoveTasksResultEntry | undefined> {
  const { Results: [task] = [] } = await target.sqs.send(
    new ListMessageMoveTasksCommand({ SourceArn: sourceArn, MaxResults: 1 }),
  );
  return task;
}

const isRunning = ({ Status }: ListMessageMoveTasksResultEntry): boolean =>
  Status === 'RUNNING' || Status === 'CANCELLING';

async function arnOf({ target }: Session, queueUrl: string): Promise<string> {
  const { Attributes } = await target.sqs.send(
    new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ['QueueArn'] }),
  );
  if (Attributes?.QueueArn === undefined) throw new Failure(`SQS gave no ARN for ${queueUrl}.`);
  return Attributes.QueueArn;
}
