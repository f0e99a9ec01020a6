import { Match } from 'aws-cdk-lib/assertions';
import { operationsStack, tokens } from '../support/stack-factory';
import { functionOf, variablesOf } from './service-functions';
import { grantsBesideTraces } from './template-graph';

const { template } = operationsStack();
const { template: withTokens } = operationsStack(tokens);
const functions = ['Accept', 'GetOperation', 'OperationsApiCancel'];

const charges = 'PUT /tenants/{tenantId}/charges/{operationId}';
const refunds = 'PUT /tenants/{tenantId}/refunds/{operationId}';
const status = 'GET /tenants/{tenantId}/operations/{operationId}';
const cancel = 'POST /tenants/{tenantId}/operations/{operationId}/cancel';

/** The logical id of the alias that a route's requests go to. */
function aliasBehind(routeKey: string): string {
  const [route = {}] = Object.values(
    template.findResources('AWS::ApiGatewayV2::Route', { Properties: { RouteKey: routeKey } }),
  );
  const [, [, { Ref: integrationId }]] = route.Properties.Target['Fn::Join'];
  const { [integrationId]: integration } = template.findResources('AWS::ApiGatewayV2::Integration');
  expect(integration?.Properties).toMatchObject({
    IntegrationType: 'AWS_PROXY',
    PayloadFormatVersion: '2.0',
  });
  return integration?.Properties.IntegrationUri.Ref;
}

test('there are the four routes of the design, and no catch-all', () => {
  const keys = Object.values(template.findResources('AWS::ApiGatewayV2::Route')).map(
    ({ Properties }) => Properties.RouteKey,
  );
  expect(keys.sort()).toEqual([cancel, charges, refunds, status].sort());
});

test('charges and refunds go to one function, status and cancel to their own, each by its alias live', () => {
  expect(aliasBehind(charges)).toMatch(/^OperationsApiAccept.*Aliaslive/);
  expect(aliasBehind(refunds)).toBe(aliasBehind(charges));
  expect(aliasBehind(status)).toMatch(/^OperationsApiGetOperation.*Aliaslive/);
  expect(aliasBehind(cancel)).toMatch(/^OperationsApiCancel.*Aliaslive/);
});

test('API Gateway may invoke each function for its own routes only', () => {
  const permissions = Object.values(
    template.findResources('AWS::Lambda::Permission', {
      Properties: { Principal: 'apigateway.amazonaws.com' },
    }),
  ).map(({ Properties }) => [
    Properties.FunctionName.Ref.replace(/Function.*/, ''),
    Properties.SourceArn['Fn::Join'][1].at(-1),
  ]);
  expect(permissions.sort()).toEqual([
    ['OperationsApiAccept', '/*/*/tenants/{tenantId}/charges/{operationId}'],
    ['OperationsApiAccept', '/*/*/tenants/{tenantId}/refunds/{operationId}'],
    ['OperationsApiCancel', '/*/*/tenants/{tenantId}/operations/{operationId}/cancel'],
    ['OperationsApiGetOperation', '/*/*/tenants/{tenantId}/operations/{operationId}'],
  ]);
});

test('every route asks for an IAM signature', () => {
  template.allResourcesProperties('AWS::ApiGatewayV2::Route', { AuthorizationType: 'AWS_IAM' });
  template.resourceCountIs('AWS::ApiGatewayV2::Authorizer', 0);
});

test('with an issuer every route asks for a token of it instead', () => {
  const [authorizer] = Object.keys(withTokens.findResources('AWS::ApiGatewayV2::Authorizer'));
  withTokens.allResourcesProperties('AWS::ApiGatewayV2::Route', {
    AuthorizationType: 'JWT',
    AuthorizerId: { Ref: authorizer },
  });
  withTokens.hasResourceProperties('AWS::ApiGatewayV2::Authorizer', {
    AuthorizerType: 'JWT',
    IdentitySource: ['$request.header.Authorization'],
    JwtConfiguration: { Issuer: 'https://login.shop.test/pool', Audience: ['shop'] },
  });
});

