import type { ConditionalUpdate } from '../../lambdas/adapters/table-client';
import type { Limits } from '../../lambdas/operation/limits';
import type { Operation } from '../../lambdas/operation/operation';
import type { Finding, Outcome } from '../../lambdas/operation/outcome';
import { keyOf, type SettleRequest } from '../../lambdas/operation/ports';
import type { Worker } from '../../lambdas/runtime/worker-wiring';
import type { Item } from '../support/expression';
import type { World } from './world';

/** A bug that is planted in what the code under test writes, sends or is told: the product's own code stays as it is. */
export interface Mutant {
  readonly name: string;
  /** What the bug is. */
  readonly bug: string;
  /** Where something else prevents what the clause prevents: what that is, and the bug that takes both away. */
  readonly hidden?: { readonly by: string; readonly foundWith: string };
  /** Of two bugs together: the one in a clause. The other one breaks nothing by itself. */
  readonly clause?: string;
  readonly update?: (update: ConditionalUpdate, partitionKey: string) => ConditionalUpdate;
  readonly settle?: (request: SettleRequest) => SettleRequest;
  readonly limits?: Partial<Limits>;
  readonly sent?: (operation: Operation) => Operation;
  readonly outcome?: (outcome: Outcome) => Outcome;
  readonly find?: (world: World, operation: Operation) => Finding;
  readonly worker?: (worker: Worker) => Worker;
  /** What a process takes for what it read of the table. */
  readonly read?: (items: Item[], of: Reading) => Item[];
  /** A settle that failed is taken for one that was written. */
  readonly swallowsSettle?: true;
  /** Messages are taken off the queue when they are received. */
  readonly acknowledgesFirst?: true;
  /** Messages of parked operations are taken off the queue. */
  readonly acknowledgesParked?: true;
}

/** Who reads: W are workers, A is the API, R the reconciler, O people. */
interface Reading {
  readonly keys: readonly string[];
  readonly reader: string;
  readonly nowMs: number;
  /** Of a worker: the digest of what its newest message of each operation asks for. */
  readonly asked: ReadonlyMap<string, string>;
}

type Update = Mutant['update'] & {};
type Which = (update: ConditionalUpdate, partitionKey: string) => boolean;

/** A clause is not looked at, in some of the updates that have it. */
const without =
  (clause: string, which: Which = () => true, instead = 'TRUE'): Update =>
  (update, key) =>
    which(update, key) ? { ...update, condition: update.condition.replaceAll(clause, instead) } : update;

/** A SET action is another one, or left out. */
const setting =
  (attribute: string, instead: string | undefined, which: Which = () => true): Update =>
  (update, key) => {
    if (!which(update, key)) return update;
    const isMeant = (action: string) => action.startsWith(`#${attribute} =`);
    const set = (update.set ?? []).flatMap((action) => {
      if (!isMeant(action)) return [action];
      return instead === undefined ? [] : [instead];
    });
    return { ...update, set };
  };

const dropping =
  (attributes: readonly string[], which: Which): Update =>
  (update, key) => {
    if (!which(update, key)) return update;
    const kept = Object.entries(update.assign ?? {}).filter(([name]) => !attributes.includes(name));
    return { ...update, assign: Object.fromEntries(kept) };
  };

const both =
  (...all: readonly Update[]): Update =>
  (update, key) =>
    all.reduce((patched, one) => one(patched, key), update);

const only =
  (which: Which, change: Update): Update =>
  (update, key) =>
    which(update, key) ? change(update, key) : update;

const to =
  (state: string): Which =>
  ({ assign }) =>
    assign?.state === state;
const isClaim: Which = (update) => to('running')(update, '') && update.assign?.leaseExpiresAtMs !== undefined;
const isSettle: Which = ({ condition }) =>
  condition.includes('#claimId = :claimId') && condition.includes('#state = :running');
const isByReconciler: Which = ({ condition }) => condition.includes('#state <> :running');
const isDefer: Which = ({ condition, assign }) =>
  assign?.state === 'queued' && condition.includes('#inputDigest = :inputDigest');
