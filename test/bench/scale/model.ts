import { limitsFrom } from '../../../lambdas/operation/limits';
import { alarms } from '../../../lib/alarms';
import type { Measured, Path } from './measure';
import type { Counts } from './metered-bench';
import { costOf, prices } from './prices';

/** What cannot be measured on a laptop, or is another's choice. docs/scale.md shows it beside the results. */
export const assumed = {
  /** One create-and-confirm of a PaymentIntent, card network included. Stripe publishes none; measure your own. */
  providerMs: 800,
  /** One call of DynamoDB within a region. */
  tableMs: 5,
  /** Of the operations, those that come through the API; the others are sent to the queue. */
  apiShare: 0.5,
  statusRequestsPerAccepted: 2,
  refundShare: 0.02,
  /** Messages that are delivered again after their operation has ended. */
  replayShare: 0.01,
  /** Attempts whose outcome is unknown and that are repeated. */
  unknownShare: 0.01,
  /** Deliveries that wait their turn. */
  deferredShare: 0.02,
  /** How long those wait on average: half of the first back-off. */
  waitSeconds: limitsFrom().retryBaseSeconds / 2,
  memoryGb: 0.5,
  /** The share of a processor that the memory brings: one at 1 769 MB. https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html */
  processors: 512 / 1769,
  /** What Lambda itself logs about an invocation. */
  platformLogBytes: 400,
  accessLogBytes: 500,
  /** Of what is logged, after compression. */
  logCompression: 0.15,
  logRetentionMonths: 3,
  /** The index that DynamoDB keeps for each item. https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html */
  itemOverheadBytes: 100,
  recordRetentionMonths: (limitsFrom().recordRetentionDays * 24) / 730,
  hoursPerMonth: 730,
  /** An event source that finds nothing asks again 15 times a minute: five pollers that wait 20 s each. */
  emptyReceivesPerMonth: 15 * 60 * 730,
  metrics: 80,
  alarms: alarms.length,
  /** Nothing is planned fuller than this. */
  fill: 0.5,
} as const;

export interface Size {
  readonly title: string;
  readonly operationsPerMonth: number;
  /** The busiest second against the average. */
  readonly peakFactor: number;
  /** Messages of a batch at the peak: one, unless there is always a backlog of a batch. */
  readonly isBatchFull: boolean;
}

export const sizes: readonly Size[] = [
  { title: '100 000 a month', operationsPerMonth: 1e5, peakFactor: 20, isBatchFull: false },
  { title: '10 million a month', operationsPerMonth: 1e7, peakFactor: 10, isBatchFull: false },
  { title: '1 million a minute', operationsPerMonth: 60e6 * 730, peakFactor: 1, isBatchFull: true },
];

/** Fixed by AWS or Stripe, or by our own settings; the defaults of quotas that can be raised. */
export const limits = {
  /** https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html */
  partitionWrites: 1000,
  partitionReads: 3000,
  partitionGb: 10,
  /** https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html */
  tableUnits: 40_000,
  /** https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html */
  concurrency: 1000,
  /** https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html */
  mappingConcurrency: 1000,
  /** https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html */
  inFlight: 120_000,
  /** https://docs.aws.amazon.com/apigateway/latest/developerguide/limits.html */
  apiRequestsPerSecond: 10_000,
  /** https://docs.stripe.com/rate-limits */
  stripePerSecond: 100,
} as const;

export interface Plan {
  readonly size: Size;
  readonly averagePerSecond: number;
  readonly peakPerSecond: number;
  readonly stripePerSecond: number;
  readonly batchMs: number;
  readonly batchesPerSecond: number;
  readonly workers: number;
  /** With four fifths of the concurrent invocations that one mapping has. */
  readonly stackPerSecond: number;
  /** Stacks that share the work. */
  readonly stacks: number;
  readonly apiRequestsPerSecond: number;
  readonly apiConcurrency: number;
  readonly inFlight: number;
  /** Until the queue's limit is reached when Stripe stands still, in seconds. */
  readonly standstillSeconds: number;
  readonly writesPerSecond: number;
  readonly readsPerSecond: number;
  readonly indexWritesPerSecond: number;
  readonly providerWritesPerSecond: number;
  readonly storedGb: number;
  readonly tablePartitions: number;
  readonly openShards: number;
  readonly providerShards: number;
  /** Tenants that must be at work at once, with the default of two calls each. */
  readonly tenants: number;
  /** Operations that one run of the reconciler can send again. */
  readonly sentAgainPerMinute: number;
  /** US dollars a month. */
  readonly costs: Readonly<Record<CostName, number>>;
  readonly provisionedWrites: number;
}

