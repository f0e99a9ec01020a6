import { randomUUID } from 'node:crypto';
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2, Context } from 'aws-lambda';
import { type Route, routeKeyOf, routes } from '../../../lambdas/http/routes';
import type { LocalStackOptions } from '../../../local/stack';
import { job, record, startWorkerBench, type WorkerBench } from '../../support/worker-bench';

type Handler = (
  event: APIGatewayProxyEventV2,
  context: Context,
) => Promise<APIGatewayProxyStructuredResultV2>;

export interface RequestOptions {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** The claims of the caller's token; an IAM caller has none. */
  readonly claims?: Readonly<Record<string, unknown>>;
  readonly isBase64Encoded?: boolean;
  /** @default '$default' */
  readonly stage?: string;
  readonly remainingMs?: number;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
  /** The parsed body. */
  readonly body: Readonly<Record<string, unknown>>;
}

/** The API's real handlers in the test's own process beside the worker's, as API Gateway calls them. */
export interface ApiBench extends WorkerBench {
  /** A body that is no text is sent as JSON. The path is taken apart as an HTTP API does: escapes are decoded once, all but `%25`. */
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  charge(of: Job, options?: RequestOptions): Promise<Answer>;
  get(of: Named, options?: RequestOptions): Promise<Answer>;
  postCancel(of: Named, options?: RequestOptions): Promise<Answer>;
  /** The message of an accepted job comes to the worker. @returns whether it was acknowledged */
  work(of: object): Promise<boolean>;
  /** Fresh functions, as after a deployment. */
  restartApi(environment?: Readonly<Record<string, string>>): void;
}

export type Job = ReturnType<typeof job>;
export interface Named {
  readonly tenantId: string;
  readonly operationId: string;
}

export async function startApiBench(options: LocalStackOptions = {}): Promise<ApiBench> {
  // The bounds of a tenant as they are by default: the worker's bench lifts them.
  const limits = { tenantMaxRunning: 2, tenantMaxWaiting: 5, ...options.limits };
  const bench = await startWorkerBench({ ...options, limits });
  let handlers: Readonly<Record<Route, Handler>>;
  const restartApi = (environment: Readonly<Record<string, string>> = {}) => {
    Object.assign(process.env, environment);
    const load = (name: string): Handler => require(`../../../lambdas/${name}`).handler;
    jest.isolateModules(() => {
      const accept = load('accept');
      const [getOperation, cancel] = [load('get-operation'), load('cancel')];
      handlers = { charge: accept, refund: accept, getOperation, cancel };
    });
  };
  restartApi();
  const request: ApiBench['request'] = async (method, path, requestOptions = {}) => {
    const event = eventOf(method, path, requestOptions);
    const route = routeOf(method, event.rawPath)?.route ?? 'getOperation';
    const answer = await handlers[route](event, contextOf(requestOptions.remainingMs ?? 10_000));
    const { statusCode = 0, headers = {}, body: text = '' } = answer;
    return { status: statusCode, headers, text, body: JSON.parse(text) };
  };
  const pathOf = ({ tenantId, operationId }: Named, kind: string) =>
    `/tenants/${tenantId}/${kind}/${operationId}`;
  return {
    ...bench,
    request,
    charge: (of, more) => request('PUT', pathOf(named(of), 'charges'), { body: of.input, ...more }),
    get: (of, more) => request('GET', pathOf(of, 'operations'), more),
    postCancel: (of, more) => request('POST', `${pathOf(of, 'operations')}/cancel`, more),
    work: async (of) => (await bench.deliver([record(of)])).length === 0,
    restartApi,
  };
}

/** A job's ids. */
export function named(of: { readonly [field: string]: unknown }): Named {
  return { tenantId: String(of.tenantId), operationId: String(of.operationId) };
}

/** A charge of the contract, of a tenant of its own unless `changes` say whose. */
export function chargeOf(changes: Parameters<typeof job>[0] = {}): Job & Named {
  const made = job({ tenantId: `t-${randomUUID()}`, ...changes });
  return { ...made, ...named(made) };
}

function routeOf(method: string, path: string) {
  const segments = path.split('/');
  for (const route of ['charge', 'refund', 'getOperation', 'cancel'] as const) {
    const template = routes[route].path.split('/').slice(1);
    const given = segments.slice(-template.length);
    const isMatch = template.every((part, index) => part.startsWith('{') || part === given[index]);
    if (routes[route].method !== method || !isMatch) continue;
    const [tenantId, operationId] = template.flatMap((part, index) =>
      part.startsWith('{') ? [given[index] ?? ''] : [],
    );
    return { route, pathParameters: { tenantId, operationId } };
  }
  return undefined;
}

function eventOf(method: string, path: string, options: RequestOptions): APIGatewayProxyEventV2 {
  const { body, headers = {}, claims, stage = '$default', isBase64Encoded = false } = options;
  const rawPath = path.replace(/(%(?!25)[0-9a-f]{2})+/gi, decodeURIComponent);
  const found = routeOf(method, rawPath);
  const routeKey = found ? routeKeyOf(found.route) : '$default';
  const text = typeof body === 'string' || body === undefined ? body : JSON.stringify(body);
  return {
    version: '2.0',
    routeKey,
    rawPath,
    rawQueryString: '',
    headers: { ...(text === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    pathParameters: found?.pathParameters,
    requestContext: {
      accountId: '000000000000',
      apiId: 'api',
      domainName: 'api.example.com',
      domainPrefix: 'api',
      http: { method, path: rawPath, protocol: 'HTTP/1.1', sourceIp: '127.0.0.1', userAgent: 'test' },
      requestId: `request-${randomUUID()}`,
      routeKey,
      stage,
      time: '15/Jan/2026:00:00:00 +0000',
      timeEpoch: Date.now(),
      ...(claims === undefined ? {} : { authorizer: { jwt: { claims, scopes: null } } }),
    },
    ...(text === undefined ? {} : { body: text }),
    isBase64Encoded,
  };
}

function contextOf(remainingMs: number): Context {
  const endMs = performance.now() + remainingMs;
  return {
    awsRequestId: randomUUID(),
    functionName: 'charge-once-api',
    functionVersion: '$LATEST',
    invokedFunctionArn: 'arn:aws:lambda:us-east-1:000000000000:function:charge-once-api',
    memoryLimitInMB: '512',
    logGroupName: 'api',
    logStreamName: 'api',
    callbackWaitsForEmptyEventLoop: false,
    getRemainingTimeInMillis: () => endMs - performance.now(),
    done: () => {},
    fail: () => {},
    succeed: () => {},
  };
}
