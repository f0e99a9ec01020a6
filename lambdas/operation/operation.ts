import type { ChargeInput } from './message';
import type { ChargeResult, OperationError } from './outcome';
import type { ParkedReason, State } from './state';

export interface OperationId {
  readonly tenantId: string;
  readonly operationId: string;
}

/** The durable record of one request to move money. Times are milliseconds since the epoch. */
export interface Operation extends OperationId {
  readonly type: 'charge';
  /** The message version that `input` was upcast to. */
  readonly version: number;
  readonly input: ChargeInput;
  readonly inputDigest: string;
  readonly state: State;
  /** The fencing token of the last claim. Every write after a claim is conditional on it. */
  readonly claimId?: string;
  /** Present exactly while running. */
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
  /** The provider's idempotency key: stored by the first claim, the same in every attempt. */
  readonly providerKey: string;
  /** Which parameters the adapter builds from `input`: stored by the first claim, so that a deploy changes no retry. */
  readonly providerParamsVersion: number;
  /** The provider's id of the effect, as soon as it is known. */
  readonly providerRef?: string;
  readonly result?: ChargeResult;
  readonly error?: OperationError;
  readonly parkedReason?: ParkedReason;
  /** Messages sent before it are on their way to the dead-letter queue; later ones are redrives. */
  readonly parkedAtMs?: number;
  readonly acceptedBy: 'api' | 'queue';
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  /** With `dueAtMs`, present exactly while no message will bring the operation back by itself. */
  readonly openShard?: number;
  readonly dueAtMs?: number;
  /** Seconds since the epoch: DynamoDB's TTL. Garbage collection, never logic. */
  readonly expiresAtSeconds?: number;
}
