import type { Limits } from '../../lambdas/operation/limits';
import type { Operation } from '../../lambdas/operation/operation';
import type { Breaker } from '../../lambdas/operation/provider-state';
import type { State } from '../../lambdas/operation/state';
import type { CrashPoint } from '../crash-points';
import type { QueuedMessage } from '../jobs';

/**
 * Everything that the console page shows, as one JSON document. Times are milliseconds since the epoch on the stack's
 * clock, amounts are texts for people.
 */
export interface ConsoleDocument {
  /** When this run of the stack began: another one means that everything before it is gone. */
  readonly startedAtMs: number;
  readonly clockOffsetMs: number;
  readonly limits: Limits;
  /** Where an amount's fraction has not two digits, by currency. */
  readonly fractionDigits: Readonly<Record<string, number>>;
  readonly queue: {
    readonly visible: number;
    readonly inFlight: number;
    readonly delayed: number;
    /** Whether deliveries are held back. */
    readonly isHeld: boolean;
    readonly messages: readonly MessageRow[];
  };
  readonly deadLetters: { readonly total: number; readonly messages: readonly MessageRow[] };
  readonly operations: {
    readonly total: number;
    readonly byState: Readonly<Record<State, number>>;
    /** The latest, newest first. */
    readonly rows: readonly OperationRow[];
  };
  readonly tenants: readonly TenantRow[];
  readonly workers: {
    readonly alive: number;
    readonly busy: number;
    readonly started: number;
    readonly killed: number;
    /** The point at which the next delivery is killed. */
    readonly armed?: CrashPoint;
  };
  readonly provider: ProviderView;
  /** What happened, oldest first. */
  readonly activity: readonly Line[];
}

export interface MessageRow
  extends Pick<QueuedMessage, 'messageId' | 'place' | 'receiveCount' | 'backAtMs' | 'sentAtMs'> {
  /** `tenantId/operationId`; undefined when the body cannot be read. */
  readonly operation?: string;
  /** The amount, or what the body begins with when it cannot be read. */
  readonly content: string;
  /** Why the worker would not run it, when it said so. */
  readonly why?: string;
}

export interface OperationRow {
  /** `tenantId/operationId` */
  readonly key: string;
  readonly amount: string;
  readonly refunded?: string;
  /** What a refund of all that is left would take. */
  readonly refundableMinor: number;
  /** POSTs that the provider received. */
  readonly calls: number;
  /** Movements of money in the provider's ledger. */
  readonly movements: number;
  readonly record: Operation;
  readonly timeline: readonly Line[];
}

export interface TenantRow {
  readonly tenantId: string;
  readonly running: readonly string[];
  readonly lapsed: number;
  /** Null for no bound. */
  readonly maxRunning: number | null;
  readonly accepted: readonly string[];
  readonly maxAccepted: number | null;
}

export interface ProviderView {
  /** False when the stack charges through Stripe's test mode: then it has no ledger and takes no faults here. */
  readonly isStandIn: boolean;
  readonly calls: number;
  readonly openCalls: number;
  readonly charges: number;
  readonly refunds: number;
  /** Sums of what moved, a text for each currency. */
  readonly charged: readonly string[];
  readonly refunded: readonly string[];
  /** The latest, newest first. */
  readonly ledger: readonly LedgerRow[];
  /** Accepted by the provider and not final. */
  readonly onTheirWay: readonly {
    readonly id: string;
    readonly operation: string;
    readonly amount: string;
  }[];
  /** Faults that wait for their call. `times` is null for every call. */
  readonly faults: readonly { readonly what: string; readonly times: number | null }[];
  /** Present while no calls are made: it opened by itself, or a person paused the service. */
  readonly breaker?: Breaker;
  /** Of the budget's window that is under way. */
  readonly windowCalls: number;
  readonly windowFailures: number;
  /** Retries that the window still pays for. */
  readonly retriesLeft: number;
}

export interface LedgerRow {
  readonly id: string;
  readonly kind: 'charge' | 'refund';
  readonly operation: string;
  readonly amount: string;
  readonly atMs: number;
}

/** One thing that happened. */
export interface Line {
  readonly atMs: number;
  readonly kind: 'state' | 'message' | 'provider' | 'money' | 'worker' | 'you';
  /** `tenantId/operationId` */
  readonly operation?: string;
  readonly from?: string;
  readonly to?: string;
  readonly text: string;
  /** Whether something went wrong, for the eye. */
  readonly isBad?: boolean;
}
