import { readFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { SQSClient } from '@aws-sdk/client-sqs';
import * as z from 'zod/mini';
import { bodyWithin, closeServer, listenOnLoopback } from '../loopback-server';
import type { LocalStack } from '../stack';
import { type Action, actionSchema, createActions, type Said } from './actions';
import { type Refusal, refusalOf, securityHeaders } from './guard';
import type { History } from './history';
import { createLive } from './live';
import { takeSnapshot } from './snapshot';

export interface ConsoleOptions {
  /** On 127.0.0.1; 0 is any free one. @default 4242, or any free one when that is taken */
  readonly port?: number;
  /** What the stack is busy with; while it is, nobody may act on it. @default never busy */
  readonly busyWith?: () => string | undefined;
}

/** The console page of a stack. */
export interface Console {
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  stop(): Promise<void>;
}

const defaultPort = 4242;
/** The largest body of an action, in bytes. */
const maxBodyBytes = 4096;

/** The page's files by their path. Nothing else of the disk is served. */
const files: Readonly<Record<string, readonly [name: string, type: string]>> = {
  '/': ['index.html', 'text/html; charset=utf-8'],
  '/console.css': ['console.css', 'text/css; charset=utf-8'],
  '/theme.js': ['theme.js', 'text/javascript; charset=utf-8'],
  '/console.js': ['console.js', 'text/javascript; charset=utf-8'],
  '/operations.js': ['operations.js', 'text/javascript; charset=utf-8'],
  '/panels.js': ['panels.js', 'text/javascript; charset=utf-8'],
  '/controls.js': ['controls.js', 'text/javascript; charset=utf-8'],
  '/draw.js': ['draw.js', 'text/javascript; charset=utf-8'],
  '/icon.svg': ['icon.svg', 'image/svg+xml'],
};

/**
 * Serves the console page of a stack, to this machine only.
 * @param history of that stack
 * @throws Error when the given port is taken
 */
export async function startConsole(
  stack: LocalStack,
  history: History,
  options: ConsoleOptions = {},
): Promise<Console> {
  const sqs = new SQSClient({
    region: 'us-east-1',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    endpoint: stack.endpoints.sqs,
  });
  const actions = createActions(stack, history, sqs);
  const startedAtMs = stack.clock.now();
  const take = async () =>
    JSON.stringify(
      await takeSnapshot(stack, history, { startedAtMs, isHeld: actions.isHeld(), armed: actions.armed() }),
    );
  const live = createLive(take);
  history.onChange(() => live.touch());

  let port = 0;
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    for (const [name, value] of Object.entries(securityHeaders)) response.setHeader(name, value);
    const refusal = refusalOf(request, port);
    if (refusal) return refuse(response, refusal);
    const { method = '', url = '/' } = request;
    const path = url.split('?')[0] ?? '/';
    const file = files[path];
    const allowed = file ? ['GET', 'HEAD'] : path === '/actions' ? ['POST'] : ['GET'];
    if (!file && !['/actions', '/events', '/document.json'].includes(path))
      return refuse(response, { status: 404, problem: 'There is no such page.' });
    if (!allowed.includes(method)) {
      response.setHeader('allow', allowed.join(', '));
      return refuse(response, { status: 405, problem: `${path} takes ${allowed.join(' and ')}.` });
    }
    if (file) return answer(response, 200, file[1], await readFile(join(__dirname, 'page', file[0])));
    if (path === '/document.json') return answer(response, 200, 'application/json', await take());
    if (path === '/events') {
      if (!live.add(response))
        refuse(response, { status: 503, problem: 'Too many of these pages are open.' });
      return;
    }
    const action = await readAction(request);
    if ('problem' in action) return refuse(response, action);
    const busyWith = options.busyWith?.();
    const said = busyWith === undefined ? await actions.run(action) : wait(busyWith);
    live.touch();
    // What the service refuses is an answer like any other here; a browser would log a 4xx as a failure of the page.
    answer(response, 200, 'application/json', JSON.stringify(said));
  };
  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy());
  });
  try {
    port = await listen(server, options.port);
  } catch (error) {
    await live.stop();
    sqs.destroy();
    throw error;
  }
  return {
    url: `http://127.0.0.1:${port}`,
    async stop() {
      await live.stop();
      await closeServer(server);
      sqs.destroy();
    },
  };
}

const wait = (busyWith: string): Said => ({
  ok: false,
  said: `Not yet: the stack is busy with ${busyWith}.`,
});

/** @returns the port that it got */
async function listen(server: Server, wanted: number | undefined): Promise<number> {
  try {
    return await listenOnLoopback(server, wanted ?? defaultPort);
  } catch (error) {
    const isTaken = Object(error).code === 'EADDRINUSE';
    if (!isTaken) throw error;
    if (wanted !== undefined) throw new Error(`Port ${wanted} is taken; choose another one with --port.`);
    return listenOnLoopback(server);
  }
}

async function readAction(request: IncomingMessage): Promise<Action | Refusal> {
  const [type = ''] = (request.headers['content-type'] ?? '').split(';');
  if (type.trim().toLowerCase() !== 'application/json')
    return { status: 415, problem: 'The body must be application/json.' };
  const body = await bodyWithin(request, maxBodyBytes);
  if (body === undefined) return { status: 413, problem: `The body may have ${maxBodyBytes} bytes.` };
  const parsed = actionSchema.safeParse(jsonFrom(body.toString('utf8')));
  if (parsed.success) return parsed.data;
  return { status: 400, problem: `No such action: ${z.prettifyError(parsed.error)}` };
}

function jsonFrom(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

function refuse(response: ServerResponse, { status, problem }: Refusal): void {
  answer(response, status, 'application/json', JSON.stringify({ problem }));
}

function answer(response: ServerResponse, status: number, type: string, body: string | Buffer): void {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body);
}
