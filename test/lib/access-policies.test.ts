import { operationsStack } from '../support/stack-factory';
import { grants } from './template-graph';

const { template } = operationsStack();
const actionsOn = (policy: string, resourcePart: string) =>
  grants(template, 'AWS::IAM::ManagedPolicy', `Access${policy}`)
    .filter(({ resource }) => resource.includes(resourcePart))
    .map(({ action }) => action)
    .sort();

test('a producer may send to the queue and do nothing else', () => {
  expect(grants(template, 'AWS::IAM::ManagedPolicy', 'Producer')).toHaveLength(3);
  expect(actionsOn('Producer', 'WorkQueue0')).toEqual([
    'sqs:GetQueueAttributes',
    'sqs:GetQueueUrl',
    'sqs:SendMessage',
  ]);
});

test('an operator may inspect, discard and redrive dead letters', () => {
  expect(actionsOn('Operator', 'DeadLetterQueue')).toEqual([
    'sqs:CancelMessageMoveTask',
    'sqs:ChangeMessageVisibility',
    'sqs:DeleteMessage',
    'sqs:GetQueueAttributes',
    'sqs:GetQueueUrl',
    'sqs:ListDeadLetterSourceQueues',
    'sqs:ListMessageMoveTasks',
    'sqs:ListQueueTags',
    'sqs:ReceiveMessage',
    'sqs:StartMessageMoveTask',
  ]);
});

test('an operator may send to the work queue, as a redrive does, but never receive from it', () => {
  const actions = actionsOn('Operator', 'WorkQueue0');
  expect(actions).toContain('sqs:SendMessage');
  expect(actions).not.toContain('sqs:ReceiveMessage');
  expect(actions).not.toContain('sqs:DeleteMessage');
});

test('the operator of the API may do the same, and ask for and cancel operations', () => {
  const byActionAndResource = (policy: string) =>
    grants(template, 'AWS::IAM::ManagedPolicy', policy).map((grant) => JSON.stringify(grant));
  const more = byActionAndResource('PoliciesOperator').filter(
    (grant) => !byActionAndResource('AccessOperator').includes(grant),
  );
  expect(byActionAndResource('PoliciesOperator')).toEqual(
    expect.arrayContaining(byActionAndResource('AccessOperator')),
  );
  expect(more).toHaveLength(2);
  expect(more.every((grant) => grant.includes('execute-api:Invoke'))).toBe(true);
});

test('an operator may read the records and change none', () => {
  expect([...new Set(actionsOn('Operator', 'OperationTable'))]).toEqual([
    'dynamodb:BatchGetItem',
    'dynamodb:DescribeTable',
    'dynamodb:GetItem',
    'dynamodb:Query',
  ]);
});

test("an operator may invoke the operator's function and the reconciler, by their aliases, and no other", () => {
  const invoked = grants(template, 'AWS::IAM::ManagedPolicy', 'AccessOperator')
    .filter(({ action }) => action === 'lambda:InvokeFunction')
    .map(({ resource }) => JSON.parse(resource).Ref)
    .sort();
  expect(invoked).toEqual(
    Object.keys(template.findResources('AWS::Lambda::Alias', { Properties: { Name: 'live' } }))
      .filter((id) => id.includes('Operator') || id.includes('Reconciler'))
      .sort(),
  );
  expect(invoked).toHaveLength(2);
});

test('a producer may invoke nothing', () => {
  const actions = grants(template, 'AWS::IAM::ManagedPolicy', 'AccessProducer').map(({ action }) => action);
  expect(actions).not.toContain('lambda:InvokeFunction');
});

test('an operator may read the outputs of this stack, by which the commands find all the rest', () => {
  const [stack, ...others] = grants(template, 'AWS::IAM::ManagedPolicy', 'AccessOperator').filter(
    ({ action }) => action.startsWith('cloudformation:'),
  );
  expect(others).toEqual([]);
  expect(stack?.action).toBe('cloudformation:DescribeStacks');
  expect(stack?.resource).toContain(':stack/charge-once-dev/*');
});
