import { boundOf, boundTo } from './bound';
import {
  type AttemptPorts,
  type Cycle,
  carryOut,
  deferral,
  dispositionOf,
  dueAtMs,
  keep,
  keepsWaitInTable,
  reconsider,
  redriveOf,
  release,
} from './carry-out';
import {
  type Decision,
  type Delivery,
  type Disposition,
  deadlineMs,
  decide,
  directRefund,
  isRetry,
  windowOpensAtMs,
} from './delivery';
import type { Payer, Shut } from './gate';
import { giveBack, giveBackRefund } from './give-back';
import { type Limits, providerTimeoutMs, settleReserveMs } from './limits';
import type { Bound, Operation } from './operation';
import type { Outcome } from './outcome';
import type { SlotAnswer, SlotRequest } from './ports';
import { reconcile } from './reconcile';
import { refundHindrance, reserve } from './refund';
import { isTerminal, type ParkedReason, type Settlement, type State, settlementOf } from './state';
import { hasBounds, secondsToNextDay, slotAdvice, type Tenant } from './tenant';

/** What the look found for one delivery. */
export interface Found {
  readonly operation: Operation | undefined;
  readonly tenant: Tenant | undefined;
  /** Of a refund: the operation that it refunds. */
  readonly charge: Operation | undefined;
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
    readonly hasSlot: boolean,
    readonly paidBy: Payer,
    /** What the operation was before. */
    readonly from: State | 'new',
  ) {}
}

export type { AttemptPorts, Claim };

/**
 * Takes the operation of a delivery to run it, or says what becomes of the message instead.
 * @param workerDeadlineMs when the worker's time ends; the lease outlives it by the margin
 */
export async function claim(
  ports: AttemptPorts,
  delivery: Delivery,
  found: Found,
  workerDeadlineMs: number,
): Promise<{ readonly claim: Claim } | { readonly disposition: Disposition }> {
  const { limits, store } = ports;
  const nowMs = ports.clock();
  const cycle: Cycle = { ports, delivery, bound: bind(ports, delivery, found, nowMs) };
  const decision = decideWith(cycle, found, nowMs);
  const id = delivery.message;
  const claimId = ports.newClaimId();
  const leaseExpiresAtMs = leaseEndMs(limits, nowMs, workerDeadlineMs);
  const slot: SlotRequest = { id, seen: found.tenant, claimId, leaseExpiresAtMs, nowMs };
  if (decision.kind === 'reconcile' && found.operation)
    return { disposition: await reconcileNow(cycle, found.operation, decision.parkedReason, slot) };
  if (decision.kind !== 'claim') return { disposition: await carryOut(cycle, found.operation, decision) };
  const hindered = await reservation(cycle, found, nowMs);
  if (hindered) return { disposition: await carryOut(cycle, found.operation, hindered) };

  const hasSlot = hasBounds(limits);
  const place = await takePlace(cycle, found, slot, isRetry(found.operation));
  if (typeof place !== 'string') return { disposition: await carryOut(cycle, found.operation, place) };
  const write = await store.claim({
    id,
    bound: cycle.bound,
    claimId,
    isNew: found.operation === undefined,
    nowMs,
    leaseExpiresAtMs,
    windowOpensAtMs: windowOpensAtMs(limits, nowMs),
    effectSinceMs: found.operation?.absentProvenAtMs ?? nowMs,
    paidBy: place,
    // In a crash loop its message reaches the dead-letter queue while the record still says running.
    ...(keepsWaitInTable(ports, delivery) ? { dueAtMs: leaseExpiresAtMs + graceMs } : {}),
    ...(decision.isRedrive ? { redrive: redriveOf(ports, delivery) } : {}),
  });
  if (write.kind === 'refused') {
    ports.gate.leave(place);
    if (hasSlot) await release(ports, write.operation, claimId, isTerminal(write.operation.state));
    return { disposition: await reconsider(cycle, write.operation) };
  }
  const from = found.operation?.state ?? 'new';
  return { claim: new Claim(write.operation, claimId, delivery, workerDeadlineMs, hasSlot, place, from) };
}

/** The one provider call of a claim. A claim whose time is up makes none. */
export async function attempt(
  ports: AttemptPorts,
  { operation, deadlineMs, paidBy, from }: Claim,
): Promise<Outcome> {
  const startedAtMs = ports.clock();
  const roomMs = deadlineMs - startedAtMs - settleReserveMs(ports.limits);
  const answer =
    roomMs > 0
      ? call(ports, operation, Math.min(roomMs, providerTimeoutMs(ports.limits)))
      : ({ kind: 'notSent', reason: 'out_of_time' } as const);
  let outcome: Outcome;
  try {
    // Told while the call is on its way.
    ports.telemetry.changed(operation, from);
  } finally {
    outcome = await answer;
  }
  ports.telemetry.attempted(operation, outcome, ports.clock() - startedAtMs);
  ports.gate.count(paidBy, outcome);
  return outcome;
}