const isFail: Which = ({ condition, assign }) =>
  assign?.state === 'failed' && condition.includes('attribute_not_exists(pk)');
const isPark: Which = ({ condition, assign }) =>
  assign?.state === 'parked' && condition.startsWith('#state = :seenState AND') && !condition.includes('<>');
const isAccept: Which = ({ condition, assign }) =>
  assign?.state === 'queued' && condition === 'attribute_not_exists(pk)';
const isTenant: Which = (_update, key) => key.startsWith('tenant#');
const isProvider: Which = (_update, key) => key.startsWith('provider#');
const takesSlot: Which = ({ set, assign }) =>
  set?.includes('#running.#op = :slot') === true || assign?.running !== undefined;
const isRefundPart: Which = ({ condition }) => condition.includes('#state = :succeeded');
const asSeen = /#state = :seenState AND (attribute_not_exists\(#claimId\)|#claimId = :seenClaimId)/g;
const notAsSeen =
  (which: Which): Update =>
  (update, key) =>
    which(update, key) ? { ...update, condition: update.condition.replace(asSeen, 'TRUE') } : update;

const window = '(attribute_not_exists(#effectPossibleSinceMs) OR #effectPossibleSinceMs > :windowOpensAtMs)';
const noEffect = 'attribute_not_exists(#effectPossibleSinceMs)';
const isCancel: Which = (update, key) =>
  to('cancelled')(update, key) &&
  update.condition.includes(':seenState') &&
  update.condition.includes(noEffect);

/** Some processes see operations as they are not. */
const seeing =
  (readers: string, change: (operation: Item, nowMs: number) => Item): Mutant['read'] =>
  (items, { reader, nowMs }) =>
    readers.includes(reader.charAt(0))
      ? items.map((item) => (String(item.pk).startsWith('op#') ? { ...item, ...change(item, nowMs) } : item))
      : items;

/** A live lease is taken for one that has just lapsed. */
const lapsed = ({ state, leaseExpiresAtMs }: Item, nowMs: number): Item =>
  state === 'running' ? { leaseExpiresAtMs: Math.min(Number(leaseExpiresAtMs), nowMs - 1) } : {};

