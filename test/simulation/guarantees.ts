import { operationFromItem } from '../../lambdas/adapters/operation-item';
import { canonicalJson } from '../../lambdas/operation/digest';
import type { Limits } from '../../lambdas/operation/limits';
import type { Operation } from '../../lambdas/operation/operation';
import type { Outcome } from '../../lambdas/operation/outcome';
import type { Calls, SettleRequest } from '../../lambdas/operation/ports';
import { floorTokens, tokensPerRetry } from '../../lambdas/operation/provider-state';
import { isTerminal, legalMoves, type State } from '../../lambdas/operation/state';
import type { Item } from '../support/expression';
import { byHand, type ProviderTwin } from './provider-twin';

const hourMs = 3_600_000;
/** Half of the margin of a lease is the most that two clocks may differ. */
const mostSkewMs = 15_000;
/** One message after another is redriven so often, until a person looks. */
const mostRedrives = 5;

/** One provider call that asks for money, as the world sees it. */
export interface Post {
  readonly key: string;
  readonly tenantId: string;
  readonly claimId: string | undefined;
  readonly sentMs: number;
  /** Its sender waits no longer than until then. */
  readonly waitsUntilMs: number;
  /** It may still have an effect. */
  isInFlight: boolean;
  isAnswered: boolean;
  /** Its sender knows that nothing was done. */
  isProvenNothing: boolean;
}

interface Tracked {
  readonly states: { readonly atMs: number; readonly state: State; readonly isDurable: boolean }[];
  posts: Post[];
  wasParked: boolean;
  /** When the last worker began that wrote it. */
  workedSinceMs: number;
  /** Who set its due time. */
  dueBy: string | undefined;
  /** Redrives that a person has taken off its count by asking for a retry. */
  forgiven: number;
}

/** What a process did that a write may need for its judgement. */
export interface Writer {
  readonly name: string;
  readonly startedMs: number;
  readonly claimIds: ReadonlySet<string>;
  /** Its last possible moment. */
  readonly endsAtMs: number;
  readonly skewMs: number;
  /** The settle under way, by partition key. */
  readonly settling: ReadonlyMap<string, SettleRequest>;
  /** Of a worker: when the newest message of each operation that it got was sent. */
  readonly newest: ReadonlyMap<string, number>;
  /** What its report of calls may add to the provider's tokens. */
  readonly credit: Pick<Calls, 'earned' | 'unspent' | 'takenInWindowMs'> | undefined;
  /** Tokens that its writes took, by window. */
  readonly debits: { readonly windowStartMs: number; tokens: number }[];
}

export class GuaranteeBroken extends Error {
  override readonly name = 'GuaranteeBroken';
}

/**
 * Judges everything that happens by the guarantees of DESIGN section 2, from what the provider did and from every version
 * of every record: never from what the code under test says of itself.
 */
export class Guarantees {
  readonly #operations = new Map<string, Tracked>();
  readonly #records = new Map<string, Operation>();
  readonly #outcomes = new Map<string, Outcome>();
  readonly #grants = new Map<string, { granted: number; returned: number }>();
  readonly #callsOfDay = new Map<string, number>();
  readonly #probeOf = new Map<number, number>();
  #granted = 0;
  #probes = 0;
  #retryPosts = 0;
  #firstPosts = 0;
  /** Operations whose caller was told that they are taken on, or whose message was sent. */
  readonly promised = new Set<string>();

  constructor(
    private readonly limits: Limits,
    private readonly provider: ProviderTwin,
    private readonly nowMs: () => number,
  ) {}

  record(key: string): Operation | undefined {
    return this.#records.get(key);
  }

  records(): Iterable<readonly [string, Operation]> {
    return this.#records;
  }

