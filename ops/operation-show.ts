import { operationPartition, readOperation } from '../lambdas/adapters/operation-item';
import { viewOf } from '../lambdas/http/view';
import { nameOf, type OperationId } from '../lambdas/operation/operation';
import { Failure } from './failure';
import type { Report } from './io';
import { nextSteps, stepsText } from './next-steps';
import { operationText } from './operation-view';
import type { Session } from './session';

/** `operation show` @throws Failure when there is no such record, or none that this build can read */
export async function operationShow({ target }: Session, id: OperationId): Promise<Report> {
  const [item] = await target.table.read([operationPartition(id)]);
  if (!item) {
    throw new Failure(
      `There is no record of operation ${nameOf(id)} in ${target.name}. One that was sent straight to the queue has none before its first attempt or its fifth delivery.`,
    );
  }
  const operation = readOperation(item);
  if (!operation)
    throw new Failure(`The record of operation ${nameOf(id)} was written by a newer build than this one.`);
  const steps = nextSteps(operation, target);
  const text = operationText(operation, target.now());
  return {
    ok: true,
    text: steps.length > 0 ? `${text}\n\nNext:\n${stepsText(steps)}` : text,
    document: {
      target: target.name,
      moneyMayHaveMoved: viewOf(operation).effectPossible,
      operation,
      next: steps,
    },
  };
}
