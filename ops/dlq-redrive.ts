import { setTimeout as sleep } from 'node:timers/promises';
import {
  GetQueueAttributesCommand,
  ListMessageMoveTasksCommand,
  type ListMessageMoveTasksResultEntry,
  SendMessageCommand,
  StartMessageMoveTaskCommand,
} from '@aws-sdk/client-sqs';
import type { HeldMessage } from './dead-letter-queue';
import { remarksOn } from './dlq-list';
import { type Choice, deadLettersOf, lookAtAll, takeChosen } from './dlq-look';
import { byKind, kindsText, refusedText, viewOfMessage } from './dlq-view';
import { explain, Failure } from './failure';
import type { Report } from './io';
import { pauseRemark } from './provider-show';
import type { Session } from './session';
import { counted } from './text';

/** How often a move task is asked how far it is, in milliseconds. */
const pollEveryMs = 500;
/** The most messages that are classified before all are redriven. */
const classified = 1000;

export interface RedriveAll {
  /** Messages a second, 1 to 500; as fast as SQS likes when undefined. */
  readonly maxRate?: number | undefined;
  readonly isDryRun: boolean;
}

/** `dlq redrive`: SQS's own move task, back to the queue that they came from. */
export async function redriveAll(session: Session, { maxRate, isDryRun }: RedriveAll): Promise<Report> {
  const { target, io } = session;
  const [sourceArn, destinationArn] = await Promise.all([
    arnOf(session, target.deadLetterQueueUrl),
    arnOf(session, target.queueUrl),
  ]);
  // A look would hide the messages from a task that moves them.
  const running = await latestTask(session, sourceArn);
  if (running && isRunning(running)) {
    const { ApproximateNumberOfMessagesMoved: moved = 0, ApproximateNumberOfMessagesToMove: all = 0 } =
      running;
    throw new Failure(
      `A redrive of ${target.name} runs already: ${moved} of about ${all} messages are moved. Nothing was done.`,
    );
  }
  const look = await lookAtAll(session, classified);
  const { judged } = look;
  const refused = judged.filter(([, { redrive }]) => redrive.outcome === 'refused');
  const found = {
    target: target.name,
    count: judged.length,
    byKind: byKind(judged),
    isComplete: look.isComplete,
    hiddenBefore: look.hiddenBefore,
    stillHidden: look.stillHidden,
    wouldBeRefused: refused.map((one) => viewOfMessage(one, target.now())),
  };
  const summary = [
    `${counted(judged.length, 'message')} in the dead-letter queue of ${target.name}${judged.length > 0 ? `: ${kindsText(judged)}` : ''}.`,
    ...remarksOn(look),
    ...(refused.length > 0 ? [`Warning: ${refusedText(judged)}`] : []),
  ].join('\n');
  if (isDryRun) {
    const text = `${summary}\nA dry run: nothing was redriven.`;
    return { ok: true, text, document: { ...found, isDryRun, redriven: 0 } };
  }
  const depth = await deadLettersOf(session).depth();
  if (judged.length === 0 && depth.visible === 0) {
    const counts = { redriven: 0, failed: 0, left: depth.hidden };
    return { ok: true, text: `${summary}\nNothing to redrive.`, document: { ...found, ...counts } };
  }
  if (refused.length > 0) io.err(`Warning: ${refusedText(judged)}`);
  const pause = await pauseRemark(session);
  if (pause !== undefined) io.err(pause);
  const task = await move(session, { sourceArn, destinationArn, maxRate, expected: judged.length });
  const after = await deadLettersOf(session).depth();
  const redriven = task.ApproximateNumberOfMessagesMoved ?? 0;
  const isDone = task.Status === 'COMPLETED';
  const notMoved = Math.max(0, (task.ApproximateNumberOfMessagesToMove ?? 0) - redriven);
  const failed = task.Status === 'FAILED' ? notMoved : 0;
  const left = after.visible + after.hidden;
  const said = `${redriven} redriven, ${left} left in the dead-letter queue, ${failed} failed`;
  const why = isDone
    ? ''
    : ` The move task is ${task.Status}${task.FailureReason ? `: ${task.FailureReason}` : ''}.`;
  const comeBack =
    isDone && left > 0 ? ' What is left came meanwhile, came back, or was in somebody else’s hand.' : '';
  return {
    ok: isDone,
    text: `${said}.${why}${comeBack}`,
    document: {
      ...found,
      redriven,
      left,
      failed,
      task: task.Status,
      ...(task.FailureReason === undefined ? {} : { failureReason: task.FailureReason }),
    },
  };
}

