import { type Audit, audit } from './audit';
import { cancel } from './cancel';
import { isKeySpent, isPastDeadline } from './delivery';
import { providerTimeoutMs } from './limits';
import { type Intervention, nameOf, type Operation, type OperationId, UnreadableRecord } from './operation';
import type { OperatorRequest } from './operator-request';
import { type Inspection, type JobQueue, keyOf, type ProviderSwitch, type ProviderTelemetry } from './ports';
import { absenceProven, quietEndMs, type ReconcilePorts, reconcile, settleSeen } from './reconcile';
import { isTerminal, type Settlement } from './state';

export interface OperatePorts extends ReconcilePorts {
  readonly queue: JobQueue;
  readonly providerSwitch: ProviderSwitch;
  readonly providerTelemetry: ProviderTelemetry;
  readonly providerKeyPrefix: string;
}

type Of<Action extends OperatorRequest['action']> = Extract<OperatorRequest, { action: Action }>;

export interface OperatorAnswer {
  /** Whether what was asked for is done. Otherwise nothing was changed. */
  readonly done: boolean;
  /** What was done, or why not and what to do instead. */
  readonly said: string;
  readonly operation?: Operation;
  readonly audit?: Audit;
  readonly checks?: readonly { readonly name: string; readonly ok: boolean; readonly said: string }[];
}

/** Does what a person asks for. Money moves only by the next attempt of an operation, under all of its guarantees. */
export async function operate(ports: OperatePorts, request: OperatorRequest): Promise<OperatorAnswer> {
  switch (request.action) {
    case 'audit':
      return auditPage(ports, request);
    case 'pause':
      return pause(ports, request);
    case 'resume':
      return resume(ports, request);
    case 'check':
      return check(ports);
    case 'settle':
    case 'retry':
    case 'cancel':
    case 'discard':
      return operateOn(ports, request);
  }
}

async function operateOn(
  ports: OperatePorts,
  request: Of<'settle' | 'retry' | 'cancel' | 'discard'>,
): Promise<OperatorAnswer> {
  const seen = await look(ports, request);
  if (!seen) return refused(`There is no operation ${nameOf(request)}.`);
  switch (request.action) {
    case 'discard':
      return intervene(ports, seen, { action: 'discarded', by: request.by });
    case 'cancel':
      return cancelIt(ports, seen, request);
    case 'retry':
      return retry(ports, seen, request);
    case 'settle':
      return 'absent' in request ? settleAbsent(ports, seen, request) : settleSucceeded(ports, seen, request);
  }
}

async function look({ store }: ReconcilePorts, id: OperationId): Promise<Operation | undefined> {
  const { operations, unreadable } = await store.look([id]);
  if (unreadable.has(keyOf(id))) throw new UnreadableRecord(id);
  return operations.get(keyOf(id));
}

async function settleSucceeded(
  ports: OperatePorts,
  seen: Operation,
  { by, succeeded: providerRef, evidence }: Extract<Of<'settle'>, { succeeded: string }>,
): Promise<OperatorAnswer> {
  const held = heldBy(ports, seen);
  if (held) return held;
  const inspection = await ports.provider.inspect(seen, providerRef, providerTimeoutMs(ports.limits));
  const { finding } = inspection;
  const wrong = wrongEffect(inspection, seen, providerRef, evidence);
  if (wrong !== undefined || finding.kind !== 'found' || finding.outcome.kind !== 'succeeded')
    return refused(wrong ?? `${providerRef} has not succeeded at Stripe.`, seen);
  const { result } = finding.outcome;
  return settle(
    ports,
    seen,
    { state: 'succeeded', providerRef, result },
    { action: 'settled', by, evidence },
  );
}

/** Why an effect cannot be taken for the operation's. */
function wrongEffect(
  { finding, owner }: Inspection,
  { input, type, ...operation }: Operation,
  providerRef: string,
  evidence: string | undefined,
): string | undefined {
  if (finding.kind !== 'found') return `${providerRef} could not be read at Stripe: ${finding.reason}.`;
  if (owner === 'another') return `${providerRef} says at Stripe that it belongs to another operation.`;
  if (owner === 'unmarked' && evidence === undefined)
    return `${providerRef} does not say at Stripe whose it is: give the evidence that it is ${nameOf(operation)}'s.`;
  if (finding.outcome.kind !== 'succeeded') return undefined;
  const { amountMinor, currency } = finding.outcome.result;
  if (amountMinor !== input.amountMinor)
    return `${providerRef} moved ${amountMinor}; ${nameOf(operation)} asks for ${input.amountMinor}.`;
  if ('currency' in input && currency !== input.currency)
    return `${providerRef} moved ${currency}; ${nameOf(operation)} asks for ${input.currency}.`;
  return undefined;
}

