import { giveBack } from './give-back';
import { type Operation, type OperationId, UnreadableRecord } from './operation';
import { type Clock, keyOf, type OperationStore, type OperationTelemetry, type TenantStore } from './ports';
import { isTerminal } from './state';

export interface CancelPorts {
  readonly store: OperationStore;
  readonly tenants: TenantStore;
  readonly clock: Clock;
  readonly telemetry: OperationTelemetry;
}

export type Cancelled =
  /** No effect happened and none will. */
  | { readonly kind: 'cancelled'; readonly operation: Operation }
  /** It has an effect, may have one, or has ended; `advice` says what to do instead. */
  | { readonly kind: 'refused'; readonly operation: Operation; readonly advice: string }
  | { readonly kind: 'unknown' };

/**
 * Cancels an operation where no effect is possible. Where one is, the wish is kept: it takes effect if the
 * running attempt proves that nothing was done, and never otherwise.
 */
export async function cancel(ports: CancelPorts, id: OperationId): Promise<Cancelled> {
  const { store, telemetry } = ports;
  const { operations, unreadable } = await store.look([id]);
  if (unreadable.has(keyOf(id))) throw new UnreadableRecord(id);
  let seen = operations.get(keyOf(id));
  // A claim, or an end, may come between the look and the write: then the record that it left is judged.
  for (let round = 0; seen && round < 5; round++) {
    if (seen.state === 'cancelled') return { kind: 'cancelled', operation: seen };
    if (isTerminal(seen.state)) return { kind: 'refused', operation: seen, advice: adviceOf(seen) };
    const nowMs = ports.clock();
    if (isFree(seen)) {
      const write = await store.cancel({ seen, nowMs });
      if (write.kind === 'written') {
        telemetry.changed(write.operation, seen.state);
        await giveBack(ports, write.operation);
        return { kind: 'cancelled', operation: write.operation };
      }
      seen = write.operation;
    } else {
      const write = await store.requestCancel({ seen, nowMs });
      if (write.kind === 'written')
        return { kind: 'refused', operation: write.operation, advice: adviceOf(write.operation) };
      seen = write.operation;
    }
  }
  return seen ? { kind: 'refused', operation: seen, advice: adviceOf(seen) } : { kind: 'unknown' };
}

/** Held by no claim, and without a possible effect. */
const isFree = ({ state, effectPossibleSinceMs }: Operation): boolean =>
  (state === 'queued' || state === 'parked') && effectPossibleSinceMs === undefined;

function adviceOf({ state, type }: Operation): string {
  switch (state) {
    case 'succeeded':
      return type === 'charge'
        ? 'The charge has succeeded: refund it with an operation of its own.'
        : 'The refund has succeeded and cannot be taken back.';
    case 'failed':
      return 'The operation has failed: there is nothing to cancel.';
    case 'settling':
      return 'Stripe has taken it and will say how it ended: ask for its state later, and refund it if it succeeded.';
    case 'running':
    case 'queued':
    case 'parked':
      return 'It may have had an effect. It is cancelled if it proves to have had none; ask for its state later, and refund it if it succeeded.';
    case 'cancelled':
      return 'It is cancelled already.';
  }
}
