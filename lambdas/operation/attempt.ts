import {
  backOffSeconds,
  type Decision,
  type Delivery,
  type Disposition,
  decide,
  maxRedrives,
  windowOpensAtMs,
} from './delivery';
import { type Limits, providerTimeoutMs, settleReserveMs } from './limits';
import type { Message } from './message';
import type { Operation } from './operation';
import type { Outcome } from './outcome';
import type { Clock, OperationStore, Provider } from './ports';
import { type Settlement, type State, settlementOf } from './state';

export interface AttemptPorts {
  readonly store: OperationStore;
  readonly provider: Provider;
  readonly clock: Clock;
  /** A fencing token that was never used before; short, because every record stores one. */
  readonly newClaimId: () => string;
  /** 0 to below 1. */
  readonly random: () => number;
  readonly limits: Limits;
  /** Keeps two stacks on one provider account apart. At most 100 characters. */
  readonly providerKeyPrefix: string;
  readonly telemetry: AttemptTelemetry;
}

/** Told of every write that took effect: one log line and one metric each. */
export interface AttemptTelemetry {
  changed(operation: Operation, from: State | 'new', outcome?: Outcome): void;
  /** The provider proved an effect of an operation whose record ended otherwise. Wakes a person. */
  contradicted(operation: Operation, providerRef: string): void;
}

/** The right to make one attempt. Only `claim` can make one: the class is not exported, and its type is nominal. */
class Claim {
  protected readonly isTaken = true;
  constructor(
    readonly operation: Operation,
    readonly claimId: string,
    readonly delivery: Delivery,
    /** The worker's last possible moment. */
    readonly deadlineMs: number,
  ) {}
}

export type { Claim };

/**
 * Takes the operation of a delivery to run it, or says what becomes of the message instead.
 * @param deadlineMs when the worker's time ends; the lease outlives it by the margin
 */
export async function claim(
  ports: AttemptPorts,
  delivery: Delivery,
  seen: Operation | undefined,
  deadlineMs: number,
): Promise<{ readonly claim: Claim } | { readonly disposition: Disposition }> {
  const { limits, store } = ports;
  const nowMs = ports.clock();
  const decision = decide(delivery, seen, limits, nowMs);
  if (decision.kind !== 'claim') return { disposition: await carryOut(ports, delivery, seen, decision) };
  const claimId = ports.newClaimId();
  const write = await store.claim({
    message: delivery.message,
    inputDigest: delivery.inputDigest,
    claimId,
    nowMs,
    leaseExpiresAtMs: leaseEndMs(limits, nowMs, deadlineMs),
    windowOpensAtMs: windowOpensAtMs(limits, nowMs),
    first: {
      providerKey: firstProviderKey(ports.providerKeyPrefix, delivery.message),
      providerParamsVersion: ports.provider.paramsVersion,
      attemptLimit: limits.maxAttempts,
      acceptedBy: 'queue',
    },
    ...(decision.isRedrive
      ? { redrive: { sentAtMs: delivery.sentAtMs, maxAttempts: limits.maxAttempts, maxRedrives } }
      : {}),
  });
  if (write.kind === 'refused') return { disposition: await reconsider(ports, delivery, write.operation) };
  ports.telemetry.changed(write.operation, seen?.state ?? 'new');
  return { claim: new Claim(write.operation, claimId, delivery, deadlineMs) };
}

/** The one provider call of a claim. A claim whose time is up makes none. */
export async function attempt(ports: AttemptPorts, { operation, deadlineMs }: Claim): Promise<Outcome> {
  const roomMs = deadlineMs - ports.clock() - settleReserveMs(ports.limits);
  if (roomMs <= 0) return { kind: 'notSent', reason: 'out_of_time' };
  return ports.provider.charge(operation, Math.min(roomMs, providerTimeoutMs(ports.limits)));
}