/** One for each clause of each condition, and one for each rule of DESIGN section 5. */
const single: readonly Mutant[] = [
  // The claim.
  {
    name: 'claim: neverSeen',
    bug: 'any record is claimed',
    update: without('attribute_not_exists(pk)', isClaim),
  },
  {
    name: 'claim: sameInputs',
    bug: 'other inputs under a known id are claimed',
    hidden: {
      by: 'The look has compared them, and what an id is bound to never changes.',
      foundWith: 'look and claim: sameInputs',
    },
    update: without('#inputDigest = :inputDigest', isClaim),
  },
  {
    name: 'claim: windowOpen',
    bug: 'the claim does not look at the window',
    update: without(window, isClaim),
    hidden: {
      by: 'The look has decided by the same time and the same record; an effect that became possible since then is younger.',
      foundWith: 'rule: window',
    },
  },
  {
    name: 'claim: provenAsSeen',
    bug: 'the claim counts its window from a proof that a later one has replaced',
    update: without(
      '(attribute_not_exists(#absentProvenAtMs) OR #absentProvenAtMs = :effectSinceMs)',
      isClaim,
    ),
  },
  {
    name: 'claim: wanted',
    bug: 'an operation whose cancel was asked for is claimed',
    hidden: {
      by: 'A wish is stored only where an effect is possible. The write that takes the effect back grants it, and where a reconciliation came between the next look does.',
      foundWith: 'look and claim: wanted',
    },
    update: without(
      '(attribute_not_exists(#cancelRequestedAtMs) OR attribute_exists(#effectPossibleSinceMs))',
      isClaim,
    ),
  },
  {
    name: 'claim: isFirst',
    bug: 'a retry that looked like a first attempt is not paid for',
    update: without('#attemptCount = :zero', isClaim),
  },
  {
    name: 'claim: attemptsLeft',
    bug: 'the claim does not look at the attempts that are left',
    update: without('#attemptCount < #attemptLimit', isClaim),
    hidden: {
      by: 'The last attempt parks in the same write; the look has decided on every other record.',
      foundWith: 'look and claim: attemptsLeft',
    },
  },
  {
    name: 'claim: queued',
    bug: 'any state is claimed as if it were queued',
    update: without('#state = :queued', isClaim),
  },
  {
    name: 'claim: lapsed',
    bug: 'a live lease is taken over',
    update: without(' AND #leaseExpiresAtMs < :updatedAtMs', isClaim, ''),
  },
  {
    name: 'claim: inTime',
    bug: 'the claim does not look at the deadline',
    update: without('(#deadlineAtMs > :updatedAtMs OR #attemptCount > :zero)', isClaim),
    hidden: {
      by: 'The deadline never changes, and the look has decided by the same time.',
      foundWith: 'look and claim: inTime',
    },
  },
  {
    name: 'claim: redriven, the time',
    bug: 'a redrive does not look at when the operation was parked',
    update: without('#parkedAtMs < :sentAtMs', isClaim),
  },
  {
    name: 'claim: redriven, the count',
    bug: 'a redrive does not look at how often there was one',
    update: without('#redriveCount < :maxRedrives', isClaim),
    hidden: {
      by: 'The look has decided; two copies of one message would have to redrive at once a fifth time.',
      foundWith: 'look and claim: redriven, the count',
    },
  },
  {
    name: 'claim: effect',
    bug: 'the claim does not say that an effect is possible',
    update: both(
      setting('effectPossibleSinceMs', undefined, isClaim),
      setting('effectPossibleClaimId', undefined, isClaim),
      dropping(['effectPossibleSinceMs', 'effectPossibleClaimId'], isClaim),
    ),
  },
  {
    name: 'claim: count',
    bug: 'the claim begins to count its attempts again',
    update: setting('attemptCount', '#attemptCount = :one', isClaim),
  },
  // The settle.
  {
    name: 'settle: claimIsCurrent',
    bug: 'a worker that lost its claim settles',
    update: without('#state = :running AND #claimId = :claimId', isSettle),
  },
  {
    name: 'settle: isUnheld',
    bug: 'a reconciliation settles what a live claim holds',
    update: without('(#state <> :running OR #leaseExpiresAtMs < :updatedAtMs)'),
    hidden: {
      by: 'A reconciliation looks at the lease before it asks, and the lease of the claim that it has seen never gets longer.',
      foundWith: 'look and settle: isUnheld',
    },
  },
  {
    name: 'settle: asSeen',
    bug: 'a reconciliation settles what has changed since it was read',
    update: notAsSeen(isByReconciler),
  },
  {
    name: 'settle: isOpen',
    bug: 'a proof of an effect replaces the end of an operation',
    update: without('#state IN (:running, :queued, :settling, :parked)', to('succeeded')),
  },
  {
    name: 'settle: isUnsettled',
    bug: 'a reference replaces what is known already',
    update: without('#state IN (:running, :queued, :parked)', to('settling')),
  },
  {
    name: 'settle: notCancelled',
    bug: 'a cancel that was asked for during the call is forgotten',
    update: without('attribute_not_exists(#cancelRequestedAtMs)', isSettle),
  },
  {
    name: 'settle: effectIsOwn',
    bug: 'a settle takes back an effect that another claim made possible',
    update: without('#effectPossibleClaimId = :claimId'),
    hidden: {
      by: 'It is asked for only by the claim that made the effect possible, and that never changes under its claim.',
      foundWith: 'settle: nothing done',
    },
  },
  {
    name: 'settle: nothing done',
    bug: 'a later "nothing was done" overrules an earlier unknown outcome',
    update: without('#effectPossibleClaimId = :claimId'),
    settle: (request) =>
      'countsAsAttempt' in request.settlement && !request.settlement.countsAsAttempt
        ? { ...request, settlement: { ...request.settlement, effect: 'none' } }
        : request,
  },
  {
    name: 'settle: attempt',
    bug: 'a 429 counts as an attempt',
    settle: (request) =>
      'countsAsAttempt' in request.settlement && !request.settlement.countsAsAttempt
        ? { ...request, settlement: { ...request.settlement, countsAsAttempt: true } }
        : request,
  },
  {
    name: 'settle: unknown',
    bug: 'an unknown outcome takes its attempt back',
    outcome: (outcome) =>
      outcome.kind === 'unknown' && !outcome.keySpent ? { kind: 'notSent', reason: 'rate_limited' } : outcome,
  },
  {
    name: 'settle: due',
    bug: 'a settling operation has no due time',
    update: dropping(['dueAtMs', 'openShard'], to('settling')),
  },
  {
    name: 'settle: kept',
    bug: 'a wait that is kept in the table has no due time',
    update: dropping(['dueAtMs', 'openShard'], isDefer),
  },
  {
    name: 'settle: swallowed',
    bug: 'a settle that failed is taken for written, and the message acknowledged',
    swallowsSettle: true,
  },
  // What is done to an operation that no claim holds.
  {
    name: 'cancel: asSeen and free',
    bug: 'a cancel does not look at the operation when it writes',
    update: (update, key) => (isCancel(update, key) ? { ...update, condition: 'TRUE' } : update),
  },
  {
    name: 'cancel: no effect',
    bug: 'a cancel does not look at the effect',
    update: only(
      isCancel,
      both(
        notAsSeen(() => true),
        without(noEffect),
      ),
    ),
  },
  {
    name: 'cancel: state',
    bug: 'a cancel does not look at the state',
    update: only(
      isCancel,
      both(
        notAsSeen(() => true),
        without('#state IN (:queued, :parked)'),
      ),
    ),
  },
  {
    name: 'defer: queued',
    bug: 'a wait is kept over any state',
    update: without('#state = :queued', isDefer),
  },
  {
    name: 'defer: sameInputs',
    bug: 'a wait is kept for other inputs',
    update: without('#inputDigest = :inputDigest', isDefer),
  },
  {
    name: 'defer: key',
    bug: 'a wait binds the operation to the key of the build that runs',
    update: setting('providerKey', '#providerKey = :providerKey', isDefer),
  },
  {
    name: 'defer: parameters',
    bug: 'a wait binds the operation to the parameters of the build that runs',
    update: setting('providerParamsVersion', '#providerParamsVersion = :providerParamsVersion', isDefer),
  },
  {
    name: 'defer: lapsed',
    bug: 'a live claim is given a due time',
    update: without(' AND #leaseExpiresAtMs < :nowMs', () => true, ''),
    hidden: {
      by: 'Looked at when it is due, and nothing more: a live lease is left alone.',
      foundWith: 'look and defer: lapsed',
    },
  },
  {
    name: 'fail: state',
    bug: 'a deadline ends an operation in any state',
    update: without('#state IN (:queued, :parked)', isFail),
  },
  {
    name: 'fail: unattempted',
    bug: 'a deadline ends an operation that was attempted',
    update: without('#attemptCount = :zero AND attribute_not_exists(#effectPossibleSinceMs)', isFail),
  },
  { name: 'park: asSeen', bug: 'an operation that has changed since is parked', update: notAsSeen(isPark) },
  {
    name: 'accept: neverSeen',
    bug: 'an accept replaces a record',
    update: without('attribute_not_exists(pk)', isAccept),
  },
  {
    name: 'postpone: dueAtMs',
    bug: 'two runs of the reconciler take one operation',
    update: without('#dueAtMs = :seenDueAtMs'),
  },
  // Refunds.
  {
    name: 'refund: first part',
    bug: 'the first reservation replaces others',
    update: without('attribute_not_exists(#refunds)', isRefundPart),
  },
  {
    name: 'refund: one part',
    bug: 'a refund takes its part twice',
    update: without('attribute_not_exists(#refunds.#refund)', isRefundPart),
  },
  {
    name: 'refund: sum',
    bug: 'refunds together exceed their charge',
    update: without('#refundedMinor <= :mostBefore', isRefundPart),
  },
  {
    name: 'refund: amount',
    bug: 'one refund exceeds its charge',
    update: without('#input.#amountMinor >= :refundedMinor', isRefundPart),
    hidden: {
      by: 'The look has decided on the charge, whose amount never changes.',
      foundWith: 'look and refund: amount',
    },
  },
  {
    name: 'refund: succeeded',
    bug: 'a charge that has not succeeded is refunded',
    update: without('#state = :succeeded', isRefundPart),
    hidden: {
      by: 'The look has decided, and a charge that has succeeded stays so.',
      foundWith: 'look and refund: succeeded',
    },
  },
  {
    name: 'refund: release',
    bug: 'a part is given back that is not held',
    update: without('#refunds.#refund.#amountMinor = :amountMinor'),
  },
  // The tenant's places.
  {
    name: 'slot: isNew',
    bug: 'the first slot of a tenant replaces others',
    update: without('attribute_not_exists(#running)', isTenant),
  },
  {
    name: 'slot: exists',
    bug: 'a slot is taken in a map that is not there',
    update: without('attribute_exists(#running)', isTenant),
    hidden: { by: 'Nothing removes the maps that the look saw.', foundWith: 'look and slot: exists' },
  },
  {
    name: 'slot: isOwn',
    bug: 'a claim gives back the slot of another',
    update: without('#running.#op.#claimId = :claimId', isTenant),
  },
  {
    name: 'slot: isFree',
    bug: 'a duplicate shares the slot of the delivery that runs',
    update: without('attribute_not_exists(#running.#op)', takesSlot),
  },
  {
    name: 'slot: isLapsed',
    bug: 'a slot of the same operation is taken over before it lapses',
    update: without('#running.#op.#leaseExpiresAtMs < :nowMs', takesSlot),
  },
  {
    name: 'slot: hasRoom',
    bug: 'a slot is taken where there is no room',
    update: without('size(#running) < :room', takesSlot),
  },
  {
    name: 'slot: hasCalls',
    bug: 'the day of a tenant has no end',
    update: without('(attribute_not_exists(#calls.#today) OR #calls.#today < :dailyCalls)', takesSlot),
  },
  {
    name: 'slot: lease',
    bug: 'a slot that a crash left never lapses',
    update: (update, key) => (takesSlot(update, key) ? withLongSlot(update) : update),
  },
  {
    name: 'place: room',
    bug: 'the API takes on more than a tenant may have open',
    update: without('size(#accepted) < :maxAccepted', isTenant),
  },
  {
    name: 'day: service',
    bug: 'the day of the service has no end',
    update: without('#calls < :dailyCalls', isProvider),
  },
  {
    name: 'day: begun',
    bug: 'two workers begin the same day',
    update: without('attribute_not_exists(#callsDay) OR #callsDay < :today', isProvider),
  },
  // The retry budget and the breaker.
  {
    name: 'switch: hasTokens',
    bug: 'tokens are taken that are gone',
    update: without('#retryTokens >= :cost', isProvider),
  },
  {
    name: 'switch: the window',
    bug: 'tokens of an earlier window are taken',
    update: without('#windowStartMs = :windowStartMs AND #retryTokens', isProvider, '#retryTokens'),
  },
  {
    name: 'switch: isLaterWindow',
    bug: 'a window begins twice',
    update: without('(attribute_not_exists(#windowStartMs) OR #windowStartMs < :windowStartMs)', isProvider),
  },
  {
    name: 'switch: isThisWindow',
    bug: 'calls are counted in a window that has ended',
    update: without(
      '#windowStartMs = :windowStartMs',
      ({ set }) => set?.some((action) => action.includes(':calls')) === true,
    ),
  },
  {
    name: 'switch: isClosed',
    bug: "a breaker that is open is opened again, over a person's pause",
    update: without('attribute_not_exists(#breakerOpenedAtMs)', isProvider),
  },
  {
    name: 'switch: probeIsDue',
    bug: 'more than one probe at a time',
    update: without('attribute_exists(#breakerOpenedAtMs) AND #breakerProbeAtMs <= :nowMs', isProvider),
  },
  {
    name: 'switch: isOurProbe',
    bug: 'a probe closes a breaker that a person has paused',
    update: without('attribute_exists(#breakerOpenedAtMs) AND #breakerProbeAtMs = :untilMs', isProvider),
  },
  {
    name: 'budget: ignored',
    bug: 'retries are not paid for',
    worker: (worker) => ({
      ...worker,
      providerSwitch: Object.assign(Object.create(worker.providerSwitch), {
        takeRetries: async (_shard: number, _seen: unknown, granted: number) => ({
          granted,
          windowStartMs: 0,
        }),
      }),
    }),
  },
  // Rules of a delivery.
  {
    name: 'rule: key',
    bug: 'each attempt has a key of its own',
    sent: (operation) => ({ ...operation, providerKey: `${operation.providerKey}/${operation.claimId}` }),
  },
  { name: 'rule: window', bug: 'nobody looks at the window', limits: { providerWindowHours: 10_000 } },
  { name: 'rule: lease', bug: 'a lease ends before its worker does', limits: { leaseMarginSeconds: -25 } },
  { name: 'rule: stuck lease', bug: 'a lease lasts for a day', limits: { leaseMarginSeconds: 86_400 } },
  {
    name: 'rule: acknowledge first',
    bug: 'a message is acknowledged when it is received',
    acknowledgesFirst: true,
  },
  {
    name: 'rule: parked message',
    bug: 'the message of a parked operation is acknowledged',
    acknowledgesParked: true,
  },
  { name: 'rule: quiet hour', bug: 'absence is trusted at once', limits: { quietHours: 0 } },
  {
    name: 'rule: search',
    bug: 'the provider is asked by search, which lags by an hour',
    find: (world, operation) => {
      const isNew = world.provider
        .effectsOf(keyOf(operation))
        .some(({ createdMs }) => world.time.nowMs() - createdMs < 3 * 3_600_000);
      return isNew && operation.providerRef === undefined
        ? { kind: 'absent' }
        : world.provider.find(operation);
    },
  },
  {
    name: 'rule: processing',
    bug: 'what the provider has taken counts as done',
    outcome: (outcome) =>
      outcome.kind === 'accepted' ? { ...outcome, kind: 'succeeded', result: {} } : outcome,
  },
  {
    name: 'rule: time-out',
    bug: 'a time-out counts as a refusal',
    outcome: (outcome) =>
      outcome.kind === 'unknown' && outcome.reason === 'timeout'
        ? { kind: 'declined', error: { code: 'timeout', message: 'No answer.' } }
        : outcome,
  },
  {
    name: 'rule: refusal',
    bug: 'a 400 after an unknown outcome is final',
    settle: (request) =>
      request.settlement.state === 'parked' &&
      request.settlement.parkedReason === 'earlier_attempt_unproven' &&
      request.settlement.error
        ? { ...request, settlement: { state: 'failed', error: request.settlement.error } }
        : request,
  },
];

