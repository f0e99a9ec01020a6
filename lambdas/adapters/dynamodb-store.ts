import type { Limits } from '../operation/limits';
import type { Operation, OperationId, RefundPart } from '../operation/operation';
import {
  type AcceptRequest,
  type AdoptRequest,
  type ClaimRequest,
  type ClaimWrite,
  type DeferRequest,
  type DueOperations,
  keyOf,
  type OperationStore,
  type ParkRequest,
  type Seen,
  type SettleRequest,
  type UnclaimedRequest,
  type Written,
} from '../operation/ports';
import type { ProviderState } from '../operation/provider-state';
import type { Tenant } from '../operation/tenant';
import { claimUpdate, firstClaim } from './claim-update';
import { operationFromItem, operationPartition, readOperation } from './operation-item';
import { attributesOf, neverSeen } from './operation-parts';
import {
  accepted,
  adopted,
  cancelRequestUpdate,
  cancelUpdate,
  deferUpdate,
  failUpdate,
  interventionUpdate,
  parkUpdate,
  postponeUpdate,
  retentionUpdate,
} from './operation-updates';
import { providerPartition, readProvider } from './provider-item';
import { refundReleaseUpdate, refundReservationUpdate } from './refund-updates';
import { settleUpdate, succeeded } from './settle-update';
import { table } from './table';
import type { ConditionalUpdate, Table, Updated } from './table-client';
import { readTenant, tenantPartition } from './tenant-item';

/** The operations in DynamoDB. Refused conditions are answers; what throws is the table being out of reach. */
export class DynamoDbStore implements OperationStore, DueOperations {
  constructor(
    private readonly client: Table,
    private readonly limits: Limits,
  ) {}

  async look(
    ids: readonly OperationId[],
    tenantIds: readonly string[] = [],
    providerShard?: number,
  ): Promise<Seen> {
    const items = await this.client.read([
      ...ids.map(operationPartition),
      ...tenantIds.map(tenantPartition),
      // A person's pause is in the first shard, also before the others exist.
      ...(providerShard === undefined ? [] : [0, providerShard].map(providerPartition)),
    ]);
    const shards = new Map<number, ProviderState>();
    const operations = new Map<string, Operation>();
    const unreadable = new Set<string>();
    const tenants = new Map<string, Tenant>();
    const unreadableTenants = new Set<string>();
    for (const item of items) {
      const [kind = '', ...key] = String(item[table.partitionKey]).split('#');
      if (kind === 'tenant') {
        const tenant = readTenant(item);
        if (tenant) tenants.set(tenant.tenantId, tenant);
        else unreadableTenants.add(key.join('#'));
      } else if (kind === 'provider') {
        const state = readProvider(item);
        if (state) shards.set(state.shard, state);
      } else {
        const operation = readOperation(item);
        if (operation) operations.set(keyOf(operation), operation);
        else unreadable.add(key.join('#'));
      }
    }
    const provider =
      providerShard === undefined
        ? undefined
        : pausedBy(shards.get(0), shards.get(providerShard), providerShard);
    return { operations, unreadable, tenants, unreadableTenants, provider };
  }

  async claim(request: ClaimRequest): Promise<ClaimWrite> {
    const isOurs = ({ state, claimId }: Operation) => state === 'running' && claimId === request.claimId;
    const { kind, operation } = await (request.isNew
      ? this.#insert(firstClaim(request, this.limits), isOurs)
      : this.#write(request.id, claimUpdate(request, this.limits), isOurs));
    if (!operation)
      throw new Error(`the claim of operation ${request.id.operationId} was refused without a record`);
    return { kind: kind === 'written' ? 'claimed' : 'refused', operation };
  }

  settle(request: SettleRequest): Promise<Written> {
    const { operation, settlement, nowMs } = request;
    const isOurs = ({ claimId, state, updatedAtMs }: Operation) =>
      claimId === operation.claimId && state === settlement.state && updatedAtMs === nowMs;
    const update = settleUpdate(request, this.limits);
    if (request.by !== 'claim' || settlement.state !== 'succeeded')
      return this.#write(operation, update, isOurs);
    // How most operations end: all that anybody asks of the record afterwards is known, and it need not come back.
    return this.#write(operation, update, isOurs, succeeded(operation, settlement, this.limits, nowMs));
  }

  park(request: ParkRequest): Promise<Written> {
    const { seen, parkedReason } = request;
    return this.#write(
      seen,
      parkUpdate(request, this.limits),
      (now) => now.parkedReason === parkedReason && now.updatedAtMs === request.nowMs,
    );
  }

  accept(request: AcceptRequest): Promise<Written> {
    return this.#insert(accepted(request, this.limits), ({ claimId }) => claimId === request.acceptId);
  }

