import type { Limits } from '../operation/limits';
import type { Operation } from '../operation/operation';
import type { ClaimRequest } from '../operation/ports';
import { due, park } from './operation-parts';
import type { ConditionalUpdate } from './table-client';

/**
 *   claim = nothing is there                                 (the first delivery of an id makes its record, and binds it)
 *        or sameInputs and windowOpen and provenAsSeen and wanted and paid and attemptsLeft and inTime and ( queued or lapsed )
 *        or sameInputs and windowOpen and provenAsSeen and wanted and paid and inTime and redriven
 *                                                            (a parked operation's message, sent again)
 *   paid  = isFirst, or a token of the retry budget, or the breaker's probe
 */
export const claimClauses = {
  /** G3: other inputs under the same id are never run. */
  sameInputs: '#inputDigest = :inputDigest',
  /** G6: no POST after the provider may have forgotten the key. */
  windowOpen: '(attribute_not_exists(#effectPossibleSinceMs) OR #effectPossibleSinceMs > :windowOpensAtMs)',
  /** G6 again: what this claim makes possible counts from the listing that was looked at, which no later one has replaced. */
  provenAsSeen: '(attribute_not_exists(#absentProvenAtMs) OR #absentProvenAtMs = :effectSinceMs)',
  /** Bounded retries: the attempt that this claim counts is within the limit. */
  attemptsLeft: '#attemptCount < #attemptLimit',
  queued: '#state = :queued',
  /** G5: a dead worker's claim holds until its lease ends and no longer; a live one is left alone. */
  lapsed: '(#state = :running AND #leaseExpiresAtMs < :updatedAtMs)',
  /** G9: a wish to cancel is granted instead, where no effect is possible. */
  wanted: '(attribute_not_exists(#cancelRequestedAtMs) OR attribute_exists(#effectPossibleSinceMs))',
  /** G8: what turns out to be a retry needs a token. */
  isFirst: '(#attemptCount = :zero AND #redriveCount = :zero)',
  /** Past its deadline only what was attempted before goes on. */
  inTime: '(#deadlineAtMs > :updatedAtMs OR #attemptCount > :zero)',
  /** Only a message that was sent after the operation was parked, and a bounded number of times. */
  redriven: '(#state = :parked AND #parkedAtMs < :sentAtMs AND #redriveCount < :maxRedrives)',
} as const;

/** The record that the claim of an id makes that was never seen. */
export function firstClaim(request: ClaimRequest, limits: Limits): Operation {
  const { id, bound, claimId, dueAtMs, effectSinceMs, leaseExpiresAtMs, nowMs, paidBy } = request;
  return {
    ...id,
    ...bound,
    attemptLimit: bound.attemptLimit + (paidBy === 'probe' ? 1 : 0),
    redriveCount: 0,
    state: 'running',
    claimId,
    leaseExpiresAtMs,
    // Counted, and the effect possible, before the provider is called: a crash needs no write.
    attemptCount: 1,
    effectPossibleSinceMs: effectSinceMs,
    effectPossibleClaimId: claimId,
    updatedAtMs: nowMs,
    ...(dueAtMs === undefined ? {} : due(bound, limits, dueAtMs)),
  };
}

/** The claim of an operation that has a record, and with it all that its id is bound to. */
export function claimUpdate(request: ClaimRequest, limits: Limits): ConditionalUpdate {
  const { sameInputs, windowOpen, attemptsLeft, queued, lapsed, redriven } = claimClauses;
  const { wanted, inTime, provenAsSeen, isFirst } = claimClauses;
  const { redrive, bound, dueAtMs, paidBy } = request;
  const takeable = redrive
    ? `${inTime} AND ${redriven}`
    : `${attemptsLeft} AND ${inTime} AND (${queued} OR ${lapsed})`;
  const paid = paidBy === 'nobody' ? [isFirst] : [];
  const attend = dueAtMs === undefined ? {} : due(bound, limits, dueAtMs);
  // A probe is made for the whole service: its operation is given an attempt for it.
  const given = paidBy === 'probe' && !redrive;
  const chargeRef = bound.type === 'refund' ? bound.chargeRef : undefined;
  return {
    condition: [sameInputs, windowOpen, provenAsSeen, wanted, ...paid, takeable].join(' AND '),
    assign: {
      state: 'running',
      claimId: request.claimId,
      leaseExpiresAtMs: request.leaseExpiresAtMs,
      updatedAtMs: request.nowMs,
      ...attend,
    },
    set: [
      '#attemptCount = #attemptCount + :one',
      '#effectPossibleSinceMs = if_not_exists(#effectPossibleSinceMs, :effectSinceMs)',
      '#effectPossibleClaimId = if_not_exists(#effectPossibleClaimId, :claimId)',
      ...(given ? ['#attemptLimit = #attemptLimit + :one'] : []),
      // A refund that waited for its charge is bound to the provider's reference of it as soon as there is one.
      ...(chargeRef === undefined ? [] : ['#chargeRef = if_not_exists(#chargeRef, :chargeRef)']),
      ...(redrive ? beginRedrive : []),
    ],
    // A due time stays: the delivery that set it has acknowledged the message, which may be this one's too.
    remove: [...park, 'error', 'escalatedAtMs'],
    values: {
      inputDigest: bound.inputDigest,
      windowOpensAtMs: request.windowOpensAtMs,
      effectSinceMs: request.effectSinceMs,
      chargeRef,
      zero: 0,
      one: 1,
      ...redrive,
      ...(redrive && paidBy === 'probe' ? { maxAttempts: redrive.maxAttempts + 1 } : {}),
    },
  };
}

/** Fresh attempts, and one redrive fewer that is left. */
export const beginRedrive = [
  '#attemptLimit = #attemptCount + :maxAttempts',
  '#redriveCount = #redriveCount + :one',
];
