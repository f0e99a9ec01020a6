import type { Limits } from '../operation/limits';
import type { Operation } from '../operation/operation';
import type { ClaimRequest, ParkRequest, SettleRequest } from '../operation/ports';
import type { Settlement } from '../operation/state';

/**
 * One conditional update of one item. In its texts `#name` is the attribute `name`, as many are reserved words;
 * `:running`, `:queued`, `:settling` and `:parked` are the states.
 */
export interface ConditionalUpdate {
  readonly condition: string;
  /** Attributes to set, each also a value `:name`. Undefined ones are left alone. */
  readonly assign: Readonly<Record<string, unknown>>;
  /** Further SET actions. */
  readonly set?: readonly string[];
  readonly remove?: readonly string[];
  /** Values that the texts use beside the assigned ones. */
  readonly values?: Readonly<Record<string, unknown>>;
}

/**
 *   claim = neverSeen
 *        or sameInputs and windowOpen and ( attemptsLeft and ( queued or lapsed ) )
 *        or sameInputs and windowOpen and redriven        (a parked operation's message, sent again)
 */
const claimClauses = {
  /** The first delivery of an id binds it to its inputs. */
  neverSeen: 'attribute_not_exists(pk)',
  /** G3: other inputs under the same id are never run. */
  sameInputs: '#inputDigest = :inputDigest',
  /** G6: no POST after the provider may have forgotten the key. */
  windowOpen: '(attribute_not_exists(#effectPossibleSinceMs) OR #effectPossibleSinceMs > :windowOpensAtMs)',
  /** Bounded retries: the attempt that this claim counts is within the limit. */
  attemptsLeft: '#attemptCount < #attemptLimit',
  queued: '#state = :queued',
  /** G5: a dead worker's claim holds until its lease ends and no longer; a live one is left alone. */
  lapsed: '(#state = :running AND #leaseExpiresAtMs < :updatedAtMs)',
  /** Only a message that was sent after the operation was parked, and a bounded number of times. */
  redriven: '(#state = :parked AND #parkedAtMs < :sentAtMs AND #redriveCount < :maxRedrives)',
} as const;

export function claimUpdate(request: ClaimRequest): ConditionalUpdate {
  const { neverSeen, sameInputs, windowOpen, attemptsLeft, queued, lapsed, redriven } = claimClauses;
  const { redrive, first } = request;
  const takeable = redrive ? redriven : `${attemptsLeft} AND (${queued} OR ${lapsed})`;
  return {
    condition: `${neverSeen} OR (${sameInputs} AND ${windowOpen} AND ${takeable})`,
    assign: {
      state: 'running',
      claimId: request.claimId,
      leaseExpiresAtMs: request.leaseExpiresAtMs,
      updatedAtMs: request.nowMs,
    },
    set: [
      // Counted, and the effect possible, before the provider is called: a crash needs no write.
      '#attemptCount = if_not_exists(#attemptCount, :zero) + :one',
      '#effectPossibleSinceMs = if_not_exists(#effectPossibleSinceMs, :updatedAtMs)',
      '#effectPossibleClaimId = if_not_exists(#effectPossibleClaimId, :claimId)',
      // Bound by the first claim and the same in every later one, across deploys and renames.
      ...Object.keys({ ...bound(request), createdAtMs: 0 }).map(keepFirst),
      ...(redrive
        ? ['#attemptLimit = #attemptCount + :maxAttempts', '#redriveCount = #redriveCount + :one']
        : ['attemptLimit', 'redriveCount'].map(keepFirst)),
    ],
    remove: [...park, ...attention, 'error'],
    values: {
      ...bound(request),
      createdAtMs: request.nowMs,
      attemptLimit: first.attemptLimit,
      redriveCount: 0,
      windowOpensAtMs: request.windowOpensAtMs,
      zero: 0,
      one: 1,
      ...redrive,
    },
  };
}

const bound = ({ message, inputDigest, first }: ClaimRequest) => ({
  type: message.type,
  version: message.version,
  input: message.input,
  inputDigest,
  providerKey: first.providerKey,
  providerParamsVersion: first.providerParamsVersion,
  acceptedBy: first.acceptedBy,
});