  defer(request: DeferRequest): Promise<Written> {
    return this.#write(request.id, deferUpdate(request, this.limits));
  }

  fail(request: Parameters<OperationStore['fail']>[0]): Promise<Written> {
    return this.#write(
      request.id,
      failUpdate(request, this.limits),
      // Two messages with one id and other inputs may be failed in the same millisecond.
      ({ state, updatedAtMs, inputDigest }) =>
        state === 'failed' && updatedAtMs === request.nowMs && inputDigest === request.bound.inputDigest,
    );
  }

  cancel(request: UnclaimedRequest): Promise<Written> {
    return this.#write(
      request.seen,
      cancelUpdate(request, this.limits),
      ({ state, updatedAtMs }) => state === 'cancelled' && updatedAtMs === request.nowMs,
    );
  }

  requestCancel(request: UnclaimedRequest): Promise<Written> {
    return this.#write(request.seen, cancelRequestUpdate(request));
  }

  adopt(request: AdoptRequest): Promise<Written> {
    const isOurs = ({ intervention, updatedAtMs }: Operation) =>
      intervention?.action === 'adopted' && updatedAtMs === request.nowMs;
    return this.#insert(adopted(request, this.limits), isOurs);
  }

  intervene(request: Parameters<OperationStore['intervene']>[0]): Promise<Written> {
    return this.#write(request.seen, interventionUpdate(request));
  }

  reserveRefund(charge: Operation, refundId: string, part: RefundPart): Promise<Written> {
    return this.#write(
      charge,
      refundReservationUpdate(charge, refundId, part, this.limits),
      ({ refunds }) =>
        refunds?.[refundId]?.reservedAtMs === part.reservedAtMs &&
        refunds[refundId]?.amountMinor === part.amountMinor,
    );
  }

  async releaseRefund(
    ...[charge, refundId, part]: Parameters<OperationStore['releaseRefund']>
  ): Promise<void> {
    await this.#write(charge, refundReleaseUpdate(refundId, part));
  }

  async extendRetention(id: OperationId, nowMs: number): Promise<void> {
    await this.#write(id, retentionUpdate(this.limits, nowMs));
  }

  async *pages(nowMs: number): AsyncIterable<readonly Operation[]> {
    const { openShards } = this.limits;
    // Another shard first each minute, so that none starves when there is more than one run's work.
    const firstShard = Math.floor(nowMs / 60_000) % openShards;
    for (let step = 0; step < openShards; step++) {
      const shard = (firstShard + step) % openShards;
      for await (const partitionKeys of this.client.due(shard, nowMs)) {
        const items = await this.client.read(partitionKeys);
        // The index may lag behind: the record says whether it still is due. What a newer build wrote waits for that.
        const isDue = (operation: Operation | undefined) =>
          operation?.dueAtMs !== undefined && operation.dueAtMs <= nowMs;
        yield items
          .map(readOperation)
          .filter((operation) => operation !== undefined)
          .filter(isDue);
      }
    }
  }

  async postpone(operation: Operation, dueAtMs: number, escalatedAtMs?: number): Promise<boolean> {
    const update = postponeUpdate(operation, dueAtMs, escalatedAtMs);
    return (await this.#write(operation, update, (now) => now.dueAtMs === dueAtMs)).kind === 'written';
  }

  /**
   * @param isOurs whether a record that refused the write shows that the write was applied before
   * @param after the operation as the write leaves it, where it need not come back for that
   */
  async #write(
    id: OperationId,
    update: ConditionalUpdate,
    isOurs: IsOurs = () => false,
    after?: Operation,
  ): Promise<Written> {
    const request = after ? { ...update, returns: 'nothing' as const } : update;
    return written(await this.client.update(operationPartition(id), request), isOurs, after);
  }

  /** Makes the record of an operation that has none. */
  #insert(operation: Operation, isOurs: IsOurs): Promise<Written> {
    const update = { condition: neverSeen, assign: attributesOf(operation) };
    return this.#write(operation, update, isOurs, operation);
  }
}

type IsOurs = (operation: Operation) => boolean;

function written({ applied, item }: Updated, isOurs: IsOurs, after: Operation | undefined): Written {
  if (applied && after) return { kind: 'written', operation: after };
  const operation = item && operationFromItem(item);
  return operation && (applied || isOurs(operation))
    ? { kind: 'written', operation }
    : { kind: 'superseded', operation };
}

/** A shard as it is, and paused where the first one is. */
function pausedBy(
  first: ProviderState | undefined,
  own: ProviderState | undefined,
  shard: number,
): ProviderState | undefined {
  if (first?.breaker?.reason !== 'paused') return own;
  return { ...noCalls, ...own, shard, breaker: first.breaker };
}

const noCalls = { windowStartMs: 0, windowCalls: 0, windowFailures: 0, retryTokens: 0 };
