import { Duration } from 'aws-cdk-lib';
import {
  type Alarm,
  AlarmStatusWidget,
  Dashboard,
  GraphWidget,
  type IMetric,
  type IWidget,
  LogQueryVisualizationType,
  LogQueryWidget,
  MathExpression,
  Metric,
  Stats,
  TextWidget,
} from 'aws-cdk-lib/aws-cloudwatch';
import { Construct } from 'constructs';
import { type MetricName, metricNamespace } from '../lambdas/runtime/metrics';
import { dimensionsOf, own, type Watched } from './alarms';
import { isDeferral } from './saved-queries';

export interface OperationsDashboardProps extends Watched {
  readonly alarms: readonly Alarm[];
}

const period = Duration.minutes(5);
const types = ['charge', 'refund'] as const;

/** One page: alarms, the queue, the work by type, what fails, the provider, who is deferred most, and what costs money. */
export class OperationsDashboard extends Construct {
  readonly dashboard: Dashboard;
  private readonly watched: Watched;

  constructor(scope: Construct, id: string, { alarms, ...watched }: OperationsDashboardProps) {
    super(scope, id);
    this.watched = watched;
    const { settings } = watched.chargeOnce;
    const heading = `# charge-once ${settings.stage}\nWhat to do about an alarm: ${settings.runbookUrl}`;
    this.dashboard = new Dashboard(this, 'Page', {
      defaultInterval: Duration.hours(6),
      widgets: [
        [new TextWidget({ markdown: heading, width: 24, height: 2 })],
        [new AlarmStatusWidget({ title: 'Alarms', alarms: [...alarms], width: 24, height: 4 })],
        this.queue(),
        this.work(),
        this.failures(),
        this.provider(),
        this.open(),
        this.costs(),
      ],
    });
  }

  private queue(): IWidget[] {
    const { queue, deadLetterQueue } = this.watched.chargeOnce.queues;
    const max = { statistic: Stats.MAXIMUM, period };
    const sum = { statistic: Stats.SUM, period };
    return [
      graph('Queue: messages', [
        queue.metricApproximateNumberOfMessagesVisible({ ...max, label: 'visible' }),
        queue.metricApproximateNumberOfMessagesNotVisible({ ...max, label: 'in flight' }),
        deadLetterQueue.metricApproximateNumberOfMessagesVisible({ ...max, label: 'dead letters' }),
      ]),
      graph('Queue: age of the oldest message, s', [
        queue.metricApproximateAgeOfOldestMessage({ ...max, label: 'oldest' }),
      ]),
      graph('Queue: sent and done', [
        queue.metricNumberOfMessagesSent({ ...sum, label: 'sent' }),
        queue.metricNumberOfMessagesReceived({ ...sum, label: 'deliveries' }),
        queue.metricNumberOfMessagesDeleted({ ...sum, label: 'acknowledged' }),
      ]),
    ];
  }

  private work(): IWidget[] {
    const ended = ['Accepted', 'Succeeded', 'Failed', 'Settling', 'Cancelled'] as const;
    const attempts = ['FirstAttempt', 'Retried', 'Replayed', 'Requeued'] as const;
    return [
      graph('Work: operations by type', [
        ...ended.flatMap((name) => (name === 'Failed' ? [] : this.eachType(name, Stats.SUM))),
        ...this.search('Failed', ['type', 'reason'], Stats.SUM),
      ]),
      graph('Work: attempts and replays by type', [
        ...attempts.flatMap((name) => this.eachType(name, Stats.SUM)),
        ...this.eachType('RequestReplayed', Stats.SUM),
      ]),
      graph('Work: how long, ms (99 of 100 are faster)', [
        ...this.eachType('QueueAgeMs', Stats.percentile(99)),
        ...this.eachType('ExecutionMs', Stats.percentile(99)),
        ...this.eachType('DoneAfterMs', Stats.percentile(99)),
      ]),
    ];
  }

  private failures(): IWidget[] {
    return [
      graph('Failures: failed and parked, by code', [
        ...this.search('Failed', ['reason'], Stats.SUM),
        ...this.search('Parked', ['reason'], Stats.SUM),
      ]),
      graph('Failures: deferred, by reason', this.search('Deferred', ['reason'], Stats.SUM)),
      graph('Failures: rejected, given up, refused, by reason', [
        ...(['Rejected', 'GivenUp', 'DeadLettered', 'RequestRefused'] as const).flatMap((name) =>
          this.search(name, ['reason'], Stats.SUM),
        ),
        ...(['Conflict', 'Contradicted', 'Escalated', 'CaughtError', 'Tolerated'] as const).map((name) =>
          this.total(name, Stats.SUM),
        ),
      ]),
    ];
  }