const keepFirst = (attribute: string): string =>
  `#${attribute} = if_not_exists(#${attribute}, :${attribute})`;

const settleClauses = {
  /** G4: a worker that lost its claim writes nothing. */
  claimIsCurrent: '#state = :running AND #claimId = :claimId',
  /** Proof that the effect exists settles whatever claim is current, and never a terminal state. */
  isOpen: '#state IN (:running, :queued, :settling, :parked)',
  /** So does a reference to what the provider has taken, unless more is known already. */
  isUnsettled: '#state IN (:running, :queued, :parked)',
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
      return { condition: claimIsCurrent, values, assign, remove: [...lease, ...effect] };
    }
    case 'settling': {
      const assign = {
        ...common,
        providerRef: settlement.providerRef,
        ...due(operation, limits, nowMs + minuteMs),
      };
      return { condition: settleClauses.isUnsettled, assign, remove: [...lease, ...park, 'error'] };
    }
    case 'queued': {
      const assign = { ...common, providerRef: settlement.providerRef };
      return withEvidence(settlement, { condition: claimIsCurrent, values, assign, remove: lease });
    }
    case 'parked': {
      const { parkedReason, providerRef, error } = settlement;
      const attend = settlement.effect === 'none' ? {} : due(operation, limits, nowMs);
      const parkedAtMs = Math.max(nowMs, sentAtMs);
      const assign = { ...common, parkedReason, parkedAtMs, providerRef, error, ...attend };
      return withEvidence(settlement, { condition: claimIsCurrent, values, assign, remove: lease });
    }
  }
}

/** Takes the attempt back, and the fact that an effect is possible, as far as the settlement proves it. */
function withEvidence(
  { effect: evidence, countsAsAttempt }: Extract<Settlement, { state: 'queued' | 'parked' }>,
  update: ConditionalUpdate,
): ConditionalUpdate {
  const uncount = countsAsAttempt ? {} : { set: ['#attemptCount = #attemptCount - :one'] };
  const counted = { ...update, ...uncount, values: { ...update.values, one: 1 } };
  if (evidence === 'unchanged') return counted;
  const condition = `${update.condition} AND ${settleClauses.effectIsOwn}`;
  return { ...counted, condition, remove: [...(update.remove ?? []), ...effect] };
}

/** Parks an operation that no live claim holds, if it still is as it was seen. */
export function parkUpdate(
  { seen, parkedReason, nowMs, sentAtMs }: ParkRequest,
  limits: Limits,
): ConditionalUpdate {
  const asSeen = '#state = :seenState AND #claimId = :seenClaimId';
  return {
    condition: asSeen,
    assign: {
      state: 'parked',
      parkedReason,
      parkedAtMs: Math.max(nowMs, sentAtMs),
      updatedAtMs: nowMs,
      ...(seen.effectPossibleSinceMs === undefined ? {} : due(seen, limits, nowMs)),
    },
    values: { seenState: seen.state, seenClaimId: seen.claimId },
    remove: lease,
  };
}

/** Moves the end of a terminal record's retention. */
export function retentionUpdate(limits: Limits, nowMs: number): ConditionalUpdate {
  return { condition: 'attribute_exists(#expiresAtSeconds)', assign: retention(limits, nowMs) };
}

const lease = ['leaseExpiresAtMs'];
const park = ['parkedReason', 'parkedAtMs'];
const attention = ['openShard', 'dueAtMs'];
const effect = ['effectPossibleSinceMs', 'effectPossibleClaimId'];

const minuteMs = 60_000;

/** DynamoDB's TTL is in seconds. https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html */
const retention = (limits: Limits, nowMs: number) => ({
  expiresAtSeconds: Math.floor(nowMs / 1000) + limits.recordRetentionDays * 86_400,
});

/** The operation's place in the attention index: a shard by its digest, so that writes spread. */
const due = ({ inputDigest }: Operation, { openShards }: Limits, dueAtMs: number) => ({
  openShard: Number.parseInt(inputDigest.slice(0, 8), 16) % openShards,
  dueAtMs,
});