async function settleAbsent(
  ports: OperatePorts,
  seen: Operation,
  { by, evidence }: Extract<Of<'settle'>, { absent: true }>,
): Promise<OperatorAnswer> {
  const held = heldBy(ports, seen);
  if (held) return held;
  if (seen.effectPossibleSinceMs === undefined)
    return refused('No effect is possible as it is: retry or cancel it.', seen);
  if (seen.state === 'settling') return refused(takenByStripe, seen);
  const quietMs = quietEndMs(seen, ports.limits);
  if (ports.clock() < quietMs) {
    return refused(
      `A request of its last attempt may still land until ${iso(quietMs)}: prove the absence after that.`,
      seen,
    );
  }
  // The person knows that there is nothing; Stripe may know better.
  const { telemetry, provider, limits } = ports;
  const finding = await provider.find(seen, providerTimeoutMs(limits));
  telemetry.reconciled(seen, finding.kind, 'reason' in finding ? finding.reason : undefined);
  if (finding.kind === 'found' || (finding.kind === 'unknown' && finding.providerRef !== undefined)) {
    const { providerRef = 'an effect' } = finding.kind === 'found' ? finding.outcome : finding;
    return refused(`Stripe has ${providerRef} for it: reconcile it, and nothing is charged again.`, seen);
  }
  // Where it may not be asked, the person's word stands. An outage ends, and a second charge does not.
  if (finding.kind === 'unavailable')
    return refused(`Stripe cannot be asked at the moment: ${finding.reason}.`, seen);
  const proof = { action: 'proven_absent', by, evidence } as const;
  if (seen.cancelRequestedAtMs !== undefined) return settle(ports, seen, { state: 'cancelled' }, proof);
  // A spent key would only repeat itself. The count in the key is the number of such proofs.
  return settle(ports, seen, absenceProven(nextKey(seen.providerKey)), proof);
}

const takenByStripe = 'Stripe has taken it and will say how it ended: reconcile it.';

const nextKey = (providerKey: string): string =>
  providerKey.replace(/\d+$/, (proofs) => String(Number(proofs) + 1));

async function retry(
  ports: OperatePorts,
  seen: Operation,
  { by }: { readonly by: string },
): Promise<OperatorAnswer> {
  const held = heldBy(ports, seen);
  if (held) return held;
  if (seen.state === 'settling') return refused(takenByStripe, seen);
  if (isKeySpent(seen)) {
    return refused(
      'Stripe only repeats itself under its key: settle it as succeeded, or prove that it has no effect.',
      seen,
    );
  }
  if (isPastDeadline(seen, ports.clock())) {
    return refused(
      'Its deadline has passed and it was never attempted: it would only fail. Enqueue it under a new id, if it is still wanted.',
      seen,
    );
  }
  const answer = await intervene(ports, seen, { action: 'retried', by });
  if (!answer.done) return answer;
  await ports.queue.send(seen);
  return { ...answer, said: `Its message is on the queue: ${nameOf(seen)} runs again.` };
}

async function cancelIt(
  ports: OperatePorts,
  seen: Operation,
  { by }: { readonly by: string },
): Promise<OperatorAnswer> {
  const cancelled = await cancel(ports, seen);
  if (cancelled.kind === 'unknown') return refused(`There is no operation ${nameOf(seen)}.`);
  if (cancelled.kind === 'refused') return refused(cancelled.advice, cancelled.operation);
  const noted = await intervene(ports, cancelled.operation, { action: 'cancelled', by });
  return { ...noted, done: true, said: `${nameOf(seen)} is cancelled: no effect happened and none will.` };
}

/** Asks Stripe what happened to one operation now, and does what the answer allows. */
export async function reconcileOne(
  ports: ReconcilePorts & Pick<OperatePorts, 'queue'>,
  id: OperationId,
): Promise<OperatorAnswer> {
  const seen = await look(ports, id);
  if (!seen) return refused(`There is no operation ${nameOf(id)}.`);
  const held = heldBy(ports, seen);
  if (held) return held;
  if (seen.effectPossibleSinceMs === undefined && seen.state !== 'settling')
    return refused('No effect is possible: there is nothing to ask Stripe for.', seen);
  const nowMs = ports.clock();
  const found = await reconcile(ports, seen, nowMs);
  switch (found.kind) {
    case 'settled':
      return { done: true, said: `${nameOf(seen)} is ${found.operation.state}.`, operation: found.operation };
    case 'absent':
      await ports.queue.send(found.operation);
      return {
        done: true,
        said: `Stripe has no effect of ${nameOf(seen)}: its message is on the queue, and it runs again.`,
        operation: found.operation,
      };
    case 'open':
      return refused(`It cannot be told what happened: ${found.reason}.`, seen);
    case 'unavailable':
      return refused(`Stripe cannot be asked at the moment: ${found.reason}.`, seen);
    case 'superseded':
      return refused('It changed meanwhile: look at it again.', found.operation);
  }
}

