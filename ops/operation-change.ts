import { nameOf, type OperationId } from '../lambdas/operation/operation';
import { type Answer, invoke } from './functions';
import { confirm, type Report } from './io';
import type { Session } from './session';
import { visible } from './text';

/** What a person established about an operation. */
export type Established =
  /** The reference of the PaymentIntent or Refund that succeeded. */
  | { readonly succeeded: string; readonly evidence?: string | undefined }
  /** It never happened, and why that is certain. */
  | { readonly absent: true; readonly evidence: string };

/** `operation reconcile`: asks Stripe, changes nothing that a minute's run would not change. */
export async function operationReconcile(session: Session, id: OperationId): Promise<Report> {
  const { tenantId, operationId } = id;
  return reportOf(await invoke(session.target, 'reconcile', { tenantId, operationId }), session);
}

/** `operation settle` */
export async function operationSettle(
  session: Session,
  id: OperationId,
  established: Established,
): Promise<Report> {
  const name = `operation ${nameOf(id)} of ${session.target.name}`;
  const question =
    'absent' in established
      ? `Record that ${name} never happened at Stripe (evidence: ${established.evidence})? If it did happen, a retry charges a second time.`
      : `Record that ${name} succeeded as ${established.succeeded}?`;
  return change(session, id, 'settle', question, established);
}

/** `operation retry` */
export const operationRetry = (session: Session, id: OperationId): Promise<Report> =>
  change(session, id, 'retry', `Try operation ${nameOf(id)} of ${session.target.name} again?`);

/** `operation cancel` */
export const operationCancel = (session: Session, id: OperationId): Promise<Report> =>
  change(session, id, 'cancel', `Cancel operation ${nameOf(id)} of ${session.target.name} for good?`);

async function change(
  session: Session,
  { tenantId, operationId }: OperationId,
  action: 'settle' | 'retry' | 'cancel',
  question: string,
  more: object = {},
): Promise<Report> {
  const { io, isYes, target, by } = session;
  await confirm(io, isYes, question);
  const answer = await invoke(target, 'operate', { action, tenantId, operationId, by, ...more });
  return reportOf(answer, session);
}

/** An answer of the service as a command's report: what was refused makes the exit code 1. */
export function reportOf(answer: Answer, { target }: Session): Report {
  const { done, said, operation, checks = [] } = answer;
  const isOk = done && checks.every(({ ok }) => ok);
  const lines = [
    visible(said),
    ...checks.map(({ name, ok, said: found }) => visible(`${ok ? 'ok' : 'NOT OK'} ${name}: ${found}`)),
  ];
  return {
    ok: isOk,
    text: lines.join('\n'),
    document: {
      target: target.name,
      done,
      said,
      ...(operation ? { operation } : {}),
      ...(answer.checks ? { checks } : {}),
    },
  };
}
