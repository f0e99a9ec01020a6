import type { ConditionalUpdate } from '../../lambdas/adapters/table-client';
import type { Limits } from '../../lambdas/operation/limits';
import type { Operation } from '../../lambdas/operation/operation';
import type { Finding, Outcome } from '../../lambdas/operation/outcome';
import type { SettleRequest } from '../../lambdas/operation/ports';
import type { Worker } from '../../lambdas/runtime/worker-wiring';

/** A bug that is planted in what the code under test writes, sends or is told. */
export interface Mutant {
  readonly name: string;
  /** What the bug is. */
  readonly bug: string;
  readonly update?: (update: ConditionalUpdate, partitionKey: string) => ConditionalUpdate;
  readonly settle?: (request: SettleRequest) => SettleRequest;
  readonly limits?: (limits: Limits) => Limits;
  readonly sent?: (operation: Operation) => Operation;
  readonly outcome?: (outcome: Outcome) => Outcome;
  readonly finding?: (finding: Finding, operation: Operation, found: () => Finding) => Finding;
  readonly worker?: (worker: Worker) => Worker;
  /** A settle that failed is taken for one that was written. */
  readonly swallowsSettle?: true;
  /** Messages are taken off the queue when they are received. */
  readonly acknowledgesFirst?: true;
  /** Messages of parked operations are taken off the queue. */
  readonly acknowledgesParked?: true;
}
