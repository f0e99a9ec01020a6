import { digestOf } from './digest';
import type { Limits } from './limits';
import type { Message } from './message';
import type { Bound, Operation } from './operation';

export interface BoundOptions {
  readonly message: Message;
  /** Of a refund: the charge, which has succeeded. */
  readonly charge?: Operation | undefined;
  readonly limits: Limits;
  readonly deadlineAtMs: number;
  readonly nowMs: number;
  readonly acceptedBy: Operation['acceptedBy'];
  /** Keeps two stacks on one provider account apart. At most 100 characters. */
  readonly providerKeyPrefix: string;
  /** The parameters that say all of its inputs. */
  readonly providerParamsVersion: number;
}

/** What an operation's id is bound to by its first write. */
export function boundTo({ message, charge, limits, nowMs, ...options }: BoundOptions): Bound {
  const job =
    message.type === 'charge'
      ? { type: message.type, input: message.input }
      : {
          type: message.type,
          input: message.input,
          ...(charge?.providerRef ? { chargeRef: charge.providerRef } : {}),
        };
  return {
    ...job,
    inputDigest: digestOf(message),
    providerKey: firstProviderKey(options.providerKeyPrefix, message),
    providerParamsVersion: options.providerParamsVersion,
    attemptLimit: limits.maxAttempts,
    deadlineAtMs: options.deadlineAtMs,
    acceptedBy: options.acceptedBy,
    createdAtMs: nowMs,
  };
}

/** The key of a step's first effect. The last part counts the proofs of absence that gave it a new one. */
const firstProviderKey = (prefix: string, { tenantId, operationId, type }: Message): string =>
  `${prefix}/${tenantId}/${operationId}/${type}/0`;

/** What an operation with a record is bound to already. */
export function boundOf(operation: Operation): Bound {
  const { inputDigest, providerKey, providerParamsVersion } = operation;
  const { attemptLimit, deadlineAtMs, acceptedBy, createdAtMs } = operation;
  const common = {
    inputDigest,
    providerKey,
    providerParamsVersion,
    attemptLimit,
    deadlineAtMs,
    acceptedBy,
    createdAtMs,
  };
  return operation.type === 'charge'
    ? { ...common, type: operation.type, input: operation.input }
    : {
        ...common,
        type: operation.type,
        input: operation.input,
        ...(operation.chargeRef ? { chargeRef: operation.chargeRef } : {}),
      };
}