test.each(functions)(
  '%s is told what every handler is told, and the tenant claim only with tokens',
  (name) => {
    const shared = [
      'NODE_OPTIONS',
      'OPERATIONS_TABLE',
      'PROVIDER_KEY_PREFIX',
      'QUEUE_URL',
      'SETTINGS',
      'STAGE',
    ];
    expect(Object.keys(variablesOf(template, name)).sort()).toEqual(shared);
    expect(Object.keys(variablesOf(withTokens, name)).sort()).toEqual(['JWT_TENANT_CLAIM', ...shared]);
    expect(variablesOf(withTokens, name)).toMatchObject({
      JWT_TENANT_CLAIM: 'custom:tenantId',
      SETTINGS: '{"customerTenantCheck":true}',
    });
  },
);

test.each(functions)('%s ends before API Gateway gives up', (name) => {
  expect(functionOf(template, name)).toMatchObject({ Timeout: 10 });
});

const logs = ['logs:CreateLogStream', 'logs:PutLogEvents'];

test.each([
  [
    'Accept',
    [
      'dynamodb:BatchGetItem',
      'dynamodb:GetItem',
      'dynamodb:UpdateItem',
      ...logs,
      'sqs:GetQueueAttributes',
      'sqs:SendMessage',
    ],
  ],
  ['GetOperation', ['dynamodb:BatchGetItem', ...logs]],
  ['OperationsApiCancel', ['dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:UpdateItem', ...logs]],
])('%s may do exactly what it does', (name, allowed) => {
  const actual = grantsBesideTraces(template, name);
  expect(actual.map(({ action }) => action).sort()).toEqual(allowed);
  for (const { resource } of actual) expect(resource).not.toContain('*');
});

test('no function of the API can read the Stripe key', () => {
  for (const name of functions)
    expect(variablesOf(template, name)).not.toHaveProperty('STRIPE_API_KEY_SECRET_ID');
  const readers = Object.entries(template.findResources('AWS::IAM::Policy'))
    .filter(([, policy]) => JSON.stringify(policy).includes('secretsmanager:GetSecretValue'))
    .map(([id]) => id);
  expect(readers.sort()).toEqual([
    expect.stringMatching(/^ChargeOnceOperator/),
    expect.stringMatching(/^ChargeOnceReconciler/),
    expect.stringMatching(/^ChargeOnceWorker/),
  ]);
});

test('requests are throttled as the settings say', () => {
  template.hasResourceProperties('AWS::ApiGatewayV2::Stage', {
    StageName: '$default',
    AutoDeploy: true,
    DefaultRouteSettings: { ThrottlingRateLimit: 100, ThrottlingBurstLimit: 200 },
  });
  operationsStack({ apiRequestsPerSecond: 7, apiBurstRequests: 9 }).template.hasResourceProperties(
    'AWS::ApiGatewayV2::Stage',
    { DefaultRouteSettings: { ThrottlingRateLimit: 7, ThrottlingBurstLimit: 9 } },
  );
});

test('browsers of other sites are not let in', () => {
  template.hasResourceProperties('AWS::ApiGatewayV2::Api', { CorsConfiguration: Match.absent() });
});

describe('the access log', () => {
  const [stage = {}] = Object.values(template.findResources('AWS::ApiGatewayV2::Stage'));
  const { DestinationArn, Format } = stage.Properties.AccessLogSettings;
  const variables = [...Format.matchAll(/\$context\.[\w.]+/g)].map(([name]) => name);

  test('goes to a log group of its own with the retention of the settings', () => {
    const [id] = DestinationArn['Fn::GetAtt'];
    const { template: shorter } = operationsStack({ logRetentionDays: 30 });
    expect(shorter.findResources('AWS::Logs::LogGroup')[id]?.Properties).toEqual({ RetentionInDays: 30 });
  });

  test('is one JSON object a line, with the request id', () => {
    expect(Object.values(JSON.parse(Format))).toEqual(variables);
    expect(variables).toContain('$context.requestId');
    expect(variables).toContain('$context.routeKey');
  });

  test('holds nothing that the caller wrote: no body, query string, path or header', () => {
    const written =
      /path|query|body|header|userAgent|domainName|error\.message|integrationErrorMessage|claims/i;
    expect(variables.filter((name) => written.test(name))).toEqual([]);
  });
});
