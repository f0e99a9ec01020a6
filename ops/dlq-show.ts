import type { Message } from '../lambdas/operation/message';
import { nameOf, type Operation } from '../lambdas/operation/operation';
import { correctedJob } from './corrected-job';
import { type Choice, deadLettersOf, takeChosen } from './dlq-look';
import { type Judged, redriveText, viewOfMessage } from './dlq-view';
import type { Report } from './io';
import { nextSteps, type Step, stepsText } from './next-steps';
import { operationText, partsOf } from './operation-view';
import { safeBody } from './safe-body';
import { opsCommand, type Session } from './session';
import { fields, moment, yesNo } from './text';

/** `dlq show` */
export async function dlqShow(session: Session, choice: Choice): Promise<Report> {
  const chosen = await takeChosen(session, choice);
  await deadLettersOf(session).release(chosen.map(([message]) => message));
  return {
    ok: true,
    text: chosen.map((one) => textOf(one, session)).join('\n\n'),
    document: { target: session.target.name, messages: chosen.map((one) => documentOf(one, session)) },
  };
}

function documentOf(judged: Judged, { target }: Session): object {
  const [message, verdict] = judged;
  const { parsed, operation } = verdict;
  const corrected = correctedJob(message, verdict, target);
  return {
    ...viewOfMessage(judged, target.now()),
    ...(parsed.kind === 'message' ? { message: parsed.message } : { bodyBegins: safeBody(message.body) }),
    ...(operation ? { record: operation } : {}),
    ...(verdict.kind === 'INPUT_CONFLICT' && operation
      ? { differences: differencesOf(operation, parsed.kind === 'message' ? parsed.message : undefined) }
      : {}),
    next: stepsOf(judged, target),
    ...(corrected ? { corrected } : {}),
  };
}

function textOf(judged: Judged, { target }: Session): string {
  const [message, verdict] = judged;
  const { parsed, operation } = verdict;
  const nowMs = target.now();
  const corrected = correctedJob(message, verdict, target);
  const steps = stepsOf(judged, target);
  return [
    fields([
      ['message', message.messageId],
      ['kind', `${verdict.kind}: ${verdict.problem ?? explanations[verdict.kind]}`],
      ['operation', verdict.id && nameOf(verdict.id)],
      ['this job may have moved money', yesNo(verdict.moneyMayHaveMoved)],
      ['sent', moment(message.sentAtMs, nowMs)],
      ['received', `${message.receiveCount} times`],
      ['redrive', redriveText(verdict.redrive)],
      parsed.kind === 'message'
        ? ['input', partsOf(parsed.message.input)]
        : ['body begins', safeBody(message.body)],
    ]),
    ...(verdict.kind === 'INPUT_CONFLICT' && operation && parsed.kind === 'message'
      ? [
          `\nThe record is bound to other inputs:\n${differencesOf(operation, parsed.message)
            .map(
              ({ field, record, message: sent }) =>
                `  ${field}: the record has ${record}, the message ${sent}`,
            )
            .join('\n')}`,
        ]
      : []),
    ...(operation ? [`\nIts record:\n${operationText(operation, nowMs)}`] : []),
    ...(steps.length > 0 ? [`\nNext:\n${stepsText(steps)}`] : []),
    ...(corrected
      ? [
          `\nA corrected job under a new id${corrected.toFillIn.length > 0 ? `; fill in ${corrected.toFillIn.join(', ')}` : ''}:\n\n${corrected.command}`,
          ...(corrected.warning === undefined ? [] : [`\n${corrected.warning}`]),
        ]
      : []),
  ].join('\n');
}

const explanations = {
  NEVER_STARTED: 'its operation was never attempted; a redrive is safe',
  PARKED: 'its operation is parked',
  UNDER_WAY: 'its operation goes on without it; a redrive is harmless',
  ENDED: 'its operation has ended; a redrive only acknowledges the message',
  INPUT_CONFLICT: 'its id is bound to other inputs',
  MALFORMED: 'it cannot be read',
  UNSUPPORTED_VERSION: 'it is newer than this build',
  DIRECT_REFUND: 'refunds are accepted by the API only',
  UNREADABLE_RECORD: 'its record, or that of its charge, is newer than this build',
} as const;

function stepsOf([message, { kind, operation, id, redrive }]: Judged, target: Session['target']): Step[] {
  const choice =
    id && kind !== 'INPUT_CONFLICT' ? `--operation ${nameOf(id)}` : `--message-id ${message.messageId}`;
  const redriving: Step = {
    command: opsCommand(target, `dlq redrive ${choice}`),
    why:
      kind === 'UNSUPPORTED_VERSION'
        ? 'after a build that reads this version is deployed'
        : `what it does now: ${redriveText(redrive)}`,
  };
  const discarding: Step = {
    command: opsCommand(target, `dlq discard ${choice}`),
    why: 'when nothing more is to be done with it',
  };
  const canBeRedriven = redrive.outcome !== 'refused' || kind === 'UNSUPPORTED_VERSION';
  const ofRecord = operation && kind === 'PARKED' ? nextSteps(operation, target) : [];
  return [...(canBeRedriven ? [redriving] : []), ...ofRecord, discarding];
}

interface Difference {
  readonly field: string;
  readonly record: string;
  readonly message: string;
}

/** What of the bound inputs the message would change. */
function differencesOf(operation: Operation, message: Message | undefined): Difference[] {
  if (!message) return [];
  const record: Readonly<Record<string, unknown>> = { type: operation.type, ...operation.input };
  const sent: Readonly<Record<string, unknown>> = { type: message.type, ...message.input };
  return [...new Set([...Object.keys(record), ...Object.keys(sent)])]
    .filter((field) => record[field] !== sent[field])
    .map((field) => ({
      field,
      record: String(record[field] ?? 'none'),
      message: String(sent[field] ?? 'none'),
    }));
}
