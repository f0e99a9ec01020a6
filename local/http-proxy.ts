import {
  Agent,
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request,
  type ServerResponse,
} from 'node:http';
import { Listeners } from './listeners';
import { closeServer, connectionsOf, listenOnLoopback } from './loopback-server';
import { type Answer, applyFault, type Call, type Fault } from './proxy-faults';

export type { Answer, Call, Fault, Verdict } from './proxy-faults';

export interface Match {
  /** The AWS action, such as `UpdateItem`; all when absent. */
  readonly action?: string;
  /** Given the parsed JSON body; undefined when it is not JSON. */
  readonly where?: (body: unknown) => boolean;
  /** How many calls the fault happens to. @default all until it is removed */
  readonly times?: number;
}

export interface HttpProxy {
  /** `http://127.0.0.1:PORT`, without a slash at its end. */
  readonly url: string;
  /** Calls that came in since the start or the last reset, by action, those with a fault included. */
  counts(): Readonly<Record<string, number>>;
  /** Of one action. */
  count(action: string): number;
  resetCounts(): void;
  /** Called for each call as it comes in. @returns a function that removes the listener */
  onCall(listener: (call: Call) => void): () => void;
  /**
   * The first fault that matches a call and is not used up happens to it. @returns a function that removes
   * it
   */
  intercept(match: Match, fault: Fault): () => void;
  /** Connections that clients have open to it. */
  openConnections(): Promise<number>;
  /** Ends all connections. */
  stop(): Promise<void>;
}

/**
 * A reverse proxy on 127.0.0.1 in front of an AWS emulator on 127.0.0.1. It has read a request wholly before
 * it forwards it, so a client that resets in mid-body does the emulator no harm.
 */
export async function startHttpProxy(upstreamPort: number): Promise<HttpProxy> {
  const calls = new Listeners<Call>();
  const agent = new Agent({ keepAlive: true });
  let counts: Record<string, number> = {};
  let rules: { match: Match; fault: Fault; left: number }[] = [];

  const faultFor = (call: Call): Fault | undefined => {
    const rule = rules.find(({ match, left }) => {
      const isAction = match.action === undefined || match.action === call.action;
      return left > 0 && isAction && (match.where === undefined || match.where(call.body));
    });
    if (rule) rule.left -= 1;
    return rule?.fault;
  };

  const server = createServer((incoming, outgoing) => {
    handle(incoming, outgoing).catch(() => outgoing.destroy());
  });
  const handle = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const content = await contentOf(incoming);
    const call: Call = { action: actionOf(incoming), body: jsonFrom(content) };
    counts[call.action] = (counts[call.action] ?? 0) + 1;
    calls.emit(call);
    const gone = new AbortController();
    outgoing.once('close', () => gone.abort());
    const exchange = {
      call,
      gone: gone.signal,
      forward: (signal?: AbortSignal) => forward(incoming, content, upstreamPort, agent, signal),
      answer: (answer: Answer) =>
        void outgoing.writeHead(answer.statusCode, answer.headers).end(answer.content),
      reset: () => void incoming.socket.resetAndDestroy(),
    };
    await applyFault(exchange, faultFor(call));
  };
  const port = await listenOnLoopback(server);

  return {
    url: `http://127.0.0.1:${port}`,
    counts: () => ({ ...counts }),
    count: (action) => counts[action] ?? 0,
    resetCounts() {
      counts = {};
    },
    onCall: (listener) => calls.add(listener),
    intercept(match, fault) {
      const rule = { match, fault, left: match.times ?? Number.POSITIVE_INFINITY };
      rules.push(rule);
      return () => {
        rules = rules.filter((other) => other !== rule);
      };
    },
    openConnections: () => connectionsOf(server),
    async stop() {
      await closeServer(server);
      agent.destroy();
    },
  };
}

/** Older SDKs call the queue's own URL; the emulators serve every action at `/`. */
function pathOf(incoming: IncomingMessage): string {
  return incoming.headers['x-amz-target'] === undefined ? (incoming.url ?? '/') : '/';
}

/**
 * `DynamoDB_20120810.UpdateItem` is `UpdateItem`; a request that is no AWS action is named by method and
 * path.
 */
function actionOf(incoming: IncomingMessage): string {
  const target = incoming.headers['x-amz-target'];
  if (typeof target === 'string') return target.slice(target.lastIndexOf('.') + 1);
  return `${incoming.method} ${incoming.url}`;
}

async function forward(
  incoming: IncomingMessage,
  content: Buffer,
  port: number,
  agent: Agent,
  signal?: AbortSignal,
): Promise<Answer> {
  const outgoing = request({
    host: '127.0.0.1',
    port,
    agent,
    method: incoming.method,
    path: pathOf(incoming),
    headers: endToEnd(incoming.headers, content.length),
    ...(signal && { signal }),
  });
  outgoing.end(content);
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  outgoing.once('response', resolve).once('error', reject);
  const response = await promise;
  const answered = await contentOf(response);
  return {
    statusCode: response.statusCode ?? 502,
    headers: endToEnd(response.headers, answered.length),
    content: answered,
  };
}

/** The headers that are not about one connection only, for a body that is sent as a whole. */
function endToEnd(headers: OutgoingHttpHeaders, contentLength: number): OutgoingHttpHeaders {
  const kept: OutgoingHttpHeaders = { ...headers, 'content-length': contentLength };
  for (const name of ['connection', 'keep-alive', 'transfer-encoding', 'expect']) delete kept[name];
  return kept;
}

async function contentOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

function jsonFrom(content: Buffer): unknown {
  try {
    return JSON.parse(content.toString());
  } catch {
    return undefined;
  }
}
