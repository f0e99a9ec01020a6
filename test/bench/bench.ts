import { randomUUID } from 'node:crypto';
import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { OwnTime } from './memory/own-time';
import { MemoryProvider } from './memory/provider';
import { MemoryTable, type TableUse } from './memory/table';

/** Messages of a batch: the most without a batching window. */
export const batchSize = 10;

export const sides = ['ours', 'stock'] as const;
export type Side = (typeof sides)[number];
/** The same of both consumers. */
export type Both<T> = Readonly<Record<Side, T>>;

type Handler = (event: SQSEvent, context: Context) => Promise<SQSBatchResponse>;

/** What both consumers read from their environment. Without bounds a tenant's item is neither read nor written. */
export const environment = (hasBounds: boolean): Readonly<Record<string, string>> => ({
  OPERATIONS_TABLE: 'operations',
  STOCK_TABLE: 'stock',
  QUEUE_URL: 'https://sqs.us-east-1.amazonaws.com/000000000000/jobs',
  STAGE: 'bench',
  SETTINGS: JSON.stringify({ batchSize, maxConcurrency: 5, ...(hasBounds ? {} : { tenantMaxRunning: 0 }) }),
  PROVIDER_KEY_PREFIX: 'charge-once',
  STRIPE_API_KEY: 'sk_test_bench',
  AWS_REGION: 'us-east-1',
  AWS_ACCESS_KEY_ID: 'bench',
  AWS_SECRET_ACCESS_KEY: 'bench',
  AWS_LAMBDA_FUNCTION_NAME: 'bench',
});

/** Both consumers in this process, on one table and one provider in memory. */
export interface Bench {
  readonly table: MemoryTable;
  readonly provider: MemoryProvider;
  readonly ownTime: OwnTime;
  readonly handlers: Both<Handler>;
}

/** @param hasBounds whether our worker keeps a tenant's bounds, which the stock consumer has none of */
export async function openBench(hasBounds: boolean): Promise<Bench> {
  Object.assign(process.env, environment(hasBounds));
  const ownTime = new OwnTime();
  const table = new MemoryTable(ownTime);
  const provider = new MemoryProvider(ownTime);
  table.install();
  provider.install();
  const ours = await import('../../lambdas/work');
  const stock = await import('./stock/handler');
  return { table, provider, ownTime, handlers: { ours: ours.handler, stock: stock.handler } };
}

/** A batch of charges, each of a tenant of its own. */
export const freshBatch = (): SQSRecord[] => Array.from({ length: batchSize }, freshRecord);

/** Hands a batch to a handler. @throws when a message is not done */
export async function deliver(handler: Handler, records: readonly SQSRecord[]): Promise<void> {
  const { batchItemFailures } = await handler({ Records: [...records] }, context);
  if (batchItemFailures.length > 0) throw new Error(`${batchItemFailures.length} messages were not done`);
}

/** What one operation took. */
export interface Counts extends Readonly<TableUse> {
  readonly providerCalls: number;
}

export interface AllCounts {
  readonly fresh: Counts;
  /** A second delivery after the end. */
  readonly duplicate: Counts;
  /** Two deliveries: the process dies after the provider's answer and before the write that settles it, and the lease ends. */
  readonly crashed: Counts;
}

/** Counts for both consumers, by operation in a full batch. Leaves the clock ahead. */
export async function countAll(bench: Bench): Promise<Both<AllCounts>> {
  bench.table.isMetered = true;
  const ours = await countOf(bench, bench.handlers.ours);
  const stock = await countOf(bench, bench.handlers.stock);
  bench.table.isMetered = false;
  // What the dead deliveries still wait for would keep the process up.
  for (const giveUp of bench.table.deaths) giveUp();
  return { ours, stock };
}

async function countOf(bench: Bench, handler: Handler): Promise<AllCounts> {
  // The first batch of a process, or of a minute, is not a usual one.
  await deliver(handler, freshBatch());
  take(bench);
  const records = freshBatch();
  await deliver(handler, records);
  const fresh = take(bench);
  await deliver(handler, records);
  const duplicate = take(bench);
  const lost = freshBatch();
  await dieBeforeSettle(bench, handler, lost);
  await deliver(handler, lost.map(receivedAgain));
  return { fresh, duplicate, crashed: take(bench) };
}

/** What each operation of a batch took since the last time. */
function take({ table, provider }: Bench): Counts {
  const { calls, readUnits, writeUnits, providerWriteUnits, indexWriteUnits } = table.take();
  return {
    providerCalls: provider.takeCalls() / batchSize,
    calls: calls / batchSize,
    readUnits: readUnits / batchSize,
    writeUnits: writeUnits / batchSize,
    providerWriteUnits: providerWriteUnits / batchSize,
    indexWriteUnits: indexWriteUnits / batchSize,
  };
}

/** Leaves a delivery where it is when each of its operations waits for the write that says how it ended, and moves the clock past its lease. */
async function dieBeforeSettle({ table }: Bench, handler: Handler, records: SQSRecord[]): Promise<void> {
  for (const text of ['succeeded', 'COMPLETED']) table.diesAt.add(text);
  const deaths = table.deaths.length + batchSize;
  // What it would have said is nobody's business.
  handler({ Records: records }, context).catch(() => {});
  while (table.deaths.length < deaths) await new Promise(setImmediate);
  table.diesAt.clear();
  const now = Date.now;
  Date.now = () => now() + pastTheLeaseMs;
}

const timeoutMs = 30_000;
/** The worker's time, the margin of our lease, and a second. */
const pastTheLeaseMs = timeoutMs + 31_000;

/** As the processes that send jobs make them. */
function freshRecord(): SQSRecord {
  const input = {
    invoiceId: 'inv-77',
    amountMinor: 1999,
    currency: 'usd',
    customerId: 'cus_SampleCustomer1',
    paymentMethodId: 'pm_1SampleMethod0123456789',
  };
  const ids = { tenantId: randomUUID(), operationId: randomUUID() };
  const now = String(Date.now());
  const messageId = randomUUID();
  return {
    messageId,
    receiptHandle: messageId,
    body: JSON.stringify({ version: 1, ...ids, type: 'charge', input }),
    attributes: {
      ApproximateReceiveCount: '1',
      SentTimestamp: now,
      SenderId: 'bench',
      ApproximateFirstReceiveTimestamp: now,
    },
    messageAttributes: {},
    md5OfBody: '',
    eventSource: 'aws:sqs',
    eventSourceARN: 'arn:aws:sqs:us-east-1:000000000000:jobs',
    awsRegion: 'us-east-1',
  };
}

const receivedAgain = (record: SQSRecord): SQSRecord => ({
  ...record,
  attributes: { ...record.attributes, ApproximateReceiveCount: '2' },
});

const context: Context = {
  awsRequestId: 'c6af9ac6-7b61-11e6-9a41-93e8deadbeef',
  functionName: 'bench',
  functionVersion: '$LATEST',
  invokedFunctionArn: 'arn:aws:lambda:us-east-1:000000000000:function:bench',
  memoryLimitInMB: '512',
  logGroupName: 'bench',
  logStreamName: 'bench',
  callbackWaitsForEmptyEventLoop: false,
  getRemainingTimeInMillis: () => timeoutMs,
  done: () => {},
  fail: () => {},
  succeed: () => {},
};
