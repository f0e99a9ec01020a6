import type { Message } from './message';
import type { Bound, Intervention, Job, Operation, OperationId, RefundPart } from './operation';
import type { Finding, OperationError, Outcome } from './outcome';
import type { Breaker, ProviderState } from './provider-state';
import type { ParkedReason, Settlement, State } from './state';
import type { Tenant } from './tenant';

/** Milliseconds since the epoch. */
export type Clock = () => number;

/** What a claim asks for; the store writes it only where every clause of its condition holds. */
export interface ClaimRequest {
  readonly id: OperationId;
  /** Stored by the first write of the operation, and returned unchanged by every later one. */
  readonly bound: Bound;
  readonly claimId: string;
  /** Whether the look found no record: the claim makes it, and is refused by one that was made since. */
  readonly isNew: boolean;
  readonly nowMs: number;
  readonly leaseExpiresAtMs: number;
  /** An effect that became possible before this is outside the provider window. */
  readonly windowOpensAtMs: number;
  /** When an effect becomes possible by this claim: now, or when a listing last proved that there was none. */
  readonly effectSinceMs: number;
  /** Whether the retry budget paid for it, or it is the breaker's probe. A first attempt needs neither, and is refused where one was made. */
  readonly paidBy: 'nobody' | 'budget' | 'probe';
  /** When the reconciler should look, where the message may not come back. */
  readonly dueAtMs?: number;
  readonly redrive?: Redrive;
}

/** A parked operation whose message was sent again: raises the attempt limit. */
export interface Redrive {
  readonly sentAtMs: number;
  readonly maxAttempts: number;
  readonly maxRedrives: number;
}

export type ClaimWrite =
  | { readonly kind: 'claimed'; readonly operation: Operation }
  /** A clause did not hold; the operation as it is says which. */
  | { readonly kind: 'refused'; readonly operation: Operation };

/**
 * What a settle asks for. Conditional on the claim, with the effect that its call returned on any state that is not terminal;
 * for a reconciliation on the operation still being as it was read, by its state and claim, and held by no live lease.
 */
export interface SettleRequest {
  /** The operation as the claim left it, or as the reconciliation read it. */
  readonly operation: Operation;
  readonly by: 'claim' | 'reconciliation';
  readonly settlement: Settlement;
  readonly nowMs: number;
  /** When the delivery's message was sent: a park must not be earlier, or the message would look redriven. 0 without one. */
  readonly sentAtMs: number;
  /** Whether the claim was the breaker's probe, which used up no attempt of the operation's own. */
  readonly isProbe?: boolean;
  /** The person on whose word it is settled. */
  readonly intervention?: Intervention;
  /** Of a requeued operation: when the reconciler sends its message again. Absent while its message comes back by itself. */
  readonly dueAtMs?: number;
}

/** A write on an operation that no claim holds, if it still is as it was seen. */
export interface UnclaimedRequest {
  readonly seen: Operation;
  readonly nowMs: number;
}

export interface ParkRequest extends UnclaimedRequest {
  readonly parkedReason: ParkedReason;
  readonly sentAtMs: number;
}

/** A write on an operation that was never attempted, perhaps never heard of before. */
export interface UnattemptedRequest {
  readonly id: OperationId;
  readonly bound: Bound;
  readonly nowMs: number;
}

export interface AcceptRequest extends UnattemptedRequest {
  /** Tells this request's write from its twins': stored where claims store theirs. */
  readonly acceptId: string;
  readonly dueAtMs: number;
}

export interface AdoptRequest extends UnattemptedRequest {
  readonly outcome: Extract<Outcome, { kind: 'succeeded' }>;
  readonly intervention: Intervention;
}

export interface DeferRequest extends UnattemptedRequest {
  readonly seen: Operation | undefined;
  /** Of a parked operation: it waits as a redrive that was begun. */
  readonly redrive?: Redrive;
  readonly dueAtMs: number;
}

/** Whether a write took effect; if not, the operation as it is. Undefined: there is no record. */
export type Written =
  | { readonly kind: 'written'; readonly operation: Operation }
  | { readonly kind: 'superseded'; readonly operation: Operation | undefined };

/**
 * The operations table. Reads are consistent; every write is one conditional update of one item, and a repeated
 * write whose first answer was lost recognises its own work. Throws only when the store cannot be reached.
 */
