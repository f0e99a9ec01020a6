import { operationPartition, readOperation } from '../lambdas/adapters/operation-item';
import { table } from '../lambdas/adapters/table';
import type { TableClient } from '../lambdas/adapters/table-client';
import { viewOf } from '../lambdas/http/view';
import { type Decision, decide, directRefund } from '../lambdas/operation/delivery';
import { digestOf } from '../lambdas/operation/digest';
import type { Limits } from '../lambdas/operation/limits';
import { currentVersion, type Message, type Parsed, parseMessage } from '../lambdas/operation/message';
import type { Operation, OperationId } from '../lambdas/operation/operation';
import { type Hindrance, refundHindrance } from '../lambdas/operation/refund';
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
  /** Its record, or that of the charge that it refunds, was written by a newer build than this one. */
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

/** One look at the records of all messages, and of the charges that they refund, then a verdict on each. */
export async function judgeAll(
  messages: readonly HeldMessage[],
  client: TableClient,
  limits: Limits,
  nowMs: number,
): Promise<Map<HeldMessage, Verdict>> {
  const parsed = messages.map(
    (message) => [message, parseMessage(message.body, limits.maxMessageBytes)] as const,
  );
  const ids = parsed.flatMap(([, read]) => [idOf(read), chargeOf(read)]).filter((id) => id !== undefined);
  const items = await client.read(ids.map(operationPartition));
  const byPartition = new Map(items.map((item) => [String(item[table.partitionKey]), item]));
  const itemOf = (id: OperationId | undefined) => id && byPartition.get(operationPartition(id));
  return new Map(
    parsed.map(([message, read]) => [
      message,
      judge(read, { item: itemOf(idOf(read)), chargeItem: itemOf(chargeOf(read)) }, limits, nowMs),
    ]),
  );
}

/** What the table holds of a message's operation, and of the charge that a refund refunds; undefined where there is none. */
interface Items {
  readonly item: unknown;
  readonly chargeItem: unknown;
}

function judge(parsed: Parsed, { item, chargeItem }: Items, limits: Limits, nowMs: number): Verdict {
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
      const charge = chargeItem === undefined ? undefined : readOperation(chargeItem);
      const isChargeUnreadable = chargeItem !== undefined && charge === undefined;
      if (isUnreadable || isChargeUnreadable) {
        const whose = isUnreadable ? 'its record' : 'the record of its charge';
        const problem = `${whose} was written by a newer build, which alone can read it`;
        const redrive = { outcome: 'waits', why: 'unreadable_record' } as const;
        return { ...common, kind: 'UNREADABLE_RECORD', moneyMayHaveMoved: mayHaveMoved, redrive, problem };
      }
      const { kind, redrive, problem } = judgeJob(parsed.message, { operation, charge }, limits, nowMs);
      // A message with other inputs was never sent anywhere: the money of the record's inputs is not its own.
      const moneyMayHaveMoved = kind !== 'INPUT_CONFLICT' && mayHaveMoved;
      return { ...common, kind, moneyMayHaveMoved, redrive, problem };
    }
  }
}

function judgeJob(
  message: Message,
  {
    operation,
    charge,
  }: { readonly operation: Operation | undefined; readonly charge: Operation | undefined },
  limits: Limits,
  nowMs: number,
): Pick<Verdict, 'kind' | 'redrive' | 'problem'> {
  const { tenantId, operationId } = message;
  const refused = directRefund(message, operation, limits);
  if (refused) return { kind: 'DIRECT_REFUND', redrive: redriveOf(refused), problem: refused.problem };
  const inputDigest = digestOf(message);
  // As the worker will decide on it, if nothing changes until then.
  const sentAtMs = Math.max(nowMs, (operation?.parkedAtMs ?? 0) + 1);
  const decision = decide({ message, inputDigest, receiveCount: 1, sentAtMs }, operation, limits, nowMs);
  const hindrance =
    decision.kind === 'claim' && message.type === 'refund'
      ? refundHindrance(charge, message.operationId, message.input.amountMinor)
      : undefined;
  const redrive = hindrance ? redriveOfHindered(hindrance) : redriveOf(decision);
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

/**
 * A refund waits for its charge to end; any other hindrance fails it. Of a charge with too little left the worker first
 * gives back what a crash left held: then it runs after all.
 */
const redriveOfHindered = ({ error }: Hindrance): Redrive => ({
  outcome: error.code === 'charge_not_final' ? 'waits' : 'ends',
  why: error.code,
});

/** The charge that a refund refunds. */
function chargeOf(parsed: Parsed): OperationId | undefined {
  if (parsed.kind !== 'message' || parsed.message.type !== 'refund') return undefined;
  const { tenantId, input } = parsed.message;
  return { tenantId, operationId: input.chargeOperationId };
}

/** The operation that a body names, also one that is of no use otherwise. */
export function idOf(parsed: Parsed): OperationId | undefined {
  const { tenantId, operationId } = parsed.kind === 'message' ? parsed.message : parsed.ids;
  return tenantId !== undefined && operationId !== undefined ? { tenantId, operationId } : undefined;
}
