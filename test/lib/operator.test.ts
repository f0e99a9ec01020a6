import { operationsStack } from '../support/stack-factory';
import { functionOf, variablesOf } from './service-functions';
import { grantsBesideTraces } from './template-graph';

const { template } = operationsStack();
const operatorGrants = grantsBesideTraces(template, 'Operator');

test('it may do exactly what it does: write records, ask Stripe and send, and neither receive nor query', () => {
  expect(operatorGrants.map(({ action }) => action).sort()).toEqual([
    'dynamodb:BatchGetItem',
    'dynamodb:GetItem',
    'dynamodb:UpdateItem',
    'logs:CreateLogStream',
    'logs:PutLogEvents',
    'secretsmanager:GetSecretValue',
    'sqs:SendMessage',
  ]);
  for (const { resource } of operatorGrants) expect(resource).not.toContain('*');
});

test('it is told what every handler is told, and where the Stripe key is', () => {
  expect(Object.keys(variablesOf(template, 'Operator')).sort()).toEqual([
    'NODE_OPTIONS',
    'OPERATIONS_TABLE',
    'PROVIDER_KEY_PREFIX',
    'QUEUE_URL',
    'SETTINGS',
    'STAGE',
    'STRIPE_API_KEY_SECRET_ID',
  ]);
});

test('an answer is given within the time that a person waits', () => {
  expect(functionOf(template, 'Operator')).toMatchObject({ Timeout: 30 });
});

test('nothing but a person starts it: no rule, no queue, no route', () => {
  const aliases = Object.keys(template.findResources('AWS::Lambda::Alias')).filter((id) =>
    id.includes('Operator'),
  );
  expect(aliases).toHaveLength(1);
  const starters = ['AWS::Events::Rule', 'AWS::Lambda::EventSourceMapping', 'AWS::ApiGatewayV2::Integration'];
  for (const type of starters)
    expect(JSON.stringify(template.findResources(type))).not.toContain(String(aliases[0]));
  const permissions = JSON.stringify(template.findResources('AWS::Lambda::Permission'));
  expect(permissions).not.toContain(String(aliases[0]));
});
