import type { Limits } from '../operation/limits';
import { oldestForm } from '../operation/message';
import type { Bound, Operation } from '../operation/operation';

/** The first write of an id binds it to its inputs. */
export const neverSeen = 'attribute_not_exists(pk)';

/** What an operation's item has beside its key, in the oldest form that can say its inputs. */
export function attributesOf({ tenantId: _, operationId: __, ...operation }: Operation) {
  return { ...operation, ...oldestForm(operation) };
}

/** Binds an id to its inputs: the first write wins, and every later one leaves it as it is. */
export const bind = (bound: Bound): string[] =>
  Object.keys(initial(bound)).map(
    (attribute) => `#${attribute} = if_not_exists(#${attribute}, :${attribute})`,
  );

export const initial = (bound: Bound) => ({ ...bound, ...oldestForm(bound), redriveCount: 0 });

export const valuesOf = (bound: Bound) => ({ ...initial(bound), zero: 0, one: 1 });

export const lease = ['leaseExpiresAtMs'];
export const park = ['parkedReason', 'parkedAtMs'];
export const attention = ['openShard', 'dueAtMs'];
export const effect = ['effectPossibleSinceMs', 'effectPossibleClaimId'];

/** The record is as it was seen: the state and the last claim. */
export const asSeen = ({ claimId }: Operation): string =>
  `#state = :seenState AND ${claimId === undefined ? 'attribute_not_exists(#claimId)' : '#claimId = :seenClaimId'}`;

export const seenValues = ({ state, claimId }: Operation) => ({ seenState: state, seenClaimId: claimId });

export const minuteMs = 60_000;

/** DynamoDB's TTL is in seconds. https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html */
export const retention = (limits: Limits, nowMs: number) => ({
  expiresAtSeconds: Math.floor(nowMs / 1000) + limits.recordRetentionDays * 86_400,
});

/** The operation's place in the attention index: a shard by its digest, so that writes spread. */
export const due = (
  { inputDigest }: Pick<Operation, 'inputDigest'>,
  { openShards }: Limits,
  dueAtMs: number,
) => ({
  openShard: Number.parseInt(inputDigest.slice(0, 8), 16) % openShards,
  dueAtMs,
});