interface Move {
  readonly sourceArn: string;
  readonly destinationArn: string;
  readonly maxRate: number | undefined;
  /** Messages that were seen. */
  readonly expected: number;
}

/** Starts a move task and watches it until it ends. */
async function move(
  session: Session,
  { sourceArn, destinationArn, maxRate, expected }: Move,
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
    for (;;) {
      const task = await latestTask(session, sourceArn);
      if (!task) throw new Failure('SQS started the redrive and does not list it: look in its console.');
      progress.update(
        task.ApproximateNumberOfMessagesMoved ?? 0,
        task.ApproximateNumberOfMessagesToMove ?? expected,
      );
      if (!isRunning(task)) return task;
      await sleep(pollEveryMs);
    }
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

/** `dlq redrive --operation` or `--message-id`: each is sent again and then deleted. */
export async function redriveChosen(session: Session, choice: Choice, isDryRun: boolean): Promise<Report> {
  const { target, io } = session;
  const queue = deadLettersOf(session);
  const chosen = await takeChosen(session, choice);
  const found = {
    target: target.name,
    messages: chosen.map((one) => viewOfMessage(one, target.now())),
    byKind: byKind(chosen),
  };
  const warning = refusedText(chosen);
  if (isDryRun) {
    await queue.release(chosen.map(([message]) => message));
    const text = [
      `${counted(chosen.length, 'message')}: ${kindsText(chosen)}.`,
      ...(warning === '' ? [] : [`Warning: ${warning}`]),
      'A dry run: nothing was redriven.',
    ];
    return { ok: true, text: text.join('\n'), document: { ...found, isDryRun, redriven: 0 } };
  }
  if (warning !== '') io.err(`Warning: ${warning}`);
  const pause = await pauseRemark(session);
  if (pause !== undefined) io.err(pause);
  const problems: string[] = [];
  let redriven = 0;
  let failed = 0;
  let left = 0;
  const progress = io.progress('Redriving', chosen.length);
  for (const [message] of chosen) {
    const sent = await sendAgain(session, message);
    if (sent !== undefined) {
      failed += 1;
      left += 1;
      await queue.release([message]);
      problems.push(`${message.messageId} was not redriven, and is left where it was: ${sent}`);
      continue;
    }
    redriven += 1;
    progress.update(redriven);
    const kept = await queue.delete(message).then(() => undefined, explain);
    if (kept === undefined) continue;
    left += 1;
    problems.push(
      `${message.messageId} was redriven and could not be deleted, so it is in both queues, which is harmless: ${kept}`,
    );
  }
  progress.stop();
  return {
    ok: problems.length === 0,
    text: [
      `${redriven} redriven, ${left} left in the dead-letter queue, ${failed} failed.`,
      ...problems,
    ].join('\n'),
    document: { ...found, redriven, left, failed, problems },
  };
}

/** @returns why it could not be sent */
async function sendAgain({ target }: Session, message: HeldMessage): Promise<string | undefined> {
  const { body, attributes, groupId } = message;
  const command = new SendMessageCommand({
    QueueUrl: target.queueUrl,
    MessageBody: body,
    MessageAttributes: attributes,
    MessageGroupId: groupId,
  });
  return target.sqs.send(command).then(() => undefined, explain);
}
