import { type AlarmDefinition, stateOf } from './alarm-evaluation';
import { RecordedMetrics } from './recorded-metrics';

const minuteMs = 60_000;
const startMs = Date.UTC(2026, 0, 15);

/** An alarm on what the queue has each minute, above 10. */
const alarm = (changes: Partial<AlarmDefinition> = {}): AlarmDefinition => ({
  AlarmDescription: 'test',
  Namespace: 'AWS/SQS',
  MetricName: 'ApproximateNumberOfMessagesVisible',
  Dimensions: [{ Name: 'QueueName', Value: { 'Fn::GetAtt': ['ChargeOnceWorkQueue05790925', 'QueueName'] } }],
  Statistic: 'Maximum',
  Period: 60,
  EvaluationPeriods: 1,
  DatapointsToAlarm: 1,
  Threshold: 10,
  ComparisonOperator: 'GreaterThanThreshold',
  TreatMissingData: 'missing',
  AlarmActions: [],
  OKActions: [],
  ...changes,
});

/** The state after minutes with these values, the last of them the current one. */
function stateAfter(definition: AlarmDefinition, ...minutes: (readonly number[])[]) {
  const recorded = new RecordedMetrics();
  for (const [minute, values] of minutes.entries()) {
    for (const value of values)
      recorded.aws('AWS/SQS', definition.MetricName, 'queue', value, startMs + minute * minuteMs);
  }
  return stateOf(definition, recorded, startMs, startMs + (minutes.length - 1) * minuteMs);
}

test.each([
  ['Maximum', 'ALARM'],
  ['Sum', 'ALARM'],
  ['Minimum', 'OK'],
  ['Average', 'OK'],
  ['SampleCount', 'OK'],
] as const)('%s of 1, 11 and 2 against 10 is %s', (Statistic, state) => {
  expect(stateAfter(alarm({ Statistic }), [1, 11, 2])).toBe(state);
});

test.each([
  ['GreaterThanThreshold', 10, 'OK'],
  ['GreaterThanOrEqualToThreshold', 10, 'ALARM'],
  ['LessThanThreshold', 10, 'OK'],
  ['LessThanOrEqualToThreshold', 10, 'ALARM'],
] as const)('%s with a value of %i at a threshold of 10 is %s', (ComparisonOperator, value, state) => {
  expect(stateAfter(alarm({ ComparisonOperator }), [value])).toBe(state);
});

test('as many periods as are asked for must be beyond, in any order', () => {
  const threeOfFive = alarm({ EvaluationPeriods: 5, DatapointsToAlarm: 3, TreatMissingData: 'notBreaching' });
  expect(stateAfter(threeOfFive, [11], [1], [11], [1], [11])).toBe('ALARM');
  expect(stateAfter(threeOfFive, [11], [1], [11], [1], [1])).toBe('OK');
  expect(stateAfter(threeOfFive, [11], [11], [11], [], [], [])).toBe('OK');
});

test.each([
  ['missing', 'INSUFFICIENT_DATA'],
  ['notBreaching', 'OK'],
  ['breaching', 'ALARM'],
  ['ignore', 'ALARM'],
] as const)('after an alarm, a minute without data is %s: %s', (TreatMissingData, state) => {
  expect(stateAfter(alarm({ TreatMissingData }), [11], [])).toBe(state);
});

test('with ignore it stays over, too, and nothing is known before the first value', () => {
  const ignoring = alarm({ TreatMissingData: 'ignore' });
  expect(stateAfter(ignoring, [11], [1], [])).toBe('OK');
  expect(stateAfter(ignoring, [], [])).toBe('INSUFFICIENT_DATA');
});

test('a metric has exactly the dimensions that the alarm names', () => {
  const recorded = new RecordedMetrics();
  const metric = { Name: 'Deferred', Unit: 'Count' };
  const Dimensions = [
    ['service', 'type'],
    ['service', 'reason'],
  ];
  recorded.line({
    _aws: {
      Timestamp: startMs,
      CloudWatchMetrics: [{ Namespace: 'ChargeOnce', Dimensions, Metrics: [metric] }],
    },
    service: 'shop',
    type: 'charge',
    reason: 'tenant_full',
    Deferred: [2, 3],
  });
  const of = (dimensions: Readonly<Record<string, string>>) =>
    recorded.values(
      {
        Namespace: 'ChargeOnce',
        MetricName: 'Deferred',
        Dimensions: Object.entries(dimensions).map(([Name, Value]) => ({ Name, Value })),
      },
      startMs,
      startMs + 1,
    );
  expect(of({ service: 'shop', reason: 'tenant_full' })).toEqual([2, 3]);
  expect(of({ service: 'shop' })).toEqual([]);
  expect(of({ service: 'shop', type: 'charge', reason: 'tenant_full' })).toEqual([]);
  expect(of({ service: 'shop', reason: 'other' })).toEqual([]);
});

test('a line that CloudWatch could not read is none', () => {
  const recorded = new RecordedMetrics();
  const about = {
    Namespace: 'ChargeOnce',
    Dimensions: [['service']],
    Metrics: [{ Name: 'A', Unit: 'Count' }],
  };
  const line = { _aws: { Timestamp: startMs, CloudWatchMetrics: [about] }, A: 1 };
  expect(() => recorded.line(line)).toThrow(/string/);
  expect(() => recorded.line({ ...line, service: 'shop', A: 'one' })).toThrow(/number/);
});
