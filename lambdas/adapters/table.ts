/**
 * The names that the operations table is created with, and that its readers use: one place for the CDK
 * construct, the laptop stack and the store.
 */
export const table = {
  partitionKey: 'pk',
  /** Sparse index of the operations that no message will bring back by itself. Its sort key is `dueAtMs`. */
  attentionIndex: 'attention',
  /** Number, 0 to `openShards` - 1: spreads the index over partitions. */
  attentionPartitionKey: 'openShard',
  attentionSortKey: 'dueAtMs',
  /** What the index has beside the keys: enough to count what is open without reading the records. */
  attentionAttributes: ['state', 'type', 'createdAtMs', 'parkedAtMs', 'effectPossibleSinceMs'],
  /** Seconds since the epoch. Garbage collection only: no condition reads it. */
  ttlAttribute: 'expiresAtSeconds',
} as const;
