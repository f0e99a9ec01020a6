import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import * as z from 'zod/mini';
import { bodyWithin, closeServer, connectionsOf, listenOnLoopback } from './loopback-server';
import type { WorkerPool } from './worker-pool';

export interface ApiServer {
  /** `http://127.0.0.1:PORT`, without a slash at its end. */
  readonly url: string;
  /** Connections that clients have open to it. */
  openConnections(): Promise<number>;
  stop(): Promise<void>;
}

/** API Gateway's own limit of a request body. https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-quotas.html */
const maxBodyBytes = 10 * 1024 * 1024;

const result = z.object({
  statusCode: z.number(),
  headers: z.optional(z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]))),
  body: z.optional(z.string()),
});

/**
 * Serves the API's functions on 127.0.0.1 as an HTTP API of API Gateway does: routes, events of payload version 2, and
 * nobody signs in.
 * @param maxConcurrency invocations at once; requests wait for their turn
 */
export async function startApiServer(
  pool: WorkerPool,
  routeKeys: readonly string[],
  maxConcurrency: number,
  timeoutMs: number,
): Promise<ApiServer> {
  const takeTurn = turns(maxConcurrency);
  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy());
  });
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await bodyWithin(request, maxBodyBytes);
    if (body === undefined) return send(response, 413, {}, '{"message":"Request Entity Too Large"}');
    const event = eventOf(request, body, routeKeys);
    if (!event) return send(response, 404, {}, '{"message":"Not Found"}');
    const giveBack = await takeTurn();
    const invoked = await pool.invoke(event, timeoutMs).finally(giveBack);
    const answer =
      invoked.outcome === 'responded' ? result.safeParse(JSON.parse(invoked.payload ?? 'null')) : undefined;
    if (!answer?.success) return send(response, 500, {}, '{"message":"Internal Server Error"}');
    send(response, answer.data.statusCode, answer.data.headers ?? {}, answer.data.body ?? '');
  };
  const port = await listenOnLoopback(server);
  return {
    url: `http://127.0.0.1:${port}`,
    openConnections: () => connectionsOf(server),
    stop: () => closeServer(server),
  };
}

function send(
  response: ServerResponse,
  status: number,
  headers: Readonly<Record<string, unknown>>,
  body: string,
): void {
  const named = Object.entries(headers).map(([name, value]) => [name, String(value)]);
  response.writeHead(status, { 'content-type': 'application/json', ...Object.fromEntries(named) }).end(body);
}

function eventOf(
  request: IncomingMessage,
  body: Buffer,
  routeKeys: readonly string[],
): APIGatewayProxyEventV2 | undefined {
  const { method = '', url = '/' } = request;
  const [rawPath = '/', rawQueryString = ''] = url.split('?');
  const matched = routeKeys.map((routeKey) => ({ routeKey, parameters: match(routeKey, method, rawPath) }));
  const route = matched.find(({ parameters }) => parameters !== undefined);
  if (!route?.parameters) return undefined;
  const now = new Date();
  return {
    version: '2.0',
    routeKey: route.routeKey,
    rawPath: rawPath.split('/').map(decoded).join('/'),
    rawQueryString,
    headers: Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [
        name,
        Array.isArray(value) ? value.join(',') : value,
      ]),
    ),
    pathParameters: route.parameters,
    requestContext: {
      accountId: '000000000000',
      apiId: 'local',
      domainName: '127.0.0.1',
      domainPrefix: 'local',
      http: {
        method,
        path: rawPath,
        protocol: 'HTTP/1.1',
        sourceIp: '127.0.0.1',
        userAgent: request.headers['user-agent'] ?? '',
      },
      requestId: randomUUID(),
      routeKey: route.routeKey,
      stage: '$default',
      time: now.toISOString(),
      timeEpoch: now.getTime(),
    },
    ...(body.length > 0 ? { body: body.toString('base64') } : {}),
    isBase64Encoded: body.length > 0,
  };
}

/** The parameters of a path that a route fits. */
function match(routeKey: string, method: string, path: string): Record<string, string> | undefined {
  const [routeMethod, template = ''] = routeKey.split(' ');
  const wanted = template.split('/');
  const given = path.split('/');
  if (routeMethod !== method || wanted.length !== given.length) return undefined;
  const parameters: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const name = /^\{(\w+)\}$/.exec(part)?.[1];
    const value = given[index] ?? '';
    if (name === undefined && part !== value) return undefined;
    if (name !== undefined && value === '') return undefined;
    if (name !== undefined) parameters[name] = decoded(value);
  }
  return parameters;
}

/** As API Gateway decodes a path: once, and all but the percent sign itself. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part.replaceAll('%25', '%2525'));
  } catch {
    return part;
  }
}

/** At most `count` at once; the others wait in order. @returns a function that waits for a turn and gives its end */
function turns(count: number): () => Promise<() => void> {
  let free = count;
  const waiting: (() => void)[] = [];
  return async () => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    return () => {
      const next = waiting.shift();
      if (next) next();
      else free += 1;
    };
  };
}