  #tracked(key: string): Tracked {
    let tracked = this.#operations.get(key);
    if (!tracked) {
      tracked = { states: [], posts: [], wasParked: false, workedSinceMs: 0, dueBy: undefined, forgiven: 0 };
      this.#operations.set(key, tracked);
    }
    return tracked;
  }

  /** A write of an operation's record took effect. */
  written(writer: Writer, partitionKey: string, before: Item | undefined, item: Item): void {
    const key = partitionKey.slice('op#'.length);
    const after = operationFromItem(item);
    // What was last written is what was there before.
    const seen = before && this.#records.get(key);
    const tracked = this.#tracked(key);
    this.#records.set(key, after);
    if (writer.name.startsWith('W'))
      tracked.workedSinceMs = Math.max(tracked.workedSinceMs, writer.startedMs);
    const isDueSet = before === undefined || before.dueAtMs !== item.dueAtMs;
    const dueBy = isDueSet ? writer.name : tracked.dueBy;
    const { state, dueAtMs } = after;
    const isDurable = isTerminal(state) || (dueAtMs !== undefined && state !== 'parked');
    tracked.states.push({ atMs: this.nowMs(), state, isDurable });
    this.#judgeLease(key, after);
    this.#judgeClaim(writer, key, seen, after);
    if (after.type === 'charge') judgeRefunds(key, after);
    if (!seen) {
      tracked.dueBy = dueBy;
      return;
    }
    this.#judgeBinding(key, seen, after);
    this.#judgeMove(key, seen, after);
    this.#judgeOwnership(writer, key, seen, after);
    this.#judgeCount(writer, partitionKey, key, seen, after);
    this.#judgeRedrive(writer, key, seen, after);
    judgeWish(writer, key, seen, after);
    this.#judgeDue(writer, key, seen, after);
    judgeWindow(key, seen, after);
    if (after.absentProvenAtMs !== seen.absentProvenAtMs) this.#absenceProven(key, tracked);
    if (state === 'parked') tracked.wasParked = true;
    tracked.dueBy = dueBy;
  }

  #judgeLease(key: string, { state, leaseExpiresAtMs }: Operation): void {
    if (state !== 'running') return;
    const longestMs = (this.limits.workerTimeoutSeconds + this.limits.leaseMarginSeconds) * 1000 + mostSkewMs;
    expect(
      leaseExpiresAtMs !== undefined && Number.isFinite(leaseExpiresAtMs),
      `G5 ${key} is running without a lease's end`,
    );
    expect(
      (leaseExpiresAtMs ?? 0) <= this.nowMs() + longestMs,
      `G5 ${key} is claimed for longer than a lease`,
    );
  }

  /** A claim outlives its worker. */
  #judgeClaim(
    { endsAtMs, skewMs }: Writer,
    key: string,
    before: Operation | undefined,
    after: Operation,
  ): void {
    if (after.state !== 'running' || after.claimId === before?.claimId) return;
    const leaseEndMs = (after.leaseExpiresAtMs ?? 0) - skewMs;
    expect(leaseEndMs >= endsAtMs + mostSkewMs, `G5 the lease of ${key} ends before its worker does`);
  }

  #judgeBinding(key: string, before: Operation, after: Operation): void {
    for (const field of bound) {
      expect(
        JSON.stringify(before[field]) === JSON.stringify(after[field]),
        `G3 ${key}: ${field} changed from ${JSON.stringify(before[field])} to ${JSON.stringify(after[field])}`,
      );
    }
    if (before.providerKey === after.providerKey) return;
    const isPersons = after.intervention?.action === 'proven_absent';
    expect(isPersons, `G3 ${key}: the provider key changed without a person's proof of absence`);
  }

  #judgeMove(key: string, before: Operation, after: Operation): void {
    const isLegal = before.state === after.state || legalMoves[before.state].includes(after.state);
    expect(isLegal, `G4 ${key} moved from ${before.state} to ${after.state}`);
    const isLate = after.state === 'failed' && after.error?.code === 'deadline_exceeded';
    expect(
      !isLate || isTerminal(before.state) || (before.attemptCount === 0 && !before.effectPossibleSinceMs),
      `G9 ${key} has failed by its deadline, and an attempt of it may have had an effect`,
    );
    if (!isTerminal(before.state)) return;
    for (const field of ended) {
      expect(
        JSON.stringify(before[field]) === JSON.stringify(after[field]),
        `G4 ${key}: ${field} of an ended operation changed`,
      );
    }
  }

  #judgeOwnership(
    { name, claimIds, settling }: Writer,
    key: string,
    before: Operation,
    after: Operation,
  ): void {
    const isProven =
      (after.state === 'succeeded' || after.state === 'settling') &&
      this.provider.effects.some((effect) => effect.key === key && effect.id === after.providerRef);
    if (isProven) return;
    const request = settling.get(`op#${key}`);
    const isSettle =
      request?.by === 'claim' && before.state !== after.state && after.state === request.settlement.state;
    if (isSettle && after.claimId === before.claimId && after.updatedAtMs === request.nowMs) {
      const isOwn = before.state === 'running' && before.claimId === request.operation.claimId;
      expect(isOwn, `G4 ${name} settled ${key} without holding its claim`);
    }
    const isHeld = before.state === 'running' && (before.leaseExpiresAtMs ?? 0) > this.nowMs() + mostSkewMs;
    if (!isHeld || claimIds.has(before.claimId ?? '')) return;
    // The reconciler moves the due time of what a worker holds; another worker has no business with it.
    for (const field of name.startsWith('W') ? ([...owned, 'dueAtMs'] as const) : owned) {
      expect(
        JSON.stringify(before[field]) === JSON.stringify(after[field]),
        `G4 ${name} changed ${field} of ${key}, which another claim holds`,
      );
    }
  }

  #judgeCount(
    { settling, claimIds }: Writer,
    partitionKey: string,
    key: string,
    before: Operation,
    after: Operation,
  ): void {
    const tracked = this.#tracked(key);
    if (after.redriveCount < before.redriveCount) {
      const isPersons = after.intervention?.action === 'retried';
      expect(isPersons, `G8 ${key}: its redrives are counted anew without a person's retry`);
      tracked.forgiven += before.redriveCount;
    }
    // A claim may also land a second time, after its worker has settled: it holds until its lease lapses.
    const isClaim =
      after.state === 'running' && (after.claimId !== before.claimId || before.state !== 'running');
    if (isClaim) {
      expect(
        after.attemptCount === before.attemptCount + 1,
        `G2 ${key}: the claim did not count its attempt`,
      );
      const most = this.limits.maxAttempts * (1 + after.redriveCount + tracked.forgiven) + this.#probes;
      expect(after.attemptCount <= most, `G8 ${key} has attempt ${after.attemptCount} of at most ${most}`);
      expect(after.redriveCount <= 10, `G8 ${key} was redriven ${after.redriveCount} times`);
      expect(
        before.cancelRequestedAtMs === undefined || before.effectPossibleSinceMs !== undefined,
        `G9 ${key} was claimed after a cancel was asked for, where no effect was possible`,
      );
      return;
    }
    const request = settling.get(partitionKey);
    const outcome = this.#outcomes.get(before.claimId ?? '');
    const isSettle =
      request?.by === 'claim' && before.state === 'running' && claimIds.has(before.claimId ?? '') && outcome;
    if (!isSettle || before.state === after.state || (after.state !== 'queued' && after.state !== 'parked')) {
      expect(
        after.attemptCount === before.attemptCount || after.state === 'cancelled',
        `G2 ${key}: the attempts changed from ${before.attemptCount} to ${after.attemptCount} by no claim`,
      );
      return;
    }
    const wasNothing = outcome.kind === 'notSent' || outcome.kind === 'forbidden';
    expect(
      after.attemptCount === before.attemptCount - (wasNothing ? 1 : 0),
      `G2 ${key}: after ${outcome.kind} its attempts are ${after.attemptCount}, they were ${before.attemptCount}`,
    );
  }

  /** Only a message that was sent after the operation was parked takes it up again, and a bounded number of times. */
  #judgeRedrive({ name, newest }: Writer, key: string, before: Operation, after: Operation): void {
    if (after.redriveCount <= before.redriveCount || name.startsWith('O')) return;
    expect(
      before.redriveCount < mostRedrives,
      `G8 ${key} is redriven, and was redriven ${before.redriveCount} times before`,
    );
    if (
      before.state !== 'parked' ||
      !name.startsWith('W') ||
      after.absentProvenAtMs !== before.absentProvenAtMs
    )
      return;
    expect(
      (newest.get(key) ?? 0) > (before.parkedAtMs ?? 0),
      `G8 ${key} is taken up again by a message that was sent before it was parked`,
    );
  }

  /** Of two runs of the reconciler one takes what is due: the other leaves it alone. */
  #judgeDue({ name }: Writer, key: string, before: Operation, after: Operation): void {
    const isTaken =
      name.startsWith('R') &&
      after.state === before.state &&
      after.absentProvenAtMs === before.absentProvenAtMs &&
      before.dueAtMs !== undefined &&
      after.dueAtMs !== before.dueAtMs;
    if (!isTaken) return;
    const isItsOwn = this.#tracked(key).dueBy === name;
    expect(
      isItsOwn || before.dueAtMs <= this.nowMs() + mostSkewMs,
      `G12 ${name} brings on ${key}, which another has just brought on`,
    );
  }

  #absenceProven(key: string, tracked: Tracked): void {
    expect(
      !tracked.posts.some(({ isInFlight }) => isInFlight),
      `G6 ${key}: absence was proven while a request is still on its way`,
    );
    tracked.posts = [];
  }

  /** A provider call that asks for money is sent. */
  posted(operation: Operation, timeoutMs: number): Post {
    const key = keyOf(operation);
    const nowMs = this.nowMs();
    const { claimId, tenantId, input } = operation;
    const record = this.#records.get(key);
    const tracked = this.#tracked(key);
    expect(record, `G2 ${key} is called for without a record`);
    expect(
      record.effectPossibleSinceMs !== undefined || isTerminal(record.state) || record.claimId !== claimId,
      `G2 ${key} is called for, and its record does not say that an effect is possible`,
    );
    expect(
      record.providerKey === operation.providerKey && record.inputDigest === operation.inputDigest,
      `G1 ${key} is called for under ${operation.providerKey}, its record says ${record.providerKey}`,
    );
    expect(
      canonicalJson(record.input) === canonicalJson(input),
      `G3 ${key} is called for with other inputs than it is bound to`,
    );
    expect(
      record.claimId !== claimId || record.state === 'running',
      `G4 ${key} is called for while it is ${record.state}`,
    );
    const earlier = tracked.posts.filter(({ isProvenNothing }) => !isProvenNothing);
    const sinceMs = Math.min(...earlier.map(({ sentMs }) => sentMs));
    const windowMs = this.limits.providerWindowHours * hourMs;
    expect(
      earlier.length === 0 || nowMs - sinceMs <= windowMs + mostSkewMs,
      `G6 ${key} is called for ${Math.round((nowMs - sinceMs) / 60_000)} minutes after an effect became possible`,
    );
    expect(
      record.attemptCount > 1 ||
        operation.attemptCount > 1 ||
        nowMs <= record.deadlineAtMs + mostSkewMs + 60_000,
      `G2 ${key} is called for the first time after its deadline`,
    );
    this.#judgeBudget(key, earlier.length > 0);
    this.#judgeDay(operation);
    const post = {
      key,
      tenantId,
      claimId,
      sentMs: nowMs,
      waitsUntilMs: nowMs + timeoutMs,
      isInFlight: true,
      isAnswered: false,
      isProvenNothing: false,
    };
    tracked.posts.push(post);
    this.#judgeTenant(tenantId);
    return post;
  }

  #judgeBudget(key: string, isRetry: boolean): void {
    if (!isRetry) {
      this.#firstPosts += 1;
      return;
    }
    this.#retryPosts += 1;
    expect(
      this.#retryPosts <= this.#granted + this.#probes,
      `G8 ${key} is retried, and nothing paid for it: ${this.#retryPosts} retries, ${this.#granted} granted, ${this.#probes} probes`,
    );
  }

  /** By the claim's own clock, as the day of a call is. */
  #judgeDay({ tenantId, updatedAtMs }: Operation): void {
    const day = new Date(updatedAtMs).toISOString().slice(0, 10);
    for (const [who, most] of [
      [tenantId, this.limits.tenantDailyCalls],
      ['the service', this.limits.providerDailyCalls],
    ] as const) {
      const calls = (this.#callsOfDay.get(`${who} ${day}`) ?? 0) + 1;
      this.#callsOfDay.set(`${who} ${day}`, calls);
      expect(
        most === undefined || calls <= most,
        `G7 ${who} has ${calls} calls on ${day}, ${most} are allowed`,
      );
    }
  }

  #judgeTenant(tenantId: string): void {
    const most = this.limits.tenantMaxRunning;
    if (most === 0) return;
    const nowMs = this.nowMs();
    let calls = 0;
    for (const { posts } of this.#operations.values()) {
      for (const post of posts)
        if (post.tenantId === tenantId && !post.isAnswered && nowMs < post.waitsUntilMs) calls += 1;
    }
    expect(calls <= most, `G7 tenant ${tenantId} has ${calls} calls in flight, ${most} are allowed`);
  }

  /** A worker got the outcome of its call. */
  answered(post: Post, outcome: Outcome): void {
    post.isAnswered = true;
    post.isProvenNothing = outcome.kind === 'notSent' || outcome.kind === 'forbidden';
    if (post.claimId !== undefined) this.#outcomes.set(post.claimId, outcome);
    expect(outcome.kind !== 'conflict', `G1 ${post.key}: its key met other parameters at the provider`);
  }

  granted({ name, debits }: Writer, shard: number, windowStartMs: number, granted: number): void {
    if (granted === 0) return;
    const ofWindow = debits.filter((debit) => debit.windowStartMs === windowStartMs);
    const tokens = ofWindow.reduce((sum, debit) => sum + debit.tokens, 0);
    expect(
      tokens >= granted * tokensPerRetry,
      `G8 ${name} was granted ${granted} retries, and its writes took ${tokens} tokens of that window`,
    );
    this.#granted += granted;
    const window = this.#window(shard, windowStartMs);
    window.granted += granted;
    const earned = (this.#firstPosts * this.limits.retryBudgetPercent) / tokensPerRetry;
    const most = floorTokens(this.limits) / tokensPerRetry + earned + window.returned;
    expect(
      window.granted <= most,
      `G8 ${window.granted} retries were granted in a window, ${most} are allowed`,
    );
  }

  returned(shard: number, windowStartMs: number, retries: number): void {
    this.#window(shard, windowStartMs).returned += retries;
  }

  /** The breaker's one probe was won. @param untilMs when it ends, if its worker dies */
  probed(shard: number, untilMs: number): void {
    this.#probes += 1;
    const busyUntilMs = this.#probeOf.get(shard) ?? 0;
    expect(busyUntilMs <= this.nowMs() + mostSkewMs, `G8 two probes of shard ${shard} run at once`);
    this.#probeOf.set(shard, untilMs);
  }

  /** A probe has ended: the next one may begin. */
  probeEnded(shard: number, untilMs: number): void {
    if (this.#probeOf.get(shard) === untilMs) this.#probeOf.delete(shard);
  }

  /** A write of the provider's item took effect. */
  providerWritten(writer: Writer, before: Item | undefined, after: Item): void {
    const { name } = writer;
    this.#judgeTokens(writer, before, after);
    const isLifted = before?.breakerReason === 'paused' && after.breakerReason !== 'paused';
    expect(!isLifted || name.startsWith('O'), `G8 ${name} lifted a person's pause`);
    expect(Number(after.retryTokens ?? 0) >= 0, `G8 the budget is overdrawn: ${after.retryTokens} tokens`);
  }

  /** A window begins once and with its floor; then tokens are what calls earned, or what was taken there and is given back. */
  #judgeTokens({ name, credit, debits }: Writer, before: Item | undefined, after: Item): void {
    const windowStartMs = Number(after.windowStartMs ?? 0);
    const startedMs = Number(before?.windowStartMs ?? 0);
    expect(windowStartMs >= startedMs, `G8 ${name} goes back to an earlier window of the budget`);
    const tokens = Number(after.retryTokens ?? 0);
    const had = windowStartMs > startedMs ? floorTokens(this.limits) : Number(before?.retryTokens ?? 0);
    const unspent = credit?.takenInWindowMs === windowStartMs ? credit.unspent : 0;
    const most = had + (credit?.earned ?? 0) + unspent;
    expect(tokens <= most, `G8 ${name} makes the budget ${tokens} tokens, it may be ${most}`);
    if (tokens < had) debits.push({ windowStartMs, tokens: had - tokens });
  }

  /** A write of a tenant's item took effect. */
  tenantWritten(
    { name, claimIds }: Writer,
    partitionKey: string,
    before: Item | undefined,
    after: Item,
  ): void {
    const tenantId = partitionKey.slice('tenant#'.length);
    const fromMs = this.nowMs() + mostSkewMs;
    const places = placesOf(after);
    for (const [operationId, { claimId, leaseExpiresAtMs }] of placesOf(before)) {
      if (claimIds.has(claimId) || leaseExpiresAtMs <= fromMs) continue;
      const place = places.get(operationId);
      expect(
        place?.claimId === claimId && place.leaseExpiresAtMs === leaseExpiresAtMs,
        `G7 ${name} changes the place of ${operationId}, which another claim holds`,
      );
    }
    const live = [...places.values()].filter(({ leaseExpiresAtMs }) => leaseExpiresAtMs > fromMs).length;
    const most = this.limits.tenantMaxRunning || Number.POSITIVE_INFINITY;
    expect(live <= most, `G7 tenant ${tenantId} has ${live} places taken, ${most} are allowed`);
  }

  #window(shard: number, windowStartMs: number) {
    const name = `${shard} ${windowStartMs}`;
    const window = this.#grants.get(name) ?? { granted: 0, returned: 0 };
    this.#grants.set(name, window);
    return window;
  }

  /** After every step: the provider's ledger and the records together. */
  judge(): void {
    for (const [key, record] of this.#records) this.#judgeEffects(key, record);
    for (const { key } of this.provider.effects)
      expect(key === byHand || this.#records.has(key), `G1 ${key} has an effect and no record`);
  }

  #judgeEffects(key: string, record: Operation): void {
    const effects = this.provider.effectsOf(key);
    const { state, input } = record;
    expect(effects.length <= 1, `G1 ${key} has ${effects.length} effects`);
    const [effect] = effects;
    if (effect) {
      expect(
        effect.amountMinor === input.amountMinor,
        `G3 ${key} moved ${effect.amountMinor}, it is bound to ${input.amountMinor}`,
      );
      this.#judgePart(key, record);
      expect(state !== 'cancelled', `G9 ${key} is cancelled and has an effect`);
      expect(state !== 'failed', `G9 ${key} has failed and has an effect`);
    }
    if (state === 'succeeded') {
      const isTrue = effect?.state === 'succeeded' && effect.id === record.providerRef;
      expect(isTrue, `G1 ${key} has succeeded, and the provider does not say so`);
    }
    if (isTerminal(state) || record.effectPossibleSinceMs !== undefined) return;
    expect(!effect, `G2 ${key} is ${state} as if nothing was done, and has an effect`);
    const isOnItsWay = this.#tracked(key).posts.some(({ isInFlight }) => isInFlight);
    expect(!isOnItsWay, `G2 ${key} is ${state} as if nothing was done, and a request is on its way`);
  }

  /** A refund that moves money holds its part of the charge. */
  #judgePart(key: string, { type, tenantId, operationId, input }: Operation): void {
    if (type !== 'refund' || !('chargeOperationId' in input)) return;
    const charge = this.#records.get(`${tenantId}#${input.chargeOperationId}`);
    const part = charge?.refunds?.[operationId]?.amountMinor;
    expect(
      part === input.amountMinor,
      `G1 ${key} moved ${input.amountMinor}, and holds ${part} of its charge`,
    );
  }

  /** A message is taken off the queue. @param sinceMs when its delivery began */
  acknowledged(key: string, inputDigest: string | undefined, sinceMs: number): void {
    const isOther = this.#records.get(key)?.inputDigest !== inputDigest;
    expect(!isOther, `G3 a message of ${key} with other inputs than it is bound to is acknowledged`);
    const { states } = this.#tracked(key);
    const at = states.findLastIndex(({ atMs }) => atMs < sinceMs);
    const isDurable = states.slice(Math.max(0, at)).some((one) => one.isDurable);
    expect(
      isDurable,
      `G2 a message of ${key} is acknowledged, and its record is ${states.at(-1)?.state ?? 'none'}`,
    );
  }

  /** Operations accepted by the API that hold a place. */
  admitted(tenantId: string): void {
    if (this.limits.tenantMaxRunning === 0) return;
    const most = this.limits.tenantMaxRunning + this.limits.tenantMaxWaiting;
    let open = 0;
    for (const [key, record] of this.#records) {
      const { wasParked } = this.#tracked(key);
      if (
        record.tenantId === tenantId &&
        record.acceptedBy === 'api' &&
        !isTerminal(record.state) &&
        !wasParked
      )
        open += 1;
    }
    expect(open <= most, `G7 tenant ${tenantId} has ${open} accepted operations open, ${most} are allowed`);
  }

  /** What a worker wrote of it from a message's fifth delivery on has a due time: it is not left to the dead-letter queue. */
  judgeDeadLetter(key: string, fifthAtMs: number): void {
    const { workedSinceMs } = this.#tracked(key);
    expect(
      workedSinceMs < fifthAtMs,
      `G2 ${key} is ${this.#records.get(key)?.state} and its message is a dead letter, although a worker wrote since its fifth delivery`,
    );
  }

  /** When nothing happens any more. @param messages keys of the operations of messages in the queue or the dead-letter queue */
  judgeEnd(queued: readonly string[], deadLettered: readonly string[], provided: Iterable<Item>): void {
    expect(queued.length === 0, `G12 messages of ${queued.join(', ')} are still in the queue`);
    for (const key of this.promised) {
      const record = this.#records.get(key);
      if (!record) {
        expect(deadLettered.includes(key), `G2 ${key} is lost: it has neither a record nor a message`);
        continue;
      }
      const { state } = record;
      expect(isTerminal(state) || state === 'parked', `G2 ${key} does not end: it is ${state}`);
      if (state !== 'parked') continue;
      expect(
        record.cancelRequestedAtMs === undefined || record.effectPossibleSinceMs !== undefined,
        `G9 ${key} stays parked without a possible effect, and a cancel was asked for`,
      );
      expect(
        deadLettered.includes(key) || record.dueAtMs !== undefined,
        `G11 ${key} is parked, and neither the dead-letter queue nor the attention index tells of it`,
      );
      const [effect] = this.provider.effectsOf(key);
      expect(
        !effect,
        `G2 ${key} stays parked (${record.parkedReason}), and the provider lists ${effect?.id}`,
      );
      expect(
        record.effectPossibleSinceMs === undefined || record.dueAtMs !== undefined,
        `G11 ${key} is parked with a possible effect, and nobody looks at it`,
      );
    }
    for (const item of provided) {
      for (const [operationId, place] of placesOf(item))
        expect(place.leaseExpiresAtMs < this.nowMs() + mostSkewMs, `G12 ${operationId} still holds a place`);
    }
  }
}

