import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { bodyWithin, closeServer, listenOnLoopback } from './loopback-server';
import type { InvocationResult, WorkerPool } from './worker-pool';

export interface LambdaEndpoint {
  /** `http://127.0.0.1:PORT`, without a slash at its end. */
  readonly url: string;
  stop(): Promise<void>;
}

/** A function that may be invoked, and its timeout in milliseconds. */
export interface Invokable {
  readonly pool: WorkerPool;
  readonly timeoutMs: number;
}

/** Lambda's own limit of a synchronous payload. https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html */
const maxPayloadBytes = 6 * 1024 * 1024;

/**
 * Serves Lambda's `Invoke` on 127.0.0.1, as far as a person's tools need it: a function by its name, its answer waited
 * for. https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
 * @param functions by name
 */
export async function startLambdaEndpoint(
  functions: Readonly<Record<string, Invokable>>,
): Promise<LambdaEndpoint> {
  const server = createServer((request, response) => {
    serve(request, response, functions).catch(() => response.destroy());
  });
  const port = await listenOnLoopback(server);
  return {
    url: `http://127.0.0.1:${port}`,
    stop: () => closeServer(server),
  };
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  functions: Readonly<Record<string, Invokable>>,
): Promise<void> {
  const payload = await bodyWithin(request, maxPayloadBytes);
  const { pathname } = new URL(request.url ?? '/', 'http://127.0.0.1');
  const name = /^\/2015-03-31\/functions\/([^/]+)\/invocations$/.exec(pathname)?.[1];
  if (request.method !== 'POST' || name === undefined)
    return refuse(response, 404, 'UnknownOperationException', 'Only Invoke is served here.');
  const wanted = decodeURIComponent(name);
  const invokable = Object.hasOwn(functions, wanted) ? functions[wanted] : undefined;
  if (!invokable) return refuse(response, 404, 'ResourceNotFoundException', `Function not found: ${wanted}`);
  const type = request.headers['x-amz-invocation-type'] ?? 'RequestResponse';
  if (type !== 'RequestResponse') {
    const problem = `The invocation type is ${String(type)}; only RequestResponse is served here.`;
    return refuse(response, 400, 'InvalidParameterValueException', problem);
  }
  if (payload === undefined)
    return refuse(response, 413, 'RequestTooLargeException', `At most ${maxPayloadBytes} bytes.`);
  const event = eventFrom(payload);
  if (!event.isJson)
    return refuse(response, 400, 'InvalidRequestContentException', 'The payload is not JSON.');
  answer(response, await invokable.pool.invoke(event.value, invokable.timeoutMs));
}

/** What a function throws is Lambda's answer too: 200, with a header that says so. */
function answer(response: ServerResponse, invoked: InvocationResult): void {
  const headers = { 'content-type': 'application/json', 'x-amz-executed-version': '$LATEST' };
  if (invoked.outcome === 'responded') {
    response.writeHead(200, headers).end(invoked.payload ?? 'null');
    return;
  }
  response
    .writeHead(200, { ...headers, 'x-amz-function-error': 'Unhandled' })
    .end(JSON.stringify(errorOf(invoked)));
}

function errorOf(invoked: Exclude<InvocationResult, { outcome: 'responded' }>): object {
  switch (invoked.outcome) {
    case 'threw': {
      // A stack begins with the error's type and message.
      const [said = ''] = invoked.error.split('\n');
      const [, errorType = 'Error', errorMessage = said] = /^(\w+): (.*)$/.exec(said) ?? [];
      return { errorType, errorMessage };
    }
    case 'timedOut':
      return { errorType: 'Sandbox.Timedout', errorMessage: 'Task timed out' };
    case 'died':
      return { errorType: 'Runtime.ExitError', errorMessage: `The runtime exited: ${invoked.output}` };
  }
}

function refuse(response: ServerResponse, statusCode: number, type: string, message: string): void {
  response
    .writeHead(statusCode, { 'content-type': 'application/json', 'x-amzn-errortype': type })
    .end(JSON.stringify({ Type: 'User', Message: message, message }));
}

/** An invocation without a payload gets an empty event. */
function eventFrom(payload: Buffer): { readonly isJson: boolean; readonly value?: unknown } {
  if (payload.length === 0) return { isJson: true, value: {} };
  try {
    return { isJson: true, value: JSON.parse(payload.toString()) };
  } catch {
    return { isJson: false };
  }
}
