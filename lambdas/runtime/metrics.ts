/** The namespace of the service's own metrics in CloudWatch. */
export const metricNamespace = 'ChargeOnce';

/**
 * The dimensions that a metric has beside `service` and `stage`, in sets: CloudWatch keeps one metric for each set, and
 * an alarm sees the one that has exactly the dimensions that it names. So what an alarm counts over all types has a set
 * without `type`. https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
 */
export const dimensionSets = {
  service: [[]],
  type: [['type']],
  typeAndService: [['type'], []],
  reason: [['type', 'reason'], ['reason']],
  reasonAndService: [['type', 'reason'], []],
} as const satisfies Record<string, readonly (readonly Dimension[])[]>;

export type DimensionSets = keyof typeof dimensionSets;
/** `type` is that of the operation: charge or refund, or unknown for a message that could not be read. */
export type Dimension = 'type' | 'reason';

interface Metric {
  readonly unit: 'Count' | 'Milliseconds';
  readonly by: DimensionSets;
  /** A number of events: those of one invocation are summed up. Of a measurement each value is kept. */
  readonly isSum: boolean;
}

const count = (by: DimensionSets): Metric => ({ unit: 'Count', by, isSum: true });
const level = (by: DimensionSets): Metric => ({ unit: 'Count', by, isSum: false });
const milliseconds = (by: DimensionSets): Metric => ({ unit: 'Milliseconds', by, isSum: false });

/**
 * Every metric of the service: what is counted and measured, and what `lib/monitoring.ts` shows and watches. Each set of
 * dimension values that occurs is a metric on AWS's bill, so nothing has a tenant or an operation for a dimension.
 */
export const metrics = {
  /** From a message's sending, or its redrive, to a delivery. */
  QueueAgeMs: milliseconds('type'),
  /** From a claim to its settle. */
  ExecutionMs: milliseconds('type'),
  /** From when an operation was first heard of to its end. */
  DoneAfterMs: milliseconds('type'),
  /** Records made by the API. */
  Accepted: count('type'),
  /** Claims of an operation that was not attempted before. */
  FirstAttempt: count('type'),
  /** Claims of one that was. */
  Retried: count('type'),
  /** Operations that went back to wait. */
  Requeued: count('type'),
  Settling: count('type'),
  Succeeded: count('type'),
  Cancelled: count('type'),
  /** By the code of the error. */
  Failed: count('reason'),
  Parked: count('reason'),
  /** Messages that come back later, and waits that are kept in the table. */
  Deferred: count('reason'),
  Rejected: count('reason'),
  /** Messages of operations that are parked, on their way to the dead-letter queue. */
  GivenUp: count('reason'),
  /** Last deliveries of messages that were rejected, given up or still deferred. */
  DeadLettered: count('reason'),
  Replayed: count('type'),
  /** Inputs that do not fit their operation's id, or parameters that do not fit their provider key. */
  Conflict: count('reasonAndService'),
  /** The provider proved an effect that an ended record denies. */
  Contradicted: count('typeAndService'),
  /** Parked or settling for long, and what happened cannot be told. */
  Escalated: count('typeAndService'),
  /** Provider calls of attempts, by outcome: their number is its sample count. */
  ProviderCallMs: milliseconds('reason'),
  /** Reconciliations, by what they found. */
  Reconciled: count('reason'),
  /** What people did to operations, by what it was. */
  Intervened: count('reason'),
  /** API requests that were answered with a problem, by its type. */
  RequestRefused: count('reason'),
  RequestReplayed: count('type'),
  /** Errors that were caught: the message comes back, or the caller is told to repeat. */
  CaughtError: count('service'),
  /** Failures that heal by themselves: a place that was not given back, say. */
  Tolerated: count('service'),
  /** 1 while no calls are made, because the breaker is open or the service is paused; else 0. */
  BreakerOpen: level('service'),
  /** What is left of the retry budget's window: 100 pay for one retry. */
  RetryTokens: level('service'),
  /** Calls of that window, and those of them that say that the provider is not well. */
  WindowCalls: level('service'),
  WindowFailures: level('service'),
  BreakerOpened: count('service'),
  BreakerClosed: count('service'),
  BreakerProbed: count('service'),
  /** The reconciler's heartbeat. */
  ReconcilerRun: count('service'),
  DueSent: count('service'),
  DueSettled: count('service'),
  DueLeft: count('service'),
  DueFailed: count('service'),
  /** Operations of the attention index by state, as the census counts them every ten minutes. */
  OpenQueued: level('type'),
  OpenRunning: level('type'),
  OpenSettling: level('type'),
  OpenParked: level('type'),
  /** Age of the oldest of them: queued or running since it was first heard of, settling since its effect became possible, parked since then. 0 when there is none. */
  OldestWaitingMs: milliseconds('service'),
  OldestSettlingMs: milliseconds('service'),
  OldestParkedMs: milliseconds('service'),
  /** How late the operation is that was due first: 0 when none is late. */
  OldestDueMs: milliseconds('service'),
} as const satisfies Record<string, Metric>;

export type MetricName = keyof typeof metrics;
