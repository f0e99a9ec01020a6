import * as z from 'zod/mini';
import { table } from '../../../lambdas/adapters/table';
import type { HttpProxy } from '../../../local/http-proxy';
import { type Item, updated, type Value } from '../memory/expressions';

/** What calls of DynamoDB took: request units as it bills them, by the kind of item, and calls by action. */
export interface TableUse {
  readonly calls: Record<string, number>;
  /** Consistent reads of the table, and queries of the attention index. */
  read: number;
  /** Writes of the table by the first part of the partition key: `op`, `tenant`, `provider`. Refused ones cost the same. */
  readonly writes: Record<string, number>;
  /** Writes of the attention index that writes of the table brought with them. */
  indexWrites: number;
}

/**
 * Counts what passes a proxy in front of the emulator. The emulator's own count leaves the index out, so units are worked
 * out from the items: those of the answers, and where a write asked for none what it made of the item before it. https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
 */
export class TableMeter {
  #use = nothing();
  readonly #items = new Map<string, Item>();

  constructor(proxy: HttpProxy) {
    proxy.intercept(
      {},
      {
        kind: 'hook',
        after: ({ action, body }, { statusCode, content }) => {
          this.#count(action, body, statusCode, JSON.parse(content.toString()));
          return 'continue';
        },
      },
    );
  }

  /** What was used since the last time. */
  take(): TableUse {
    const use = this.#use;
    this.#use = nothing();
    return use;
  }

  /** The size of the last known item of a partition, in bytes. */
  sizeOf(partitionKey: string): number {
    return itemBytes(this.#items.get(partitionKey) ?? {});
  }

  #count(action: string, body: unknown, statusCode: number, answer: unknown): void {
    this.#use.calls[action] = (this.#use.calls[action] ?? 0) + 1;
    switch (action) {
      case 'BatchGetItem':
        this.#countBatch(body, answer);
        break;
      case 'GetItem':
        this.#use.read += readUnits(getAnswer.parse(answer).Item);
        break;
      case 'Query':
        this.#use.read += queryUnits(queryAnswer.parse(answer).Items);
        break;
      case 'UpdateItem':
        this.#countUpdate(body, statusCode, answer);
        break;
      default:
        throw new Error(`${action} is not counted: say here what it costs`);
    }
  }

  #countBatch(body: unknown, answer: unknown): void {
    const [request] = Object.values(batchRequest.parse(body).RequestItems);
    const found = Object.values(batchAnswer.parse(answer).Responses).flat();
    for (const item of found) this.#items.set(partitionOf(item), item);
    const missing = (request?.Keys.length ?? 0) - found.length;
    this.#use.read += found.reduce((sum, item) => sum + readUnits(item), missing);
  }

  #countUpdate(body: unknown, statusCode: number, answer: unknown): void {
    const request = updateRequest.parse(body);
    const key = partitionOf(request.Key);
    const before = this.#items.get(key);
    const after =
      statusCode === 200 ? (updateAnswer.parse(answer).Attributes ?? written(request, before)) : before;
    const [kind = ''] = key.split('#');
    const bytes = Math.max(itemBytes(before ?? {}), itemBytes(after ?? {}));
    this.#use.writes[kind] = (this.#use.writes[kind] ?? 0) + Math.max(1, Math.ceil(bytes / 1024));
    if (after) this.#items.set(key, after);
    this.#use.indexWrites += indexWrites(before, after);
  }
}

function written(request: z.infer<typeof updateRequest>, item: Item | undefined): Item {
  const { ExpressionAttributeNames: names, ExpressionAttributeValues: values } = request;
  return { ...request.Key, ...updated(request.UpdateExpression, { item, names, values }) };
}

const value: z.ZodMiniType<Value> = z.record(z.string(), z.unknown());
const item = z.record(z.string(), value);
const batchRequest = z.object({ RequestItems: z.record(z.string(), z.object({ Keys: z.array(item) })) });
const batchAnswer = z.object({ Responses: z.record(z.string(), z.array(item)) });
const getAnswer = z.object({ Item: z.optional(item) });
const queryAnswer = z.object({ Items: z.array(item) });
const updateRequest = z.object({
  Key: item,
  UpdateExpression: z.string(),
  ExpressionAttributeNames: z._default(z.record(z.string(), z.string()), {}),
  ExpressionAttributeValues: z._default(item, {}),
});
const updateAnswer = z.object({ Attributes: z.optional(item) });

const nothing = (): TableUse => ({ calls: {}, read: 0, writes: {}, indexWrites: 0 });

export const readUnits = (found: Item | undefined): number =>
  Math.max(1, Math.ceil(itemBytes(found ?? {}) / 4096));

/** The index is read eventually consistently, at half the price. */
function queryUnits(found: readonly Item[]): number {
  const bytes = found.reduce((sum, each) => sum + itemBytes(each), 0);
  return 0.5 * Math.max(1, Math.ceil(bytes / 4096));
}

function partitionOf(of: Item): string {
  return String(Object.values(Object(of[table.partitionKey]))[0]);
}

/** One for an entry that comes or goes, two for one that moves. https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.ThroughputConsiderations.Writes */
export function indexWrites(before: Item | undefined, after: Item | undefined): number {
  const [from, to] = [before, after].map((each) => {
    const place = [each?.[table.attentionPartitionKey], each?.[table.attentionSortKey]];
    return place.includes(undefined) ? undefined : JSON.stringify(place);
  });
  if (from === to) return 0;
  return from === undefined || to === undefined ? 1 : 2;
}

/** https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html */
export function itemBytes(of: Item): number {
  return Object.entries(of).reduce(
    (sum, [name, value]) => sum + Buffer.byteLength(name) + valueBytes(value),
    0,
  );
}

function valueBytes(value: unknown): number {
  const [[type, content] = ['NULL', true]] = Object.entries(Object(value));
  switch (type) {
    case 'S':
      return Buffer.byteLength(String(content));
    case 'N':
      return Math.ceil(String(content).replace(/[-.]/g, '').length / 2) + 1;
    case 'BOOL':
    case 'NULL':
      return 1;
    case 'M':
      return 3 + Object.keys(Object(content)).length + itemBytes(item.parse(content));
    case 'L':
      return (
        3 +
        z
          .array(z.unknown())
          .parse(content)
          .reduce<number>((sum, each) => sum + 1 + valueBytes(each), 0)
      );
    default:
      throw new Error(`The size of ${type} is not known here`);
  }
}
