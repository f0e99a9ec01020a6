import type { Limits } from '../operation/limits';
import type { OperationId } from '../operation/operation';
import type { SlotAnswer, SlotRequest, TenantStore } from '../operation/ports';
import {
  dayOf,
  lapsedSlots,
  maxAcceptedOf,
  maxRunningOf,
  slotAdvice,
  type Tenant,
} from '../operation/tenant';
import type { ConditionalUpdate, Table } from './table-client';
import { tenantFromItem, tenantPartition } from './tenant-item';

/** The bounds per tenant in DynamoDB: one item a tenant, each write conditional and keyed by the operation's id. */
export class DynamoDbTenants implements TenantStore {
  constructor(
    private readonly client: Table,
    private readonly limits: Limits,
  ) {}

  async takeSlot(request: SlotRequest): Promise<SlotAnswer> {
    const { id, claimId, nowMs } = request;
    let { seen } = request;
    // Other deliveries of the tenant come and go between the look and the write: the item that refused is looked at.
    for (let round = 0; round < 4; round++) {
      seen = await this.#evictMany(seen, nowMs);
      const { applied, item } = await this.#update(id.tenantId, slotUpdate(request, seen, this.limits));
      if (applied) return 'taken';
      seen = item && tenantFromItem(item);
      // Our own write, whose first answer was lost.
      if (seen?.running[id.operationId]?.claimId === claimId) return 'taken';
      const advice = slotAdvice(seen, id.operationId, this.limits, nowMs);
      if (advice !== 'free') return advice;
    }
    return 'full';
  }

  /** After a mass death there are more lapsed slots than the write that takes one can remove. */
  async #evictMany(tenant: Tenant | undefined, nowMs: number): Promise<Tenant | undefined> {
    let seen = tenant;
    for (let lapsed = seen ? lapsedSlots(seen, nowMs) : []; seen && lapsed.length > mostEvicted; ) {
      const { conditions, remove, names } = eviction(lapsed.slice(0, mostEvicted));
      const { item } = await this.#update(seen.tenantId, {
        condition: conditions.join(' AND '),
        remove,
        names,
        values: { nowMs },
      });
      seen = item && tenantFromItem(item);
      lapsed = seen ? lapsedSlots(seen, nowMs) : [];
    }
    return seen;
  }

  async releaseSlot(
    { tenantId, operationId }: OperationId,
    claimId: string,
    hasEnded: boolean,
  ): Promise<void> {
    const { applied } = await this.#update(tenantId, {
      condition: slotClauses.isOwn,
      remove: ['running.#op', ...(hasEnded ? ['accepted.#op'] : [])],
      names: { op: operationId },
      values: { claimId },
      returns: 'nothing',
    });
    // The slot lapsed and went to somebody else, or was given back by the write whose answer was lost.
    if (!applied && hasEnded) await this.leave({ tenantId, operationId });
  }

  async keepSlot({ tenantId, operationId }: OperationId, claimId: string, untilMs: number): Promise<void> {
    await this.#update(tenantId, {
      condition: slotClauses.isOwn,
      set: ['#running.#op.#leaseExpiresAtMs = :untilMs'],
      names: { op: operationId },
      values: { claimId, untilMs },
      returns: 'nothing',
    });
  }

  async admit(
    { tenantId, operationId }: OperationId,
    seen: Tenant | undefined,
    nowMs: number,
  ): Promise<'admitted' | 'full'> {
    let tenant = seen;
    if (maxAcceptedOf(tenant, this.limits) === 0) return 'full';
    for (let round = 0; round < 4; round++) {
      const { applied, item } = await this.#update(
        tenantId,
        admitUpdate(operationId, tenant, nowMs, this.limits),
      );
      if (applied) return 'admitted';
      tenant = item && tenantFromItem(item);
      const places = Object.keys(tenant?.accepted ?? {});
      if (places.length >= maxAcceptedOf(tenant, this.limits) && !places.includes(operationId)) return 'full';
    }
    return 'full';
  }

  async leave({ tenantId, operationId }: OperationId, seenAtMs?: number): Promise<void> {
    await this.#update(tenantId, {
      condition: seenAtMs === undefined ? 'attribute_exists(#accepted.#op)' : '#accepted.#op = :seenAtMs',
      remove: ['accepted.#op'],
      names: { op: operationId },
      values: { seenAtMs },
      returns: 'nothing',
    });
  }

  #update(tenantId: string, update: ConditionalUpdate) {
    return this.client.update(tenantPartition(tenantId), update);
  }
}