export type CostName =
  | 'DynamoDB requests'
  | 'DynamoDB storage and backup'
  | 'Lambda'
  | 'SQS'
  | 'API Gateway'
  | 'Logs'
  | 'Metrics, alarms, secret';

export function planOf(measured: Measured, size: Size): Plan {
  const { fullBatch, recordBytes } = measured;
  const batch = size.isBatchFull ? fullBatch : 1;
  const use = useOf(measured, size);
  const averagePerSecond = size.operationsPerMonth / (assumed.hoursPerMonth * 3600);
  const peakPerSecond = averagePerSecond * size.peakFactor;
  const batchesPerSecond = (peakPerSecond * use.deliveries) / batch;
  const workers = batchesPerSecond * (use.batchMs / 1000);
  const stackPerSecond = (peakPerSecond * limits.mappingConcurrency * 0.8) / workers;
  const stacks = Math.ceil(peakPerSecond / stackPerSecond);
  const at = (perOperation: number) => peakPerSecond * perOperation;
  const storedGb =
    (size.operationsPerMonth * assumed.recordRetentionMonths * (recordBytes + assumed.itemOverheadBytes)) /
    1e9;
  const shards = (writesPerSecond: number) =>
    Math.max(1, Math.ceil(writesPerSecond / stacks / (limits.partitionWrites * assumed.fill)));
  return {
    size,
    averagePerSecond,
    peakPerSecond,
    stripePerSecond: at(use.stripeCalls),
    batchMs: use.batchMs,
    batchesPerSecond,
    workers,
    stackPerSecond,
    stacks,
    apiRequestsPerSecond: at(use.apiRequests),
    apiConcurrency: at(use.apiSeconds),
    inFlight: at(use.deliveries * (use.batchMs / 1000) + use.waits * assumed.waitSeconds),
    standstillSeconds: (limits.inFlight * stacks) / at(use.deliveries),
    writesPerSecond: at(use.writes),
    readsPerSecond: at(use.reads),
    indexWritesPerSecond: at(use.indexWrites),
    providerWritesPerSecond: at(use.providerWrites),
    storedGb,
    tablePartitions: Math.ceil(
      Math.max(
        at(use.writes) / (limits.partitionWrites * assumed.fill),
        at(use.reads) / (limits.partitionReads * assumed.fill),
        storedGb / limits.partitionGb,
      ),
    ),
    openShards: Math.max(limitsFrom().openShards, shards(at(use.indexWrites))),
    providerShards: shards(at(use.providerWrites)),
    tenants: Math.ceil((at(use.deliveries) * (use.batchMs / 1000)) / limitsFrom().tenantMaxRunning),
    sentAgainPerMinute: (50_000 * assumed.processors) / measured.paths.sentAgain.cpuMs,
    costs: costsOf(size, use, storedGb, stacks),
    provisionedWrites: costOf(
      prices.provisionedWrite,
      (at(use.writes + use.indexWrites) / 0.7) * assumed.hoursPerMonth,
    ),
  };
}

/** What one operation takes on average, its share of replays, waits and repeated attempts included. */
interface Use {
  /** Of messages to the worker. */
  readonly deliveries: number;
  readonly waits: number;
  readonly apiRequests: number;
  readonly apiSeconds: number;
  readonly stripeCalls: number;
  readonly reads: number;
  readonly writes: number;
  readonly indexWrites: number;
  readonly providerWrites: number;
  readonly queueRequests: number;
  readonly invocations: number;
  readonly gbSeconds: number;
  readonly logBytes: number;
  /** A batch of the worker that charges. */
  readonly batchMs: number;
}