export interface OperationStore {
  /** One batch read: the records of the ids, of the tenants and of the provider's shard, as far as they exist. At most 100 together. */
  look(ids: readonly OperationId[], tenantIds?: readonly string[], providerShard?: number): Promise<Seen>;
  claim(request: ClaimRequest): Promise<ClaimWrite>;
  settle(request: SettleRequest): Promise<Written>;
  park(request: ParkRequest): Promise<Written>;
  /** Binds a new id to its inputs, queued, and due for the reconciler at `dueAtMs`. Superseded by any record. */
  accept(request: AcceptRequest): Promise<Written>;
  /** Keeps an operation that waits, perhaps a new one, one that is redriven, or one that a dead worker left running, for the reconciler to send at `dueAtMs`. */
  defer(request: DeferRequest): Promise<Written>;
  /** Ends a queued operation, perhaps a new one, that was never attempted. */
  fail(request: UnattemptedRequest & { readonly error: OperationError }): Promise<Written>;
  /** Ends an operation that is queued or parked and without a possible effect. */
  cancel(request: UnclaimedRequest): Promise<Written>;
  /** Asks for a cancel of an operation that has not ended. */
  requestCancel(request: UnclaimedRequest): Promise<Written>;
  /** Takes part of a succeeded charge for a refund, once per refund id. Superseded when too little of it is left. */
  reserveRefund(charge: Operation, refundId: string, part: RefundPart): Promise<Written>;
  /** Gives that part back, with `reservedAtMs` only if it is still the one that was seen; nothing when the refund holds none. */
  releaseRefund(
    charge: OperationId,
    refundId: string,
    part: Pick<RefundPart, 'amountMinor'> & Partial<RefundPart>,
  ): Promise<void>;
  /** Gives an effect that has no record one, succeeded. Superseded by any record. */
  adopt(request: AdoptRequest): Promise<Written>;
  /** Records what a person did to it, if it still is as it was seen. */
  intervene(request: UnclaimedRequest & { readonly intervention: Intervention }): Promise<Written>;
  /** Moves the end of a terminal record's retention to a full period from now. */
  extendRetention(id: OperationId, nowMs: number): Promise<void>;
}

export interface Seen {
  /** By `keyOf`. */
  readonly operations: ReadonlyMap<string, Operation>;
  /** Keys of records that this build cannot read. */
  readonly unreadable: ReadonlySet<string>;
  /** By tenant id. */
  readonly tenants: ReadonlyMap<string, Tenant>;
  /** Ids of tenants whose records this build cannot read. */
  readonly unreadableTenants: ReadonlySet<string>;
  /** Undefined when it was not asked for, or does not exist yet. */
  readonly provider: ProviderState | undefined;
}

export interface SlotRequest {
  readonly id: OperationId;
  readonly seen: Tenant | undefined;
  readonly claimId: string;
  readonly leaseExpiresAtMs: number;
  readonly nowMs: number;
}

export type SlotAnswer = 'taken' | 'full' | 'held' | 'daily_calls_used';

/** The bounds per tenant. Taking a place twice is taking it once; a place left by a crash goes when it would matter. */
export interface TenantStore {
  /** A place among the tenant's provider calls, for as long as the claim's lease. */
  takeSlot(request: SlotRequest): Promise<SlotAnswer>;
  /** Gives up this claim's slot only; with `hasEnded` the operation's accepted place too. */
  releaseSlot(id: OperationId, claimId: string, hasEnded: boolean): Promise<void>;
  /** Leaves this claim's slot taken until `untilMs`: its call may still run at the provider. */
  keepSlot(id: OperationId, claimId: string, untilMs: number): Promise<void>;
  /** A place among the tenant's accepted operations, held until the operation ends or is parked. */
  admit(id: OperationId, seen: Tenant | undefined, nowMs: number): Promise<'admitted' | 'full'>;
  /** Gives up an operation's accepted place; with `seenAtMs` only if it is still the one that was seen. */
  leave(id: OperationId, seenAtMs?: number): Promise<void>;
}

/** What a batch of attempts adds to the window's counts. */
export interface Calls {
  readonly calls: number;
  readonly failures: number;
  /** Tokens that first attempts earned. */
  readonly earned: number;
  /** Tokens that were taken in the window that began then, and not spent. */
  readonly unspent: number;
  readonly takenInWindowMs: number;
}

/** The retry budget and the breaker of the whole service, in a shard of the provider's record. Each write is conditional. */
export interface ProviderSwitch {
  /** Takes the tokens of up to `wanted` retries. @returns how many, and of which window */
  takeRetries(
    shard: number,
    seen: ProviderState | undefined,
    wanted: number,
    nowMs: number,
  ): Promise<{ readonly granted: number; readonly windowStartMs: number }>;
  /** Wins the one probe of an open breaker, until `untilMs`. @returns whether it did */
  takeProbe(seen: ProviderState, nowMs: number, untilMs: number): Promise<boolean>;
  /** Adds a batch's calls to the window's: never twice. @throws also where it cannot be told whether they were added */
  report(shard: number, seen: ProviderState | undefined, calls: Calls, nowMs: number): Promise<ProviderState>;
  /** Opens the breaker, if it is closed. @returns whether it was */
  open(shard: number, breaker: Breaker): Promise<boolean>;
  /** Closes it after the probe that holds `untilMs` succeeded. @returns whether it was open for that probe */
  close(shard: number, untilMs: number): Promise<boolean>;
  /** Lets the next probe try at `probeAtMs`, after that one did not succeed. */
  probeLater(shard: number, untilMs: number, probeAtMs: number, reason: Breaker['reason']): Promise<void>;
  /** All shards as they are, those that exist. */
  states(): Promise<ProviderState[]>;
  /** A person's pause, of every shard and over any breaker. */
  pause(breaker: Breaker): Promise<void>;
  /** Closes every shard, whatever opened it. @returns whether any was open */
  resume(): Promise<boolean>;
}

