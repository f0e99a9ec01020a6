import { Match } from 'aws-cdk-lib/assertions';
import { operationsStack } from '../support/stack-factory';
import { grants } from './template-graph';

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
  const [alias] = Object.keys(template.findResources('AWS::Lambda::Alias', { Properties: { Name: 'live' } }));
  template.hasResourceProperties(mapping, {
    FunctionName: {
      'Fn::Join': ['', [{ 'Fn::Select': [6, { 'Fn::Split': [':', { Ref: alias }] }] }, ':live']],
    },
  });
});

test('the function runs on Node 24 and arm64 for workerTimeoutSeconds at most', () => {
  operationsStack({ workerTimeoutSeconds: 45 }).template.hasResourceProperties('AWS::Lambda::Function', {
    Runtime: 'nodejs24.x',
    Architectures: ['arm64'],
    Timeout: 45,
    ReservedConcurrentExecutions: Match.absent(),
  });
});

test('BL-45: reserved concurrency is taken only when asked for', () => {
  operationsStack({ reservedConcurrency: 10 }).template.hasResourceProperties('AWS::Lambda::Function', {
    ReservedConcurrentExecutions: 10,
  });
});

const variables = (of: typeof template) =>
  Object.values(of.findResources('AWS::Lambda::Function'))[0]?.Properties.Environment.Variables;

test('the handler is given the variables that it reads, and no others', () => {
  expect(Object.keys(variables(template)).sort()).toEqual([
    'NODE_OPTIONS',
    'OPERATIONS_TABLE',
    'PROVIDER_KEY_PREFIX',
    'QUEUE_URL',
    'SETTINGS',
    'STAGE',
    'STRIPE_API_KEY_SECRET_ID',
  ]);
  expect(variables(template)).toMatchObject({
    NODE_OPTIONS: '--enable-source-maps',
    STAGE: 'dev',
    SETTINGS: '{}',
  });
});

test('another Stripe address reaches the handler only when it is set', () => {
  const { template: e2e } = operationsStack({ stripeApiBase: 'http://127.0.0.1:12111', maxConcurrency: 2 });
  expect(variables(e2e)).toMatchObject({
    STRIPE_API_BASE: 'http://127.0.0.1:12111',
    SETTINGS: '{"maxConcurrency":2}',
  });
});

test('BL-38: the worker may do exactly what it does, and cannot send to the queue', () => {
  const allowed = grants(template, 'AWS::IAM::Policy', 'Worker').map(({ action }) => action);
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
  for (const { resource } of grants(template, 'AWS::IAM::Policy', 'Worker'))
    expect(resource).not.toContain('*');
  template.hasResourceProperties('AWS::IAM::Role', { ManagedPolicyArns: Match.absent() });
});

test('BL-47: the log group is explicit, with retention and without a custom resource', () => {
  const [logGroup] = Object.keys(
    template.findResources('AWS::Logs::LogGroup', { Properties: { RetentionInDays: 90 } }),
  );
  template.hasResourceProperties('AWS::Lambda::Function', { LoggingConfig: { LogGroup: { Ref: logGroup } } });
  template.resourceCountIs('Custom::LogRetention', 0);
  template.resourceCountIs('AWS::Lambda::Function', 1);
});

test('BL-47: no log group has a name that a second deploy could meet again', () => {
  template.allResourcesProperties('AWS::Logs::LogGroup', { LogGroupName: Match.absent() });
});
