import type { Template } from 'aws-cdk-lib/assertions';
import { operationsStack, tokens } from '../support/stack-factory';
import { grants } from './template-graph';

type Rights = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;

const write = ['dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:UpdateItem'];
/** What every function says of itself: X-Ray has no resources that a policy could name. */
const log = {
  'own log': ['logs:CreateLogStream', 'logs:PutLogEvents'],
  'any trace': ['xray:PutTelemetryRecords', 'xray:PutTraceSegments'],
};

const secret = ['secretsmanager:GetSecretValue'];

/** What each function may do, on what: the whole of it. A right, a resource or a function that is not here fails the tests. */
const rights: Rights = {
  Worker: {
    ...log,
    table: write,
    queue: [
      'sqs:ChangeMessageVisibility',
      'sqs:DeleteMessage',
      'sqs:GetQueueAttributes',
      'sqs:ReceiveMessage',
    ],
    secret,
  },
  Reconciler: {
    ...log,
    table: write,
    'attention index': ['dynamodb:Query'],
    queue: ['sqs:SendMessage'],
    secret,
  },
  Operator: { ...log, table: write, queue: ['sqs:SendMessage'], secret },
  Accept: { ...log, table: write, queue: ['sqs:GetQueueAttributes', 'sqs:SendMessage'] },
  GetOperation: { ...log, table: ['dynamodb:BatchGetItem'] },
  Cancel: { ...log, table: write },
};

const readWithKey = ['kms:Decrypt', 'kms:DescribeKey'];
const writeWithKey = [
  ...readWithKey,
  'kms:Encrypt',
  'kms:GenerateDataKey',
  'kms:GenerateDataKeyWithoutPlaintext',
  'kms:ReEncryptFrom',
  'kms:ReEncryptTo',
];
const sendWithKey = ['kms:Decrypt', 'kms:GenerateDataKey'];

/** What they may do beside that where queues and table have keys of the stack. */
const rightsToKeys: Rights = {
  Worker: { 'table key': writeWithKey, 'queue key': ['kms:Decrypt'] },
  Reconciler: { 'table key': writeWithKey, 'queue key': sendWithKey },
  Operator: { 'table key': writeWithKey, 'queue key': sendWithKey },
  Accept: { 'table key': writeWithKey, 'queue key': sendWithKey },
  GetOperation: { 'table key': readWithKey },
  Cancel: { 'table key': writeWithKey },
};

const plain = operationsStack().template;
const withKeys = operationsStack({ customerManagedKey: true }).template;
const all: readonly [string, Template][] = [
  ['no settings', plain],
  ['keys of the stack', withKeys],
  ['callers with tokens', operationsStack(tokens).template],
  ['production', operationsStack({ production: true }).template],
];

/** The functions by the last name in their logical ids, and those ids. */
function functionsIn(template: Template): Record<string, string> {
  const ids = Object.keys(template.findResources('AWS::Lambda::Function'));
  return Object.fromEntries(
    ids.map((id) => [
      id.replace(/^(ChargeOnce|OperationsApi)/, '').replace(/(Service)?Function\w{8}$/, ''),
      id,
    ]),
  );
}

/** What each function's role may do: function -> resource by name -> actions in order. */
function rightsIn(template: Template): Rights {
  return Object.fromEntries(
    Object.entries(functionsIn(template)).map(([name, id]) => {
      const role = template.findResources('AWS::Lambda::Function')[id]?.Properties.Role['Fn::GetAtt'][0];
      const byResource = Map.groupBy(grantsOf(template, role), ({ resource }) => nameOf(resource, name));
      return [
        name,
        Object.fromEntries(
          [...byResource].map(([of, given]) => [of, given.map(({ action }) => action).sort()]),
        ),
      ];
    }),
  );
}

/** By the policies that are attached to it. That a role itself holds none has a test of its own. */
function grantsOf(template: Template, role: string) {
  const policies = template.findResources('AWS::IAM::Policy', { Properties: { Roles: [{ Ref: role }] } });
  return Object.keys(policies).flatMap((policy) => grants(template, 'AWS::IAM::Policy', policy));
}

