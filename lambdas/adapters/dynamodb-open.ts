import * as z from 'zod/mini';
import type { OpenOperation, OpenOperations } from '../operation/census';
import type { Table } from './table-client';

const ms = z.number();
const projection = z.object({
  state: z.enum(['queued', 'running', 'settling', 'parked']),
  type: z.enum(['charge', 'refund']),
  dueAtMs: ms,
  createdAtMs: ms,
  parkedAtMs: z.optional(ms),
  effectPossibleSinceMs: z.optional(ms),
});

/** The attention index as it projects operations, without their records. */
export class DynamoDbOpen implements OpenOperations {
  constructor(
    private readonly client: Table,
    readonly shards: number,
  ) {}

  async *pages(shard: number): AsyncIterable<readonly (OpenOperation | undefined)[]> {
    for await (const items of this.client.shard(shard))
      yield items.map((item) => projection.safeParse(item).data);
  }
}
