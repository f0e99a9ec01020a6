import { SendMessageCommand } from '@aws-sdk/client-sqs';
import type { HeldMessage } from './dead-letter-queue';
import { type Choice, deadLettersOf, takeChosen } from './dlq-look';
import { dryRun, warn } from './dlq-redrive-all';
import { byKind, kindsText, refusedText, viewOfMessage } from './dlq-view';
import { explain } from './failure';
import type { Report } from './io';
import type { Session } from './session';
import { counted } from './text';

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
      dryRun,
    ];
    return { ok: true, text: text.join('\n'), document: { ...found, isDryRun, redriven: 0 } };
  }
  await warn(session, warning);
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
