import type { Limits } from './limits';
import type { Message } from './message';
import type { Operation } from './operation';
import { isTerminal, type ParkedReason } from './state';

/** One receipt of a message that was parsed. */
export interface Delivery {
  readonly message: Message;
  readonly inputDigest: string;
  /** SQS's ApproximateReceiveCount, from 1. */
  readonly receiveCount: number;
  /** When the message was sent, or sent again by a redrive. */
  readonly sentAtMs: number;
}

/** What becomes of the message of a delivery. */
export type Disposition =
  /** Its operation's outcome is durable: take it off the queue. */
  | { readonly kind: 'acknowledge'; readonly reason: 'settled' | 'replay' }
  /** Nothing happened, or nothing is known yet: it comes back after `delaySeconds` (0 to 43 200). */
  | { readonly kind: 'defer'; readonly reason: string; readonly delaySeconds: number }
  /** It can never be run: SQS moves it to the dead-letter queue. */
  | { readonly kind: 'reject'; readonly reason: 'malformed' | 'input_conflict'; readonly problem: string }
  /** Its operation is parked: SQS moves it to the dead-letter queue, from where a person redrives it. */
  | { readonly kind: 'giveUp'; readonly reason: ParkedReason | 'redrives_exhausted' };

/** What a look at the record says. A disposition needs no write; the others are writes, which decide. */
export type Decision =
  | Disposition
  | { readonly kind: 'claim'; readonly isRedrive: boolean }
  | { readonly kind: 'park'; readonly parkedReason: ParkedReason };

/** A parked operation may be redriven so often, each time with a fresh set of attempts. */
export const maxRedrives = 5;

const hourMs = 3_600_000;

/** An effect that became possible at this time or before is outside the provider window. */
export const windowOpensAtMs = (limits: Limits, nowMs: number): number =>
  nowMs - limits.providerWindowHours * hourMs;

/** What the record as it is means for a delivery. Also the answer when a claim is refused. */
export function decide(
  delivery: Delivery,
  operation: Operation | undefined,
  limits: Limits,
  nowMs: number,
): Decision {
  if (!operation) return { kind: 'claim', isRedrive: false };
  if (operation.inputDigest !== delivery.inputDigest) {
    const problem = `operation ${operation.operationId} of tenant ${operation.tenantId} is bound to other inputs; send changed inputs under a new operationId`;
    return { kind: 'reject', reason: 'input_conflict', problem };
  }
  // A settling operation is brought to its end by the reconciler; its message has no more to do.
  if (isTerminal(operation.state) || operation.state === 'settling')
    return { kind: 'acknowledge', reason: 'replay' };
  if (operation.state === 'running' && leaseEndMs(operation) >= nowMs) {
    return { kind: 'defer', reason: 'live_lease', delaySeconds: secondsUntil(leaseEndMs(operation), nowMs) };
  }
  const isWindowClosed = (operation.effectPossibleSinceMs ?? nowMs) <= windowOpensAtMs(limits, nowMs);
  if (operation.state === 'parked') return decideParked(delivery, operation, isWindowClosed);
  if (isWindowClosed) return { kind: 'park', parkedReason: 'provider_window_closed' };
  if (operation.attemptCount >= operation.attemptLimit)
    return { kind: 'park', parkedReason: 'attempts_exhausted' };
  return { kind: 'claim', isRedrive: false };
}

function decideParked(delivery: Delivery, operation: Operation, isWindowClosed: boolean): Decision {
  const reason = operation.parkedReason ?? 'attempts_exhausted';
  const isDraining = delivery.sentAtMs <= (operation.parkedAtMs ?? 0);
  if (isDraining) return { kind: 'giveUp', reason };
  if (isWindowClosed) return { kind: 'giveUp', reason: 'provider_window_closed' };
  // The provider repeats its saved error under this key: only a proof of absence gives it a new one.
  if (reason === 'provider_key_spent' || reason === 'provider_conflict') return { kind: 'giveUp', reason };
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
