import { boundTo } from './bound';
import type { Limits } from './limits';
import { providerTimeoutMs } from './limits';
import type { Operation, OperationId } from './operation';
import {
  type Clock,
  type Effect,
  keyOf,
  type OperationStore,
  type OperationTelemetry,
  type Provider,
} from './ports';
import { reserve } from './refund';
import { isTerminal } from './state';

export interface AuditPorts {
  readonly store: OperationStore;
  readonly provider: Provider;
  readonly clock: Clock;
  readonly limits: Limits;
  readonly telemetry: OperationTelemetry;
  readonly providerKeyPrefix: string;
}

export interface AuditRequest {
  readonly type: 'charge' | 'refund';
  /** Effects that Stripe created since then. */
  readonly sinceMs: number;
  /** Where the last page ended. */
  readonly after?: string;
  /** Whether effects without a record are given one. */
  readonly adopts: boolean;
  readonly by: string;
}

export interface Discrepancy extends OperationId {
  readonly providerRef: string;
  /**
   * unknown: no record. adopted: it had none, and has one now. open: its record has not ended. contradicted: its record
   * says something else.
   */
  readonly kind: 'unknown' | 'adopted' | 'open' | 'contradicted';
}

export type Audit =
  | {
      readonly kind: 'page';
      /** What Stripe listed, of whatever service. */
      readonly read: number;
      /** Effects of this service whose record says the same. */
      readonly agreed: number;
      readonly discrepancies: readonly Discrepancy[];
      /** Where the next page begins. */
      readonly after?: string;
    }
  | { readonly kind: 'untold'; readonly reason: string };

/**
 * Compares a page of what moved money at the provider with the records: after a restore some are missing. An effect
 * without a record can be given one, where it tells its operation's inputs and they digest as its metadata says: then a
 * message that comes again is a replay, also when the provider has forgotten the key.
 */
export async function audit(ports: AuditPorts, request: AuditRequest): Promise<Audit> {
  const { provider, limits, store, providerKeyPrefix } = ports;
  const page = await provider.effects({ ...request, providerKeyPrefix }, providerTimeoutMs(limits));
  if (page.kind !== 'page') return { kind: 'untold', reason: page.reason };
  const { operations, unreadable } = await store.look(page.effects);
  let agreed = 0;
  const discrepancies: Discrepancy[] = [];
  for (const effect of page.effects) {
    const operation = operations.get(keyOf(effect));
    const { tenantId, operationId } = effect;
    const { providerRef } = effect.outcome;
    const kind = unreadable.has(keyOf(effect))
      ? 'open'
      : operation
        ? judge(effect, operation)
        : await withoutRecord(ports, request, effect);
    if (kind === 'agreed') agreed += 1;
    else discrepancies.push({ tenantId, operationId, providerRef, kind });
  }
  const { read, after } = page;
  return { kind: 'page', read, agreed, discrepancies, ...(after === undefined ? {} : { after }) };
}

function judge({ outcome }: Effect, { state, providerRef }: Operation): Discrepancy['kind'] | 'agreed' {
  const isOther = providerRef !== undefined && providerRef !== outcome.providerRef;
  if (isOther || (isTerminal(state) && state !== 'succeeded')) return 'contradicted';
  if (state === 'succeeded') return 'agreed';
  return state === 'settling' && outcome.kind === 'accepted' ? 'agreed' : 'open';
}

async function withoutRecord(
  ports: AuditPorts,
  { adopts, by }: AuditRequest,
  { message, outcome, providerKey }: Effect,
): Promise<Discrepancy['kind']> {
  // What is still under way is adopted once it has ended.
  if (!adopts || !message || outcome.kind !== 'succeeded') return 'unknown';
  const { store, clock, limits, provider, providerKeyPrefix, telemetry } = ports;
  const nowMs = clock();
  const charge = message.type === 'refund' ? await chargeOf(ports, message) : undefined;
  const bound = boundTo({
    message,
    charge,
    limits,
    nowMs,
    deadlineAtMs: nowMs,
    acceptedBy: 'queue',
    providerKeyPrefix,
    providerParamsVersion: provider.paramsVersionOf(message),
  });
  const intervention = {
    action: 'adopted',
    by,
    atMs: nowMs,
    evidence: 'found at Stripe by an audit',
  } as const;
  const write = await store.adopt({
    id: message,
    bound: { ...bound, providerKey },
    nowMs,
    outcome,
    intervention,
  });
  // A delivery came first: its own claim repeats the key, or asks.
  if (write.kind === 'superseded') return 'open';
  telemetry.intervened(write.operation, intervention);
  if (message.type === 'refund' && charge)
    await reserve(store, charge, message.operationId, message.input.amountMinor, nowMs);
  return 'adopted';
}

async function chargeOf(
  { store }: AuditPorts,
  { tenantId, input }: { readonly tenantId: string; readonly input: { readonly chargeOperationId: string } },
): Promise<Operation | undefined> {
  const id = { tenantId, operationId: input.chargeOperationId };
  return (await store.look([id])).operations.get(keyOf(id));
}
