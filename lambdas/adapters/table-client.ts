import { ConditionalCheckFailedException, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import {
  BatchGetCommand,
  DynamoDBDocumentClient,
  GetCommand,
  QueryCommand,
  UpdateCommand,
} from '@aws-sdk/lib-dynamodb';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import { inTime } from './deadline';
import { table } from './table';

type Item = Record<string, unknown>;

/**
 * One conditional update of one item. In its texts `#name` is the attribute `name`, as many are reserved words, or what
 * `names` says; `:name` is the value of that name; `:running`, `:queued`, `:settling` and `:parked` are the states.
 */
export interface ConditionalUpdate {
  readonly condition: string;
  /** Attributes to set, each also a value `:name`. Undefined ones are left alone. */
  readonly assign?: Readonly<Record<string, unknown>>;
  /** Further SET actions. */
  readonly set?: readonly string[];
  /** Paths to remove, such as `error` or `accepted.#op`. */
  readonly remove?: readonly string[];
  /** Values that the texts use beside the assigned ones. */
  readonly values?: Readonly<Record<string, unknown>>;
  /** What a placeholder stands for that is no attribute name itself, such as the operation id in a map. */
  readonly names?: Readonly<Record<string, string>>;
}

/** Whether the update was applied, and the item as it is now; undefined where there is none. */
export interface Updated {
  readonly applied: boolean;
  readonly item: Item | undefined;
}

/** The operations table by plain items: consistent reads, conditional updates, the attention index. */
export class TableClient {
  readonly #documents: DynamoDBDocumentClient;

  constructor(
    client: DynamoDBClient,
    private readonly tableName: string,
  ) {
    this.#documents = DynamoDBDocumentClient.from(client, {
      marshallOptions: { removeUndefinedValues: true },
    });
  }

  /** The items of the given partition keys that exist, read consistently, 100 at a time. */
  async read(partitionKeys: readonly string[]): Promise<Item[]> {
    const distinct = [...new Set(partitionKeys)];
    const pages: Promise<Item[]>[] = [];
    for (let at = 0; at < distinct.length; at += maxBatch)
      pages.push(this.#readPage(distinct.slice(at, at + maxBatch)));
    return (await Promise.all(pages)).flat();
  }

  async #readPage(partitionKeys: readonly string[]): Promise<Item[]> {
    const items: Item[] = [];
    let keys: Item[] = partitionKeys.map((pk) => ({ [table.partitionKey]: pk }));
    for (let round = 0; keys.length > 0; round++) {
      if (round === 3) throw new Error(`${keys.length} records could not be read: the table is throttled`);
      const { Responses, UnprocessedKeys } = await this.#documents.send(
        new BatchGetCommand({ RequestItems: { [this.tableName]: { Keys: keys, ConsistentRead: true } } }),
        inTime(),
      );
      items.push(...(Responses?.[this.tableName] ?? []));
      keys = UnprocessedKeys?.[this.tableName]?.Keys ?? [];
    }
    return items;
  }

  /**
   * Where the condition does not hold, the item as it is comes back and says why: also that the write is our own,
   * repeated by the SDK after its first answer was lost.
   */
  async update(partitionKey: string, update: ConditionalUpdate): Promise<Updated> {
    const Key = { [table.partitionKey]: partitionKey };
    try {
      const { Attributes } = await this.#documents.send(
        new UpdateCommand({ TableName: this.tableName, Key, ...expressionsOf(update) }),
        inTime(),
      );
      return { applied: true, item: Attributes };
    } catch (error) {
      if (!(error instanceof ConditionalCheckFailedException)) throw error;
      if (error.Item) return { applied: false, item: unmarshall(error.Item) };
      const { Item } = await this.#documents.send(
        new GetCommand({ TableName: this.tableName, Key, ConsistentRead: true }),
        inTime(),
      );
      return { applied: false, item: Item };
    }
  }

  /** Partition keys of one shard of the attention index that are due at `dueAtMs` or before, oldest first, in pages. */
  async *due(openShard: number, dueAtMs: number): AsyncIterable<string[]> {
    let position: Item | undefined;
    do {
      const { Items, LastEvaluatedKey } = await this.#documents.send(
        new QueryCommand({
          TableName: this.tableName,
          IndexName: table.attentionIndex,
          KeyConditionExpression: '#shard = :shard AND #due <= :due',
          ExpressionAttributeNames: { '#shard': table.attentionPartitionKey, '#due': table.attentionSortKey },
          ExpressionAttributeValues: { ':shard': openShard, ':due': dueAtMs },
          Limit: maxBatch,
          ...(position ? { ExclusiveStartKey: position } : {}),
        }),
        inTime(),
      );
      if (Items && Items.length > 0) yield Items.map((item) => String(item[table.partitionKey]));
      position = LastEvaluatedKey;
    } while (position);
  }

  /** What the attention index has of one shard, whatever is due, in pages. It may lag behind the records. */
  async *shard(openShard: number): AsyncIterable<Item[]> {
    let position: Item | undefined;
    do {
      const { Items = [], LastEvaluatedKey } = await this.#documents.send(
        new QueryCommand({
          TableName: this.tableName,
          IndexName: table.attentionIndex,
          KeyConditionExpression: '#shard = :shard',
          ExpressionAttributeNames: { '#shard': table.attentionPartitionKey },
          ExpressionAttributeValues: { ':shard': openShard },
          Limit: pageSize,
          ...(position ? { ExclusiveStartKey: position } : {}),
        }),
        inTime(),
      );
      yield Items;
      position = LastEvaluatedKey;
    } while (position);
  }
}

/** What the adapters need of the table: also that of the simulation, which is in memory. */
export type Table = Pick<TableClient, keyof TableClient>;

/** The most items of one page of a shard: at about 250 bytes each, 32 read units. */
const pageSize = 1000;

/** The most keys of one batch read. https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html */
const maxBatch = 100;

const stateValues = { running: 'running', queued: 'queued', settling: 'settling', parked: 'parked' };

/** The request of an update. DynamoDB refuses names and values that no expression uses, so only those of the texts are in it. */
export function expressionsOf({
  condition,
  assign = {},
  set = [],
  remove = [],
  values = {},
  names = {},
}: ConditionalUpdate) {
  const assigned = Object.entries(assign).filter(([, value]) => value !== undefined);
  const actions = [...assigned.map(([attribute]) => `#${attribute} = :${attribute}`), ...set];
  const setting = actions.length > 0 ? `SET ${actions.join(', ')}` : '';
  const removal = remove.length > 0 ? ` REMOVE ${remove.map((path) => `#${path}`).join(', ')}` : '';
  const expression = `${setting}${removal}`.trim();
  const known: Item = { ...stateValues, ...values, ...Object.fromEntries(assigned) };
  const used = (mark: string) => new Set(`${expression} ${condition}`.match(new RegExp(`${mark}\\w+`, 'g')));
  const nameOf = (placeholder: string) => names[placeholder.slice(1)] ?? placeholder.slice(1);
  const usedValues = [...used(':')].map((name) => [name, known[name.slice(1)]] as const);
  return {
    ConditionExpression: condition,
    UpdateExpression: expression,
    ExpressionAttributeNames: Object.fromEntries([...used('#')].map((name) => [name, nameOf(name)])),
    ...(usedValues.length > 0 ? { ExpressionAttributeValues: Object.fromEntries(usedValues) } : {}),
    ReturnValues: 'ALL_NEW',
    ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
  } as const;
}
