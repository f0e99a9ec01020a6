import type { Limits } from '../operation/limits';
import type { SettleRequest } from '../operation/ports';
import type { Settlement } from '../operation/state';
import { attention, due, effect, lease, minuteMs, park, retention } from './operation-parts';
import type { ConditionalUpdate } from './table-client';

export const settleClauses = {
  /** G4: a worker that lost its claim writes nothing. */
  claimIsCurrent: '#state = :running AND #claimId = :claimId',
  /** Proof that the effect exists settles whatever claim is current, and never a terminal state. */
  isOpen: '#state IN (:running, :queued, :settling, :parked)',
  /** So does a reference to what the provider has taken, unless more is known already. */
  isUnsettled: '#state IN (:running, :queued, :parked)',
  /** G9: a cancel that was asked for while the call ran comes first. */
  notCancelled: 'attribute_not_exists(#cancelRequestedAtMs)',
  /** Only the claim that made the effect possible can prove by its own refusal that there was none. */
  effectIsOwn: '#effectPossibleClaimId = :claimId',
} as const;

export function settleUpdate(request: SettleRequest, limits: Limits): ConditionalUpdate {
  const { operation, claimId, settlement, nowMs, sentAtMs } = request;
  const { claimIsCurrent, isOpen } = settleClauses;
  const values = { claimId };
  const common = { state: settlement.state, updatedAtMs: nowMs };
  switch (settlement.state) {
    case 'succeeded': {
      const { providerRef, result } = settlement;
      const assign = { ...common, providerRef, result, ...retention(limits, nowMs) };
      return { condition: isOpen, assign, remove: [...lease, ...park, ...attention, 'error'] };
    }
    case 'failed': {
      const { providerRef, error } = settlement;
      const assign = { ...common, providerRef, error, ...retention(limits, nowMs) };
      return { condition: claimIsCurrent, values, assign, remove: [...lease, ...effect, ...attention] };
    }
    case 'settling': {
      const assign = {
        ...common,
        providerRef: settlement.providerRef,
        ...due(operation, limits, nowMs + minuteMs),
      };
      return { condition: settleClauses.isUnsettled, assign, remove: [...lease, ...park, 'error'] };
    }
    case 'cancelled': {
      const condition = `${claimIsCurrent} AND ${settleClauses.effectIsOwn}`;
      const assign = { ...common, ...retention(limits, nowMs) };
      const remove = [...lease, ...effect, ...attention];
      return { condition, values: { ...values, one: 1 }, assign, set: [takeAttemptBack], remove };
    }
    case 'queued': {
      const attend = request.dueAtMs === undefined ? {} : due(operation, limits, request.dueAtMs);
      const assign = { ...common, providerRef: settlement.providerRef, ...attend };
      const remove = [...lease, ...(request.dueAtMs === undefined ? attention : [])];
      return withEvidence(settlement, { condition: claimIsCurrent, values, assign, remove });
    }
    case 'parked': {
      const { parkedReason, providerRef, error } = settlement;
      const attend = settlement.effect === 'none' ? {} : due(operation, limits, nowMs);
      const parkedAtMs = Math.max(nowMs, sentAtMs);
      const assign = { ...common, parkedReason, parkedAtMs, providerRef, error, ...attend };
      const remove = [...lease, ...(settlement.effect === 'none' ? attention : [])];
      return withEvidence(settlement, { condition: claimIsCurrent, values, assign, remove });
    }
  }
}

/** Takes the attempt back, and the fact that an effect is possible, as far as the settlement proves it. */
function withEvidence(
  { effect: evidence, countsAsAttempt }: Extract<Settlement, { state: 'queued' | 'parked' }>,
  update: ConditionalUpdate,
): ConditionalUpdate {
  const uncount = countsAsAttempt ? {} : { set: [takeAttemptBack] };
  const counted = { ...update, ...uncount, values: { ...update.values, one: 1 } };
  if (evidence === 'unchanged') return counted;
  const { effectIsOwn, notCancelled } = settleClauses;
  const condition = `${update.condition} AND ${effectIsOwn} AND ${notCancelled}`;
  return { ...counted, condition, remove: [...(update.remove ?? []), ...effect] };
}

/** Proof that nothing was sent: the attempt that the claim counted was none. */
const takeAttemptBack = '#attemptCount = #attemptCount - :one';
