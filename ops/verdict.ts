import { operationPartition, readOperation } from '../lambdas/adapters/operation-item';
import { table } from '../lambdas/adapters/table';
import type { TableClient } from '../lambdas/adapters/table-client';
import { viewOf } from '../lambdas/http/view';
import { type Decision, decide, directRefund } from '../lambdas/operation/delivery';
import { digestOf } from '../lambdas/operation/digest';
import type { Limits } from '../lambdas/operation/limits';
import { currentVersion, type Message, type Parsed, parseMessage } from '../lambdas/operation/message';
import type { Operation, OperationId } from '../lambdas/operation/operation';
import { isTerminal } from '../lambdas/operation/state';
import type { HeldMessage } from './dead-letter-queue';

/** Why a message is where it is, by its body and its operation's record. */
export type Kind =
  /** Its operation has no record, or no attempt: nothing was ever called. */
  | 'NEVER_STARTED'
  /** We stopped trying; `parkedReason` says why. */
  | 'PARKED'
  /** Its operation goes on without it: another message, a lease or a due time will bring it back. */
  | 'UNDER_WAY'
  /** Its operation has ended. */
  | 'ENDED'
  /** Its id is bound to other inputs. */
  | 'INPUT_CONFLICT'
  | 'MALFORMED'
  /** Written by a newer producer than this build knows. */
  | 'UNSUPPORTED_VERSION'
  /** A refund sent straight to the queue, where that is not allowed. */
  | 'DIRECT_REFUND'
  /** The record was written by a newer build than this one. */
  | 'UNREADABLE_RECORD';

/** What becomes of the message when it is redriven. None of them can move money twice. */
export type Redrive =
  /** Its operation is attempted. */
  | { readonly outcome: 'runs' }
  /** Its operation has an outcome: the message is acknowledged, and nothing is called. */
  | { readonly outcome: 'acknowledged' }
  /** Its operation ends without a call. */
  | { readonly outcome: 'ends'; readonly why: string }
  /** Stripe is asked what happened first: settled where that can be told, else refused for the reason that it has. */
  | { readonly outcome: 'reconciled'; readonly why: string }
  /** It waits in the queue for something else first. */
  | { readonly outcome: 'waits'; readonly why: string }
  /** It is refused again and comes back to the dead-letter queue. */
  | { readonly outcome: 'refused'; readonly why: string };

export interface Verdict {
  readonly kind: Kind;
  readonly parsed: Parsed;
  /** As far as the body names a valid one. */
  readonly id: OperationId | undefined;
  /** The record under that id, if this build can read it. For a conflict that is the other inputs' record. */
  readonly operation: Operation | undefined;
  /** Whether this message's job moved money or may have. Unknown counts as yes. */
  readonly moneyMayHaveMoved: boolean;
  readonly redrive: Redrive;
  /** What is wrong with the message, where something is. */
  readonly problem: string | undefined;
}

/** One look at the records of all messages, then a verdict on each. */
export async function judgeAll(
  messages: readonly HeldMessage[],
  client: TableClient,
  limits: Limits,
  nowMs: number,
): Promise<Map<HeldMessage, Verdict>> {
  const parsed = messages.map(
    (message) => [message, parseMessage(message.body, limits.maxMessageBytes)] as const,
  );
  const ids = parsed.flatMap(([, read]) => idOf(read) ?? []);
  const items = await client.read(ids.map(operationPartition));
  const byPartition = new Map(items.map((item) => [String(item[table.partitionKey]), item]));
  return new Map(
    parsed.map(([message, read]) => {
      const id = idOf(read);
      return [message, judge(read, id && byPartition.get(operationPartition(id)), limits, nowMs)];
    }),
  );
}