/** What a policy's resource is called above; the resource itself when it is none of them. */
function nameOf(resource: string, functionName: string): string {
  const patterns: readonly [string, RegExp][] = [
    ['table', /^\{"Fn::GetAtt":\["ChargeOnceOperationTable\w{8}","Arn"\]\}$/],
    [
      'attention index',
      /^\{"Fn::Join":\["",\[\{"Fn::GetAtt":\["ChargeOnceOperationTable\w{8}","Arn"\]\},"\/index\/attention"\]\]\}$/,
    ],
    ['table key', /^\{"Fn::GetAtt":\["ChargeOnceOperationTableKey\w{8}","Arn"\]\}$/],
    ['queue', /^\{"Fn::GetAtt":\["ChargeOnceWorkQueue\w{8}","Arn"\]\}$/],
    ['queue key', /^\{"Fn::GetAtt":\["ChargeOnceWorkQueueKey\w{8}","Arn"\]\}$/],
    ['any trace', /^"\*"$/],
    ['secret', /^\{"Ref":"ChargeOnceStripeApiKey\w{8}"\}$/],
    ['own log', new RegExp(`^\\{"Fn::GetAtt":\\["\\w+${functionName}(Service)?LogGroup\\w{8}","Arn"\\]\\}$`)],
  ];
  return patterns.find(([, pattern]) => pattern.test(resource))?.[0] ?? resource;
}

test.each(all.filter(([, template]) => template !== withKeys))(
  'each function may do what is listed for it and nothing else (%s)',
  (_, template) => expect(rightsIn(template)).toEqual(rights),
);

test('with keys of the stack each function may use those on its way, and no other right comes with them', () => {
  const both = Object.keys(rights).map((name) => [name, { ...rights[name], ...rightsToKeys[name] }]);
  expect(rightsIn(withKeys)).toEqual(Object.fromEntries(both));
});

test('the Stripe key is read by the functions that call Stripe alone, and the one that charges never sends to its own queue', () => {
  const mayDo = (action: string) =>
    Object.entries(rightsIn(plain))
      .filter(([, byResource]) => Object.values(byResource).flat().includes(action))
      .map(([name]) => name);
  expect(mayDo('secretsmanager:GetSecretValue').sort()).toEqual(['Operator', 'Reconciler', 'Worker']);
  expect(mayDo('sqs:SendMessage')).not.toContain('Worker');
});

test.each(all)(
  'every role is a function of this stack, trusts Lambda alone and has no other policy (%s)',
  (_, template) => {
    const roles = Object.values(template.findResources('AWS::IAM::Role'));
    expect(roles).toHaveLength(Object.keys(functionsIn(template)).length);
    for (const { Properties } of roles) {
      expect(Object.keys(Properties)).toEqual(['AssumeRolePolicyDocument']);
      expect(Properties.AssumeRolePolicyDocument.Statement).toEqual([
        { Action: 'sts:AssumeRole', Effect: 'Allow', Principal: { Service: 'lambda.amazonaws.com' } },
      ]);
    }
    for (const { Properties } of Object.values(template.findResources('AWS::IAM::ManagedPolicy'))) {
      for (const attached of ['Roles', 'Users', 'Groups']) expect(Properties).not.toHaveProperty(attached);
    }
  },
);

test.each(all)(
  'no policy has a wildcard but those that are acknowledged with a reason (%s)',
  (_, template) => {
    const wild = ['AWS::IAM::Policy', 'AWS::IAM::ManagedPolicy']
      .flatMap((type) => grants(template, type, ''))
      .filter(({ action, resource }) => /[*?]/.test(action + resource))
      .map(({ action, resource }) => `${action} on ${resource.match(/"([^"]*[*?][^"]*)"/)?.[1]}`);
    const tenants = '/$default/';
    const ofCallers = [
      `execute-api:Invoke on ${tenants}GET/tenants/*/operations/?*`,
      `execute-api:Invoke on ${tenants}POST/tenants/*/operations/?*/cancel`,
      `execute-api:Invoke on ${tenants}PUT/tenants/*/charges/?*`,
      `execute-api:Invoke on ${tenants}PUT/tenants/*/refunds/?*`,
    ];
    const hasCallers = Object.keys(template.findResources('AWS::ApiGatewayV2::Authorizer')).length === 0;
    // A stack's ARN ends in an id of its own.
    const ofOperators = ['cloudformation:DescribeStacks on :stack/charge-once-dev/*', 'sqs:ListQueues on *'];
    const ofTraces = log['any trace'].map((action) => `${action} on *`);
    expect([...new Set(wild)].sort()).toEqual(
      [...(hasCallers ? ofCallers : []), ...ofOperators, ...ofTraces].sort(),
    );
  },
);

test.each(all)(
  'nobody outside the account is let in, and each function is invoked by what feeds it alone (%s)',
  (_, template) => {
    for (const { Properties } of Object.values(template.findResources('AWS::Lambda::Permission'))) {
      expect(['apigateway.amazonaws.com', 'events.amazonaws.com']).toContain(Properties.Principal);
      expect(Properties.SourceArn).toBeDefined();
    }
    template.resourceCountIs('AWS::Lambda::Url', 0);
    const allowing = Object.values(template.findResources('AWS::SQS::QueuePolicy'))
      .flatMap(({ Properties }) => Properties.PolicyDocument.Statement)
      .filter(({ Effect }) => Effect !== 'Deny');
    expect(allowing).toEqual([]);
  },
);
