import type { Template } from 'aws-cdk-lib/assertions';
import * as z from 'zod/mini';
import type { RecordedMetrics } from './recorded-metrics';

/** An alarm as CloudFormation has it. Metric math is no part of it: none of ours has any. */
const alarmSchema = z.strictObject({
  AlarmDescription: z.string(),
  Namespace: z.string(),
  MetricName: z.string(),
  Dimensions: z.array(z.object({ Name: z.string(), Value: z.unknown() })),
  Statistic: z.enum(['Sum', 'Maximum', 'Minimum', 'Average', 'SampleCount']),
  Period: z.number(),
  EvaluationPeriods: z.number(),
  DatapointsToAlarm: z.number(),
  Threshold: z.number(),
  ComparisonOperator: z.enum([
    'GreaterThanOrEqualToThreshold',
    'GreaterThanThreshold',
    'LessThanThreshold',
    'LessThanOrEqualToThreshold',
  ]),
  TreatMissingData: z.enum(['notBreaching', 'breaching', 'ignore', 'missing']),
  AlarmActions: z.array(z.unknown()),
  OKActions: z.array(z.unknown()),
});

export type AlarmDefinition = z.infer<typeof alarmSchema>;
export type AlarmState = 'OK' | 'ALARM' | 'INSUFFICIENT_DATA';

/** The template's alarms by the id of their construct. @throws when one has a property that is not evaluated here */
export function alarmsOf(template: Template): ReadonlyMap<string, AlarmDefinition> {
  const found = Object.entries(template.findResources('AWS::CloudWatch::Alarm'));
  return new Map(
    found.map(([logicalId, { Properties }]) => [
      logicalId.replace(/^Monitoring/, '').replace(/[0-9A-F]{8}$/, ''),
      alarmSchema.parse(Properties),
    ]),
  );
}

/**
 * The alarm's state at `nowMs`, evaluated period by period since `fromMs` as CloudWatch does: of the last
 * `EvaluationPeriods` whole periods, `DatapointsToAlarm` must be beyond the threshold; an empty period is what
 * `TreatMissingData` says, and with `ignore` the state stays as it was while too few are known.
 * https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html
 */
export function stateOf(
  alarm: AlarmDefinition,
  recorded: RecordedMetrics,
  fromMs: number,
  nowMs: number,
): AlarmState {
  const periodMs = alarm.Period * 1000;
  const first = Math.floor(fromMs / periodMs) * periodMs;
  const verdicts: (boolean | undefined)[] = [];
  let state: AlarmState = 'INSUFFICIENT_DATA';
  for (let startMs = first; startMs <= nowMs; startMs += periodMs) {
    verdicts.push(isBeyond(alarm, recorded, startMs, startMs + periodMs));
    if (verdicts.length >= alarm.EvaluationPeriods)
      state = evaluated(alarm, verdicts.slice(-alarm.EvaluationPeriods), state);
  }
  return state;
}

function evaluated(
  { TreatMissingData: missing, DatapointsToAlarm, EvaluationPeriods }: AlarmDefinition,
  verdicts: readonly (boolean | undefined)[],
  before: AlarmState,
): AlarmState {
  const filled = verdicts.map((verdict) => {
    if (verdict !== undefined || missing === 'ignore' || missing === 'missing') return verdict;
    return missing === 'breaching';
  });
  const beyond = filled.filter((verdict) => verdict === true).length;
  const within = filled.filter((verdict) => verdict === false).length;
  if (beyond >= DatapointsToAlarm) return 'ALARM';
  if (within > EvaluationPeriods - DatapointsToAlarm) return 'OK';
  return missing === 'ignore' ? before : 'INSUFFICIENT_DATA';
}

/** Undefined for a period without a datapoint. */
function isBeyond(
  alarm: AlarmDefinition,
  recorded: RecordedMetrics,
  fromMs: number,
  untilMs: number,
): boolean | undefined {
  const values = recorded.values(alarm, fromMs, untilMs);
  if (values.length === 0) return undefined;
  const value = statistics[alarm.Statistic](values);
  switch (alarm.ComparisonOperator) {
    case 'GreaterThanOrEqualToThreshold':
      return value >= alarm.Threshold;
    case 'GreaterThanThreshold':
      return value > alarm.Threshold;
    case 'LessThanThreshold':
      return value < alarm.Threshold;
    case 'LessThanOrEqualToThreshold':
      return value <= alarm.Threshold;
  }
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

const statistics: Readonly<Record<AlarmDefinition['Statistic'], (values: readonly number[]) => number>> = {
  Sum: sum,
  Maximum: (values) => Math.max(...values),
  Minimum: (values) => Math.min(...values),
  Average: (values) => sum(values) / values.length,
  SampleCount: (values) => values.length,
};
