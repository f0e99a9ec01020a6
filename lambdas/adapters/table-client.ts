import {
  type AttributeValue,
  BatchGetItemCommand,
  ConditionalCheckFailedException,
  type DynamoDBClient,
  GetItemCommand,
  QueryCommand,
  type QueryCommandInput,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
import { marshall, unmarshall } from '@aws-sdk/util-dynamodb';
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
  /** Where nobody needs the item after the update, it is not sent back. */
  readonly returns?: 'nothing';
}

/** Whether the write was applied, and the item as it is now; undefined where there is none, or nobody needs it. */
export interface Updated {
  readonly applied: boolean;
  readonly item: Item | undefined;
}

type Marshalled = Record<string, AttributeValue>;

/** The operations table by plain items: consistent reads, conditional updates, the attention index. */
export class TableClient {
  constructor(
    private readonly client: DynamoDBClient,
    private readonly tableName: string,
  ) {}

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
    let keys: Marshalled[] = partitionKeys.map(keyOf);
    for (let round = 0; keys.length > 0; round++) {
      if (round === 3) throw new Error(`${keys.length} records could not be read: the table is throttled`);
      const { Responses, UnprocessedKeys } = await this.client.send(
        new BatchGetItemCommand({ RequestItems: { [this.tableName]: { Keys: keys, ConsistentRead: true } } }),
      );
      items.push(...(Responses?.[this.tableName] ?? []).map((item) => unmarshall(item)));
      keys = UnprocessedKeys?.[this.tableName]?.Keys ?? [];
    }
    return items;
  }

  /**
   * Where the condition does not hold, the item as it is comes back and says why: also that the write is our own,
   * repeated by the SDK after its first answer was lost.
   */
  async update(partitionKey: string, update: ConditionalUpdate): Promise<Updated> {
    const of = { TableName: this.tableName, Key: keyOf(partitionKey) };
    const { ExpressionAttributeValues: values, ...texts } = expressionsOf(update);
    const ExpressionAttributeValues = values && marshalled(values);
    try {
      const { Attributes } = await this.client.send(
        new UpdateItemCommand({
          ...of,
          ...texts,
          ...(ExpressionAttributeValues && { ExpressionAttributeValues }),
        }),
      );
      return { applied: true, item: Attributes && unmarshall(Attributes) };
    } catch (error) {
      if (!(error instanceof ConditionalCheckFailedException)) throw error;
      if (error.Item) return { applied: false, item: unmarshall(error.Item) };
      const { Item } = await this.client.send(new GetItemCommand({ ...of, ConsistentRead: true }));
      return { applied: false, item: Item && unmarshall(Item) };
    }
  }

  /** Partition keys of one shard of the attention index that are due at `dueAtMs` or before, oldest first, in pages. */
  async *due(openShard: number, dueAtMs: number): AsyncIterable<string[]> {
    const pages = this.#pages(maxBatch, {
      KeyConditionExpression: '#shard = :shard AND #due <= :due',
      ExpressionAttributeNames: { '#shard': table.attentionPartitionKey, '#due': table.attentionSortKey },
      ExpressionAttributeValues: marshalled({ ':shard': openShard, ':due': dueAtMs }),
    });
    for await (const items of pages)
      if (items.length > 0) yield items.map((item) => String(item[table.partitionKey]));
  }

  /** What the attention index has of one shard, whatever is due, in pages. It may lag behind the records. */
  shard(openShard: number): AsyncIterable<Item[]> {
    return this.#pages(pageSize, {
      KeyConditionExpression: '#shard = :shard',
      ExpressionAttributeNames: { '#shard': table.attentionPartitionKey },
      ExpressionAttributeValues: marshalled({ ':shard': openShard }),
    });
  }

  async *#pages(
    Limit: number,
    query: Pick<
      QueryCommandInput,
      'KeyConditionExpression' | 'ExpressionAttributeNames' | 'ExpressionAttributeValues'
    >,
  ): AsyncIterable<Item[]> {
    const request = { ...query, TableName: this.tableName, IndexName: table.attentionIndex, Limit };
    let ExclusiveStartKey: Marshalled | undefined;
    do {
      const { Items = [], LastEvaluatedKey } = await this.client.send(
        new QueryCommand({ ...request, ...(ExclusiveStartKey && { ExclusiveStartKey }) }),
      );
      yield Items.map((item) => unmarshall(item));
      ExclusiveStartKey = LastEvaluatedKey;
    } while (ExclusiveStartKey);
  }
}