function useOf({ paths, fullBatch }: Measured, { isBatchFull }: Size): Use {
  const batch = isBatchFull ? fullBatch : 1;
  const charge = isBatchFull ? paths.directFull : paths.direct;
  const delivered = (path: Path) => (isBatchFull ? inFullBatch(paths, path) : paths[path]);
  const accepted = assumed.apiShare + assumed.refundShare;
  const ways: readonly (readonly [counts: Counts, share: number])[] = [
    [charge, 1 - assumed.apiShare],
    [paths.accept, assumed.apiShare],
    [delivered('accepted'), assumed.apiShare],
    [paths.status, accepted * assumed.statusRequestsPerAccepted],
    [paths.refundAccept, assumed.refundShare],
    [delivered('refund'), assumed.refundShare],
    [delivered('replay'), assumed.replayShare],
    [delivered('unknown'), assumed.unknownShare],
    [delivered('deferred'), assumed.deferredShare],
  ];
  const sum = (of: (counts: Counts) => number) =>
    ways.reduce((total, [counts, share]) => total + share * of(counts), 0);
  const waits = assumed.unknownShare + assumed.deferredShare;
  const deliveries = 1 + assumed.refundShare + assumed.replayShare + waits;
  const apiRequests = accepted * (1 + assumed.statusRequestsPerAccepted);
  const processorMs = (counts: Counts) => counts.cpuMs / assumed.processors;
  // One message's calls follow each other, the messages of a batch run side by side, and their code in turns.
  const batchMs = waitingMs(paths.direct) + batch * processorMs(charge);
  const apiSeconds =
    (assumed.apiShare * requestMs(paths, 'accept') +
      assumed.refundShare * requestMs(paths, 'refundAccept') +
      accepted * assumed.statusRequestsPerAccepted * requestMs(paths, 'status')) /
    1000;
  const providerWrites = Math.max(
    sum(({ providerWriteUnits }) => providerWriteUnits),
    deliveries / batch,
  );
  return {
    deliveries,
    waits,
    apiRequests,
    apiSeconds,
    stripeCalls: sum(({ stripeCalls }) => stripeCalls),
    reads: sum(({ readUnits }) => readUnits),
    writes: sum(({ writeUnits }) => writeUnits) + providerWrites,
    indexWrites: sum(({ indexWriteUnits }) => indexWriteUnits),
    providerWrites,
    // Sent by us or by a producer, received and deleted by the event source, a batch at a time.
    queueRequests: sum(({ sqsCalls }) => sqsCalls) + (1 - assumed.apiShare) + (2 * deliveries) / batch,
    invocations: deliveries / batch + apiRequests,
    gbSeconds: assumed.memoryGb * ((deliveries * batchMs) / batch / 1000 + apiSeconds),
    logBytes:
      sum(({ logBytes }) => logBytes) +
      assumed.platformLogBytes * (deliveries / batch + apiRequests) +
      assumed.accessLogBytes * apiRequests,
    batchMs,
  };
}

/** A delivery that was counted alone, as it is in a full batch: less by what a charge is less there. */
function inFullBatch(paths: Measured['paths'], path: Path): Counts {
  const less = (name: keyof Counts) =>
    Math.max(0, paths[path][name] - paths.direct[name] + paths.directFull[name]);
  return {
    tableCalls: less('tableCalls'),
    readUnits: less('readUnits'),
    writeUnits: less('writeUnits'),
    providerWriteUnits: less('providerWriteUnits'),
    indexWriteUnits: less('indexWriteUnits'),
    sqsCalls: less('sqsCalls'),
    stripeCalls: less('stripeCalls'),
    logBytes: less('logBytes'),
    cpuMs: less('cpuMs'),
  };
}

const waitingMs = ({ tableCalls, stripeCalls }: Counts): number =>
  tableCalls * assumed.tableMs + stripeCalls * assumed.providerMs;

function requestMs(paths: Measured['paths'], path: Path): number {
  const counts = paths[path];
  return (counts.tableCalls + counts.sqsCalls) * assumed.tableMs + counts.cpuMs / assumed.processors;
}

function costsOf(size: Size, use: Use, storedGb: number, stacks: number): Plan['costs'] {
  const { operationsPerMonth: operations } = size;
  const reconcilerRuns = stacks * assumed.hoursPerMonth * 60;
  const queueRequests = operations * use.queueRequests + stacks * assumed.emptyReceivesPerMonth;
  const logGb = (operations * use.logBytes + reconcilerRuns * assumed.platformLogBytes) / 1e9;
  return {
    'DynamoDB requests':
      costOf(prices.write, operations * (use.writes + use.indexWrites)) +
      costOf(prices.read, operations * use.reads + reconcilerRuns * 0.5 * limitsFrom().openShards),
    'DynamoDB storage and backup': costOf(prices.storage, storedGb) + costOf(prices.backup, storedGb),
    Lambda:
      costOf(prices.compute, operations * use.gbSeconds + reconcilerRuns * assumed.memoryGb * 0.1) +
      costOf(prices.invocation, operations * use.invocations + reconcilerRuns),
    SQS: costOf(prices.queue, queueRequests) + costOf(prices.fairQueue, queueRequests),
    'API Gateway': costOf(prices.request, operations * use.apiRequests),
    Logs:
      costOf(prices.logs, logGb) +
      costOf(prices.logStorage, logGb * assumed.logCompression * assumed.logRetentionMonths),
    'Metrics, alarms, secret':
      stacks *
      (costOf(prices.metric, assumed.metrics) +
        costOf(prices.alarm, assumed.alarms) +
        costOf(prices.dashboard, 1) +
        costOf(prices.secret, 1)),
  };
}
