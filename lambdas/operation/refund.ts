import type { Operation } from './operation';
import type { OperationError } from './outcome';
import { keyOf, type OperationStore } from './ports';
import { isTerminal } from './state';

/** Why a refund cannot be made now. Final ones never can be. */
export interface Hindrance {
  readonly isFinal: boolean;
  readonly error: OperationError & { readonly code: HindranceCode };
}
export type HindranceCode =
  | 'charge_not_final'
  | 'charge_not_succeeded'
  | 'refund_exceeds_charge'
  | 'refund_id_taken';

/** Whether a charge can be refunded by so much. Advice: `reserve` decides. */
export function refundHindrance(
  charge: Operation | undefined,
  refundId: string,
  amountMinor: number,
): Hindrance | undefined {
  if (!charge || (charge.type === 'charge' && !isTerminal(charge.state))) {
    return hindrance(false, 'charge_not_final', 'The charge is not known, or has not ended yet.');
  }
  if (charge.type !== 'charge')
    return hindrance(true, 'charge_not_succeeded', 'The operation to refund is no charge.');
  if (charge.state !== 'succeeded') {
    return hindrance(
      true,
      'charge_not_succeeded',
      `The charge is ${charge.state}: there is nothing to refund.`,
    );
  }
  if (charge.refunds?.[refundId] !== undefined) return undefined;
  const leftMinor = charge.input.amountMinor - (charge.refundedMinor ?? 0);
  if (amountMinor <= leftMinor) return undefined;
  return hindrance(
    false,
    'refund_exceeds_charge',
    `${leftMinor} of the charge are left to refund, ${amountMinor} were asked for.`,
  );
}

const hindrance = (isFinal: boolean, code: HindranceCode, message: string): Hindrance => ({
  isFinal,
  error: { code, message },
});

/**
 * Takes the refund's part of its charge, so that concurrent refunds stay within it together. Where too little is
 * left, parts are first given back that ended refunds still hold because their worker died.
 * @returns why not
 */
export async function reserve(
  store: OperationStore,
  charge: Operation,
  refundId: string,
  amountMinor: number,
  nowMs: number,
): Promise<Hindrance | undefined> {
  let seen = charge;
  let hindered: Hindrance | undefined;
  let hasGivenBack = false;
  // Other refunds of the charge come and go between the look and the write: the record that they left is judged.
  for (let round = 0; round < 5; round++) {
    const held = seen.refunds?.[refundId];
    if (held) return held.amountMinor === amountMinor ? undefined : idTaken;
    hindered = refundHindrance(seen, refundId, amountMinor);
    if (hindered) {
      if (hindered.error.code !== 'refund_exceeds_charge' || hasGivenBack) return hindered;
      hasGivenBack = await giveBackStale(store, seen, nowMs);
      if (!hasGivenBack) return hindered;
      seen = (await store.look([seen])).operations.get(keyOf(seen)) ?? seen;
      continue;
    }
    const write = await store.reserveRefund(seen, refundId, { amountMinor, reservedAtMs: nowMs });
    if (write.kind === 'written') return undefined;
    seen = write.operation ?? seen;
  }
  return (
    hindered ??
    hindrance(false, 'refund_exceeds_charge', 'Other refunds of the charge came first; ask again.')
  );
}

const idTaken: Hindrance = {
  isFinal: true,
  error: { code: 'refund_id_taken', message: 'Another amount is being refunded under this operation id.' },
};

/** Between a reservation and its record lies one write: a part without a record for so long was left by a crash. */
const abandonedAfterMs = 60_000;

/** @returns whether anything was given back */
async function giveBackStale(store: OperationStore, charge: Operation, nowMs: number): Promise<boolean> {
  const { tenantId } = charge;
  const parts = Object.entries(charge.refunds ?? {});
  const { operations, unreadable } = await store.look(
    parts.map(([operationId]) => ({ tenantId, operationId })),
  );
  const stale = parts.filter(([operationId, { reservedAtMs }]) => {
    const key = keyOf({ tenantId, operationId });
    const refund = operations.get(key);
    if (!refund) return !unreadable.has(key) && nowMs - reservedAtMs > abandonedAfterMs;
    return refund.state === 'failed' || refund.state === 'cancelled';
  });
  await Promise.all(stale.map(([operationId, part]) => store.releaseRefund(charge, operationId, part)));
  return stale.length > 0;
}
