import type { Limits } from './limits';
import type { Outcome } from './outcome';

/** Why no calls are made: the breaker opened by itself, or a person paused the service. */
export const openReasons = ['failures', 'unauthorized', 'paused'] as const;
export type OpenReason = (typeof openReasons)[number];

/** What the whole service knows of its provider, in one small record, or in each of its shards. */
export interface ProviderState {
  readonly shard: number;
  /** When the window began that the counts and the tokens are of. */
  readonly windowStartMs: number;
  /** Calls of the window that were answered, or should have been. */
  readonly windowCalls: number;
  /** Those of them that say that the provider is not well. */
  readonly windowFailures: number;
  /** What the window's retries may still cost: `tokensPerRetry` each. */
  readonly retryTokens: number;
  /** Present while no calls are made. */
  readonly breaker?: Breaker;
}

export interface Breaker {
  readonly reason: OpenReason;
  readonly openedAtMs: number;
  /** From then on one call may find out whether the provider is well again. Never, while a person keeps the service paused. */
  readonly probeAtMs?: number;
  /** Who paused the service, and why. */
  readonly note?: string;
}

/** A first attempt earns `retryBudgetPercent` tokens. */
export const tokensPerRetry = 100;

/** A shard's tokens at the start of a window. */
export const floorTokens = ({ retryBudgetFloor, providerShards }: Limits): number =>
  Math.floor((retryBudgetFloor * tokensPerRetry) / providerShards);

/** The window that is under way: the clock's, or the record's where another worker's clock is ahead. */
export function windowStartOf(limits: Limits, state: ProviderState | undefined, nowMs: number): number {
  const lengthMs = limits.retryBudgetWindowSeconds * 1000;
  return Math.max(Math.floor(nowMs / lengthMs) * lengthMs, state?.windowStartMs ?? 0);
}

/** Retries that the window's tokens still pay for. */
export function retriesLeft(limits: Limits, state: ProviderState | undefined, nowMs: number): number {
  const isOfThisWindow = state?.windowStartMs === windowStartOf(limits, state, nowMs);
  return Math.floor((isOfThisWindow ? state.retryTokens : floorTokens(limits)) / tokensPerRetry);
}

/** Whether the window's calls say that the provider is not well. */
export const isFailing = (limits: Limits, { windowCalls, windowFailures }: ProviderState): boolean =>
  windowCalls >= limits.breakerMinCalls && windowFailures >= windowCalls * limits.breakerFailureRatio;

/** What an attempt says of the provider: nothing, where none was made. */
export type Health = 'well' | 'failing' | 'unauthorized' | 'uncalled';

/**
 * A refusal shows a provider that works. What one customer or one key meets (a lock, a key in use, a saved error) says
 * nothing of the others, and must not stop them.
 */
export function healthOf(outcome: Outcome): Health {
  switch (outcome.kind) {
    case 'succeeded':
    case 'accepted':
    case 'declined':
    case 'invalid':
    case 'effectExists':
    case 'conflict':
    case 'forbidden':
      return 'well';
    case 'notSent':
      switch (outcome.reason) {
        case 'unauthorized':
          return 'unauthorized';
        case 'rate_limited':
        case 'connection_refused':
        case 'customer_unknown':
          return 'failing';
        case 'lock_timeout':
          return 'well';
        case 'provider_key_missing':
        case 'params_version_unknown':
        case 'out_of_time':
          return 'uncalled';
      }
      break;
    case 'unknown':
      return !outcome.keySpent && /^(timeout|connection_lost|status_5\d\d)$/.test(outcome.reason)
        ? 'failing'
        : 'well';
  }
}
