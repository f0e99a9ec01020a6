import { operationPartition, readOperation } from '../lambdas/adapters/operation-item';
import { readTenant, tenantPartition } from '../lambdas/adapters/tenant-item';
import { viewOf } from '../lambdas/http/view';
import { nameOf, type Operation } from '../lambdas/operation/operation';
import type { State } from '../lambdas/operation/state';
import type { Report } from './io';
import { stateText } from './operation-view';
import type { Session } from './session';
import { counted, duration, iso, table, yesNo } from './text';

export interface OperationListOptions {
  readonly tenant?: string | undefined;
  readonly state?: State | undefined;
  readonly limit: number;
}

/** Later than any due time: the whole index, not only what is due. */
const everMs = Number.MAX_SAFE_INTEGER;

/**
 * `operation list`: the operations that no message will bring back by itself, and of one tenant also those that hold a
 * place. No scan: what has ended, and direct messages on their ordinary way, are found by their ids only.
 */
export async function operationList(session: Session, options: OperationListOptions): Promise<Report> {
  const { target } = session;
  const { operations, unreadable, isComplete } = await find(session, options);
  const nowMs = target.now();
  const of = options.tenant === undefined ? '' : ` of tenant ${options.tenant}`;
  const count = `${counted(operations.length, 'operation')}${of} ${operations.length === 1 ? 'needs attention or waits' : 'need attention or wait'} in the table of ${target.name}`;
  const text = [
    operations.length === 0 ? `${count}.` : `${count}.\n\n${listOf(operations, nowMs)}`,
    ...(isComplete ? [] : [`There may be more: only the first ${operations.length} are shown (--limit).`]),
    ...(unreadable.length > 0
      ? [
          `${counted(unreadable.length, 'record')} of a newer build cannot be shown by this one: ${unreadable.join(', ')}.`,
        ]
      : []),
  ].join('\n');
  return {
    ok: true,
    text,
    document: {
      target: target.name,
      operations: operations.map((operation) => lineOf(operation, nowMs)),
      count: operations.length,
      isComplete,
      unreadable,
    },
  };
}

async function find({ target }: Session, { tenant, state, limit }: OperationListOptions) {
  const found = new Map<string, Operation>();
  const unreadable = new Set<string>();
  let isComplete = true;
  for await (const partitionKeys of pages(target, tenant)) {
    const wanted = partitionKeys.filter((key) => tenant === undefined || key.startsWith(`op#${tenant}#`));
    for (const item of await target.table.read(wanted)) {
      const operation = readOperation(item);
      if (!operation) unreadable.add(String(item.pk).split('#').slice(1).join('/'));
      else if (state === undefined || operation.state === state) found.set(nameOf(operation), operation);
    }
    if (found.size >= limit) {
      isComplete = false;
      break;
    }
  }
  const operations = [...found.values()]
    .sort((a, b) => (a.dueAtMs ?? everMs) - (b.dueAtMs ?? everMs) || a.createdAtMs - b.createdAtMs)
    .slice(0, limit);
  return { operations, unreadable: [...unreadable], isComplete };
}

/** Partition keys of operations: those that hold a place of the tenant, then the attention index. */
async function* pages({ table: client, limits }: Session['target'], tenant: string | undefined) {
  if (tenant !== undefined) {
    const [item] = await client.read([tenantPartition(tenant)]);
    const { running = {}, accepted = {} } = readTenant(item) ?? {};
    const ids = [...new Set([...Object.keys(running), ...Object.keys(accepted)])];
    yield ids.map((operationId) => operationPartition({ tenantId: tenant, operationId }));
  }
  for (let shard = 0; shard < limits.openShards; shard++) yield* client.due(shard, everMs);
}

const listOf = (operations: readonly Operation[], nowMs: number): string =>
  table(
    ['OPERATION', 'TYPE', 'STATE', 'MONEY', 'ATTEMPTS', 'AGE', 'DUE'],
    operations.map((operation) => [
      nameOf(operation),
      operation.type,
      stateText(operation),
      yesNo(viewOf(operation).effectPossible),
      String(operation.attemptCount),
      duration(nowMs - operation.createdAtMs),
      dueText(operation.dueAtMs, nowMs),
    ]),
  );

function dueText(dueAtMs: number | undefined, nowMs: number): string {
  if (dueAtMs === undefined) return '-';
  return dueAtMs > nowMs ? `in ${duration(dueAtMs - nowMs)}` : `since ${duration(nowMs - dueAtMs)}`;
}

function lineOf(operation: Operation, nowMs: number): object {
  return {
    ...viewOf(operation),
    moneyMayHaveMoved: viewOf(operation).effectPossible,
    ageSeconds: Math.max(0, Math.round((nowMs - operation.createdAtMs) / 1000)),
    ...(operation.dueAtMs === undefined ? {} : { dueAt: iso(operation.dueAtMs) }),
  };
}
