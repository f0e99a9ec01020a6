import { isKeySpent, maxRedrives } from './delivery';
import { type GiveBackPorts, giveBack } from './give-back';
import { type Limits, providerTimeoutMs } from './limits';
import type { Intervention, Operation } from './operation';
import type { Finding } from './outcome';
import type { Clock, Provider } from './ports';
import { isTerminal, type Settlement, settlementOf } from './state';

export interface ReconcilePorts extends GiveBackPorts {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly limits: Limits;
}

export type Reconciled =
  /** What happened is known, and written. */
  | { readonly kind: 'settled'; readonly operation: Operation }
  /** Nothing happened: it is queued as good as new. */
  | { readonly kind: 'absent'; readonly operation: Operation }
  /** It cannot be told, or not yet: nothing was written. */
  | { readonly kind: 'open'; readonly reason: string }
  /** The provider cannot be asked at the moment. */
  | { readonly kind: 'unavailable'; readonly reason: string }
  /** Another write came first. */
  | { readonly kind: 'superseded'; readonly operation: Operation | undefined };

/**
 * Asks the provider what happened to an operation that no live claim holds, and settles it: through the worker's own
 * settle, on condition that the operation still is as it was read. Nothing but proof changes what is known.
 * @param dueAtMs when the reconciler sends an operation again that proved to have no effect; without it a message that is on the queue brings it back
 */
export async function reconcile(
  ports: ReconcilePorts,
  seen: Operation,
  dueAtMs?: number,
): Promise<Reconciled> {
  const { provider, telemetry, limits, clock } = ports;
  const finding = await provider.find(seen, providerTimeoutMs(limits));
  const meaning = meaningOf(finding, seen, limits, clock());
  telemetry.reconciled(seen, finding.kind, 'reason' in meaning ? meaning.reason : undefined);
  if ('kind' in meaning) return meaning;
  return settleSeen(ports, seen, meaning, { ...(dueAtMs === undefined ? {} : { dueAtMs }) });
}

type Undecided = Extract<Reconciled, { kind: 'open' | 'unavailable' }>;

function meaningOf(finding: Finding, seen: Operation, limits: Limits, nowMs: number): Settlement | Undecided {
  switch (finding.kind) {
    case 'found': {
      const { outcome } = finding;
      if (outcome.kind === 'accepted' && seen.state === 'settling') return open('still_settling');
      return settlementOf(outcome, { isFirstEffect: false, attemptsLeft: 0 });
    }
    case 'absent':
      return absent(seen, limits, nowMs);
    case 'unknown':
      return open(finding.reason);
    case 'unavailable':
      return { kind: 'unavailable', reason: finding.reason };
  }
}

/** Absence is proof only where the provider never returned a reference, and no request can still be on its way. */
function absent(seen: Operation, limits: Limits, nowMs: number): Settlement | Undecided {
  if (seen.providerRef !== undefined) return open('reference_not_listed');
  // Nothing was called since the last proof: there is no request that could be on its way.
  const mayLand = seen.effectPossibleSinceMs !== undefined;
  if (mayLand && nowMs < quietEndMs(seen, limits)) return open('quiet_hour');
  if (seen.cancelRequestedAtMs !== undefined) return { state: 'cancelled' };
  // The provider said that it was done before, and nothing that was done is ours.
  if (seen.parkedReason === 'effect_exists' && seen.error) return { state: 'failed', error: seen.error };
  if (isKeySpent(seen)) return open('key_spent');
  if (seen.redriveCount >= maxRedrives) return open('redrives_exhausted');
  return absenceProven(seen.providerKey);
}

/**
 * What is settled once it is proven that no effect exists and none can land any more: queued, with a fresh set of attempts.
 * @param providerKey the key to go on with: the same one, or the next where the provider only repeats itself under it
 */
export const absenceProven = (providerKey: string): Settlement => ({
  state: 'queued',
  reason: 'absence_proven',
  effect: 'absent',
  providerKey,
});

/** From then on no request of the last attempt is on its way any more: we assume that none lands later. */
export const quietEndMs = ({ leaseExpiresAtMs, updatedAtMs }: Operation, limits: Limits): number =>
  (leaseExpiresAtMs ?? updatedAtMs) + limits.quietHours * 3_600_000;

/**
 * Writes what was established about an operation that no live claim holds, if it still is as it was read, and gives back
 * what it held.
 * @param dueAtMs when the reconciler sends it again, where it is queued
 * @param intervention the person on whose word it is settled
 */
export async function settleSeen(
  ports: Omit<ReconcilePorts, 'provider'>,
  seen: Operation,
  settlement: Settlement,
  { dueAtMs, intervention }: { readonly dueAtMs?: number; readonly intervention?: Intervention },
): Promise<Extract<Reconciled, { kind: 'settled' | 'absent' | 'superseded' }>> {
  const { store, telemetry, clock } = ports;
  const { kind, operation } = await store.settle({
    operation: seen,
    by: 'reconciliation',
    settlement,
    nowMs: clock(),
    sentAtMs: 0,
    ...(intervention === undefined ? {} : { intervention }),
    ...(settlement.state === 'queued' && dueAtMs !== undefined ? { dueAtMs } : {}),
  });
  if (kind === 'superseded' || !operation) {
    const isProof = settlement.state === 'succeeded' && operation && isTerminal(operation.state);
    if (isProof && operation.providerRef !== settlement.providerRef)
      telemetry.contradicted(operation, settlement.providerRef);
    return { kind: 'superseded', operation };
  }
  telemetry.changed(operation, seen.state);
  await giveBack(ports, operation);
  return { kind: settlement.state === 'queued' ? 'absent' : 'settled', operation };
}

const open = (reason: string) => ({ kind: 'open', reason }) as const;
