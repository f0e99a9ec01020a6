import { nameOf } from '../lambdas/operation/operation';
import type { HeldMessage } from './dead-letter-queue';
import { stateText } from './operation-view';
import { counted, duration, iso, table, yesNo } from './text';
import type { Kind, Redrive, Verdict } from './verdict';

/** A dead-lettered message and what is to be said of it. */
export type Judged = readonly [HeldMessage, Verdict];

/** One message for `--json`. */
export function viewOfMessage([message, verdict]: Judged, nowMs: number): object {
  const { id, operation } = verdict;
  const type = verdict.parsed.kind === 'message' ? verdict.parsed.message.type : verdict.parsed.ids.type;
  return {
    messageId: message.messageId,
    ...(id ? { tenantId: id.tenantId, operationId: id.operationId } : {}),
    ...(type ? { type } : {}),
    kind: verdict.kind,
    ...(verdict.problem === undefined ? {} : { problem: verdict.problem }),
    moneyMayHaveMoved: verdict.moneyMayHaveMoved,
    redrive: verdict.redrive,
    ...(operation
      ? {
          state: operation.state,
          ...(operation.parkedReason ? { parkedReason: operation.parkedReason } : {}),
          attemptCount: operation.attemptCount,
          redriveCount: operation.redriveCount,
        }
      : {}),
    sentAt: iso(message.sentAtMs),
    ageSeconds: Math.max(0, Math.round((nowMs - message.sentAtMs) / 1000)),
    receiveCount: message.receiveCount,
    bytes: Buffer.byteLength(message.body),
  };
}

/** One line a message. */
export function listOf(judged: readonly Judged[], nowMs: number): string {
  return table(
    ['OPERATION', 'KIND', 'STATE', 'MONEY', 'AGE', 'RECEIVED', 'REDRIVE', 'MESSAGE'],
    judged.map(([message, verdict]) => [
      verdict.id ? nameOf(verdict.id) : '-',
      verdict.kind,
      stateOf(verdict),
      yesNo(verdict.moneyMayHaveMoved),
      duration(nowMs - message.sentAtMs),
      String(message.receiveCount),
      redriveText(verdict.redrive),
      message.messageId,
    ]),
  );
}

export const stateOf = ({ operation }: Verdict): string => (operation ? stateText(operation) : '-');

export const redriveText = (redrive: Redrive): string =>
  'why' in redrive ? `${redrive.outcome}: ${redrive.why}` : redrive.outcome;

export function byKind(judged: readonly Judged[]): Partial<Record<Kind, number>> {
  const counts: Partial<Record<Kind, number>> = {};
  for (const [, { kind }] of judged) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

export const kindsText = (judged: readonly Judged[]): string =>
  Object.entries(byKind(judged))
    .map(([kind, count]) => `${count} ${kind}`)
    .join(', ');

/** A warning of what a redrive would only send round in a circle. */
export function refusedText(judged: readonly Judged[]): string {
  const refused = judged.filter(([, { redrive }]) => redrive.outcome === 'refused');
  if (refused.length === 0) return '';
  const lines = refused.map(
    ([{ messageId }, { id, redrive }]) =>
      `  ${id ? nameOf(id) : `message ${messageId}`}  ${redriveText(redrive)}`,
  );
  return `${counted(refused.length, 'message')} would be refused again and come back:\n${lines.join('\n')}`;
}
