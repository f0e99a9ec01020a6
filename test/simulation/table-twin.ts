import { table } from '../../lambdas/adapters/table';
import { type ConditionalUpdate, expressionsOf, type Updated } from '../../lambdas/adapters/table-client';
import { holds, type Item, updated } from '../support/expression';

/** The operations table in memory, as DynamoDB has it: the same texts are evaluated, and each update is one moment. */
export class TableTwin {
  readonly #items = new Map<string, Item>();

  item(partitionKey: string): Item | undefined {
    return this.#items.get(partitionKey);
  }

  items(): Iterable<Item> {
    return this.#items.values();
  }

  read(partitionKeys: readonly string[]): Item[] {
    return [...new Set(partitionKeys)]
      .map((key) => this.#items.get(key))
      .filter((item) => item !== undefined);
  }

  update(partitionKey: string, update: ConditionalUpdate): Updated {
    const before = this.#items.get(partitionKey);
    const request = expressionsOf(update);
    const scope = {
      item: before ?? {},
      names: request.ExpressionAttributeNames,
      values: plain(request.ExpressionAttributeValues ?? {}),
    };
    if (!holds(request.ConditionExpression, scope)) return { applied: false, item: before };
    const after = { ...updated(request.UpdateExpression, scope), [table.partitionKey]: partitionKey };
    this.#items.set(partitionKey, after);
    return { applied: true, item: after };
  }

  /** One shard of the attention index, up to a due time, oldest first. */
  shard(openShard: number, dueAtMs = Number.POSITIVE_INFINITY): Item[] {
    const dueOf = (item: Item) => Number(item[table.attentionSortKey]);
    return [...this.#items.values()]
      .filter((item) => item[table.attentionPartitionKey] === openShard && dueOf(item) <= dueAtMs)
      .sort((a, b) => dueOf(a) - dueOf(b));
  }

  /** When the attention index has something due next, perhaps only in some states. */
  nextDueMs(states?: readonly unknown[]): number {
    let next = Number.POSITIVE_INFINITY;
    for (const item of this.#items.values()) {
      if (item[table.attentionPartitionKey] === undefined || states?.includes(item.state) === false) continue;
      next = Math.min(next, Number(item[table.attentionSortKey]));
    }
    return next;
  }
}

/** As the document client sends it: without undefined members. */
function plain(values: Item): Item {
  const entries = Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, isMap(value) ? plain(value) : value] as const);
  return Object.fromEntries(entries);
}

const isMap = (value: unknown): value is Item =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