  private provider(): IWidget[] {
    return [
      graph('Provider: calls, by outcome', this.search('ProviderCallMs', ['reason'], Stats.SAMPLE_COUNT)),
      graph(
        'Provider: how long a call takes, ms (99 of 100 are faster)',
        this.search('ProviderCallMs', ['reason'], Stats.percentile(99)),
      ),
      graph('Provider: retry budget and breaker', [
        this.total('RetryTokens', Stats.MINIMUM),
        this.total('WindowCalls', Stats.MAXIMUM),
        this.total('WindowFailures', Stats.MAXIMUM),
        this.total('BreakerOpen', Stats.MAXIMUM),
        this.total('BreakerOpened', Stats.SUM),
        this.total('BreakerProbed', Stats.SUM),
        this.total('BreakerClosed', Stats.SUM),
      ]),
    ];
  }

  private open(): IWidget[] {
    const { worker, reconciler } = this.watched.chargeOnce;
    const states = ['OpenQueued', 'OpenRunning', 'OpenSettling', 'OpenParked'] as const;
    const ages = ['OldestWaitingMs', 'OldestSettlingMs', 'OldestParkedMs', 'OldestDueMs'] as const;
    const runs = ['ReconcilerRun', 'DueSent', 'DueSettled', 'DueLeft', 'DueFailed'] as const;
    return [
      graph('Open: operations in the table, and age of the oldest, ms', [
        ...states.flatMap((name) => this.eachType(name, Stats.MAXIMUM)),
        ...ages.map((name) => this.total(name, Stats.MAXIMUM).with({ label: name })),
      ]),
      graph('Open: the reconciler', [
        ...runs.map((name) => this.total(name, Stats.SUM)),
        ...this.search('Reconciled', ['reason'], Stats.SUM),
        ...this.search('Intervened', ['reason'], Stats.SUM),
      ]),
      new LogQueryWidget({
        title: 'Tenants with most deferrals',
        logGroupNames: [worker.service, reconciler.service].map(({ logGroup }) => logGroup.logGroupName),
        view: LogQueryVisualizationType.TABLE,
        queryLines: [
          `filter ${isDeferral}`,
          'stats count(*) as deferrals by tenantId',
          'sort deferrals desc',
          'limit 10',
        ],
        width: 8,
        height: 6,
      }),
    ];
  }

  /** What each part of the bill grows with. */
  private costs(): IWidget[] {
    const { worker, reconciler, queues, table } = this.watched.chargeOnce;
    const sum = { statistic: Stats.SUM, period };
    const functions = [worker.service, reconciler.service];
    const ofTable = (metricName: string) =>
      new Metric({
        namespace: 'AWS/DynamoDB',
        metricName,
        dimensionsMap: { TableName: table.tableName },
        ...sum,
      });
    const ofLogs = functions.map(
      ({ logGroup }) =>
        new Metric({
          namespace: 'AWS/Logs',
          metricName: 'IncomingBytes',
          dimensionsMap: { LogGroupName: logGroup.logGroupName },
          ...sum,
        }),
    );
    return [
      graph('Cost: DynamoDB units', [
        ofTable('ConsumedReadCapacityUnits'),
        ofTable('ConsumedWriteCapacityUnits'),
      ]),
      graph('Cost: Lambda, ms', [
        worker.service.function.metricDuration({ ...sum, label: 'worker' }),
        reconciler.service.function.metricDuration({ ...sum, label: 'reconciler' }),
        worker.service.function.metricInvocations({ ...sum, label: 'worker invocations' }),
      ]),
      graph('Cost: SQS requests and log bytes', [
        queues.queue.metricNumberOfMessagesSent({ ...sum, label: 'sent' }),
        queues.queue.metricNumberOfMessagesReceived({ ...sum, label: 'received' }),
        queues.queue.metricNumberOfEmptyReceives({ ...sum, label: 'empty receives' }),
        ...ofLogs,
      ]),
    ];
  }

  private total(name: MetricName, statistic: string): Metric {
    return own(this.watched, name, statistic, period);
  }

  private eachType(name: MetricName, statistic: string): IMetric[] {
    return types.map((type) => {
      const metric = this.total(name, statistic);
      return metric.with({ dimensionsMap: { ...metric.dimensions, type }, label: `${name} ${type}` });
    });
  }

  /** Every value that the dimensions had, which nobody knows beforehand. https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-search-expressions.html */
  private search(name: MetricName, by: readonly string[], statistic: string): IMetric[] {
    const { service, stage } = dimensionsOf(this.watched.chargeOnce);
    const schema = [metricNamespace, 'service', 'stage', ...by].join(',');
    const terms = `MetricName="${name}" service="${service}" stage="${stage}"`;
    const expression = `SEARCH('{${schema}} ${terms}', '${statistic}', ${period.toSeconds()})`;
    return [new MathExpression({ expression, period, label: name, usingMetrics: {} })];
  }
}

const graph = (title: string, left: IMetric[]) => new GraphWidget({ title, left, width: 8, height: 6 });
