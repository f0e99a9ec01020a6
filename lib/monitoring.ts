import { Alarm } from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import { Construct } from 'constructs';
import { AlarmTopic } from './alarm-topic';
import { type AlarmRow, alarms, textOf, type Watched } from './alarms';
import type { ChargeOnce } from './charge-once';
import { OperationsDashboard } from './dashboard';
import type { OperationsApi } from './operations-api';
import { SavedQueries } from './saved-queries';

export interface MonitoringProps {
  /** What is watched. */
  readonly chargeOnce: ChargeOnce;
  /**
   * Its HTTP API.
   * @default - none: without its alarm and its logs
   */
  readonly operationsApi?: OperationsApi;
  /**
   * A topic of your own that CloudWatch alarms may publish to.
   * @default - an encrypted one is created, with `alarmEmail` and `alarmSlack` of the settings
   */
  readonly topic?: ITopic;
}

/** Alarms, a dashboard and saved queries of one service. Alarms tell when they begin and when they are over. */
export class Monitoring extends Construct {
  readonly topic: ITopic;
  readonly alarms: readonly Alarm[];
  readonly dashboard: OperationsDashboard;

  constructor(scope: Construct, id: string, { chargeOnce, operationsApi, topic }: MonitoringProps) {
    super(scope, id);
    const { settings } = chargeOnce;
    this.topic = topic ?? new AlarmTopic(this, 'AlarmTopic', { settings }).topic;
    const action = new SnsAction(this.topic);
    const watched: Watched = { chargeOnce, api: operationsApi?.api };
    this.alarms = alarms.flatMap((row) => this.alarmOf(row, watched));
    for (const alarm of this.alarms) {
      alarm.addAlarmAction(action);
      alarm.addOkAction(action);
    }
    this.dashboard = new OperationsDashboard(this, 'Dashboard', { ...watched, alarms: this.alarms });
    new SavedQueries(this, 'Queries', { chargeOnce, operationsApi });
  }

  private alarmOf(row: AlarmRow, watched: Watched): Alarm[] {
    const { settings } = watched.chargeOnce;
    const metric = row.metric(watched);
    if (!metric) return [];
    const alarm = new Alarm(this, row.id, {
      alarmDescription: textOf(row, settings),
      metric,
      threshold: row.threshold(settings),
      comparisonOperator: row.compared,
      evaluationPeriods: row.periods.of,
      datapointsToAlarm: row.periods.beyond,
      treatMissingData: row.missing,
    });
    return [alarm];
  }
}
