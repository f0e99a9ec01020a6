import type { EffectResult, OperationError, Outcome } from './outcome';

export const states = [
  'queued',
  'running',
  'settling',
  'parked',
  'succeeded',
  'failed',
  'cancelled',
] as const;
export type State = (typeof states)[number];

/** Every legal move. A terminal state is never changed. */
export const legalMoves: Readonly<Record<State, readonly State[]>> = {
  queued: ['queued', 'running', 'settling', 'parked', 'succeeded', 'failed', 'cancelled'],
  running: ['running', 'queued', 'settling', 'parked', 'succeeded', 'failed', 'cancelled'],
  settling: ['succeeded', 'failed', 'parked'],
  parked: ['running', 'queued', 'settling', 'succeeded', 'failed', 'cancelled'],
  succeeded: [],
  failed: [],
  cancelled: [],
};

/** Whether an operation has ended: no move leads out of its state, and no write changes its outcome. */
export const isTerminal = (state: State): boolean => legalMoves[state].length === 0;

/** Why we stopped trying by ourselves. */
export const parkedReasons = [
  /** As many attempts as allowed ended without a known outcome. */
  'attempts_exhausted',
  /** The provider may have forgotten the key: another POST could be a second charge. */
  'provider_window_closed',
  /** The provider saved an error under the key and will only repeat it. */
  'provider_key_spent',
  /** The provider knows the key with other parameters. */
  'provider_conflict',
  /** 403: refused for this operation's account or customer. */
  'provider_forbidden',
  /** Refused as invalid, while an earlier attempt may have had an effect. */
  'earlier_attempt_unproven',
  /** The provider says that it was done before, and we have not found it to be ours. */
  'effect_exists',
] as const;
export type ParkedReason = (typeof parkedReasons)[number];

/** What a settle writes. `effect: 'none'` removes the fact that an effect is possible; `'unchanged'` keeps it. */
export type Settlement =
  | { readonly state: 'succeeded'; readonly providerRef: string; readonly result: EffectResult }
  | { readonly state: 'settling'; readonly providerRef: string }
  | { readonly state: 'failed'; readonly error: OperationError; readonly providerRef?: string }
  /** Only from a proof that nothing was done, and nothing was possible before. */
  | { readonly state: 'cancelled' }
  | ({ readonly state: 'queued'; readonly reason: string; readonly providerRef?: string } & Evidence)
  /** From a reconciliation or a person: no effect exists, so the operation is as good as new. The key is the one to go on with. */
  | {
      readonly state: 'queued';
      readonly reason: 'absence_proven';
      readonly effect: 'absent';
      readonly providerKey: string;
    }
  | ({
      readonly state: 'parked';
      readonly parkedReason: ParkedReason;
      readonly error?: OperationError;
      readonly providerRef?: string;
    } & Evidence);

interface Evidence {
  readonly effect: 'none' | 'unchanged';
  /** False when the attempt proved that nothing was sent: it then was none, and is not counted. */
  readonly countsAsAttempt: boolean;
}

/** What the claim found, as far as the next state depends on it. */
export interface ClaimFacts {
  /** This claim was the first to make an effect possible, so its own "nothing was done" proves that none happened. */
  readonly isFirstEffect: boolean;
  readonly attemptsLeft: number;
}

/** From the outcome of an attempt to what is settled: with `legalMoves`, the whole state machine of the worker. */
export function settlementOf(outcome: Outcome, { isFirstEffect, attemptsLeft }: ClaimFacts): Settlement {
  const nothingDone = { effect: isFirstEffect ? 'none' : 'unchanged', countsAsAttempt: false } as const;
  const perhapsDone = { effect: 'unchanged', countsAsAttempt: true } as const;
  switch (outcome.kind) {
    case 'succeeded':
      return { state: 'succeeded', providerRef: outcome.providerRef, result: outcome.result };
    case 'accepted':
      return { state: 'settling', providerRef: outcome.providerRef };
    case 'declined':
      return { state: 'failed', error: outcome.error, ...referenceOf(outcome) };
    case 'invalid':
      if (isFirstEffect) return { state: 'failed', error: outcome.error };
      return {
        state: 'parked',
        parkedReason: 'earlier_attempt_unproven',
        error: outcome.error,
        ...perhapsDone,
      };
    case 'effectExists':
      return { state: 'parked', parkedReason: 'effect_exists', error: outcome.error, ...perhapsDone };
    case 'conflict':
      return { state: 'parked', parkedReason: 'provider_conflict', error: outcome.error, ...perhapsDone };
    case 'forbidden':
      return { state: 'parked', parkedReason: 'provider_forbidden', error: outcome.error, ...nothingDone };
    case 'notSent':
      return { state: 'queued', reason: outcome.reason, ...nothingDone };
    case 'unknown':
      if (outcome.keySpent) {
        return {
          state: 'parked',
          parkedReason: 'provider_key_spent',
          ...referenceOf(outcome),
          ...perhapsDone,
        };
      }
      if (attemptsLeft <= 0) {
        return {
          state: 'parked',
          parkedReason: 'attempts_exhausted',
          ...referenceOf(outcome),
          ...perhapsDone,
        };
      }
      return { state: 'queued', reason: outcome.reason, ...referenceOf(outcome), ...perhapsDone };
  }
}

/** The provider's reference, where the outcome has one: stored as soon as it is known. */
const referenceOf = ({ providerRef }: { readonly providerRef?: string }) =>
  providerRef === undefined ? {} : { providerRef };