const slotClauses = {
  /** The maps are made by the first write of the tenant. */
  isNew: 'attribute_not_exists(#running)',
  exists: 'attribute_exists(#running)',
  /** Only the claim that took a slot gives it back. */
  isOwn: '#running.#op.#claimId = :claimId',
  /** A duplicate must not share, and then free, the place of the delivery that runs. */
  isFree: 'attribute_not_exists(#running.#op)',
  /** Its own place of an earlier claim counts as free only while it is there, and lapsed. */
  isLapsed: '#running.#op.#leaseExpiresAtMs < :nowMs',
  /** G7, counted without the lapsed entries that this write removes. */
  hasRoom: 'size(#running) < :room',
  /** The daily limit of the tenant's calls. */
  hasCalls: '(attribute_not_exists(#calls.#today) OR #calls.#today < :dailyCalls)',
} as const;

function slotUpdate(
  { id, claimId, leaseExpiresAtMs, nowMs }: SlotRequest,
  seen: Tenant | undefined,
  limits: Limits,
): ConditionalUpdate {
  const { isNew, exists, isFree, isLapsed, hasRoom, hasCalls } = slotClauses;
  const slot = { claimId, leaseExpiresAtMs };
  const today = dayOf(nowMs);
  const dailyCalls = limits.tenantDailyCalls;
  if (!seen?.hasPlaces) {
    return {
      condition: isNew,
      assign: { running: { [id.operationId]: slot }, calls: dailyCalls === undefined ? {} : { [today]: 1 } },
      set: ['#accepted = if_not_exists(#accepted, :noPlaces)'],
      values: { noPlaces: {} },
      returns: 'nothing',
    };
  }
  const maxRunning = maxRunningOf(seen, limits);
  const others = lapsedSlots(seen, nowMs)
    .filter((operationId) => operationId !== id.operationId)
    .slice(0, mostEvicted);
  const oldDays = dailyCalls === undefined ? [] : Object.keys(seen.calls).filter((day) => day < today);
  return {
    condition: [
      exists,
      id.operationId in seen.running ? isLapsed : isFree,
      ...(Number.isFinite(maxRunning) ? [hasRoom] : []),
      ...eviction(others).conditions,
      ...(dailyCalls === undefined ? [] : [hasCalls]),
    ].join(' AND '),
    set: [
      '#running.#op = :slot',
      ...(dailyCalls === undefined ? [] : ['#calls.#today = if_not_exists(#calls.#today, :zero) + :one']),
    ],
    remove: [...eviction(others).remove, ...oldDays.map((_, index) => `calls.#day${index}`)],
    names: {
      op: id.operationId,
      today,
      ...eviction(others).names,
      ...Object.fromEntries(oldDays.map((day, index) => [`day${index}`, day])),
    },
    values: {
      slot,
      nowMs,
      room: maxRunning + others.length + (id.operationId in seen.running ? 1 : 0),
      zero: 0,
      one: 1,
      dailyCalls,
    },
    returns: 'nothing',
  };
}

/** So many at a time, because an expression has at most 4 kB. */
const mostEvicted = 20;

/** The parts of an update that remove lapsed slots by name, each only if it still is lapsed. */
const eviction = (operationIds: readonly string[]) => ({
  conditions: operationIds.map((_, index) => `#running.#lapsed${index}.#leaseExpiresAtMs < :nowMs`),
  remove: operationIds.map((_, index) => `running.#lapsed${index}`),
  names: Object.fromEntries(operationIds.map((operationId, index) => [`lapsed${index}`, operationId])),
});

function admitUpdate(
  operationId: string,
  seen: Tenant | undefined,
  nowMs: number,
  limits: Limits,
): ConditionalUpdate {
  if (!seen?.hasPlaces) {
    return {
      condition: slotClauses.isNew,
      assign: { running: {}, calls: {}, accepted: { [operationId]: nowMs } },
      returns: 'nothing',
    };
  }
  return {
    // A place that was left by a crash is young again: its caller is back, and nobody else may evict it.
    condition: `${slotClauses.exists} AND (attribute_exists(#accepted.#op) OR size(#accepted) < :maxAccepted)`,
    set: ['#accepted.#op = :nowMs'],
    names: { op: operationId },
    values: { nowMs, maxAccepted: maxAcceptedOf(seen, limits) },
    returns: 'nothing',
  };
}
