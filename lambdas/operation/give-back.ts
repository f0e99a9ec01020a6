import type { Operation, OperationId } from './operation';
import type { OperationStore, OperationTelemetry, TenantStore } from './ports';
import { isTerminal } from './state';

export interface GiveBackPorts {
  readonly store: OperationStore;
  readonly tenants: TenantStore;
  readonly telemetry: OperationTelemetry;
}

/**
 * What an operation holds while it is open: its accepted place until it ends or is parked, and a refund's part of its
 * charge until it ends without an effect. What fails here heals: both are given up when they would matter.
 */
export async function giveBack(ports: GiveBackPorts, operation: Operation): Promise<void> {
  const { state, acceptedBy } = operation;
  const hasPlace = acceptedBy === 'api' && (isTerminal(state) || state === 'parked');
  await Promise.all([
    hasPlace &&
      tolerate(ports, operation, 'an accepted place was not given back', ports.tenants.leave(operation)),
    giveBackRefund(ports, operation),
  ]);
}

/** A refund that ended without an effect holds no part of its charge any more. */
export async function giveBackRefund(ports: GiveBackPorts, operation: Operation): Promise<void> {
  const { tenantId, operationId, state, type } = operation;
  if (type !== 'refund' || (state !== 'failed' && state !== 'cancelled')) return;
  const charge = { tenantId, operationId: operation.input.chargeOperationId };
  const given = ports.store.releaseRefund(charge, operationId, operation.input);
  await tolerate(ports, operation, "a refund's part of its charge was not given back", given);
}

/**
 * Waits for a write that may fail because what it leaves behind heals by itself. Never throws: a failure is told to the
 * telemetry as `what`, and its message does not come back for it.
 */
export async function tolerate(
  { telemetry }: Pick<GiveBackPorts, 'telemetry'>,
  id: OperationId,
  what: string,
  work: Promise<void>,
): Promise<void> {
  try {
    await work;
  } catch (error) {
    telemetry.tolerated(what, id, error);
  }
}
