import { Match } from 'aws-cdk-lib/assertions';
import { censusEvent } from '../../lambdas/operation/census';
import { foreignStack, operationsStack } from '../support/stack-factory';
import { functionOf, variablesOf } from './service-functions';
import { grantsBesideTraces } from './template-graph';

const { template } = operationsStack();
const reconcilerGrants = grantsBesideTraces(template, 'Reconciler');

test('it starts each minute, by the alias live, and ends before it starts again', () => {
  const [alias] = Object.keys(template.findResources('AWS::Lambda::Alias')).filter((id) =>
    id.includes('Reconciler'),
  );
  template.hasResourceProperties('AWS::Events::Rule', {
    ScheduleExpression: 'rate(1 minute)',
    State: 'ENABLED',
    Targets: [Match.objectLike({ Arn: { Ref: alias } })],
  });
  expect(functionOf(template, 'Reconciler')).toMatchObject({ Timeout: 55 });
});

test("a run that fails is made up for by the next minute's, and runs never pile up", () => {
  template.hasResourceProperties('AWS::Lambda::EventInvokeConfig', {
    MaximumRetryAttempts: 0,
    MaximumEventAgeInSeconds: 60,
  });
  template.hasResourceProperties('AWS::Events::Rule', {
    Targets: [Match.objectLike({ RetryPolicy: { MaximumRetryAttempts: 0, MaximumEventAgeInSeconds: 60 } })],
  });
});

test('every ten minutes it is asked for a census beside its run', () => {
  template.hasResourceProperties('AWS::Events::Rule', {
    ScheduleExpression: 'rate(10 minutes)',
    Targets: [
      Match.objectLike({
        Input: JSON.stringify(censusEvent),
        RetryPolicy: { MaximumRetryAttempts: 0, MaximumEventAgeInSeconds: 60 },
      }),
    ],
  });
});

test('it may do exactly what it does, and scans nothing', () => {
  expect(reconcilerGrants.map(({ action }) => action).sort()).toEqual([
    'dynamodb:BatchGetItem',
    'dynamodb:GetItem',
    'dynamodb:Query',
    'dynamodb:UpdateItem',
    'logs:CreateLogStream',
    'logs:PutLogEvents',
    'secretsmanager:GetSecretValue',
    'sqs:SendMessage',
  ]);
  for (const { resource } of reconcilerGrants) expect(resource).not.toContain('*');
});

test('it queries the attention index and nothing else', () => {
  const queried = reconcilerGrants.filter(({ action }) => action === 'dynamodb:Query');
  expect(queried.map(({ resource }) => resource)).toEqual([expect.stringContaining('"/index/attention"')]);
});

test('it is told what every handler is told, and where the Stripe key is', () => {
  expect(Object.keys(variablesOf(template, 'Reconciler')).sort()).toEqual([
    'NODE_OPTIONS',
    'OPERATIONS_TABLE',
    'PROVIDER_KEY_PREFIX',
    'QUEUE_URL',
    'SETTINGS',
    'STAGE',
    'STRIPE_API_KEY_SECRET_ID',
  ]);
});

test('whoever has a ChargeOnce has it: what is deferred in the table would wait for ever without', () => {
  const template = foreignStack().template();
  template.hasResourceProperties('AWS::Events::Rule', { ScheduleExpression: 'rate(1 minute)' });
});
