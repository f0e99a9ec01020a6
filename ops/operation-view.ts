import { viewOf } from '../lambdas/http/view';
import type { Intervention, Operation } from '../lambdas/operation/operation';
import { fields, moment, yesNo } from './text';

/** A record as a person reads it, one fact a line. */
export function operationText(operation: Operation, nowMs: number): string {
  const { result, error, input } = operation;
  return fields([
    ['operation', `${operation.tenantId}/${operation.operationId}`],
    ['type', operation.type],
    ['state', stateText(operation)],
    ['money may have moved', yesNo(viewOf(operation).effectPossible)],
    ['effect possible since', moment(operation.effectPossibleSinceMs, nowMs)],
    ['reference at Stripe', operation.providerRef],
    ['result', result && partsOf(result)],
    ['error', error && partsOf(error)],
    ['input', partsOf(input)],
    ['refunded or held by refunds', operation.refundedMinor ? String(operation.refundedMinor) : undefined],
    ['attempts', `${operation.attemptCount}, stops at ${operation.attemptLimit}`],
    ['redrives', String(operation.redriveCount)],
    ['accepted by', operation.acceptedBy],
    ['created', moment(operation.createdAtMs, nowMs)],
    ['updated', moment(operation.updatedAtMs, nowMs)],
    ['lease ends', moment(operation.leaseExpiresAtMs, nowMs)],
    ['due', moment(operation.dueAtMs, nowMs)],
    ['parked', moment(operation.parkedAtMs, nowMs)],
    ['a person was told', moment(operation.escalatedAtMs, nowMs)],
    ['absence proven', moment(operation.absentProvenAtMs, nowMs)],
    ['by a person', operation.intervention && interventionText(operation.intervention, nowMs)],
    ['cancel asked for', moment(operation.cancelRequestedAtMs, nowMs)],
    ['deadline of its first attempt', moment(operation.deadlineAtMs, nowMs)],
    ['key at Stripe', operation.providerKey],
  ]);
}

/** The state, and why it is parked. */
export const stateText = ({ state, parkedReason }: Operation): string =>
  state === 'parked' && parkedReason ? `parked: ${parkedReason}` : state;

const interventionText = ({ action, by, atMs, evidence }: Intervention, nowMs: number): string =>
  [`${action} by ${by}, ${moment(atMs, nowMs)}`, ...(evidence === undefined ? [] : [evidence])].join(': ');

/** `name value` pairs of a small flat object. */
export const partsOf = (object: object): string =>
  Object.entries(object)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(', ');