/** @param item the table's item under the message's id; undefined when there is none */
export function judge(parsed: Parsed, item: unknown, limits: Limits, nowMs: number): Verdict {
  const id = idOf(parsed);
  const operation = item === undefined ? undefined : readOperation(item);
  const isUnreadable = item !== undefined && operation === undefined;
  const common = { parsed, id, operation, problem: undefined };
  const mayHaveMoved = isUnreadable || (operation !== undefined && viewOf(operation).effectPossible);
  switch (parsed.kind) {
    case 'malformed': {
      const { problem } = parsed;
      const redrive = { outcome: 'refused', why: 'malformed' } as const;
      return { ...common, kind: 'MALFORMED', moneyMayHaveMoved: false, redrive, problem };
    }
    case 'futureVersion': {
      const problem = `it is of version ${parsed.version}, and this build reads up to ${currentVersion}`;
      const redrive = { outcome: 'refused', why: 'unsupported_version' } as const;
      return { ...common, kind: 'UNSUPPORTED_VERSION', moneyMayHaveMoved: mayHaveMoved, redrive, problem };
    }
    case 'message': {
      if (isUnreadable) {
        const problem = 'its record was written by a newer build, which alone can read it';
        const redrive = { outcome: 'waits', why: 'unreadable_record' } as const;
        return { ...common, kind: 'UNREADABLE_RECORD', moneyMayHaveMoved: true, redrive, problem };
      }
      const { kind, redrive, problem } = judgeJob(parsed.message, operation, limits, nowMs);
      // A message with other inputs was never sent anywhere: the money of the record's inputs is not its own.
      const moneyMayHaveMoved = kind !== 'INPUT_CONFLICT' && mayHaveMoved;
      return { ...common, kind, moneyMayHaveMoved, redrive, problem };
    }
  }
}

function judgeJob(
  message: Message,
  operation: Operation | undefined,
  limits: Limits,
  nowMs: number,
): Pick<Verdict, 'kind' | 'redrive' | 'problem'> {
  const { tenantId, operationId } = message;
  const refused = directRefund(message, operation, limits);
  if (refused) return { kind: 'DIRECT_REFUND', redrive: redriveOf(refused), problem: refused.problem };
  const inputDigest = digestOf(message);
  // As the worker will decide on it, if nothing changes until then.
  const sentAtMs = Math.max(nowMs, (operation?.parkedAtMs ?? 0) + 1);
  const redrive = redriveOf(
    decide({ message, inputDigest, receiveCount: 1, sentAtMs }, operation, limits, nowMs),
  );
  if (operation && operation.inputDigest !== inputDigest) {
    const problem = `operation ${operationId} of tenant ${tenantId} is bound to other inputs`;
    return { kind: 'INPUT_CONFLICT', redrive, problem };
  }
  return { kind: kindOf(operation), redrive, problem: undefined };
}

function kindOf(operation: Operation | undefined): Kind {
  if (!operation) return 'NEVER_STARTED';
  if (isTerminal(operation.state)) return 'ENDED';
  if (operation.state === 'parked') return 'PARKED';
  return operation.attemptCount === 0 && operation.effectPossibleSinceMs === undefined
    ? 'NEVER_STARTED'
    : 'UNDER_WAY';
}

function redriveOf(decision: Decision): Redrive {
  switch (decision.kind) {
    case 'claim':
      return { outcome: 'runs' };
    case 'acknowledge':
      return { outcome: 'acknowledged' };
    case 'defer':
      return { outcome: 'waits', why: decision.reason };
    case 'fail':
      return { outcome: 'ends', why: decision.error.code };
    case 'cancel':
      return { outcome: 'ends', why: 'cancelled' };
    case 'reconcile':
      return { outcome: 'reconciled', why: decision.parkedReason };
    case 'park':
      return { outcome: 'refused', why: decision.parkedReason };
    case 'reject':
    case 'giveUp':
      return { outcome: 'refused', why: decision.reason };
  }
}

/** The operation that a body names, also one that is of no use otherwise. */
export function idOf(parsed: Parsed): OperationId | undefined {
  const { tenantId, operationId } = parsed.kind === 'message' ? parsed.message : parsed.ids;
  return tenantId !== undefined && operationId !== undefined ? { tenantId, operationId } : undefined;
}
