import type { Message } from './message';
import type { Operation, OperationId } from './operation';
import type { Outcome } from './outcome';
import type { ParkedReason, Settlement } from './state';

/** Milliseconds since the epoch. */
export type Clock = () => number;

/** What a claim asks for; the store writes it only where every clause of its condition holds. */
export interface ClaimRequest {
  readonly message: Message;
  readonly inputDigest: string;
  readonly claimId: string;
  readonly nowMs: number;
  readonly leaseExpiresAtMs: number;
  /** An effect that became possible before this is outside the provider window. */
  readonly windowOpensAtMs: number;
  /** Stored by the first claim and returned unchanged by every later one. */
  readonly first: Pick<Operation, 'providerKey' | 'providerParamsVersion' | 'attemptLimit' | 'acceptedBy'>;
  /** A parked operation whose message was sent again: raises the attempt limit. */
  readonly redrive?: {
    readonly sentAtMs: number;
    readonly maxAttempts: number;
    readonly maxRedrives: number;
  };
}

export type ClaimWrite =
  | { readonly kind: 'claimed'; readonly operation: Operation }
  /** A clause did not hold; the operation as it is says which. */
  | { readonly kind: 'refused'; readonly operation: Operation };

/** What a settle asks for. Conditional on the claim; with proof of an effect, on any state that is not terminal. */
export interface SettleRequest {
  /** The operation as the claim left it. */
  readonly operation: Operation;
  readonly claimId: string;
  readonly settlement: Settlement;
  readonly nowMs: number;
  /** When the delivery's message was sent: a park must not be earlier, or the message would look redriven. */
  readonly sentAtMs: number;
}

/** Parks an operation that no claim holds, if it still is as it was seen. */
export interface ParkRequest {
  readonly seen: Operation;
  readonly parkedReason: ParkedReason;
  readonly nowMs: number;
  readonly sentAtMs: number;
}

export type SettleWrite =
  | { readonly kind: 'settled'; readonly operation: Operation }
  /** Another claim, or a terminal state, came first; nothing was written. Undefined: there is no record any more. */
  | { readonly kind: 'superseded'; readonly operation: Operation | undefined };

/**
 * The operations table. Reads are consistent; every write is one conditional update of one item, and a repeated
 * write whose first answer was lost recognises its own work. Throws only when the store cannot be reached.
 */
export interface OperationStore {
  /** The records of the given ids that exist, in one batch read. At most 100 ids. */
  look(ids: readonly OperationId[]): Promise<Seen>;
  claim(request: ClaimRequest): Promise<ClaimWrite>;
  settle(request: SettleRequest): Promise<SettleWrite>;
  park(request: ParkRequest): Promise<SettleWrite>;
  /** Moves the end of a terminal record's retention to a full period from now. */
  extendRetention(id: OperationId, nowMs: number): Promise<void>;
}

export interface Seen {
  /** By `keyOf`. */
  readonly operations: ReadonlyMap<string, Operation>;
  /** Keys of records that this build cannot read. */
  readonly unreadable: ReadonlySet<string>;
}

/** One key of an operation, for its record and for maps. Neither part can contain `#`. */
export const keyOf = ({ tenantId, operationId }: OperationId): string => `${tenantId}#${operationId}`;

/** Moves money. Never throws for what a provider or a network can do. */
export interface Provider {
  /** @param timeoutMs the longest that the call may take, all of its parts together */
  charge(operation: Operation, timeoutMs: number): Promise<Outcome>;
  /** The parameters that a new operation's attempts are built with. */
  readonly paramsVersion: number;
}
