import { ConditionalCheckFailedException, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { BatchGetCommand, DynamoDBDocumentClient, GetCommand, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import type { Limits } from '../operation/limits';
import type { Operation, OperationId } from '../operation/operation';
import {
  type ClaimRequest,
  type ClaimWrite,
  keyOf,
  type OperationStore,
  type ParkRequest,
  type Seen,
  type SettleRequest,
  type SettleWrite,
} from '../operation/ports';
import { operationFromItem, readOperation } from './operation-item';
import {
  type ConditionalUpdate,
  claimUpdate,
  parkUpdate,
  retentionUpdate,
  settleUpdate,
} from './operation-updates';
import { table } from './table';

/** The operations table in DynamoDB. Refused conditions are answers; what throws is the table being out of reach. */
export class DynamoDbStore implements OperationStore {
  readonly #documents: DynamoDBDocumentClient;

  constructor(
    client: DynamoDBClient,
    private readonly tableName: string,
    private readonly limits: Limits,
  ) {
    this.#documents = DynamoDBDocumentClient.from(client, {
      marshallOptions: { removeUndefinedValues: true },
    });
  }

  async look(ids: readonly OperationId[]): Promise<Seen> {
    const operations = new Map<string, Operation>();
    const unreadable = new Set<string>();
    let keys: Record<string, unknown>[] = [...new Set(ids.map(partitionOf))].map((pk) => ({
      [table.partitionKey]: pk,
    }));
    for (let round = 0; keys.length > 0; round++) {
      if (round === 3) throw new Error(`${keys.length} records could not be read: the table is throttled`);
      const { Responses, UnprocessedKeys } = await this.#documents.send(
        new BatchGetCommand({ RequestItems: { [this.tableName]: { Keys: keys, ConsistentRead: true } } }),
      );
      for (const item of Responses?.[this.tableName] ?? []) {
        const operation = readOperation(item);
        if (operation) operations.set(keyOf(operation), operation);
        else unreadable.add(String(item[table.partitionKey]).slice('op#'.length));
      }
      keys = UnprocessedKeys?.[this.tableName]?.Keys ?? [];
    }
    return { operations, unreadable };
  }

  async claim(request: ClaimRequest): Promise<ClaimWrite> {
    const { applied, operation } = await this.#update(request.message, claimUpdate(request));
    if (!operation)
      throw new Error(`the claim of operation ${request.message.operationId} was refused without a record`);
    if (applied) return { kind: 'claimed', operation };
    const isOurs = operation.state === 'running' && operation.claimId === request.claimId;
    return { kind: isOurs ? 'claimed' : 'refused', operation };
  }

  async settle(request: SettleRequest): Promise<SettleWrite> {
    const { applied, operation } = await this.#update(request.operation, settleUpdate(request, this.limits));
    const isOurs =
      operation?.claimId === request.claimId &&
      operation.state === request.settlement.state &&
      operation.updatedAtMs === request.nowMs;
    return operation && (applied || isOurs)
      ? { kind: 'settled', operation }
      : { kind: 'superseded', operation };
  }

  async park(request: ParkRequest): Promise<SettleWrite> {
    const { applied, operation } = await this.#update(request.seen, parkUpdate(request, this.limits));
    const isOurs =
      operation?.parkedReason === request.parkedReason && operation.updatedAtMs === request.nowMs;
    return operation && (applied || isOurs)
      ? { kind: 'settled', operation }
      : { kind: 'superseded', operation };
  }

  async extendRetention(id: OperationId, nowMs: number): Promise<void> {
    await this.#update(id, retentionUpdate(this.limits, nowMs));
  }

  /**
   * One conditional update. Where the condition does not hold, the item as it is comes back and says why: also
   * that the write is our own, repeated by the SDK after its first answer was lost.
   */
  async #update(
    id: OperationId,
    update: ConditionalUpdate,
  ): Promise<{ applied: boolean; operation: Operation | undefined }> {
    const Key = { [table.partitionKey]: partitionOf(id) };
    try {
      const { Attributes } = await this.#documents.send(
        new UpdateCommand({ TableName: this.tableName, Key, ...expressionsOf(update) }),
      );
      return { applied: true, operation: operationFromItem(Attributes) };
    } catch (error) {
      if (!(error instanceof ConditionalCheckFailedException)) throw error;
      if (error.Item) return { applied: false, operation: operationFromItem(unmarshall(error.Item)) };
      const { Item } = await this.#documents.send(
        new GetCommand({ TableName: this.tableName, Key, ConsistentRead: true }),
      );
      return { applied: false, operation: Item && operationFromItem(Item) };
    }
  }
}

const partitionOf = (id: OperationId): string => `op#${keyOf(id)}`;

const stateValues = { running: 'running', queued: 'queued', settling: 'settling', parked: 'parked' };

/** DynamoDB refuses names and values that no expression uses, so only those of the texts are sent. */
function expressionsOf({ condition, assign, set = [], remove = [], values = {} }: ConditionalUpdate) {
  const assigned = Object.entries(assign).filter(([, value]) => value !== undefined);
  const actions = [...assigned.map(([attribute]) => `#${attribute} = :${attribute}`), ...set];
  const removal = remove.length > 0 ? ` REMOVE ${remove.map((attribute) => `#${attribute}`).join(', ')}` : '';
  const expression = `SET ${actions.join(', ')}${removal}`;
  const known: Record<string, unknown> = { ...stateValues, ...values, ...Object.fromEntries(assigned) };
  const used = (mark: string) => new Set(`${expression} ${condition}`.match(new RegExp(`${mark}\\w+`, 'g')));
  return {
    ConditionExpression: condition,
    UpdateExpression: expression,
    ExpressionAttributeNames: Object.fromEntries([...used('#')].map((name) => [name, name.slice(1)])),
    ExpressionAttributeValues: Object.fromEntries([...used(':')].map((name) => [name, known[name.slice(1)]])),
    ReturnValues: 'ALL_NEW',
    ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
  } as const;
}