/** The daily limit of the whole service's provider calls. */
export interface ServiceCalls {
  /** Counts a call of today. @returns false when the limit leaves none */
  takeCall(nowMs: number): Promise<boolean>;
}

/** One key of an operation, for its record and for maps. Neither part can contain `#`. */
export const keyOf = ({ tenantId, operationId }: OperationId): string => `${tenantId}#${operationId}`;

/** Moves money. Never throws for what a provider or a network can do. */
export interface Provider {
  /** @param timeoutMs the longest that the call may take, all of its parts together */
  charge(operation: Operation & { readonly type: 'charge' }, timeoutMs: number): Promise<Outcome>;
  refund(operation: Operation & { readonly type: 'refund' }, timeoutMs: number): Promise<Outcome>;
  /**
   * Asks what became of the operation: by its reference, else by the list of what it could be. Moves no money; what still
   * waits for the customer is ended.
   */
  find(operation: Operation, timeoutMs: number): Promise<Finding>;
  /** Reads one effect and says whose it is. Changes nothing. */
  inspect(operation: Operation, providerRef: string, timeoutMs: number): Promise<Inspection>;
  /** A page of what moved money, or is about to, under keys of this service. */
  effects(request: EffectsRequest, timeoutMs: number): Promise<EffectsPage>;
  /** Whether the key may do all that the service needs. Moves no money. */
  check(timeoutMs: number): Promise<readonly Check[]>;
  /** Which parameters a new operation's attempts are built with: the oldest that say all of its inputs. */
  paramsVersionOf(job: Job): number;
}

export interface Inspection {
  readonly finding: Exclude<Finding, { kind: 'absent' }>;
  /** Whether its metadata names the operation, another one, or none. */
  readonly owner: 'this' | 'another' | 'unmarked';
}

export interface EffectsRequest {
  readonly type: Operation['type'];
  readonly sinceMs: number;
  /** The last of the page before. */
  readonly after?: string;
  readonly providerKeyPrefix: string;
}

/** What moved money at the provider, as it says itself. */
export interface Effect extends OperationId {
  readonly providerKey: string;
  readonly outcome: Extract<Outcome, { kind: 'succeeded' | 'accepted' }>;
  /** The message that asked for it, where the provider still tells all of it: it digests as the metadata says. */
  readonly message?: Message;
}

export type EffectsPage =
  | {
      readonly kind: 'page';
      readonly read: number;
      readonly effects: readonly Effect[];
      readonly after?: string;
    }
  | Extract<Finding, { kind: 'unknown' | 'unavailable' }>;

export interface Check {
  readonly name: string;
  readonly ok: boolean;
  readonly said: string;
}

/** The queue that operations are sent to. */
export interface JobQueue {
  send(operation: Operation): Promise<void>;
  /** Messages in the queue, visible or not: approximate, and up to 5 s old. */
  depth(): Promise<number>;
}

/** Told of every write that took effect: one log line and one metric each. */
export interface OperationTelemetry {
  /** One provider call, and how long it took. */
  attempted(operation: Operation, outcome: Outcome, elapsedMs: number): void;
  /** What a reconciliation found out about an operation. */
  reconciled(operation: Operation, finding: Finding['kind'], reason?: string): void;
  /** Parked for an hour, and what happened cannot be told. Wakes a person. */
  escalated(operation: Operation): void;
  /** What a person did to an operation. */
  intervened(operation: Operation, intervention: Intervention): void;
  changed(operation: Operation, from: State | 'new', outcome?: Outcome): void;
  /** The provider proved an effect of an operation whose record ended otherwise. Wakes a person. */
  contradicted(operation: Operation, providerRef: string): void;
  /** Something that heals by itself failed: a place that was not given back, say. */
  tolerated(what: string, id: OperationId, error: unknown): void;
  /** A wait that is kept in the table, to be sent again at `dueAtMs`. */
  kept(operation: Operation, reason: string, dueAtMs: number): void;
}

/** Told of the breaker's changes, and once a batch and once a run of the reconciler how budget and breaker stand. */
export interface ProviderTelemetry {
  provider(state: ProviderState): void;
  breaker(change: 'opened' | 'closed' | 'probed', reason: Breaker['reason'], details?: object): void;
}

/** The attention index: operations that no message will bring back by itself. */
export interface DueOperations {
  /** Those due at `nowMs` or before, oldest first in each shard, in bounded pages. */
  pages(nowMs: number): AsyncIterable<readonly Operation[]>;
  /** Sets the next due time, and that a person was told, if the operation still is as it was read. @returns whether it was */
  postpone(operation: Operation, dueAtMs: number, escalatedAtMs?: number): Promise<boolean>;
}
