import type { Limits } from './limits';

/** What a tenant has in hand: one small record, kept by conditional writes that are keyed by operation id. */
export interface Tenant {
  readonly tenantId: string;
  /** A provider call each, in flight or crashed: by operation id, until released or lapsed. */
  readonly running: Readonly<Record<string, { readonly claimId: string; readonly leaseExpiresAtMs: number }>>;
  /** Accepted through the API and not ended: when each was admitted, by operation id. */
  readonly accepted: Readonly<Record<string, number>>;
  /** Provider calls by UTC day (`2026-11-29`). */
  readonly calls: Readonly<Record<string, number>>;
  /** False while it has no more than limits of its own. */
  readonly hasPlaces: boolean;
  /** A limit of its own instead of `tenantMaxRunning`; at most 50. */
  readonly maxRunning?: number;
  /** A limit of its own instead of `tenantMaxRunning` + `tenantMaxWaiting`; at most 150. */
  readonly maxAccepted?: number;
}

/** The most that a tenant's own limits may be: each write costs the item's size. */
const mostRunning = 50;
const mostAccepted = 150;

export const maxRunningOf = (tenant: Tenant | undefined, limits: Limits): number =>
  tenant?.maxRunning !== undefined
    ? Math.min(tenant.maxRunning, mostRunning)
    : limits.tenantMaxRunning || Number.POSITIVE_INFINITY;

/** Whether anything of a tenant is bounded while its operations run. */
export const hasBounds = ({ tenantMaxRunning, tenantDailyCalls }: Limits): boolean =>
  tenantMaxRunning > 0 || tenantDailyCalls !== undefined;

export const maxAcceptedOf = (tenant: Tenant | undefined, limits: Limits): number =>
  tenant?.maxAccepted !== undefined
    ? Math.min(tenant.maxAccepted, mostAccepted)
    : limits.tenantMaxRunning + limits.tenantMaxWaiting;

/** Ids of the slots whose lease has lapsed: their workers are dead, and the next taker removes them. */
export const lapsedSlots = ({ running }: Tenant, nowMs: number): string[] =>
  Object.entries(running)
    .filter(([, { leaseExpiresAtMs }]) => leaseExpiresAtMs < nowMs)
    .map(([operationId]) => operationId);

/** The UTC day that a call counts for. */
export const dayOf = (nowMs: number): string => new Date(nowMs).toISOString().slice(0, 10);

/** Whole seconds until the next UTC day begins, 1 to 86 400. */
export const secondsToNextDay = (nowMs: number): number => 86_400 - Math.floor((nowMs / 1000) % 86_400);

/** Whether another call of today is within the tenant's daily limit. Without a limit it always is. */
export const hasDailyCalls = (tenant: Tenant | undefined, limits: Limits, nowMs: number): boolean =>
  limits.tenantDailyCalls === undefined || (tenant?.calls[dayOf(nowMs)] ?? 0) < limits.tenantDailyCalls;

/**
 * What a look at the tenant says of taking a slot for an operation: whether it is worth a write, which decides.
 * A live entry of another claim for the same operation holds the place of a delivery that runs.
 */
export function slotAdvice(
  tenant: Tenant | undefined,
  operationId: string,
  limits: Limits,
  nowMs: number,
): 'free' | 'full' | 'held' | 'daily_calls_used' {
  if (!hasDailyCalls(tenant, limits, nowMs)) return 'daily_calls_used';
  if (!tenant) return 'free';
  const own = tenant.running[operationId];
  if (own && own.leaseExpiresAtMs >= nowMs) return 'held';
  const live = Object.keys(tenant.running).length - lapsedSlots(tenant, nowMs).length;
  return live < maxRunningOf(tenant, limits) ? 'free' : 'full';
}