const call = ({ provider }: AttemptPorts, operation: Operation, timeoutMs: number): Promise<Outcome> =>
  operation.type === 'charge' ? provider.charge(operation, timeoutMs) : provider.refund(operation, timeoutMs);

/** Writes what the attempt established and says what becomes of the message. */
export async function settle(ports: AttemptPorts, claim: Claim, outcome: Outcome): Promise<Disposition> {
  const { operation, claimId, delivery } = claim;
  const cycle: Cycle = { ports, delivery, bound: boundOf(operation) };
  const settlement = settlementOf(outcome, {
    isFirstEffect: operation.effectPossibleClaimId === claimId,
    attemptsLeft: operation.attemptLimit - operation.attemptCount,
  });
  const { settled, write } = await writeSettlement(cycle, claim, settlement);
  if (write.kind === 'written') ports.telemetry.changed(write.operation, 'running', outcome);
  const now = write.operation;
  if (!now)
    throw new Error(`the record of operation ${operation.operationId} is gone; nothing here deletes records`);
  await giveBackWhatItHeld(ports, now, claim, outcome);
  if (write.kind === 'written') return dispositionOf(cycle, settled);
  if (settled.state === 'succeeded' && !hasEffect(now, settled.providerRef)) {
    ports.telemetry.contradicted(now, settled.providerRef);
  }
  return reconsider(cycle, now);
}

function bind(ports: AttemptPorts, delivery: Delivery, { charge }: Found, nowMs: number): Bound {
  const { limits, providerKeyPrefix, provider } = ports;
  return boundTo({
    message: delivery.message,
    charge,
    limits,
    nowMs,
    deadlineAtMs: deadlineMs(delivery.message, limits, nowMs),
    acceptedBy: 'queue',
    providerKeyPrefix,
    providerParamsVersion: provider.paramsVersionOf(delivery.message),
  });
}

/** What the record says, and then what the charge to refund and the tenant's places say. */
function decideWith(
  { ports, delivery }: Cycle,
  { operation, tenant, charge }: Found,
  nowMs: number,
): Decision {
  const { limits } = ports;
  const { message } = delivery;
  const refused = directRefund(message, operation, limits);
  if (refused) return refused;
  const decision = decide(delivery, operation, limits, nowMs);
  if (decision.kind !== 'claim') return decision;
  if (message.type === 'refund') {
    const hindrance = refundHindrance(charge, message.operationId, message.input.amountMinor);
    if (hindrance?.isFinal) return { kind: 'fail', error: hindrance.error };
    if (hindrance?.error.code === 'charge_not_final') return deferral(ports, delivery, hindrance.error.code);
  }
  const shutBy = ports.gate.advice(isRetry(operation), delivery.receiveCount);
  if (shutBy) return shut(shutBy);
  if (!hasBounds(limits)) return decision;
  const advice = slotAdvice(tenant, message.operationId, limits, nowMs);
  return advice === 'free' ? decision : noSlot({ ports, delivery }, advice, nowMs);
}

/**
 * A call whose answer we stopped waiting for may still run at the provider: its slot is kept for as long again as a
 * call may take, so that the tenant never has more calls in flight than it may.
 */
async function giveBackWhatItHeld(
  ports: AttemptPorts,
  now: Operation,
  { claimId, hasSlot }: Claim,
  outcome: Outcome,
): Promise<void> {
  const mayStillRun =
    outcome.kind === 'unknown' && (outcome.reason === 'timeout' || outcome.reason === 'connection_lost');
  if (hasSlot && !mayStillRun) {
    // One write gives up the slot and the accepted place.
    const hasEnded = isTerminal(now.state) || now.state === 'parked';
    await Promise.all([release(ports, now, claimId, hasEnded), giveBackRefund(ports, now)]);
    return;
  }
  if (hasSlot) await keep(ports, now, claimId, ports.clock() + providerTimeoutMs(ports.limits));
  await giveBack(ports, now);
}

/** A slot of the tenant, what the retry costs, and a call of the service's day. @returns who pays, or why there is no place */
async function takePlace(
  cycle: Cycle,
  { operation }: Found,
  request: SlotRequest,
  isRetry: boolean,
): Promise<Payer | Decision> {
  const { ports, bound, delivery } = cycle;
  const { claimId, nowMs, leaseExpiresAtMs } = request;
  const hasSlot = hasBounds(ports.limits);
  const slot = hasSlot ? await ports.tenants.takeSlot(request) : 'taken';
  if (slot !== 'taken') return noSlot(cycle, slot, nowMs);
  const { tenantId, operationId } = request.id;
  const { acceptedBy } = operation ?? bound;
  const leaveSlot = async () => {
    if (hasSlot) await release(ports, { tenantId, operationId, acceptedBy }, claimId, false);
  };
  const payer = await ports.gate.enter(isRetry, delivery.receiveCount, leaseExpiresAtMs);
  if (typeof payer !== 'string') {
    await leaveSlot();
    return shut(payer);
  }
  if (await ports.serviceCalls.takeCall(nowMs)) return payer;
  ports.gate.leave(payer);
  await leaveSlot();
  return { kind: 'defer', reason: 'service_daily_calls_used', delaySeconds: nextDaySeconds(ports, nowMs) };
}

