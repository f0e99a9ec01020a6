import type { Limits } from '../operation/limits';
import type { Operation } from '../operation/operation';
import type {
  AcceptRequest,
  AdoptRequest,
  DeferRequest,
  OperationStore,
  ParkRequest,
  UnclaimedRequest,
} from '../operation/ports';
import { beginRedrive, claimClauses } from './claim-update';
import {
  asSeen,
  attention,
  bind,
  due,
  lease,
  neverSeen,
  park,
  retention,
  seenValues,
  valuesOf,
} from './operation-parts';
import { settleClauses } from './settle-update';
import type { ConditionalUpdate } from './table-client';

/** What the writes below need beside the clauses of claims and settles. */
const clauses = {
  /** A worker that is alive settles by itself: only a dead one's claim is left to wait. */
  lapsed: '#leaseExpiresAtMs < :nowMs',
  /** No claim holds it, and it has not ended. */
  waits: '#state IN (:queued, :parked)',
  /** Nothing that may have moved money is called failed. */
  unattempted: '#attemptCount = :zero AND attribute_not_exists(#effectPossibleSinceMs)',
  /** G9: nothing that may have moved money is called cancelled. */
  noEffectPossible: 'attribute_not_exists(#effectPossibleSinceMs)',
  /** Of two runs of the reconciler one takes an operation, and none takes one that went on since. */
  dueAsSeen: '#state = :seenState AND #dueAtMs = :seenDueAtMs',
  /** Only a record that has ended has an end of its retention. */
  hasEnded: 'attribute_exists(#expiresAtSeconds)',
} as const;

/** Parks an operation that no live claim holds, if it still is as it was seen. */
export function parkUpdate(
  { seen, parkedReason, nowMs, sentAtMs }: ParkRequest,
  limits: Limits,
): ConditionalUpdate {
  return {
    condition: asSeen(seen),
    assign: {
      state: 'parked',
      parkedReason,
      parkedAtMs: Math.max(nowMs, sentAtMs),
      updatedAtMs: nowMs,
      ...(seen.effectPossibleSinceMs === undefined ? {} : due(seen, limits, nowMs)),
    },
    values: seenValues(seen),
    remove: seen.effectPossibleSinceMs === undefined ? lease : [],
  };
}

/** A new id, bound and queued. */
export const accepted = (
  { id, bound, acceptId, nowMs, dueAtMs }: AcceptRequest,
  limits: Limits,
): Operation => ({
  ...id,
  ...bound,
  redriveCount: 0,
  state: 'queued',
  claimId: acceptId,
  attemptCount: 0,
  updatedAtMs: nowMs,
  ...due(bound, limits, dueAtMs),
});

/** A wait that is kept in the table: of a new operation, of one that is queued or redriven, or of one that a dead worker left running. */
export function deferUpdate(
  { bound, seen, nowMs, dueAtMs, redrive }: DeferRequest,
  limits: Limits,
): ConditionalUpdate {
  const { sameInputs, queued, redriven } = claimClauses;
  const attend = due(bound, limits, dueAtMs);
  if (seen?.state === 'running') {
    const condition = `${asSeen(seen)} AND ${clauses.lapsed}`;
    return { condition, assign: attend, values: { ...seenValues(seen), nowMs } };
  }
  if (seen && redrive) {
    return {
      condition: `${asSeen(seen)} AND ${redriven}`,
      assign: { state: 'queued', updatedAtMs: nowMs, ...attend },
      set: beginRedrive,
      values: { ...seenValues(seen), ...redrive, one: 1 },
      remove: [...park, 'error', 'escalatedAtMs'],
    };
  }
  return {
    condition: `${neverSeen} OR (${sameInputs} AND ${queued})`,
    assign: { state: 'queued', updatedAtMs: nowMs, ...attend },
    set: [...bind(bound), '#attemptCount = if_not_exists(#attemptCount, :zero)'],
    values: valuesOf(bound),
  };
}

/** The end of an operation that was never attempted. */
export function failUpdate(
  { bound, nowMs, error }: Parameters<OperationStore['fail']>[0],
  limits: Limits,
): ConditionalUpdate {
  const { sameInputs } = claimClauses;
  const { waits, unattempted } = clauses;
  return {
    condition: `${neverSeen} OR (${sameInputs} AND ${waits} AND ${unattempted})`,
    assign: { state: 'failed', error, updatedAtMs: nowMs, ...retention(limits, nowMs) },
    set: [...bind(bound), '#attemptCount = if_not_exists(#attemptCount, :zero)'],
    values: valuesOf(bound),
    remove: [...attention, ...park],
  };
}

/** G9: only where no claim holds the operation and no effect is possible. */
export function cancelUpdate({ seen, nowMs }: UnclaimedRequest, limits: Limits): ConditionalUpdate {
  return {
    condition: `${asSeen(seen)} AND ${clauses.waits} AND ${clauses.noEffectPossible}`,
    assign: { state: 'cancelled', updatedAtMs: nowMs, ...retention(limits, nowMs) },
    remove: [...attention, ...park, 'error'],
    values: seenValues(seen),
  };
}

/** The wish to cancel, kept until it can be granted. */
export function cancelRequestUpdate({ seen, nowMs }: UnclaimedRequest): ConditionalUpdate {
  return {
    condition: `${asSeen(seen)} AND ${settleClauses.isOpen}`,
    set: ['#cancelRequestedAtMs = if_not_exists(#cancelRequestedAtMs, :nowMs)'],
    values: { ...seenValues(seen), nowMs },
  };
}

/** The record of an effect that had none. */
export const adopted = (
  { id, bound, outcome: { providerRef, result }, nowMs, intervention }: AdoptRequest,
  limits: Limits,
): Operation => ({
  ...id,
  ...bound,
  redriveCount: 0,
  state: 'succeeded',
  attemptCount: 1,
  providerRef,
  result,
  intervention,
  updatedAtMs: nowMs,
  ...retention(limits, nowMs),
});

/** What a person did to an operation, beside what came of it. */
export function interventionUpdate({
  seen,
  intervention,
}: Parameters<OperationStore['intervene']>[0]): ConditionalUpdate {
  // A person who looked at it starts the count of its redrives anew.
  const anew = intervention.action === 'retried' ? { redriveCount: 0 } : {};
  return { condition: asSeen(seen), assign: { intervention, ...anew }, values: seenValues(seen) };
}

/** The next due time, if nobody moved it meanwhile. */
export function postponeUpdate(
  { state, dueAtMs }: Operation,
  nextDueAtMs: number,
  escalatedAtMs: number | undefined,
): ConditionalUpdate {
  return {
    condition: clauses.dueAsSeen,
    assign: { dueAtMs: nextDueAtMs, escalatedAtMs },
    values: { seenState: state, seenDueAtMs: dueAtMs },
  };
}

/** Moves the end of a terminal record's retention. */
export function retentionUpdate(limits: Limits, nowMs: number): ConditionalUpdate {
  return { condition: clauses.hasEnded, assign: retention(limits, nowMs) };
}
