import { type ChargeInput, oldestForm, type RefundInput, type SentMessage } from './message';
import type { EffectResult, OperationError } from './outcome';
import type { ParkedReason, State } from './state';

export interface OperationId {
  readonly tenantId: string;
  readonly operationId: string;
}

/** An operation as people write it. No id has a slash in it. */
export const nameOf = ({ tenantId, operationId }: OperationId): string => `${tenantId}/${operationId}`;

/** What an operation asks for. */
export type Job =
  | { readonly type: 'charge'; readonly input: ChargeInput }
  | {
      readonly type: 'refund';
      readonly input: RefundInput;
      /** The provider's reference of the charge, from the first claim on. */
      readonly chargeRef?: string;
    };

/** The durable record of one request to move money. */
export type Operation = OperationRecord & Job;

/** Times are milliseconds since the epoch. */
export interface OperationRecord extends OperationId {
  readonly inputDigest: string;
  readonly state: State;
  /** The fencing token of the last claim; before the first, that of the API request that accepted the operation. Every write after a claim is conditional on it. */
  readonly claimId?: string;
  /** When the last claim's lease ends, or ended. It holds the operation only while that is running. */
  readonly leaseExpiresAtMs?: number;
  /**
   * Attempts so far. A claim counts its attempt before the call, so that a crash needs no write; only proof
   * that nothing was sent takes it back. Never reset.
   */
  readonly attemptCount: number;
  /** The attempt number at which we stop trying by ourselves. A redrive raises it. */
  readonly attemptLimit: number;
  readonly redriveCount: number;
  /** From then on the provider may have acted. Set by a claim, removed by proof only. */
  readonly effectPossibleSinceMs?: number;
  /** The claim that set `effectPossibleSinceMs`: only its own "nothing was done" removes it. */
  readonly effectPossibleClaimId?: string;
  /** When a listing last proved that no effect existed: the provider window of later attempts counts from it. */
  readonly absentProvenAtMs?: number;
  /** The provider's idempotency key: stored by the first claim, the same in every attempt; only a person's proof of absence changes it. */
  readonly providerKey: string;
  /** Which parameters the adapter builds from `input`: stored by the first claim, so that a deploy changes no retry. */
  readonly providerParamsVersion: number;
  /** The provider's id of the effect, as soon as it is known. */
  readonly providerRef?: string;
  readonly result?: EffectResult;
  readonly error?: OperationError;
  readonly parkedReason?: ParkedReason;
  /** Messages sent before it are on their way to the dead-letter queue; later ones are redrives. */
  readonly parkedAtMs?: number;
  /** Parked for an hour, and what happened could not be found out: a person was told. */
  readonly escalatedAtMs?: number;
  /** What a person last did to it, beside the API. */
  readonly intervention?: Intervention;
  /** The caller changed its mind: takes effect where it is proven that no effect happened, and only there. */
  readonly cancelRequestedAtMs?: number;
  /** Never attempted by then, the operation fails. */
  readonly deadlineAtMs: number;
  /** Of a charge: what its refunds took or hold, by operation id, and the sum of it. In minor units. */
  readonly refunds?: Readonly<Record<string, RefundPart>>;
  readonly refundedMinor?: number;
  readonly acceptedBy: 'api' | 'queue';
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  /** With `dueAtMs`, present from when no message may bring the operation back by itself, until it ends. */
  readonly openShard?: number;
  readonly dueAtMs?: number;
  /** Seconds since the epoch: DynamoDB's TTL. Garbage collection, never logic. */
  readonly expiresAtSeconds?: number;
}

/** What a refund takes of its charge. */
export interface RefundPart {
  readonly amountMinor: number;
  readonly reservedAtMs: number;
}

/** `by` is who says so, at most 64 characters; `evidence` what it rests on, at most 120. */
export interface Intervention {
  readonly action: 'settled' | 'proven_absent' | 'retried' | 'cancelled' | 'discarded' | 'adopted';
  readonly by: string;
  readonly atMs: number;
  readonly evidence?: string;
}

/** A newer build wrote the record, and this one cannot read it: nothing is known, and nothing may be done. */
export class UnreadableRecord extends Error {
  override readonly name = 'UnreadableRecord';
  constructor({ operationId }: OperationId) {
    super(`The record of operation ${operationId} was written by a newer build, which alone can read it`);
  }
}

/** What is bound to an operation's id when it is first heard of, and never changed. */
export type Bound = Job &
  Pick<
    OperationRecord,
    | 'inputDigest'
    | 'providerKey'
    | 'providerParamsVersion'
    | 'attemptLimit'
    | 'deadlineAtMs'
    | 'acceptedBy'
    | 'createdAtMs'
  >;

/** The message of an operation, to be sent again, as every build that can run it can read it. */
export function messageOf(operation: Operation): SentMessage {
  const { tenantId, operationId, deadlineAtMs } = operation;
  const deadlineAt = new Date(deadlineAtMs).toISOString();
  return { ...oldestForm(operation), tenantId, operationId, deadlineAt };
}