/** What the adapters need of the table: also that of the simulation, which is in memory. */
export type Table = Pick<TableClient, keyof TableClient>;

const keyOf = (partitionKey: string): Marshalled => ({ [table.partitionKey]: { S: partitionKey } });

const marshalled = (item: Item): Marshalled => marshall(item, { removeUndefinedValues: true });

/** The most items of one page of a shard: at about 250 bytes each, 32 read units. */
const pageSize = 1000;

/** The most keys of one batch read. https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html */
const maxBatch = 100;

const stateValues: Readonly<Record<string, unknown>> = {
  running: 'running',
  queued: 'queued',
  settling: 'settling',
  parked: 'parked',
};

/** The request of an update. DynamoDB refuses names and values that no expression uses, so only those of the texts are in it. */
export function expressionsOf({ assign = {}, values = {}, names, returns, ...texts }: ConditionalUpdate) {
  const { condition, expression, used } = textsOf(texts, assign);
  const value = (name: string) => assign[name] ?? values[name] ?? stateValues[name];
  return {
    ConditionExpression: condition,
    UpdateExpression: expression,
    ExpressionAttributeNames: names ? entriesOf('#', used.names, (name) => names[name] ?? name) : used.plain,
    ...(used.values.length > 0 && { ExpressionAttributeValues: entriesOf(':', used.values, value) }),
    ReturnValues: returns === 'nothing' ? 'NONE' : 'ALL_NEW',
    ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
  } as const;
}

function entriesOf<T>(mark: string, names: readonly string[], of: (name: string) => T): Record<string, T> {
  const entries: Record<string, T> = {};
  for (const name of names) entries[mark + name] = of(name);
  return entries;
}

interface Texts {
  readonly condition: string;
  readonly expression: string;
  /** Placeholders of both. */
  readonly used: {
    readonly names: readonly string[];
    readonly values: readonly string[];
    /** The names where each stands for itself. */
    readonly plain: Record<string, string>;
  };
}

/** There are as many texts as kinds of updates: each is made once in a process. By condition, and then by the actions. */
const known = new Map<string, Map<string, Texts>>();

function textsOf(
  { condition, set = [], remove = [] }: Pick<ConditionalUpdate, 'condition' | 'set' | 'remove'>,
  assign: Item,
): Texts {
  const assigned = Object.keys(assign).filter((attribute) => assign[attribute] !== undefined);
  const kind = [assigned, set, remove].join(';');
  const kinds = known.get(condition) ?? new Map<string, Texts>();
  const found = kinds.get(kind);
  if (found) return found;
  const actions = [...assigned.map((attribute) => `#${attribute} = :${attribute}`), ...set];
  const setting = actions.length > 0 ? `SET ${actions.join(', ')}` : '';
  const removal = remove.length > 0 ? ` REMOVE ${remove.map((path) => `#${path}`).join(', ')}` : '';
  const expression = `${setting}${removal}`.trim();
  const marked = (mark: string) => [
    ...new Set(
      Array.from(
        `${expression} ${condition}`.matchAll(new RegExp(`${mark}(\\w+)`, 'g')),
        ([, name = '']) => name,
      ),
    ),
  ];
  const names = marked('#');
  const plain = entriesOf('#', names, (name) => name);
  const texts = { condition, expression, used: { names, values: marked(':'), plain } };
  known.set(condition, kinds.set(kind, texts));
  return texts;
}
