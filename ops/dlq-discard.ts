import { nameOf } from '../lambdas/operation/operation';
import { isTerminal } from '../lambdas/operation/state';
import { type Choice, deadLettersOf, takeChosen } from './dlq-look';
import { type Judged, stateOf, viewOfMessage } from './dlq-view';
import { explain, Failure } from './failure';
import { invoke } from './functions';
import { confirm, type Report } from './io';
import type { Session } from './session';

/**
 * `dlq discard`: deletes one message, and says so in its operation's record, where there is one.
 * @param isForced also where money may have moved and the operation has not ended: then nothing but the record is left to act on
 */
export async function dlqDiscard(session: Session, choice: Choice, isForced: boolean): Promise<Report> {
  const queue = deadLettersOf(session);
  const chosen = await takeChosen(session, choice);
  const held = chosen.map(([message]) => message);
  try {
    const [judged] = chosen;
    if (!judged || chosen.length > 1) {
      const ids = held.map(({ messageId }) => messageId).join(', ');
      throw new Failure(
        `There are ${chosen.length} such messages; name one with --message-id: ${ids}. Nothing was done.`,
      );
    }
    return await discard(session, judged, isForced);
  } catch (error) {
    await queue.release(held);
    throw error;
  }
}

async function discard(session: Session, judged: Judged, isForced: boolean): Promise<Report> {
  const { target, io, isYes, by } = session;
  const queue = deadLettersOf(session);
  const [message, verdict] = judged;
  const { id, operation, kind } = verdict;
  const hasEnded = operation !== undefined && isTerminal(operation.state);
  if (verdict.moneyMayHaveMoved && !hasEnded && !isForced) {
    throw new Failure(
      `Money may have moved for ${id ? nameOf(id) : message.messageId} (${kind}, ${stateOf(verdict)}), and this message is what a redrive would go on with: reconcile or settle the operation first, or pass --force. Nothing was done.`,
    );
  }
  const what = `message ${message.messageId}${id ? ` of operation ${nameOf(id)}` : ''} (${kind}, ${stateOf(verdict)})`;
  await confirm(io, isYes, `Discard ${what} from ${target.name} for good?`);
  if (!(await queue.keep(message))) {
    throw new Failure(
      'The message is in no hand any more, because the question waited too long: run the command again. Nothing was done.',
    );
  }
  const recorded = operation
    ? await invoke(target, 'operate', {
        action: 'discard',
        tenantId: operation.tenantId,
        operationId: operation.operationId,
        by,
      })
    : undefined;
  if (recorded && !recorded.done) throw new Failure(`Nothing was discarded: ${recorded.said}`);
  try {
    await queue.delete(message);
  } catch (error) {
    const after = recorded ? ' The record says that it was: run the command again.' : '';
    throw new Failure(`The message could not be discarded: ${explain(error)}.${after}`);
  }
  return {
    ok: true,
    text: `Discarded ${what}.${recorded ? " It is in the operation's record." : ''}`,
    document: {
      target: target.name,
      done: true,
      said: `Discarded ${what}.`,
      discarded: viewOfMessage(judged, target.now()),
      isRecorded: recorded !== undefined,
    },
  };
}
