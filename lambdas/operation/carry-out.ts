import {
  backOffSeconds,
  type Decision,
  type Delivery,
  type Disposition,
  decide,
  durableFromDelivery,
  maxRedrives,
} from './delivery';
import type { Gate } from './gate';
import { giveBack, tolerate } from './give-back';
import type { Limits } from './limits';
import type { Bound, Operation } from './operation';
import type {
  Clock,
  OperationStore,
  OperationTelemetry,
  Provider,
  Redrive,
  ServiceCalls,
  TenantStore,
} from './ports';
import type { Settlement } from './state';

export interface AttemptPorts {
  readonly store: OperationStore;
  readonly tenants: TenantStore;
  readonly serviceCalls: ServiceCalls;
  readonly provider: Provider;
  /** The batch's way to the provider. */
  readonly gate: Gate;
  readonly clock: Clock;
  /** A fencing token that was never used before; short, because every record stores one. */
  readonly newClaimId: () => string;
  /** 0 to below 1. */
  readonly random: () => number;
  readonly limits: Limits;
  /** Keeps two stacks on one provider account apart. At most 100 characters. */
  readonly providerKeyPrefix: string;
  readonly telemetry: OperationTelemetry;
}

/** One delivery on its way, and what its operation's id is bound to. */
export interface Cycle {
  readonly ports: AttemptPorts;
  readonly delivery: Delivery;
  readonly bound: Bound;
}

/** What a settled attempt means for its message. */
export function dispositionOf(cycle: Cycle, settlement: Settlement): Disposition {
  switch (settlement.state) {
    case 'failed':
    case 'cancelled':
    case 'succeeded':
    case 'settling':
      return { kind: 'acknowledge', reason: 'settled' };
    case 'parked':
      return { kind: 'giveUp', reason: settlement.parkedReason };
    case 'queued':
      if (keepsWaitInTable(cycle.ports, cycle.delivery)) return { kind: 'acknowledge', reason: 'kept' };
      return deferral(cycle.ports, cycle.delivery, settlement.reason);
  }
}

/** Somebody else's write came first: their record says what becomes of our message. */
export const reconsider = (cycle: Cycle, operation: Operation): Promise<Disposition> =>
  carryOut(cycle, operation, decide(cycle.delivery, operation, cycle.ports.limits, cycle.ports.clock()));

/** Makes the write that a decision asks for; the others are dispositions already. */
export async function carryOut(
  cycle: Cycle,
  seen: Operation | undefined,
  decision: Decision,
): Promise<Disposition> {
  const { ports, delivery, bound } = cycle;
  const { store, telemetry } = ports;
  const nowMs = ports.clock();
  const id = delivery.message;
  switch (decision.kind) {
    case 'claim':
    case 'reconcile':
      return contended(cycle, seen);
    case 'defer': {
      if (!keepsWaitInTable(ports, delivery, decision.delaySeconds) || !mayBeKept(cycle, seen, nowMs))
        return decision;
      const keptUntilMs = nowMs + decision.delaySeconds * 1000;
      const redrive = seen?.state === 'parked' ? { redrive: redriveOf(ports, delivery) } : {};
      const write = await store.defer({ id, seen, bound, nowMs, dueAtMs: keptUntilMs, ...redrive });
      if (write.kind === 'superseded') return decision;
      if (seen?.state === 'parked') telemetry.changed(write.operation, 'parked');
      telemetry.kept(write.operation, decision.reason, keptUntilMs);
      return { kind: 'acknowledge', reason: 'kept' };
    }
    case 'park': {
      if (!seen) throw new Error('an operation without a record cannot be parked');
      const { parkedReason } = decision;
      const write = await store.park({ seen, parkedReason, nowMs, sentAtMs: delivery.sentAtMs });
      if (write.kind === 'superseded') return contended(cycle, write.operation);
      if (seen.state !== 'parked') telemetry.changed(write.operation, seen.state);
      await giveBack(ports, write.operation);
      return { kind: 'giveUp', reason: parkedReason };
    }
    case 'fail':
    case 'cancel': {
      const write =
        decision.kind === 'fail'
          ? await store.fail({ id, bound, nowMs, error: decision.error })
          : await store.cancel({ seen: needed(seen), nowMs });
      if (write.kind === 'superseded') return contended(cycle, write.operation);
      telemetry.changed(write.operation, seen?.state ?? 'new');
      await giveBack(ports, write.operation);
      return { kind: 'acknowledge', reason: 'settled' };
    }
    case 'acknowledge':
      if (seen && retentionEndsSoon(seen, nowMs)) await store.extendRetention(seen, nowMs);
      return decision;
    case 'reject':
    case 'giveUp':
      return decision;
  }
}