/** What a look decides in advance, so that the clause behind it has nothing to do: both are taken away. */
const together: readonly Mutant[] = [
  {
    name: 'look and claim: sameInputs',
    clause: 'claim: sameInputs',
    bug: 'neither the look nor the claim compares the inputs',
    // Only where a claim comes of it: every other write has a clause of its own.
    read: (items, { asked, nowMs }) =>
      items.map((item) => {
        const { state, attemptCount, attemptLimit, cancelRequestedAtMs, deadlineAtMs } = item;
        const isClaimed =
          state === 'queued' &&
          Number(attemptCount) < Number(attemptLimit) &&
          cancelRequestedAtMs === undefined &&
          Number(deadlineAtMs) > nowMs + 3_600_000 &&
          nowMs - Number(item.effectPossibleSinceMs ?? item.absentProvenAtMs ?? nowMs) < 20 * 3_600_000;
        const inputDigest = asked.get(String(item.pk).slice('op#'.length));
        return isClaimed && inputDigest !== undefined ? { ...item, inputDigest } : item;
      }),
  },
  {
    name: 'look and claim: wanted',
    clause: 'claim: wanted',
    bug: 'neither the look nor the claim sees that a cancel was asked for',
    read: seeing('W', () => ({ cancelRequestedAtMs: undefined })),
  },
  {
    name: 'look and claim: attemptsLeft',
    clause: 'claim: attemptsLeft',
    bug: 'neither the look nor the claim counts the attempts',
    read: seeing('W', () => ({ attemptLimit: 1000 })),
  },
  {
    name: 'look and claim: inTime',
    clause: 'claim: inTime',
    bug: 'neither the look nor the claim looks at the deadline',
    // A refund of a charge that never ends waits for its deadline.
    read: seeing('W', ({ type }) => (type === 'charge' ? { deadlineAtMs: Date.UTC(2040, 0, 1) } : {})),
  },
  {
    name: 'look and claim: redriven, the count',
    clause: 'claim: redriven, the count',
    bug: 'neither the look nor the claim counts the redrives',
    // What may have an effect is reconciled, which counts them too.
    read: seeing('W', ({ effectPossibleSinceMs, absentProvenAtMs }) =>
      effectPossibleSinceMs === undefined && absentProvenAtMs === undefined ? { redriveCount: 0 } : {},
    ),
  },
  {
    name: 'look and settle: isUnheld',
    clause: 'settle: isUnheld',
    bug: 'neither the look nor the settle of a reconciliation sees a live lease',
    read: seeing('R', lapsed),
  },
  {
    name: 'look and defer: lapsed',
    clause: 'defer: lapsed',
    bug: 'neither the look nor the write of a wait sees a live lease',
    // What would be parked, or asked about, is looked at for its lease by others.
    read: seeing('W', (operation, nowMs) =>
      Number(operation.attemptCount) < Number(operation.attemptLimit) &&
      nowMs - Number(operation.effectPossibleSinceMs) < 20 * 3_600_000
        ? lapsed(operation, nowMs)
        : {},
    ),
  },
  {
    name: 'look and refund: amount',
    clause: 'refund: amount',
    bug: "neither the look nor the reservation looks at the charge's amount",
    read: seeing('AW', ({ type, input, refunds }) =>
      type === 'charge' && refunds === undefined
        ? { input: { ...Object(input), amountMinor: 1_000_000 } }
        : {},
    ),
  },
  {
    name: 'look and refund: succeeded',
    clause: 'refund: succeeded',
    bug: 'neither the look nor the reservation asks whether the charge has succeeded',
    read: seeing('A', ({ type }) => (type === 'charge' ? { state: 'succeeded' } : {})),
  },
  {
    name: 'look and slot: exists',
    clause: 'slot: exists',
    bug: "a tenant's places are taken for granted, and the write does not ask for them",
    read: (items, { keys }) => [
      ...items,
      ...keys
        .filter((pk) => pk.startsWith('tenant#') && !items.some((item) => item.pk === pk))
        .map((pk) => ({ pk, running: {}, accepted: {}, calls: {} })),
    ],
  },
];

/** The two bugs of a pair: what is seen wrongly, and the clause. */
function paired(pair: Mutant): Mutant {
  const clause = single.find(({ name }) => name === pair.clause);
  if (!clause) throw new Error(`There is no planted bug "${pair.clause}"`);
  const { hidden: _, ...bug } = clause;
  return { ...bug, ...pair };
}

export const mutants: readonly Mutant[] = [...single, ...together.map(paired)];

/** The bugs that a pair plants beside its clause, alone. */
export const hiders: readonly Mutant[] = together;

function withLongSlot(update: ConditionalUpdate): ConditionalUpdate {
  const far = Date.UTC(2040, 0, 1);
  const stretch = (value: unknown): unknown =>
    typeof value === 'object' && value !== null
      ? Object.fromEntries(
          Object.entries(value).map(([name, member]) => [
            name,
            name === 'leaseExpiresAtMs' ? far : stretch(member),
          ]),
        )
      : value;
  const { assign = {}, values = {} } = update;
  return {
    ...update,
    assign: { ...assign, ...('running' in assign ? { running: stretch(assign.running) } : {}) },
    values: { ...values, ...('slot' in values ? { slot: stretch(values.slot) } : {}) },
  };
}
