import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { App } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { OperationsStack } from '../../lib/operations-stack';
import { settingsFrom } from '../../lib/settings';
import { operationsStack, tokens } from '../support/stack-factory';
import { record } from '../support/worker-bench';
import { functionOf, variablesOf } from './service-functions';

const run = promisify(execFile);

/** Every function with the part of its logical id that tells it, and an event that a handler of its kind takes. */
const worker = ['Worker', { Records: [] }] as const;
const others = [
  ['Reconciler', {}],
  ['Accept', httpEvent('PUT /tenants/{tenantId}/charges/{operationId}')],
  ['GetOperation', httpEvent('GET /tenants/{tenantId}/operations/{operationId}')],
  ['OperationsApiCancel', httpEvent('POST /tenants/{tenantId}/operations/{operationId}/cancel')],
] as const;

/** The bundles as a deploy uploads them, each alone in an otherwise empty folder. */
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'charge-once-bundle-'));
  const app = new App({ outdir: join(folder, 'cdk.out') });
  const stack = new OperationsStack(app, 'Bundled', { settings: settingsFrom({ stage: 'bundle' }) });
  app.synth();
  const template = Template.fromStack(stack);
  for (const [name] of [worker, ...others]) {
    const { Code } = functionOf(template, name);
    const asset = `asset.${String(Object(Code).S3Key).replace('.zip', '')}`;
    cpSync(join(folder, 'cdk.out', asset), join(folder, name), { recursive: true });
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs a bundle's handler in a Node of its own, with nothing but the bundle and these variables. */
async function invoke(
  name: string,
  event: unknown,
  variables: Record<string, string> = {},
): Promise<unknown> {
  const program = `
    const { handler } = require('./index.js');
    const context = { awsRequestId: 'r', getRemainingTimeInMillis: () => 30000 };
    handler(${JSON.stringify(event)}, context).then((response) => console.log('response=' + JSON.stringify(response)));`;
  const { stdout } = await run(process.execPath, ['-e', program], {
    cwd: join(folder, name),
    env: {
      OPERATIONS_TABLE: 'table',
      QUEUE_URL: 'https://sqs.us-east-1.amazonaws.com/000000000000/jobs',
      STRIPE_API_KEY_SECRET_ID: 'secret',
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'none',
      AWS_SECRET_ACCESS_KEY: 'none',
      // Nobody listens there.
      AWS_ENDPOINT_URL: 'http://127.0.0.1:1',
      ...variables,
    },
  });
  return JSON.parse(stdout.split('response=')[1] ?? 'null');
}

/** A request without a body, which no handler accepts: as it is, its tenant is no id. */
function httpEvent(routeKey: string, tenantId = '-') {
  const [method = '', path = ''] = routeKey
    .replace('{tenantId}', tenantId)
    .replace('{operationId}', 'O7')
    .split(' ');
  return {
    version: '2.0',
    routeKey,
    rawPath: path,
    rawQueryString: '',
    headers: {},
    pathParameters: { tenantId, operationId: 'O7' },
    requestContext: { http: { method, path }, requestId: 'r', routeKey, stage: '$default' },
    isBase64Encoded: false,
  };
}

test('BL-47 the bundle of the worker copied alone into an empty folder loads and handles an event', async () => {
  const [name, event] = worker;
  expect(await invoke(name, event)).toEqual({ batchItemFailures: [] });
  expect(await invoke(name, { Records: [record('not json{', { messageId: 'm1' })] })).toEqual({
    batchItemFailures: [{ itemIdentifier: 'm1' }],
  });
});

test.each(others.filter(([name]) => name !== 'Reconciler'))(
  'BL-47 the bundle of %s copied alone loads and answers a wrong request with a problem',
  async (name, event) => {
    expect(await invoke(name, event)).toMatchObject({
      statusCode: 400,
      headers: { 'content-type': 'application/problem+json' },
    });
  },
);

test('the variable with the name of the tenant claim is the one that the handlers read', async () => {
  const { JWT_TENANT_CLAIM } = variablesOf(operationsStack(tokens).template, 'Accept');
  const event = httpEvent('PUT /tenants/{tenantId}/charges/{operationId}', 'North');
  const answer = async (tenantId: string) => {
    const authorizer = { jwt: { claims: { [tokens.jwtTenantClaim]: tenantId }, scopes: null } };
    const withToken = { ...event, requestContext: { ...event.requestContext, authorizer } };
    return invoke('Accept', withToken, { JWT_TENANT_CLAIM: String(JWT_TENANT_CLAIM) });
  };
  expect(await answer('South')).toMatchObject({ statusCode: 403 });
  // The token is for this tenant: now the body is missing.
  expect(await answer('North')).toMatchObject({ statusCode: 400 });
});

test.each([worker, ...others])(
  'BL-47 the bundle of %s is one minified module with its source map, and asks for nothing outside itself',
  (name) => {
    expect(readdirSync(join(folder, name)).sort()).toEqual(['index.js', 'index.js.map']);
    const code = readFileSync(join(folder, name, 'index.js'), 'utf8');
    const required = new Set([...code.matchAll(/\brequire\("([^"]+)"\)/g)].map(([, module = '']) => module));
    const { builtinModules } = process.getBuiltinModule('module');
    const foreign = [...required].filter((module) => !builtinModules.includes(module.replace('node:', '')));
    expect(foreign).toEqual([]);
    // With the SDK's chain of credentials it would be 830 000.
    expect(statSync(join(folder, name, 'index.js')).size).toBeLessThan(750_000);
  },
);
