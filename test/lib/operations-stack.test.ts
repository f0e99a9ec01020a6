import { AwsSolutionsChecks } from 'cdk-nag';
import { operationsStack, tokens } from '../support/stack-factory';
import { dependencyCycle } from './template-graph';

const { stack, template } = operationsStack();

test('the template is the one that was reviewed', () => {
  // The code's hash and, made from it, the published version's id change with the machine.
  const text = JSON.stringify(template.toJSON()).replace(/\b[0-9a-f]{64}\.zip/g, 'code.zip');
  const reviewed = text.replace(/(FunctionCurrentVersion[0-9A-F]{8})[0-9a-f]{32}/g, '$1');
  expect(JSON.parse(reviewed)).toMatchSnapshot();
});

test('what holds data or may exist only once keeps its logical id: another id would be another table or queue', () => {
  const ids = [
    'AWS::DynamoDB::Table',
    'AWS::SQS::Queue',
    'AWS::SecretsManager::Secret',
    'AWS::Lambda::EventSourceMapping',
  ]
    .flatMap((type) => Object.keys(template.findResources(type)))
    .sort();
  expect(ids).toEqual([
    'ChargeOnceOperationTableF6F07486',
    'ChargeOnceStripeApiKeyBBC5BF7D',
    'ChargeOnceWorkQueue05790925',
    'ChargeOnceWorkQueueDeadLetterQueue5A34A39F',
    'ChargeOnceWorkerServiceFunctionAliasliveQueue6AE46A55',
  ]);
});

const gradually = { gradualDeployment: 'canary10Percent5Minutes' } as const;

test.each([
  {},
  { customerManagedKey: true },
  { production: true },
  tokens,
  gradually,
  { alarmEmail: 'ops@shop.test', alarmSlack: 'T0ABC/C0DEF' },
])('cdk-nag has nothing to say that is not acknowledged with a reason (%j)', (overrides) => {
  const report = new AwsSolutionsChecks().validateScope(operationsStack(overrides).stack);
  expect(report.violations).toEqual([]);
  expect(report.success).toBe(true);
});

test.each([{}, { customerManagedKey: true }, tokens, gradually])(
  'no resource waits for itself (%j)',
  (overrides) => {
    expect(dependencyCycle(operationsStack(overrides).template)).toBeUndefined();
  },
);

test('no resource has a physical name that a second stage would meet', () => {
  const named = Object.entries(template.toJSON().Resources).filter(([, resource]) =>
    /"(TableName|FunctionName|RoleName|LogGroupName|ManagedPolicyName|QueueName)":"/.test(
      JSON.stringify(resource),
    ),
  );
  expect(named).toEqual([]);
});

test('the stack names neither account nor region', () => {
  expect(stack.environment).toBe('aws://unknown-account/unknown-region');
});

test('every output that people and other stacks need is there', () => {
  expect(Object.keys(template.findOutputs('*')).sort()).toEqual([
    'AlarmTopicArn',
    'ApiUrl',
    'ChargePolicyArn',
    'DashboardName',
    'DeadLetterQueueUrl',
    'OperateFunctionName',
    'OperatorPolicyArn',
    'ProducerPolicyArn',
    'QueueUrl',
    'ReconcileFunctionName',
    'RefundPolicyArn',
    'SetStripeKeyCommand',
    'Settings',
    'TableName',
  ]);
});

test('the operator of the output may cancel through the API too, where callers have IAM identities', () => {
  const [operator] = Object.keys(template.findResources('AWS::IAM::ManagedPolicy')).filter((id) =>
    id.startsWith('OperationsApiPoliciesOperator'),
  );
  template.hasOutput('OperatorPolicyArn', { Value: { Ref: operator } });
});

test('with tokens there is no policy for callers, and the operator of the output is that of the queues', () => {
  const { template: withTokens } = operationsStack(tokens);
  const outputs = withTokens.findOutputs('*');
  expect(outputs).not.toHaveProperty('ChargePolicyArn');
  expect(outputs).not.toHaveProperty('RefundPolicyArn');
  expect(outputs.OperatorPolicyArn?.Value.Ref).toMatch(/^ChargeOnceAccessOperator/);
});

test('a production stack cannot be deleted by accident', () => {
  expect(operationsStack({ production: true }).stack.terminationProtection).toBe(true);
  expect(stack.terminationProtection).toBe(false);
});
