import { Template } from 'aws-cdk-lib/assertions';
import { Telemetry } from '../../lambdas/runtime/telemetry';
import { ChargeOnce } from '../../lib/charge-once';
import { foreignStack, operationsStack } from '../support/stack-factory';

const { template } = operationsStack({ gradualDeployment: 'canary10Percent5Minutes' });
const functions = [
  'ChargeOnceWorker',
  'ChargeOnceReconciler',
  'ChargeOnceOperator',
  'OperationsApiAccept',
  'OperationsApiGetOperation',
  'OperationsApiCancel',
];

/** The logical id of the one resource of a type that belongs to a function, whose id may have to contain `part` too. */
function idOf(type: string, functionName: string, part = ''): string {
  const found = Object.keys(template.findResources(type)).filter(
    (id) => id.startsWith(functionName) && id.includes(part),
  );
  expect(found).toHaveLength(1);
  return found.join();
}

const definitionOf = (type: string, id: string) => template.findResources(type)[id] ?? {};

test('without the setting a new version takes over at once, and nothing of CodeDeploy is there', () => {
  const { template: plain } = operationsStack();
  plain.resourceCountIs('AWS::CodeDeploy::DeploymentGroup', 0);
  plain.resourceCountIs('AWS::Logs::MetricFilter', 0);
  for (const alias of Object.values(plain.findResources('AWS::Lambda::Alias')))
    expect(alias).not.toHaveProperty('UpdatePolicy');
});

test.each(functions)('with it the alias of %s is moved by a deployment group of its own', (name) => {
  const alias = definitionOf('AWS::Lambda::Alias', idOf('AWS::Lambda::Alias', name));
  expect(alias.UpdatePolicy).toEqual({
    CodeDeployLambdaAliasUpdate: {
      ApplicationName: { Ref: idOf('AWS::CodeDeploy::Application', name) },
      DeploymentGroupName: { Ref: idOf('AWS::CodeDeploy::DeploymentGroup', name) },
    },
  });
});

test.each([
  ['canary10Percent5Minutes', 'LambdaCanary10Percent5Minutes'],
  ['canary10Percent15Minutes', 'LambdaCanary10Percent15Minutes'],
  ['canary10Percent30Minutes', 'LambdaCanary10Percent30Minutes'],
  ['linear10PercentEvery1Minute', 'LambdaLinear10PercentEvery1Minute'],
  ['linear10PercentEvery3Minutes', 'LambdaLinear10PercentEvery3Minutes'],
] as const)('%s is the configuration of that name', (gradualDeployment, name) => {
  const { chargeOnce } = foreignStack(() => ({ settings: { gradualDeployment } }));
  const { deployment } = chargeOnce.worker.service;
  expect(deployment?.group.deploymentConfig.deploymentConfigName).toBe(`CodeDeployDefault.${name}`);
});

test.each(functions)('a deployment of %s stops and goes back when one of its alarms goes off', (name) => {
  const id = idOf('AWS::CodeDeploy::DeploymentGroup', name);
  expect(definitionOf('AWS::CodeDeploy::DeploymentGroup', id).Properties).toMatchObject({
    AlarmConfiguration: {
      Enabled: true,
      Alarms: [
        { Name: { Ref: idOf('AWS::CloudWatch::Alarm', name, 'CrashAlarm') } },
        { Name: { Ref: idOf('AWS::CloudWatch::Alarm', name, 'FailureAlarm') } },
      ],
    },
    AutoRollbackConfiguration: {
      Enabled: true,
      Events: ['DEPLOYMENT_FAILURE', 'DEPLOYMENT_STOP_ON_ALARM'],
    },
  });
});

test.each(functions)('%s: one crash of the new version is enough, and the old version has no say', (name) => {
  const alarm = definitionOf(
    'AWS::CloudWatch::Alarm',
    idOf('AWS::CloudWatch::Alarm', name, 'CrashAlarm'),
  ).Properties;
  const lambda = { Ref: idOf('AWS::Lambda::Function', name) };
  expect(alarm).toMatchObject({
    Namespace: 'AWS/Lambda',
    MetricName: 'Errors',
    Statistic: 'Sum',
    Period: 60,
    EvaluationPeriods: 1,
    Threshold: 1,
    ComparisonOperator: 'GreaterThanOrEqualToThreshold',
    // Before the first request of the new version, and at a quiet hour, there is no data.
    TreatMissingData: 'notBreaching',
  });
  expect(alarm.Dimensions).toEqual([
    {
      Name: 'ExecutedVersion',
      Value: { 'Fn::GetAtt': [idOf('AWS::Lambda::Version', name), 'Version'] },
    },
    { Name: 'FunctionName', Value: lambda },
    { Name: 'Resource', Value: { 'Fn::Join': ['', [lambda, ':live']] } },
  ]);
});

test.each(functions)(
  '%s: what its new version logs as failed counts, for a handler that catches is no error to Lambda',
  (name) => {
    const filter = definitionOf('AWS::Logs::MetricFilter', idOf('AWS::Logs::MetricFilter', name)).Properties;
    expect(filter.LogGroupName).toEqual({ Ref: idOf('AWS::Logs::LogGroup', name) });
    const [{ MetricNamespace, MetricName }] = filter.MetricTransformations;
    const alarm = idOf('AWS::CloudWatch::Alarm', name, 'FailureAlarm');
    expect(definitionOf('AWS::CloudWatch::Alarm', alarm).Properties).toMatchObject({
      Namespace: MetricNamespace,
      MetricName,
      Threshold: 1,
      TreatMissingData: 'notBreaching',
    });
  },
);

describe('the filter of a log', () => {
  const [filter = {}] = Object.values(template.findResources('AWS::Logs::MetricFilter'));
  const [, [before, version, after]] = filter.Properties.FilterPattern['Fn::Join'];

  test('asks for the level and the new version', () => {
    expect([before, after]).toEqual(['{ ($.level = "ERROR") && ($.functionVersion = "', '") }']);
    expect(version).toEqual({ 'Fn::GetAtt': [expect.stringContaining('CurrentVersion'), 'Version'] });
  });

  test('finds both in a line that a handler logs about a failure, and not in one about a refusal', () => {
    const lines: Record<string, unknown>[] = [];
    const spies = (['error', 'warn'] as const).map((level) =>
      jest
        .spyOn(console, level)
        .mockImplementation((...said: unknown[]) => void lines.push(JSON.parse(String(said[0])))),
    );
    process.env.POWERTOOLS_DEV = 'true';
    const telemetry = new Telemetry({
      service: 'shop',
      stage: 'live',
      maxReceiveCount: 8,
      functionVersion: '7',
    });
    telemetry.failed('the delivery failed', new Error('as told'));
    telemetry.warn('request refused');
    delete process.env.POWERTOOLS_DEV;
    for (const spy of spies) spy.mockRestore();
    expect(lines).toEqual([
      expect.objectContaining({ level: 'ERROR', functionVersion: '7' }),
      expect.objectContaining({ level: 'WARN', functionVersion: '7' }),
    ]);
  });
});

test('two services in one stack are deployed apart', () => {
  const { stack } = foreignStack(() => ({ settings: { gradualDeployment: 'linear10PercentEvery1Minute' } }));
  new ChargeOnce(stack, 'Other', { settings: { gradualDeployment: 'linear10PercentEvery1Minute' } });
  Template.fromStack(stack).resourceCountIs('AWS::CodeDeploy::DeploymentGroup', 6);
});
