import type { Limits } from '../operation/limits';
import type { Operation } from '../operation/operation';
import type { SettleRequest } from '../operation/ports';
import type { Settlement } from '../operation/state';
import { beginRedrive } from './claim-update';
import {
  asSeen,
  attention,
  due,
  effect,
  lease,
  minuteMs,
  park,
  retention,
  seenValues,
} from './operation-parts';
import type { ConditionalUpdate } from './table-client';

export const settleClauses = {
  /** G4: a worker that lost its claim writes nothing. */
  claimIsCurrent: '#state = :running AND #claimId = :claimId',
  /** Of two proofs of absence at once, one gives the key to go on with. */
  keyIsSeen: '#providerKey = :seenKey',
  /** A reconciliation leaves a live attempt alone: it wins. */
  isUnheld: '(#state <> :running OR #leaseExpiresAtMs < :updatedAtMs)',
  /** Proof that the effect exists settles whatever claim is current, and never a terminal state. */
  isOpen: '#state IN (:running, :queued, :settling, :parked)',
  /** So does a reference to what the provider has taken, unless more is known already. */
  isUnsettled: '#state IN (:running, :queued, :parked)',
  /** G9: a cancel that was asked for while the call ran comes first. */
  notCancelled: 'attribute_not_exists(#cancelRequestedAtMs)',
  /** Only the claim that made the effect possible can prove by its own refusal that there was none. */
  effectIsOwn: '#effectPossibleClaimId = :claimId',
} as const;

/**
 * The one write that settles an operation, for the worker's claim and for a reconciliation. A claim's is conditional on the
 * claim, or, where its call returned an effect, only on the operation being open; a reconciliation's on the record being as
 * it was read and held by no live lease.
 */
export function settleUpdate(request: SettleRequest, limits: Limits): ConditionalUpdate {
  const { operation, settlement, nowMs, sentAtMs, intervention } = request;
  const { claimIsCurrent, isOpen, isUnheld, isUnsettled, effectIsOwn, keyIsSeen } = settleClauses;
  const isClaim = request.by === 'claim';
  const holds = isClaim ? claimIsCurrent : `${asSeen(operation)} AND ${isUnheld}`;
  const values = isClaim ? { claimId: operation.claimId } : seenValues(operation);
  const common = { state: settlement.state, updatedAtMs: nowMs, intervention };
  // What a call returned settles the operation whatever claim is current. What was found by asking does not take it from a
  // worker that has claimed it since: under the same key that finds the same.
  const proven = (clause: string) =>
    isClaim ? { condition: clause } : { condition: `${holds} AND ${clause}`, values };
  switch (settlement.state) {
    case 'succeeded': {
      const { providerRef, result } = settlement;
      const assign = { ...common, providerRef, result, ...retention(limits, nowMs) };
      return { ...proven(isOpen), assign, remove: [...lease, ...park, ...attention, 'error'] };
    }
    case 'failed': {
      const { providerRef, error } = settlement;
      const assign = { ...common, providerRef, error, ...retention(limits, nowMs) };
      return { condition: holds, values, assign, remove: [...lease, ...effect, ...park, ...attention] };
    }
    case 'settling': {
      const assign = {
        ...common,
        providerRef: settlement.providerRef,
        ...due(operation, limits, nowMs + minuteMs),
      };
      return { ...proven(isUnsettled), assign, remove: [...lease, ...park, 'error'] };
    }
    case 'cancelled': {
      const assign = { ...common, ...retention(limits, nowMs) };
      const remove = [...lease, ...effect, ...park, ...attention, 'error'];
      if (!isClaim) return { condition: holds, values, assign, remove };
      const condition = `${holds} AND ${effectIsOwn}`;
      return { condition, values: { ...values, one: 1 }, assign, set: takeBack(request), remove };
    }
    case 'queued': {
      const attend = request.dueAtMs === undefined ? {} : due(operation, limits, request.dueAtMs);
      if (settlement.effect === 'absent') {
        return {
          condition: `${holds} AND ${keyIsSeen}`,
          values: { ...values, one: 1, maxAttempts: limits.maxAttempts, seenKey: operation.providerKey },
          assign: { ...common, absentProvenAtMs: nowMs, providerKey: settlement.providerKey, ...attend },
          set: beginRedrive,
          remove: [...lease, ...effect, ...park, 'error', 'escalatedAtMs'],
        };
      }
      const assign = { ...common, providerRef: settlement.providerRef, ...attend };
      return withEvidence(request, settlement, { condition: holds, values, assign });
    }
    case 'parked': {
      const { parkedReason, providerRef, error } = settlement;
      // A due time that is there stays: who set it has acknowledged a message, perhaps the last one.
      const attend = settlement.effect === 'none' ? {} : due(operation, limits, nowMs);
      const parkedAtMs = Math.max(nowMs, sentAtMs);
      const assign = { ...common, parkedReason, parkedAtMs, providerRef, error, ...attend };
      return withEvidence(request, settlement, { condition: holds, values, assign });
    }
  }
}

/** What a claimed operation is with the effect that its call returned. */
export function succeeded(
  claimed: Operation,
  { state, providerRef, result }: Extract<Settlement, { state: 'succeeded' }>,
  limits: Limits,
  nowMs: number,
): Operation {
  const { leaseExpiresAtMs: _, parkedReason: __, parkedAtMs: ___, error: ____, ...held } = claimed;
  const { openShard: _____, dueAtMs: ______, ...operation } = held;
  return { ...operation, state, providerRef, result, updatedAtMs: nowMs, ...retention(limits, nowMs) };
}

/**
 * Takes the attempt back, and the fact that an effect is possible, as far as the settlement proves it. Where an effect
 * stays possible the lease's end stays too: from it counts when no request can be on its way any more.
 */
function withEvidence(
  request: SettleRequest,
  {
    effect: evidence,
    countsAsAttempt,
  }: { readonly effect: 'none' | 'unchanged'; readonly countsAsAttempt: boolean },
  update: ConditionalUpdate,
): ConditionalUpdate {
  const uncount = countsAsAttempt ? {} : { set: takeBack(request) };
  const counted = { ...update, ...uncount, values: { ...update.values, one: 1 } };
  if (evidence === 'unchanged') return counted;
  const { effectIsOwn, notCancelled } = settleClauses;
  const condition = `${update.condition} AND ${effectIsOwn} AND ${notCancelled}`;
  return { ...counted, condition, remove: [...(update.remove ?? []), ...lease, ...effect] };
}

/** Proof that nothing was sent: the attempt that the claim counted was none, nor the one that a probe was given. */
const takeBack = ({ isProbe }: SettleRequest): string[] => [
  '#attemptCount = #attemptCount - :one',
  ...(isProbe ? ['#attemptLimit = #attemptLimit - :one'] : []),
];
