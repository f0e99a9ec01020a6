import { Duration } from 'aws-cdk-lib';
import type { HttpApi } from 'aws-cdk-lib/aws-apigatewayv2';
import {
  ComparisonOperator,
  type IMetric,
  Metric,
  Stats,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import { type MetricName, metricNamespace } from '../lambdas/runtime/metrics';
import type { ChargeOnce } from './charge-once';
import type { Settings } from './settings';

/** What alarms and widgets look at. */
export interface Watched {
  readonly chargeOnce: ChargeOnce;
  /** Undefined for a service without the HTTP API. */
  readonly api: HttpApi | undefined;
}

/** One alarm. Its section in docs/runbook.md has `title` for its heading. */
export interface AlarmRow {
  /** The construct's id: final, because it becomes the logical id. */
  readonly id: string;
  readonly title: string;
  /** In plain words: what happened, and what comes of it if nobody acts. */
  readonly cause: (settings: Settings) => string;
  /** A plain metric with its statistic and period; undefined where there is nothing to watch. */
  readonly metric: (watched: Watched) => IMetric | undefined;
  readonly threshold: (settings: Settings) => number;
  readonly compared: ComparisonOperator;
  /** How many of the last periods must be beyond the threshold. */
  readonly periods: { readonly beyond: number; readonly of: number };
  readonly missing: TreatMissingData;
}

const minute = Duration.minutes(1);
const fiveMinutes = Duration.minutes(5);
/** Longer than the ten minutes between two censuses, so that each period has one. */
const censusPeriod = Duration.minutes(15);
const hourMs = 3_600_000;

const atLeast = ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD;
const above = ComparisonOperator.GREATER_THAN_THRESHOLD;
const below = ComparisonOperator.LESS_THAN_THRESHOLD;
const { NOT_BREACHING: isFine, BREACHING: isBad, IGNORE: saysNothing } = TreatMissingData;
const once = { beyond: 1, of: 1 };
const first = () => 1;

/** Every alarm of the service. None uses metric math, so that each can be read, tested and emulated as one number. */
export const alarms = [
  {
    id: 'DeadLetters',
    title: 'Messages in the dead-letter queue',
    cause: () =>
      'Jobs were given up: a message could not be read, asked for other inputs under a known id, or its operation is parked. They stay until a person redrives or discards them, and are lost when their retention ends.',
    metric: ({ chargeOnce }) =>
      chargeOnce.queues.deadLetterQueue.metricApproximateNumberOfMessagesVisible({
        statistic: Stats.MAXIMUM,
        period: minute,
      }),
    threshold: first,
    compared: atLeast,
    periods: once,
    missing: isFine,
  },
  {
    id: 'QueueAge',
    title: 'Old messages in the queue',
    cause: () =>
      'The oldest message has waited for more than 15 minutes: the workers do not keep up, or cannot work. Payments come late, and those that were never attempted fail at their deadline.',
    metric: ({ chargeOnce }) =>
      chargeOnce.queues.queue.metricApproximateAgeOfOldestMessage({
        statistic: Stats.MAXIMUM,
        period: minute,
      }),
    threshold: () => 900,
    compared: above,
    periods: { beyond: 3, of: 3 },
    missing: isFine,
  },
  {
    id: 'InFlight',
    title: 'Too many messages in flight',
    cause: ({ alarmInFlightMessages }) =>
      `More than ${alarmInFlightMessages} messages were received and not finished. At 120 000 SQS hands out no more, and all work stops.`,
    metric: ({ chargeOnce }) =>
      chargeOnce.queues.queue.metricApproximateNumberOfMessagesNotVisible({
        statistic: Stats.MAXIMUM,
        period: minute,
      }),
    threshold: ({ alarmInFlightMessages }) => alarmInFlightMessages,
    compared: above,
    periods: once,
    missing: isFine,
  },
  {
    id: 'OldestOpen',
    title: 'An operation has waited too long',
    cause: ({ deadlineHours }) =>
      `An operation that waits in the table has not ended for ${deadlineHours / 2} hours, half of the default deadline. One that is not attempted by its deadline fails.`,
    metric: (watched) => own(watched, 'OldestWaitingMs', Stats.MAXIMUM, censusPeriod),
    threshold: ({ deadlineHours }) => (deadlineHours / 2) * hourMs,
    compared: above,
    periods: once,
    missing: saysNothing,
  },
  {
    id: 'ParkedTooLong',
    title: 'Parked for more than an hour',
    cause: () =>
      'An operation has been parked for more than an hour: we stopped trying. It may have moved money, and its customer does not know how it ended.',
    metric: (watched) => own(watched, 'OldestParkedMs', Stats.MAXIMUM, censusPeriod),
    threshold: () => hourMs,
    compared: above,
    periods: once,
    missing: saysNothing,
  },
  {
    id: 'SettlingTooLong',
    title: 'Settling for too long',
    cause: ({ alarmSettlingHours }) =>
      `Stripe took an operation more than ${alarmSettlingHours} hours ago and has not said how it ended.`,
    metric: (watched) => own(watched, 'OldestSettlingMs', Stats.MAXIMUM, censusPeriod),
    threshold: ({ alarmSettlingHours }) => alarmSettlingHours * hourMs,
    compared: above,
    periods: once,
    missing: saysNothing,
  },
  {
    id: 'OutcomeUnknown',
    title: 'An outcome that cannot be told',
    cause: () =>
      'The reconciler has asked Stripe for an hour what became of an operation, and cannot tell. It may have moved money. It stays as it is until a person settles it.',
    metric: (watched) => own(watched, 'Escalated', Stats.SUM, fiveMinutes),
    threshold: first,
    compared: atLeast,
    periods: once,
    missing: isFine,
  },
  {
    id: 'Contradiction',
    title: 'A record that Stripe contradicts',
    cause: () =>
      'Stripe proved an effect of an operation whose record ended otherwise: money moved that the record denies.',
    metric: (watched) => own(watched, 'Contradicted', Stats.SUM, fiveMinutes),
    threshold: first,
    compared: atLeast,
    periods: once,
    missing: isFine,
  },
  {
    id: 'ProviderStopped',
    title: 'The breaker is open or the service is paused',
    cause: () =>
      'No calls are made: Stripe failed too often, refuses our key, or a person paused the service. Operations wait, and none is lost.',
    metric: (watched) => own(watched, 'BreakerOpen', Stats.MAXIMUM, minute),
    threshold: first,
    compared: atLeast,
    periods: once,
    // Told once a batch and once a run of the reconciler: between them it is as it was told last.
    missing: saysNothing,
  },
  {
    id: 'Conflicts',
    title: 'A conflict or a mis-keyed request',
    cause: () =>
      'Somebody used an operation id again with other inputs, or Stripe knows our key with other parameters. Nothing was charged for it; a caller has a bug, or we have.',
    metric: (watched) => own(watched, 'Conflict', Stats.SUM, fiveMinutes),
    threshold: first,
    compared: atLeast,
    periods: once,
    missing: isFine,
  },
  {
    id: 'RetryBudget',
    title: 'The retry budget is exhausted',
    cause: () =>
      'Retries wait because the whole service has made as many as it may: more than a tenth of the attempts fail. First attempts go on.',
    metric: (watched) => own(watched, 'Deferred', Stats.SUM, minute, 'retry_budget'),
    threshold: first,
    compared: atLeast,
    periods: { beyond: 3, of: 5 },
    missing: isFine,
  },
  {
    id: 'DailyCalls',
    title: "The day's calls are used up",
    cause: ({ providerDailyCalls }) =>
      `The service has made ${providerDailyCalls === undefined ? 'as many Stripe calls as it may' : `its ${providerDailyCalls} Stripe calls`} of this UTC day. Everything waits for the next one, and fails where its deadline is earlier.`,
    metric: (watched) => own(watched, 'Deferred', Stats.SUM, fiveMinutes, 'service_daily_calls_used'),
    threshold: first,
    compared: atLeast,
    periods: once,
    missing: isFine,
  },
  {
    id: 'Forbidden',
    title: 'Stripe answers 403',
    cause: () =>
      'Stripe refused an operation for its customer or account, or because the restricted key may not do it. The operation is parked.',
    metric: (watched) => own(watched, 'ProviderCallMs', Stats.SAMPLE_COUNT, fiveMinutes, 'forbidden'),
    threshold: first,
    compared: atLeast,
    periods: once,
    missing: isFine,
  },
  {
    id: 'Unauthorized',
    title: 'Stripe answers 401',
    cause: () => 'Stripe does not accept our key. Nothing can be charged until it is right; operations wait.',
    metric: (watched) =>
      own(watched, 'ProviderCallMs', Stats.SAMPLE_COUNT, fiveMinutes, 'notSent:unauthorized'),
    threshold: first,
    compared: atLeast,
    periods: once,
    missing: isFine,
  },
  {
    id: 'OtherMode',
    title: 'The Stripe key is of the other mode',
    cause: () =>
      'Stripe says that what an operation asks for exists in the other mode: a live key with test objects, or a test key with live ones. Such operations fail.',
    metric: (watched) =>
      own(watched, 'ProviderCallMs', Stats.SAMPLE_COUNT, fiveMinutes, 'invalid:other_mode'),
    threshold: first,
    compared: atLeast,
    periods: once,
    missing: isFine,
  },
  {
    id: 'KeyMissing',
    title: 'The Stripe key is not set',
    cause: () =>
      'The secret holds the placeholder that it was created with, or cannot be read. Jobs wait until somebody sets the key.',
    metric: (watched) =>
      own(watched, 'ProviderCallMs', Stats.SAMPLE_COUNT, fiveMinutes, 'notSent:provider_key_missing'),
    threshold: first,
    compared: atLeast,
    periods: once,
    missing: isFine,
  },
  {
    id: 'WorkerErrors',
    title: 'The worker fails',
    cause: () =>
      'An invocation of the worker crashed, ran out of time or memory, or could not start. Its messages come back, and end in the dead-letter queue if this goes on.',
    metric: ({ chargeOnce }) =>
      chargeOnce.worker.service.function.metricErrors({ statistic: Stats.SUM, period: fiveMinutes }),
    threshold: first,
    compared: atLeast,
    periods: once,
    missing: isFine,
  },
  {
    id: 'WorkerThrottles',
    title: 'The worker is throttled',
    cause: () =>
      'Lambda had no concurrency left for the worker. Each delivery that is refused counts, and messages end in the dead-letter queue if this goes on.',
    metric: ({ chargeOnce }) =>
      chargeOnce.worker.service.function.metricThrottles({ statistic: Stats.SUM, period: fiveMinutes }),
    threshold: first,
    compared: atLeast,
    periods: once,
    missing: isFine,
  },
  {
    id: 'WorkerDuration',
    title: 'The worker runs close to its timeout',
    cause: ({ workerTimeoutSeconds }) =>
      `An invocation took more than four fifths of workerTimeoutSeconds, ${workerTimeoutSeconds} s: Stripe, the table or the queue is slow. What does not end in time comes back.`,
    metric: ({ chargeOnce }) =>
      chargeOnce.worker.service.function.metricDuration({ statistic: Stats.MAXIMUM, period: minute }),
    threshold: ({ workerTimeoutSeconds }) => workerTimeoutSeconds * 800,
    compared: above,
    periods: once,
    missing: isFine,
  },
  {
    id: 'CaughtErrors',
    title: 'Errors that were caught',
    cause: () =>
      'The worker, the API or the reconciler caught five errors within five minutes, such as a table that cannot be reached. What failed comes back or is repeated by its caller.',
    metric: (watched) => own(watched, 'CaughtError', Stats.SUM, fiveMinutes),
    threshold: () => 5,
    compared: atLeast,
    periods: once,
    missing: isFine,
  },
  {
    id: 'ReconcilerStopped',
    title: 'The reconciler is not running',
    cause: () =>
      'No run of the reconciler has ended for ten minutes. Operations that wait in the table, settle or are parked are not brought on.',
    metric: (watched) => own(watched, 'ReconcilerRun', Stats.SUM, fiveMinutes),
    threshold: first,
    compared: below,
    periods: { beyond: 2, of: 2 },
    missing: isBad,
  },
  {
    id: 'ApiErrors',
    title: 'The API answers 5xx',
    cause: () =>
      'Five requests within five minutes were answered with a server error: the service is full, the table cannot be reached, or a function fails. Callers repeat; nothing is done twice.',
    metric: ({ api }) => api?.metricServerError({ statistic: Stats.SUM, period: fiveMinutes }),
    threshold: () => 5,
    compared: atLeast,
    periods: once,
    missing: isFine,
  },
] as const satisfies readonly AlarmRow[];

export type AlarmId = (typeof alarms)[number]['id'];

/** A metric of the service itself, over all types of operation. */
export function own(
  { chargeOnce }: Pick<Watched, 'chargeOnce'>,
  metricName: MetricName,
  statistic: string,
  period: Duration,
  reason?: string,
): Metric {
  return new Metric({
    namespace: metricNamespace,
    metricName,
    statistic,
    period,
    dimensionsMap: { ...dimensionsOf(chargeOnce), ...(reason !== undefined && { reason }) },
  });
}

/** What every metric of one service has. */
export const dimensionsOf = ({ providerKeyPrefix, settings }: ChargeOnce) => ({
  service: providerKeyPrefix,
  stage: settings.stage,
});

/** The text of an alarm: what is wrong, and where to read what to do. */
export const textOf = ({ title, cause }: AlarmRow, settings: Settings): string =>
  `${title}. ${cause(settings)} Runbook: ${settings.runbookUrl}#${anchorOf(title)}`;

/** A heading's anchor, as GitHub and GitLab make it. */
export const anchorOf = (title: string): string =>
  title
    .toLowerCase()
    .replaceAll(/[^a-z0-9 -]/g, '')
    .replaceAll(' ', '-');
