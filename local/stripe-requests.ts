import type { Step } from './stripe-account';
import type { Params } from './stripe-params';

/** One HTTP request as it was received, also one that was refused or never answered. */
export interface RecordedRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly idempotencyKey: string | undefined;
  /** The query and the form body together, `{}` until the body was read to its end. */
  readonly params: Params;
  readonly rawBody: string;
  /** The `Stripe-Version` header. */
  readonly apiVersion: string | undefined;
  /** The `request-id` of its answer. */
  readonly requestId: string;
  /** What it was for; undefined for a URL that does not exist. */
  readonly step: Step | undefined;
  /** `tenantId/operationId` of the request's metadata or of the object that its path names. */
  readonly operation: string | undefined;
  readonly startedAtMs: number;
  /** Undefined while it is open. */
  readonly endedAtMs: number | undefined;
  /** Undefined when no whole answer was given, or the client had left. */
  readonly status: number | undefined;
  /** Whether it was answered from its key's memory. */
  readonly replayed: boolean;
}