const bound = [
  'type',
  'input',
  'inputDigest',
  'providerParamsVersion',
  'acceptedBy',
  'createdAtMs',
  'deadlineAtMs',
] as const;
const ended = ['state', 'providerRef', 'result', 'error', 'attemptCount', 'updatedAtMs'] as const;
const owned = ['state', 'claimId', 'leaseExpiresAtMs', 'attemptCount', 'effectPossibleSinceMs'] as const;

/** A claim that grants itself a window counts it from the listing that proved the absence of an effect. */
function judgeWindow(key: string, before: Operation, after: Operation): void {
  const isNew = before.effectPossibleSinceMs === undefined && after.effectPossibleSinceMs !== undefined;
  if (!isNew || before.absentProvenAtMs === undefined) return;
  expect(
    after.effectPossibleSinceMs === before.absentProvenAtMs,
    `G6 ${key}: its window counts from ${after.effectPossibleSinceMs}, and absence was proven at ${before.absentProvenAtMs}`,
  );
}

/** What a claim proves not to have happened is cancelled, where that was asked for. */
function judgeWish({ settling }: Writer, key: string, before: Operation, after: Operation): void {
  if (settling.get(`op#${key}`)?.by !== 'claim' || before.state !== 'running' || isTerminal(after.state))
    return;
  expect(
    after.cancelRequestedAtMs === undefined || after.effectPossibleSinceMs !== undefined,
    `G9 ${key} is ${after.state} without a possible effect, and a cancel was asked for`,
  );
}

/** Places of a tenant's calls, by operation id. */
function placesOf(item: Item | undefined) {
  const running = item?.running;
  return new Map<string, { readonly claimId: string; readonly leaseExpiresAtMs: number }>(
    typeof running === 'object' && running !== null ? Object.entries(running) : [],
  );
}

/** What refunds hold of a charge is its sum, and within it. */
function judgeRefunds(key: string, { refunds = {}, refundedMinor = 0, input, state }: Operation): void {
  expect(
    refundedMinor === 0 || state === 'succeeded',
    `G1 ${key} is ${state}, and its refunds hold ${refundedMinor}`,
  );
  const held = Object.values(refunds).reduce((sum, { amountMinor }) => sum + amountMinor, 0);
  expect(held === refundedMinor, `G1 ${key}: its refunds hold ${held}, it says ${refundedMinor}`);
  expect(
    refundedMinor <= input.amountMinor,
    `G1 ${key}: its refunds hold ${refundedMinor} of ${input.amountMinor}`,
  );
}

const keyOf = ({ tenantId, operationId }: Operation): string => `${tenantId}#${operationId}`;

function expect(holds: unknown, otherwise: string): asserts holds {
  if (!holds) throw new GuaranteeBroken(otherwise);
}
