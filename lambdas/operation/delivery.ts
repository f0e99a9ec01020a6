import { type Limits, leaseMs } from './limits';
import type { Message } from './message';
import type { Operation } from './operation';
import type { OperationError } from './outcome';
import { isTerminal, type ParkedReason } from './state';

/** One receipt of a message that was parsed. */
export interface Delivery {
  readonly message: Message;
  readonly inputDigest: string;
  /** SQS's ApproximateReceiveCount, from 1. */
  readonly receiveCount: number;
  /** When the message was sent, or sent again by a redrive. 0 where SQS did not say. */
  readonly sentAtMs: number;
}

/** From this delivery on a deferral is kept in the table, so that the receive limit is never reached by waiting. */
export const durableFromDelivery = 5;

/** What becomes of the message of a delivery. */
export type Disposition =
  /** Its operation's outcome, or (`kept`) when the reconciler sends it again, is durable: take it off the queue. */
  | { readonly kind: 'acknowledge'; readonly reason: 'settled' | 'replay' | 'kept' }
  /** Nothing happened, or nothing is known yet: it comes back after `delaySeconds` (0 to 43 200). */
  | { readonly kind: 'defer'; readonly reason: string; readonly delaySeconds: number }
  /** It can never be run: SQS moves it to the dead-letter queue. */
  | {
      readonly kind: 'reject';
      readonly reason: 'malformed' | 'input_conflict' | 'direct_refund';
      readonly problem: string;
    }
  /** Its operation is parked: SQS moves it to the dead-letter queue, from where a person redrives it. */
  | { readonly kind: 'giveUp'; readonly reason: ParkedReason | 'redrives_exhausted' };

/** What a look at the record says. A disposition needs no write; the others are writes, which decide. */
export type Decision =
  | Disposition
  | { readonly kind: 'claim'; readonly isRedrive: boolean }
  /** What happened is asked for before anything else: parked for `parkedReason` where it cannot be told. */
  | { readonly kind: 'reconcile'; readonly parkedReason: ParkedReason }
  | { readonly kind: 'park'; readonly parkedReason: ParkedReason }
  | { readonly kind: 'fail'; readonly error: OperationError }
  | { readonly kind: 'cancel' };

/** Of a refund that nobody accepted, where only the API may: without a record it came straight to the queue. */
export const directRefund = (
  { type }: Message,
  operation: Operation | undefined,
  { allowDirectRefunds }: Limits,
): Extract<Disposition, { kind: 'reject' }> | undefined =>
  type !== 'refund' || operation || allowDirectRefunds
    ? undefined
    : {
        kind: 'reject',
        reason: 'direct_refund',
        problem: 'refunds are accepted by the API only; the setting allowDirectRefunds would allow them here',
      };

/** A parked operation may be redriven so often, each time with a fresh set of attempts. */
export const maxRedrives = 5;

const hourMs = 3_600_000;

/** An effect that became possible at this time or before is outside the provider window. */
export const windowOpensAtMs = (limits: Limits, nowMs: number): number =>
  nowMs - limits.providerWindowHours * hourMs + leaseMs(limits);

/** What the provider window counts from: the first possible effect, or the listing that proved that there was none. */
const windowSinceMs = ({ effectPossibleSinceMs, absentProvenAtMs }: Operation, nowMs: number): number =>
  effectPossibleSinceMs ?? absentProvenAtMs ?? nowMs;

/** The provider only repeats what it saved under the key: nothing but a person's proof of absence gives it a new one. */
export const isKeySpent = ({ parkedReason }: Operation): boolean =>
  parkedReason === 'provider_key_spent' || parkedReason === 'provider_conflict';

/** An attempt was made before, or the operation was given up before: the retry budget pays for the next one. */
export const isRetry = (operation: Operation | undefined): boolean =>
  operation !== undefined &&
  (operation.attemptCount > 0 || operation.redriveCount > 0 || operation.state === 'parked');