/** Writes what the attempt established and says what becomes of the message. */
export async function settle(ports: AttemptPorts, claim: Claim, outcome: Outcome): Promise<Disposition> {
  const { operation, claimId, delivery } = claim;
  const settlement = settlementOf(outcome, {
    isFirstEffect: operation.effectPossibleClaimId === claimId,
    attemptsLeft: operation.attemptLimit - operation.attemptCount,
  });
  const request = { operation, claimId, settlement, nowMs: ports.clock(), sentAtMs: delivery.sentAtMs };
  const write = await ports.store.settle(request);
  if (write.kind === 'settled') {
    ports.telemetry.changed(write.operation, 'running', outcome);
    return dispositionOf(ports, delivery, settlement);
  }
  if (!write.operation)
    throw new Error(`the record of operation ${operation.operationId} is gone; nothing here deletes records`);
  if (settlement.state === 'succeeded' && !hasEffect(write.operation, settlement.providerRef)) {
    ports.telemetry.contradicted(write.operation, settlement.providerRef);
  }
  return reconsider(ports, delivery, write.operation);
}

function dispositionOf(ports: AttemptPorts, delivery: Delivery, settlement: Settlement): Disposition {
  switch (settlement.state) {
    case 'succeeded':
    case 'failed':
    case 'settling':
      return { kind: 'acknowledge', reason: 'settled' };
    case 'parked':
      return { kind: 'giveUp', reason: settlement.parkedReason };
    case 'queued':
      return deferred(ports, delivery, settlement.reason);
  }
}

/** Somebody else's write came first: their record says what becomes of our message. */
const reconsider = (ports: AttemptPorts, delivery: Delivery, operation: Operation): Promise<Disposition> =>
  carryOut(ports, delivery, operation, decide(delivery, operation, ports.limits, ports.clock()));

async function carryOut(
  ports: AttemptPorts,
  delivery: Delivery,
  seen: Operation | undefined,
  decision: Decision,
): Promise<Disposition> {
  switch (decision.kind) {
    case 'claim':
      return deferred(ports, delivery, 'contended');
    case 'park': {
      if (!seen) throw new Error('an operation without a record cannot be parked');
      const { parkedReason } = decision;
      const nowMs = ports.clock();
      const write = await ports.store.park({ seen, parkedReason, nowMs, sentAtMs: delivery.sentAtMs });
      if (write.kind === 'superseded') return deferred(ports, delivery, 'contended');
      ports.telemetry.changed(write.operation, seen.state);
      return { kind: 'giveUp', reason: parkedReason };
    }
    case 'acknowledge':
      if (seen && retentionEndsSoon(seen, ports.clock()))
        await ports.store.extendRetention(seen, ports.clock());
      return decision;
    case 'defer':
    case 'reject':
    case 'giveUp':
      return decision;
  }
}

const deferred = ({ limits, random }: AttemptPorts, delivery: Delivery, reason: string): Disposition => ({
  kind: 'defer',
  reason,
  delaySeconds: backOffSeconds(limits, delivery.receiveCount, random),
});

const leaseEndMs = (limits: Limits, nowMs: number, deadlineMs: number): number =>
  nowMs + Math.min(deadlineMs - nowMs, limits.workerTimeoutSeconds * 1000) + limits.leaseMarginSeconds * 1000;

/** The key of a step's first effect. The last part counts the proofs of absence that gave it a new one. */
const firstProviderKey = (prefix: string, { tenantId, operationId, type }: Message): string =>
  `${prefix}/${tenantId}/${operationId}/${type}/0`;

const hasEffect = (operation: Operation, providerRef: string): boolean =>
  operation.state === 'succeeded' && operation.providerRef === providerRef;

/** A message can live for about a month; a record that is still asked for must outlive it. */
const retentionEndsSoon = ({ expiresAtSeconds }: Operation, nowMs: number): boolean =>
  expiresAtSeconds !== undefined && expiresAtSeconds - nowMs / 1000 < 30 * 86_400;