/** The worker's own settle, on a person's word. */
async function settle(
  ports: OperatePorts,
  seen: Operation,
  settlement: Settlement,
  who: Omit<Intervention, 'atMs'>,
): Promise<OperatorAnswer> {
  const nowMs = ports.clock();
  const intervention = interventionOf(who, nowMs);
  const settled = await settleSeen(ports, seen, settlement, { dueAtMs: nowMs + 60_000, intervention });
  if (settled.kind === 'superseded')
    return refused('It changed meanwhile: look at it again.', settled.operation);
  const { operation } = settled;
  ports.telemetry.intervened(operation, intervention);
  if (settled.kind === 'settled')
    return { done: true, said: `${nameOf(seen)} is ${operation.state}.`, operation };
  await ports.queue.send(operation);
  const said = `Its absence is on record: ${nameOf(seen)} runs again under a new key.`;
  return { done: true, said, operation };
}

async function intervene(
  ports: OperatePorts,
  seen: Operation,
  who: Omit<Intervention, 'atMs'>,
): Promise<OperatorAnswer> {
  const nowMs = ports.clock();
  const intervention = interventionOf(who, nowMs);
  const write = await ports.store.intervene({ seen, nowMs, intervention });
  if (write.kind === 'superseded') return refused('It changed meanwhile: look at it again.', write.operation);
  ports.telemetry.intervened(write.operation, intervention);
  return {
    done: true,
    said: `It is on record that ${nameOf(seen)} was ${who.action}.`,
    operation: write.operation,
  };
}

const interventionOf = ({ evidence, ...who }: Omit<Intervention, 'atMs'>, atMs: number): Intervention => ({
  ...who,
  atMs,
  ...(evidence === undefined ? {} : { evidence }),
});

/** Ended, or run by a worker at this moment. */
function heldBy({ clock }: ReconcilePorts, seen: Operation): OperatorAnswer | undefined {
  if (isTerminal(seen.state)) return refused(`It is ${seen.state} already, and that is final.`, seen);
  const leaseEndMs = seen.state === 'running' ? (seen.leaseExpiresAtMs ?? 0) : 0;
  if (leaseEndMs < clock()) return undefined;
  return refused(`A worker runs it until ${iso(leaseEndMs)} at most: ask again after that.`, seen);
}

async function pause(ports: OperatePorts, { by, reason }: Of<'pause'>): Promise<OperatorAnswer> {
  await ports.providerSwitch.pause({ reason: 'paused', openedAtMs: ports.clock(), note: `${by}: ${reason}` });
  ports.providerTelemetry.breaker('opened', 'paused', { by, note: reason });
  return {
    done: true,
    said: 'No more calls are made, and the API takes nothing on. Calls in flight end by themselves.',
  };
}

async function resume(ports: OperatePorts, { by }: Of<'resume'>): Promise<OperatorAnswer> {
  if (!(await ports.providerSwitch.resume())) return refused('It is neither paused nor open.');
  ports.providerTelemetry.breaker('closed', 'paused', { by });
  return {
    done: true,
    said: 'Calls are made again. What was deferred comes back within the longest back-off.',
  };
}

async function check({ provider, limits }: OperatePorts): Promise<OperatorAnswer> {
  const checks = await provider.check(providerTimeoutMs(limits));
  const bad = checks.filter(({ ok }) => !ok).length;
  return {
    done: bad === 0,
    said: bad === 0 ? 'The key may do all that is needed.' : `${bad} of ${checks.length} checks failed.`,
    checks,
  };
}

async function auditPage(ports: OperatePorts, request: Of<'audit'>): Promise<OperatorAnswer> {
  const { after, ...rest } = request;
  const found = await audit(ports, { ...rest, ...(after === undefined ? {} : { after }) });
  if (found.kind === 'untold') return refused(`Stripe's list could not be read: ${found.reason}.`);
  const count = found.discrepancies.length;
  return {
    done: true,
    said: `${found.read} were read, ${count} do not agree with their records.`,
    audit: found,
  };
}

const refused = (said: string, operation?: Operation): OperatorAnswer => ({
  done: false,
  said,
  ...(operation ? { operation } : {}),
});

const iso = (ms: number): string => new Date(ms).toISOString();