/** What the record as it is means for a delivery. Also the answer when a write is superseded. */
export function decide(
  delivery: Delivery,
  operation: Operation | undefined,
  limits: Limits,
  nowMs: number,
): Decision {
  if (!operation) {
    if (deadlineMs(delivery.message, limits, nowMs) <= nowMs)
      return { kind: 'fail', error: deadlineExceeded };
    return { kind: 'claim', isRedrive: false };
  }
  if (operation.inputDigest !== delivery.inputDigest) {
    const problem = `operation ${operation.operationId} of tenant ${operation.tenantId} is bound to other inputs; send changed inputs under a new operationId`;
    return { kind: 'reject', reason: 'input_conflict', problem };
  }
  const { state, effectPossibleSinceMs } = operation;
  // A settling operation is brought to its end by the reconciler; its message has no more to do.
  if (isTerminal(state) || state === 'settling') return { kind: 'acknowledge', reason: 'replay' };
  if (state === 'running' && leaseEndMs(operation) >= nowMs) {
    return { kind: 'defer', reason: 'live_lease', delaySeconds: secondsUntil(leaseEndMs(operation), nowMs) };
  }
  if (operation.cancelRequestedAtMs !== undefined && effectPossibleSinceMs === undefined)
    return { kind: 'cancel' };
  const isWindowClosed = windowSinceMs(operation, nowMs) <= windowOpensAtMs(limits, nowMs);
  if (state === 'parked') return decideParked(delivery, operation, isWindowClosed, nowMs);
  if (isWindowClosed) return { kind: 'reconcile', parkedReason: 'provider_window_closed' };
  if (operation.attemptCount >= operation.attemptLimit)
    return { kind: 'park', parkedReason: 'attempts_exhausted' };
  if (isPastDeadline(operation, nowMs)) return { kind: 'fail', error: deadlineExceeded };
  return { kind: 'claim', isRedrive: false };
}

/**
 * When a new operation's time to be attempted ends: as its caller said, else counted from when it is first heard of. A
 * message that lay in a backlog before that is still wanted: nobody was told otherwise.
 */
export function deadlineMs({ deadlineAt }: Message, limits: Limits, nowMs: number): number {
  return deadlineAt === undefined ? nowMs + limits.deadlineHours * hourMs : Date.parse(deadlineAt);
}

/** What was attempted before goes on, whatever its deadline says. */
export const isPastDeadline = (
  { attemptCount, effectPossibleSinceMs, deadlineAtMs }: Operation,
  nowMs: number,
): boolean => attemptCount === 0 && effectPossibleSinceMs === undefined && deadlineAtMs <= nowMs;

const deadlineExceeded: OperationError = {
  code: 'deadline_exceeded',
  message: 'The operation was not attempted before its deadline; nothing was done.',
};

function decideParked(
  delivery: Delivery,
  operation: Operation,
  isWindowClosed: boolean,
  nowMs: number,
): Decision {
  const reason = operation.parkedReason ?? 'attempts_exhausted';
  const isDraining = delivery.sentAtMs <= (operation.parkedAtMs ?? 0);
  if (isDraining) return { kind: 'giveUp', reason };
  if (isKeySpent(operation)) return { kind: 'reconcile', parkedReason: reason };
  if (isWindowClosed) return { kind: 'reconcile', parkedReason: 'provider_window_closed' };
  if (isPastDeadline(operation, nowMs)) return { kind: 'fail', error: deadlineExceeded };
  if (operation.redriveCount >= maxRedrives) return { kind: 'giveUp', reason: 'redrives_exhausted' };
  return { kind: 'claim', isRedrive: true };
}

const leaseEndMs = (operation: Operation): number => operation.leaseExpiresAtMs ?? 0;

/** Whole seconds until just after `atMs`, at least 1. */
export const secondsUntil = (atMs: number, nowMs: number): number =>
  Math.max(1, Math.floor((atMs - nowMs) / 1000) + 1);

/**
 * Exponential back-off with full jitter: anything from 1 s to the base doubled with every delivery, at most the cap.
 * @param random 0 to below 1
 */
export function backOffSeconds(limits: Limits, receiveCount: number, random: () => number): number {
  const ceiling = Math.min(
    limits.retryCapSeconds,
    limits.retryBaseSeconds * 2 ** Math.min(receiveCount - 1, 30),
  );
  return Math.max(1, Math.ceil(random() * ceiling));
}