/** Somebody else's write came first: what their record says is found out later. */
const contended = (cycle: Cycle, now: Operation | undefined): Promise<Disposition> =>
  carryOut(cycle, now, deferral(cycle.ports, cycle.delivery, 'contended'));

/**
 * Waits, was left running by a worker that died, or is redriven: waiting must not bring it back to the dead-letter queue.
 * A live lease belongs to a delivery that runs.
 */
function mayBeKept({ ports, delivery }: Cycle, seen: Operation | undefined, nowMs: number): boolean {
  if (!seen || seen.state === 'queued') return true;
  if (seen.state === 'running') return (seen.leaseExpiresAtMs ?? 0) < nowMs;
  const decision = decide(delivery, seen, ports.limits, nowMs);
  return decision.kind === 'claim' && decision.isRedrive;
}

export const redriveOf = ({ limits }: AttemptPorts, { sentAtMs }: Delivery): Redrive => ({
  sentAtMs,
  maxAttempts: limits.maxAttempts,
  maxRedrives,
});

/** Comes back by its visibility after a back-off, or is kept in the table where that would end in the dead-letter queue. */
export const deferral = ({ limits, random }: AttemptPorts, delivery: Delivery, reason: string) =>
  ({ kind: 'defer', reason, delaySeconds: backOffSeconds(limits, delivery.receiveCount, random) }) as const;

/**
 * Whether a wait is kept in the table: where it could end in the dead-letter queue, and where it is so long that the
 * reconciler would send the operation again meanwhile.
 */
export const keepsWaitInTable = (
  { limits }: AttemptPorts,
  { receiveCount }: Delivery,
  delaySeconds = 0,
): boolean => receiveCount >= durableFromDelivery || delaySeconds > limits.retryCapSeconds;

/** When the reconciler sends a requeued operation again. */
export const dueAtMs = (
  { limits, random }: AttemptPorts,
  { receiveCount }: Delivery,
  nowMs: number,
): number => nowMs + backOffSeconds(limits, receiveCount, random) * 1000;

/**
 * Gives back what a claim held: its slot, and with `hasEnded` the place that the API took for the operation. Never throws.
 * What fails here heals: a slot lapses with its lease, a place is evicted when it would matter.
 * @param hasEnded the operation has ended or is parked
 */
export async function release(
  ports: AttemptPorts,
  operation: Pick<Operation, 'tenantId' | 'operationId' | 'acceptedBy'>,
  claimId: string,
  hasEnded: boolean,
): Promise<void> {
  const holdsPlace = hasEnded && operation.acceptedBy === 'api';
  await tolerate(
    ports,
    operation,
    'a slot was not given back',
    ports.tenants.releaseSlot(operation, claimId, holdsPlace),
  );
}

/**
 * Keeps a claim's slot taken for a call that may still run at the provider. Never throws: where it fails, the slot lapses
 * with the lease.
 * @param untilMs when the slot lapses, in milliseconds since the epoch
 */
export async function keep(
  ports: AttemptPorts,
  operation: Operation,
  claimId: string,
  untilMs: number,
): Promise<void> {
  await tolerate(
    ports,
    operation,
    'a slot was not kept',
    ports.tenants.keepSlot(operation, claimId, untilMs),
  );
}

/** A message can live for about a month; a record that is still asked for must outlive it. */
const retentionEndsSoon = ({ expiresAtSeconds }: Operation, nowMs: number): boolean =>
  expiresAtSeconds !== undefined && expiresAtSeconds - nowMs / 1000 < 30 * 86_400;

function needed(seen: Operation | undefined): Operation {
  if (!seen) throw new Error('only an operation with a record can be cancelled');
  return seen;
}