const shut = (why: Shut): Decision => ({ kind: 'defer', ...why });

/** Asks the provider what happened, within one of the tenant's places, before anything else is done. */
async function reconcileNow(
  cycle: Cycle,
  seen: Operation,
  parkedReason: ParkedReason,
  slot: SlotRequest,
): Promise<Disposition> {
  const { ports, delivery } = cycle;
  const away = ports.gate.question(delivery.receiveCount);
  if (away) return carryOut(cycle, seen, shut(away));
  const hasSlot = hasBounds(ports.limits);
  const taken = hasSlot ? await ports.tenants.takeSlot(slot) : 'taken';
  if (taken !== 'taken') return carryOut(cycle, seen, noSlot(cycle, taken, slot.nowMs));
  // Due in the index too, in case that this delivery was the last one and gets no further.
  const found = await reconcile(ports, seen, slot.leaseExpiresAtMs + graceMs);
  if (hasSlot) await release(ports, seen, slot.claimId, false);
  switch (found.kind) {
    case 'settled':
      return { kind: 'acknowledge', reason: 'settled' };
    case 'absent':
      return carryOut(cycle, found.operation, { kind: 'defer', reason: 'absence_proven', delaySeconds: 1 });
    case 'open':
      return carryOut(cycle, seen, { kind: 'park', parkedReason });
    case 'unavailable':
      return carryOut(cycle, seen, deferral(ports, delivery, 'provider_unavailable'));
    case 'superseded':
      return carryOut(cycle, found.operation, deferral(ports, delivery, 'contended'));
  }
}

/** Past the next UTC midnight, spread so that not all that waited comes back in one second. */
const nextDaySeconds = ({ limits, random }: AttemptPorts, nowMs: number): number =>
  secondsToNextDay(nowMs) + Math.ceil(random() * limits.retryCapSeconds);

function noSlot(
  { ports, delivery }: Pick<Cycle, 'ports' | 'delivery'>,
  why: Exclude<SlotAnswer, 'taken'>,
  nowMs: number,
): Decision {
  if (why !== 'daily_calls_used') return deferral(ports, delivery, `tenant_${why}`);
  return { kind: 'defer', reason: `tenant_${why}`, delaySeconds: nextDaySeconds(ports, nowMs) };
}

/** Holds the refund's part of its charge before anything is called. */
async function reservation(
  { ports, delivery }: Cycle,
  { charge }: Found,
  nowMs: number,
): Promise<Decision | undefined> {
  const { message } = delivery;
  if (message.type !== 'refund' || !charge) return undefined;
  const hindrance = await reserve(ports.store, charge, message.operationId, message.input.amountMinor, nowMs);
  return hindrance && { kind: 'fail', error: hindrance.error };
}

/** Writes the settlement, or the cancel that was asked for while a call ran that proved to have done nothing. */
async function writeSettlement(
  { ports, delivery }: Cycle,
  { operation, claimId, paidBy }: Claim,
  settlement: Settlement,
) {
  const nowMs = ports.clock();
  const request = {
    operation,
    by: 'claim',
    settlement,
    nowMs,
    sentAtMs: delivery.sentAtMs,
    isProbe: paidBy === 'probe',
  } as const;
  const due =
    settlement.state === 'queued' && keepsWaitInTable(ports, delivery)
      ? { dueAtMs: dueAtMs(ports, delivery, nowMs) }
      : {};
  const write = await ports.store.settle({ ...request, ...due });
  const now = write.operation;
  const isOurs = now?.state === 'running' && now.claimId === claimId;
  if (write.kind === 'written' || !isOurs || now.cancelRequestedAtMs === undefined)
    return { settled: settlement, write };
  const cancelled: Settlement = { state: 'cancelled' };
  return { settled: cancelled, write: await ports.store.settle({ ...request, settlement: cancelled }) };
}

const leaseEndMs = (limits: Limits, nowMs: number, workerDeadlineMs: number): number =>
  nowMs +
  Math.min(workerDeadlineMs - nowMs, limits.workerTimeoutSeconds * 1000) +
  limits.leaseMarginSeconds * 1000;

/** How long after a lapsed lease the reconciler looks: the next delivery has had its chance. */
const graceMs = 60_000;

const hasEffect = (operation: Operation, providerRef: string): boolean =>
  operation.state === 'succeeded' && operation.providerRef === providerRef;
