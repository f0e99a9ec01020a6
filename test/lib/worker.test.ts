import { Match } from 'aws-cdk-lib/assertions';
import { operationsStack } from '../support/stack-factory';
import { functionOf, variablesOf } from './service-functions';
import { grantsBesideTraces } from './template-graph';

const { template } = operationsStack();
const mapping = 'AWS::Lambda::EventSourceMapping';

test('BL-20: the mapping reports failures message by message', () => {
  template.resourceCountIs(mapping, 1);
  template.hasResourceProperties(mapping, { FunctionResponseTypes: ['ReportBatchItemFailures'] });
});

test('BL-45: the mapping has the batch size and maximum concurrency of the settings, and counts events', () => {
  operationsStack({ maxConcurrency: 4, batchSize: 10 }).template.hasResourceProperties(mapping, {
    BatchSize: 10,
    ScalingConfig: { MaximumConcurrency: 4 },
    MetricsConfig: { Metrics: ['EventCount'] },
    MaximumBatchingWindowInSeconds: Match.absent(),
  });
  operationsStack({ batchWindowSeconds: 20 }).template.hasResourceProperties(mapping, {
    MaximumBatchingWindowInSeconds: 20,
  });
});

test('the mapping invokes the alias live, never the latest code', () => {
  const [alias] = Object.keys(
    template.findResources('AWS::Lambda::Alias', { Properties: { Name: 'live' } }),
  ).filter((id) => id.includes('Worker'));
  template.hasResourceProperties(mapping, {
    FunctionName: {
      'Fn::Join': ['', [{ 'Fn::Select': [6, { 'Fn::Split': [':', { Ref: alias }] }] }, ':live']],
    },
  });
});

test('the function runs on Node 24 and arm64 for workerTimeoutSeconds at most', () => {
  const worker = functionOf(operationsStack({ workerTimeoutSeconds: 45 }).template, 'Worker');
  expect(worker).toMatchObject({ Runtime: 'nodejs24.x', Architectures: ['arm64'], Timeout: 45 });
  expect(worker).not.toHaveProperty('ReservedConcurrentExecutions');
});

test('BL-45: reserved concurrency is taken only when asked for, and for the worker alone', () => {
  const { template: reserved } = operationsStack({ reservedConcurrency: 10 });
  expect(functionOf(reserved, 'Worker')).toMatchObject({ ReservedConcurrentExecutions: 10 });
  for (const other of ['Reconciler', 'Operator', 'Accept', 'GetOperation', 'Cancel'])
    expect(functionOf(reserved, other)).not.toHaveProperty('ReservedConcurrentExecutions');
});

test('the handler is given the variables that it reads, and no others', () => {
  const variables = variablesOf(template, 'Worker');
  expect(Object.keys(variables).sort()).toEqual([
    'NODE_OPTIONS',
    'OPERATIONS_TABLE',
    'PROVIDER_KEY_PREFIX',
    'QUEUE_URL',
    'SETTINGS',
    'STAGE',
    'STRIPE_API_KEY_SECRET_ID',
  ]);
  expect(variables).toMatchObject({ NODE_OPTIONS: '--enable-source-maps', STAGE: 'dev', SETTINGS: '{}' });
});

test('another Stripe address reaches the handler only when it is set', () => {
  const { template: e2e } = operationsStack({ stripeApiBase: 'http://127.0.0.1:12111', maxConcurrency: 2 });
  expect(variablesOf(e2e, 'Worker')).toMatchObject({
    STRIPE_API_BASE: 'http://127.0.0.1:12111',
    SETTINGS: '{"maxConcurrency":2}',
  });
});

test('BL-38: the worker may do exactly what it does, and cannot send to the queue', () => {
  const allowed = grantsBesideTraces(template, 'Worker').map(({ action }) => action);
  expect(allowed.sort()).toEqual([
    'dynamodb:BatchGetItem',
    'dynamodb:GetItem',
    'dynamodb:UpdateItem',
    'logs:CreateLogStream',
    'logs:PutLogEvents',
    'secretsmanager:GetSecretValue',
    'sqs:ChangeMessageVisibility',
    'sqs:DeleteMessage',
    'sqs:GetQueueAttributes',
    'sqs:ReceiveMessage',
  ]);
});

test('the worker may touch no resource but its own', () => {
  for (const { resource } of grantsBesideTraces(template, 'Worker')) expect(resource).not.toContain('*');
  template.hasResourceProperties('AWS::IAM::Role', { ManagedPolicyArns: Match.absent() });
});

test('BL-47: every log group is explicit, with retention, and none is made by a custom resource', () => {
  template.allResourcesProperties('AWS::Logs::LogGroup', { RetentionInDays: 90 });
  const logGroups = Object.keys(template.findResources('AWS::Logs::LogGroup'));
  const logged = Object.values(template.findResources('AWS::Lambda::Function')).map(
    ({ Properties }) => Properties.LoggingConfig.LogGroup.Ref,
  );
  expect(logged).toHaveLength(6);
  expect(new Set(logged).size).toBe(6);
  expect(logGroups).toEqual(expect.arrayContaining(logged));
  template.resourceCountIs('Custom::LogRetention', 0);
});

test('BL-47: no log group has a name that a second deploy could meet again', () => {
  template.allResourcesProperties('AWS::Logs::LogGroup', { LogGroupName: Match.absent() });
});
