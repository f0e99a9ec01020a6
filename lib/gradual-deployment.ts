import { Duration, Validations } from 'aws-cdk-lib';
import { Alarm, type Metric, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import {
  type ILambdaDeploymentConfig,
  LambdaDeploymentConfig,
  LambdaDeploymentGroup,
} from 'aws-cdk-lib/aws-codedeploy';
import type { Alias } from 'aws-cdk-lib/aws-lambda';
import { FilterPattern, type LogGroup, MetricFilter } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import type { Settings } from './settings';

type Shift = Exclude<Settings['gradualDeployment'], 'none'>;

/** AWS's own configurations. https://docs.aws.amazon.com/codedeploy/latest/userguide/deployment-configurations.html#deployment-configuration-lambda */
const configOf: Readonly<Record<Shift, ILambdaDeploymentConfig>> = {
  canary10Percent5Minutes: LambdaDeploymentConfig.CANARY_10PERCENT_5MINUTES,
  canary10Percent15Minutes: LambdaDeploymentConfig.CANARY_10PERCENT_15MINUTES,
  canary10Percent30Minutes: LambdaDeploymentConfig.CANARY_10PERCENT_30MINUTES,
  linear10PercentEvery1Minute: LambdaDeploymentConfig.LINEAR_10PERCENT_EVERY_1MINUTE,
  linear10PercentEvery3Minutes: LambdaDeploymentConfig.LINEAR_10PERCENT_EVERY_3MINUTES,
};

export interface GradualDeploymentProps {
  readonly alias: Alias;
  /** Where the function's log lines go. */
  readonly logGroup: LogGroup;
  /** How traffic moves from the version that runs to the new one. */
  readonly shift: Shift;
  /** Where docs/runbook.md can be read. */
  readonly runbookUrl: string;
}

/**
 * Moves an alias to a new version step by step, and back at once when the new version fails meanwhile. Both versions
 * take from the same queue until then, which is safe: every write is conditional, whoever makes it.
 */
export class GradualDeployment extends Construct {
  /** More alarms that end a deployment can be added here; none that names the alias, which waits for this group. */
  readonly group: LambdaDeploymentGroup;
  readonly crashAlarm: Alarm;
  readonly failureAlarm: Alarm;

  constructor(scope: Construct, id: string, { alias, logGroup, shift, runbookUrl }: GradualDeploymentProps) {
    super(scope, id);
    const runbook = `Runbook: ${runbookUrl}#a-deployment-that-was-rolled-back`;
    this.crashAlarm = alarmOf(
      this,
      'CrashAlarm',
      crashesOf(alias),
      `The version that is being deployed crashes, times out or does not start: the deployment is rolled back. ${runbook}`,
    );
    this.failureAlarm = alarmOf(
      this,
      'FailureAlarm',
      failuresOf(this, alias, logGroup),
      `The version that is being deployed says in its log that it fails: the deployment is rolled back. ${runbook}`,
    );
    this.group = new LambdaDeploymentGroup(this, 'Group', {
      alias,
      deploymentConfig: configOf[shift],
      alarms: [this.crashAlarm, this.failureAlarm],
    });
    Validations.of(this.group).acknowledge({
      id: 'AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSCodeDeployRoleForLambdaLimited]',
      reason:
        'AWS names this policy as the least that CodeDeploy needs for Lambda; what one of ours left out would show in the middle of a deployment.',
    });
  }
}

const eachMinute = { statistic: 'Sum', period: Duration.minutes(1) };

/**
 * Of the new version alone: the one that runs may have errors of its own, which a deployment may be meant to end.
 * https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-view.html
 */
function crashesOf(alias: Alias): Metric {
  const errors = alias.metricErrors(eachMinute);
  return errors.with({ dimensionsMap: { ...errors.dimensions, ExecutedVersion: alias.version.version } });
}

/** What a handler catches is no error to Lambda: a worker that fails every message answers each time. So its log is counted. */
function failuresOf(scope: Construct, { lambda, version }: Alias, logGroup: LogGroup): Metric {
  const filter = new MetricFilter(scope, 'Failures', {
    logGroup,
    filterPattern: FilterPattern.all(
      FilterPattern.stringValue('$.level', '=', 'ERROR'),
      FilterPattern.stringValue('$.functionVersion', '=', version.version),
    ),
    metricNamespace: 'ChargeOnce/NewVersionFailures',
    metricName: lambda.functionName,
  });
  return filter.metric(eachMinute);
}

function alarmOf(scope: Construct, id: string, metric: Metric, alarmDescription: string): Alarm {
  return new Alarm(scope, id, {
    metric,
    alarmDescription,
    threshold: 1,
    evaluationPeriods: 1,
    treatMissingData: TreatMissingData.NOT_BREACHING,
  });
}
