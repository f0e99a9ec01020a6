import { Duration, NestedStack, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { AttributeType, Table } from 'aws-cdk-lib/aws-dynamodb';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { SqsSubscription } from 'aws-cdk-lib/aws-sns-subscriptions';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { ChargeOnce, type ChargeOnceProps, stripeKeyPlaceholder } from '../../lib/charge-once';
import { OperationsApi } from '../../lib/operations-api';
import { settingsFrom } from '../../lib/settings';
import { WorkQueue } from '../../lib/work-queue';
import { foreignStack, operationsStack, testApp } from '../support/stack-factory';
import { variablesOf } from './service-functions';
import { dependencyCycle, grants } from './template-graph';

const account = 'eu-west-1:111122223333';
const keyArn = (id: string) => `arn:aws:kms:${account}:key/${id}`;

const everythingImported = (stack: Stack): ChargeOnceProps => ({
  settings: { stage: 'shop' },
  queues: {
    queue: Queue.fromQueueAttributes(stack, 'Jobs', {
      queueArn: `arn:aws:sqs:${account}:jobs`,
      keyArn: keyArn('jobs'),
    }),
    deadLetterQueue: Queue.fromQueueAttributes(stack, 'DeadJobs', {
      queueArn: `arn:aws:sqs:${account}:dead-jobs`,
      keyArn: keyArn('dead-jobs'),
    }),
  },
  table: Table.fromTableAttributes(stack, 'Records', {
    tableArn: `arn:aws:dynamodb:${account}:table/records`,
    encryptionKey: Key.fromKeyArn(stack, 'RecordsKey', keyArn('records')),
  }),
  secret: Secret.fromSecretAttributes(stack, 'StripeKey', {
    secretPartialArn: `arn:aws:secretsmanager:${account}:secret:stripe`,
    encryptionKey: Key.fromKeyArn(stack, 'SecretKey', keyArn('stripe')),
  }),
});

describe('in a foreign stack with an imported queue, table, secret and their keys', () => {
  const { stack, chargeOnce, template: synth } = foreignStack(everythingImported);
  new OperationsApi(stack, 'Api', { chargeOnce });
  const template = synth();
  const workerGrants = grants(template, 'AWS::IAM::Policy', 'Worker');
  const onlyOn = (action: string) =>
    workerGrants.filter((grant) => grant.action === action).map(({ resource }) => JSON.parse(resource));

  test('nothing that holds data is created', () => {
    for (const type of [
      'AWS::SQS::Queue',
      'AWS::DynamoDB::Table',
      'AWS::SecretsManager::Secret',
      'AWS::KMS::Key',
    ])
      template.resourceCountIs(type, 0);
  });

  test('the worker takes from the imported queue and writes to the imported table', () => {
    template.hasResourceProperties('AWS::Lambda::EventSourceMapping', {
      EventSourceArn: `arn:aws:sqs:${account}:jobs`,
    });
    expect(variablesOf(template, 'Worker')).toMatchObject({ OPERATIONS_TABLE: 'records', STAGE: 'shop' });
    expect(onlyOn('dynamodb:UpdateItem')).toEqual([`arn:aws:dynamodb:${account}:table/records`]);
    expect(onlyOn('sqs:ReceiveMessage')).toEqual([`arn:aws:sqs:${account}:jobs`]);
    expect(onlyOn('secretsmanager:GetSecretValue')).toEqual([
      `arn:aws:secretsmanager:${account}:secret:stripe-??????`,
    ]);
  });

  test('BL-46: the worker may decrypt with every key on its way', () => {
    expect(onlyOn('kms:Decrypt').sort()).toEqual(['jobs', 'records', 'stripe'].map(keyArn));
  });

  test.each([
    ['Reconciler', ['jobs', 'records'], ['jobs', 'records', 'stripe']],
    ['Operator', ['jobs', 'records'], ['jobs', 'records', 'stripe']],
    ['ApiAccept', ['jobs', 'records'], ['jobs', 'records']],
    ['ApiGetOperation', [], ['records']],
    ['ApiCancel', ['records'], ['records']],
  ])(
    'BL-46: %s may use the keys of what it sends to, writes or reads, and no other',
    (name, encrypts, decrypts) => {
      const keysOf = (action: RegExp) =>
        grants(template, 'AWS::IAM::Policy', name)
          .filter((grant) => action.test(grant.action))
          .map(({ resource }) => JSON.parse(resource))
          .sort();
      expect(keysOf(/^kms:GenerateDataKey$/)).toEqual(encrypts.map(keyArn));
      expect(keysOf(/^kms:Decrypt/)).toEqual(decrypts.map(keyArn));
    },
  );

  test('BL-46: a producer may encrypt with the key of the queue, an operator with those of both queues', () => {
    const encryptsWith = (policy: string) =>
      grants(template, 'AWS::IAM::ManagedPolicy', policy)
        .filter(({ action }) => action === 'kms:GenerateDataKey')
        .map(({ resource }) => JSON.parse(resource))
        .sort();
    expect(encryptsWith('Producer')).toEqual(['jobs'].map(keyArn));
    expect(encryptsWith('AccessOperator')).toEqual(['dead-jobs', 'jobs'].map(keyArn));
    expect(encryptsWith('PoliciesOperator')).toEqual(['dead-jobs', 'jobs'].map(keyArn));
  });
});

test('a table of the same stack is used as it is', () => {
  const { template } = foreignStack((stack) => ({
    table: new Table(stack, 'Records', { partitionKey: { name: 'pk', type: AttributeType.STRING } }),
  }));
  template().resourceCountIs('AWS::DynamoDB::Table', 1);
});

test('two in one stack never share a provider key or a queue name', () => {
  const { stack, template } = foreignStack();
  new ChargeOnce(stack, 'Refunds');
  const prefixes = Object.values(template().findResources('AWS::Lambda::Function')).map((each) =>
    JSON.stringify(each.Properties.Environment.Variables.PROVIDER_KEY_PREFIX),
  );
  expect(prefixes).toHaveLength(6);
  const queueNames = Object.values(template().findResources('AWS::SQS::Queue')).map((each) =>
    JSON.stringify(each.Properties.QueueName),
  );
  expect(new Set(prefixes).size).toBe(2);
  expect(new Set(queueNames.filter((name) => name !== undefined)).size).toBe(2);
});

test('every function has the same provider key prefix, since keys are stored by accept and used by the worker', () => {
  const { template } = operationsStack();
  const prefixes = ['Worker', 'Reconciler', 'Operator', 'Accept', 'GetOperation', 'OperationsApiCancel'].map(
    (name) => variablesOf(template, name).PROVIDER_KEY_PREFIX,
  );
  expect(new Set(prefixes.map((prefix) => JSON.stringify(prefix))).size).toBe(1);
});

test('the Stripe key starts as a placeholder, and one command sets it', () => {
  const { template } = operationsStack();
  const [secret] = Object.keys(
    template.findResources('AWS::SecretsManager::Secret', {
      Properties: { SecretString: stripeKeyPlaceholder },
    }),
  );
  template.hasOutput('SetStripeKeyCommand', {
    Value: {
      'Fn::Join': [
        '',
        [
          'aws secretsmanager put-secret-value --region ',
          { Ref: 'AWS::Region' },
          ' --secret-id ',
          { Ref: secret },
          ' --secret-string "$STRIPE_API_KEY"',
        ],
      ],
    },
  });
});

describe('BL-46: no layout has a dependency cycle', () => {
  const keyOf = (stack: Stack) => new Key(stack, 'SharedKey');
  const importedKey = (stack: Stack) =>
    Key.fromKeyArn(stack, 'ImportedKey', keyArn('00000000-0000-4000-8000-000000000000'));

  test.each<[string, (stack: Stack) => ChargeOnceProps]>([
    ['encryption by SQS', () => ({})],
    ['a key of its own', () => ({ settings: { customerManagedKey: true } })],
    ['a key of the stack', (stack) => ({ encryptionKey: keyOf(stack) })],
    ['an imported key', (stack) => ({ encryptionKey: importedKey(stack) })],
    ['everything imported', everythingImported],
  ])('with %s, an EventBridge rule and an SNS topic that send', (_, bring) => {
    const { stack, chargeOnce, template } = foreignStack(bring);
    const { queue } = chargeOnce.queues;
    new Rule(stack, 'Nightly', { schedule: Schedule.rate(Duration.days(1)), targets: [new SqsQueue(queue)] });
    new Topic(stack, 'Orders').addSubscription(new SqsSubscription(queue));
    new OperationsApi(stack, 'Api', { chargeOnce });
    expect(dependencyCycle(template())).toBeUndefined();
  });

  test('with the API in a stack of its own', () => {
    const { stack, chargeOnce, template } = foreignStack(() => ({ settings: { customerManagedKey: true } }));
    const front = new Stack(Stack.of(stack).node.root, 'Front', {
      env: { account: '111122223333', region: 'eu-west-1' },
    });
    new OperationsApi(front, 'Api', { chargeOnce });
    expect(dependencyCycle(template())).toBeUndefined();
    expect(dependencyCycle(Template.fromStack(front))).toBeUndefined();
  });

  const keyed = settingsFrom({ customerManagedKey: true });

  test('with queues and their key in a nested stack', () => {
    const { stack, template } = foreignStack((parent) => ({
      queues: new WorkQueue(new NestedStack(parent, 'Queues'), 'WorkQueue', { settings: keyed }),
    }));
    expect(dependencyCycle(template())).toBeUndefined();
    for (const nested of stack.node.children.filter((child) => child instanceof NestedStack))
      expect(dependencyCycle(Template.fromStack(nested))).toBeUndefined();
  });

  test('with everything but the queues and their key in a nested stack', () => {
    const stack = new Stack(testApp(), 'Shop');
    const nested = new NestedStack(stack, 'Nested');
    new ChargeOnce(nested, 'Payments', { queues: new WorkQueue(stack, 'Queues', { settings: keyed }) });
    expect(dependencyCycle(Template.fromStack(stack))).toBeUndefined();
    expect(dependencyCycle(Template.fromStack(nested))).toBeUndefined();
  });

  test('and the search finds one where there is one', () => {
    const cyclic = Template.fromJSON(
      {
        Resources: {
          A: { Type: 'T', Properties: { Name: { 'Fn::Sub': ['x-$', '{B.Arn}'].join('') } } },
          B: { Type: 'T', DependsOn: ['C'] },
          C: { Type: 'T', Properties: { Of: [{ 'Fn::GetAtt': ['A', 'Arn'] }] } },
        },
      },
      { skipCyclicalDependenciesCheck: true },
    );
    expect(dependencyCycle(cyclic)).toEqual(['A', 'B', 'C', 'A']);
  });
});

test('BL-46: with the key of the queues the worker decrypts, whoever sends encrypts too, and no policy of the key names them', () => {
  const { template } = operationsStack({ customerManagedKey: true });
  const kms = (type: string, part: string) =>
    grants(template, type, part)
      .filter(({ action, resource }) => action.startsWith('kms:') && resource.includes('WorkQueueKey'))
      .map(({ action }) => action)
      .sort();
  expect(kms('AWS::IAM::Policy', 'Worker')).toEqual(['kms:Decrypt']);
  expect(kms('AWS::IAM::Policy', 'Reconciler')).toEqual(['kms:Decrypt', 'kms:GenerateDataKey']);
  expect(kms('AWS::IAM::Policy', 'Operator')).toEqual(['kms:Decrypt', 'kms:GenerateDataKey']);
  expect(kms('AWS::IAM::Policy', 'Accept')).toEqual(['kms:Decrypt', 'kms:GenerateDataKey']);
  expect(kms('AWS::IAM::Policy', 'GetOperation')).toEqual([]);
  expect(kms('AWS::IAM::Policy', 'OperationsApiCancel')).toEqual([]);
  expect(kms('AWS::IAM::ManagedPolicy', 'Producer')).toEqual(['kms:Decrypt', 'kms:GenerateDataKey']);
  expect(kms('AWS::IAM::ManagedPolicy', 'AccessOperator')).toEqual(['kms:Decrypt', 'kms:GenerateDataKey']);
  expect(kms('AWS::IAM::ManagedPolicy', 'PoliciesOperator')).toEqual(['kms:Decrypt', 'kms:GenerateDataKey']);
});
