import { basename, dirname, join, resolve } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SQSClient } from '@aws-sdk/client-sqs';
import { DynamoDBDocumentClient, GetCommand, paginateScan } from '@aws-sdk/lib-dynamodb';
import { table } from '../lambdas/adapters/table';
import { allRoutes, routeKeyOf } from '../lambdas/http/routes';
import { censusEvent } from '../lambdas/operation/census';
import { type LimitOverrides, type Limits, limitsFrom } from '../lambdas/operation/limits';
import { type ApiServer, startApiServer } from './api-server';
import { type Clock, createClock } from './clock';
import { type DeadLettered, startEmulators } from './emulators';
import { createEventSource, type EventSource, type EventSourceEvent } from './event-source';
import { type HttpProxy, startHttpProxy } from './http-proxy';
import { inspectQueue, type QueueContent, type QueueDepth, type SendOptions, sendJob } from './jobs';
import { startLambdaEndpoint } from './lambda-endpoint';
import { laptopLimits } from './laptop-limits';
import { Listeners } from './listeners';
import {
  createQueues,
  createTable,
  deadLetterQueueName,
  type Queues,
  queueName,
  tableName,
} from './resources';
import { runEvery } from './schedule';
import { type StripeStandIn, startStripeStandIn } from './stripe-stand-in';
import { type WaitOptions, waitFor } from './wait-for';
import { createWorkerPool, type WorkerExit, type WorkerLine, type WorkerPool } from './worker-pool';

export interface LocalStackOptions {
  /** Whether operations may change their key, as after a person's proof of absence. A second movement of money is still a bug. @default false */
  readonly allowKeyChange?: boolean;
  /** Over `laptopLimits`. */
  readonly limits?: LimitOverrides;
  /** The module with the worker's `handler`, from the project's root or absolute. @default lambdas/work.ts */
  readonly handler?: string;
  /** Where payments go: our stand-in, or a Stripe-like API with a test key. @default 'stand-in' */
  readonly stripe?: 'stand-in' | { readonly url?: string; readonly apiKey: string };
  /** Real time of each effect of the stand-in, in milliseconds. @default 0 */
  readonly stripeLatencyMs?: number;
  /** Worker processes at once. @default the limit of that name */
  readonly maxConcurrency?: number;
  /** Whether messages are delivered from the start; `eventSource.start()` begins later. @default true */
  readonly startEventSource?: boolean;
  /** Whether the HTTP API is served. @default false */
  readonly api?: boolean;
  /** Whether the functions that people invoke are served over Lambda's `Invoke`. @default false */
  readonly functions?: boolean;
  /** Real milliseconds between runs of the reconciler, of which every tenth takes a census; it does not run when absent. */
  readonly reconcileEveryMs?: number;
  /** More variables for the handler, over our own. */
  readonly environment?: Readonly<Record<string, string>>;
}

export type StackEvent =
  | EventSourceEvent
  | ({ readonly type: 'deadLettered' } & DeadLettered)
  | ({ readonly type: 'workerLine' } & WorkerLine)
  | ({ readonly type: 'workerExited' } & WorkerExit)
  | { readonly type: 'clockMoved'; readonly offsetMs: number };

export interface LocalStack extends Queues {
  readonly tableName: string;
  /** Names of the functions that people invoke, over `endpoints.lambda`. */
  readonly functions: { readonly operate: string; readonly reconcile: string };
  readonly limits: Limits;
  /** Without a slash at the end. `stripe` is undefined for Stripe itself. */
  readonly endpoints: {
    readonly dynamodb: string;
    readonly sqs: string;
    readonly stripe: string | undefined;
    /** Of the HTTP API; undefined when it is not served. */
    readonly api: string | undefined;
    /** Of Lambda's `Invoke`; undefined when it is not served. */
    readonly lambda: string | undefined;
  };
  /** What a handler gets. */
  readonly environment: Readonly<Record<string, string>>;
  readonly clock: Clock;
  readonly dynamodbProxy: HttpProxy;
  readonly sqsProxy: HttpProxy;
  /** Undefined when the stack uses another Stripe. */
  readonly stripe: StripeStandIn | undefined;
  readonly eventSource: EventSource;
  readonly workers: WorkerPool;
  /**
   * Processes of another handler module, such as lambdas/reconcile.ts, to be invoked with any event. They
   * get the worker's variables and clock, and stop with the stack.
   * @param file from the project's root or absolute
   */
  handler(file: string, environment?: Readonly<Record<string, string>>): WorkerPool;
  /** Puts a job on the queue, past the proxy and its faults. @returns its message id */
  send(body: string | object, options?: SendOptions): Promise<string>;
  /**
   * The operation's item as plain values, read consistently and past the proxy; undefined when there is
   * none.
   */
  operation(tenantId: string, operationId: string): Promise<Record<string, unknown> | undefined>;
  /** Any item of the table, such as `tenant#North`. */
  item(partitionKey: string): Promise<Record<string, unknown> | undefined>;
  /** Every item of the table, read consistently and past the proxy: for what shows all of a laptop's few. */
  items(): Promise<Record<string, unknown>[]>;
  /** What the job queue and the dead-letter queue hold now, without receiving it. */
  queueContents(): Promise<{ readonly jobs: QueueContent; readonly deadLetters: QueueContent }>;
  /** Bodies of all messages in the dead-letter queue, without receiving them. */
  deadLetters(): Promise<string[]>;
  /** Messages of the job queue. */
  queueDepth(): Promise<QueueDepth>;
  /** Connections that are open to the stack's servers: the emulators' proxies, the stand-in and the API. */
  openConnections(): Promise<number>;
  waitFor: typeof waitFor;
  onEvent(listener: (event: StackEvent) => void): () => void;
  /**
   * Stops every process and server. Rejects with what went wrong: an emulator that died, or what the Stripe
   * stand-in found, such as a second charge; all is stopped all the same.
   */
  stop(): Promise<void>;
}

export type { QueueDepth, SendOptions, WaitOptions };
export { laptopLimits };

const region = 'us-east-1';
const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
const projectRoot = dirname(__dirname);

/**
 * Starts the whole service on this machine: nothing is listened to but 127.0.0.1, and nothing is left
 * behind.
 */
export async function startLocalStack(options: LocalStackOptions = {}): Promise<LocalStack> {
  const closers: (() => Promise<void> | void)[] = [];
  try {
    return await start(options, closers);
  } catch (error) {
    await closeAll(closers).catch(() => {});
    throw error;
  }
}

async function start(
  options: LocalStackOptions,
  closers: (() => Promise<void> | void)[],
): Promise<LocalStack> {
  const overrides = {
    ...laptopLimits,
    ...options.limits,
    ...(options.maxConcurrency !== undefined && { maxConcurrency: options.maxConcurrency }),
  };
  const limits = limitsFrom(overrides);
  const clock = createClock();
  const events = new Listeners<StackEvent>();
  clock.follow((offsetMs) => events.emit({ type: 'clockMoved', offsetMs }));

  const emulators = await startEmulators(clock, (message) =>
    events.emit({ type: 'deadLettered', ...message }),
  );
  closers.push(() => emulators.stop());
  const dynamodbProxy = await startHttpProxy(emulators.dynamodbPort);
  closers.push(() => dynamodbProxy.stop());
  const sqsProxy = await startHttpProxy(emulators.sqsPort);
  closers.push(() => sqsProxy.stop());

  const { stripe: stripeOption = 'stand-in' } = options;
  let stripe: StripeStandIn | undefined;
  if (stripeOption === 'stand-in') {
    const standIn = await startStripeStandIn({
      now: clock.now,
      ...(options.stripeLatencyMs !== undefined && { latencyMs: options.stripeLatencyMs }),
    });
    stripe = standIn;
    const { allowKeyChange = false } = options;
    closers.push(() => standIn.stop({ allowKeyChange }));
  }
  const stripeUrl = stripeOption === 'stand-in' ? stripe?.url : stripeOption.url;

  const sqs = new SQSClient({ region, credentials, endpoint: sqsProxy.url });
  const directSqs = new SQSClient({
    region,
    credentials,
    endpoint: `http://127.0.0.1:${emulators.sqsPort}`,
    useQueueUrlAsEndpoint: false,
  });
  const dynamodb = new DynamoDBClient({
    region,
    credentials,
    endpoint: `http://127.0.0.1:${emulators.dynamodbPort}`,
  });
  closers.push(() => {
    for (const client of [sqs, directSqs, dynamodb]) client.destroy();
  });
  const [queues] = await Promise.all([createQueues(sqs, region, limits), createTable(dynamodb)]);
  sqsProxy.resetCounts();

  const environment: Record<string, string> = {
    OPERATIONS_TABLE: tableName,
    QUEUE_URL: queues.queueUrl,
    SETTINGS: JSON.stringify(overrides),
    STAGE: 'local',
    PROVIDER_KEY_PREFIX: 'local',
    STRIPE_API_KEY: stripeOption === 'stand-in' ? 'sk_test_local_stand_in' : stripeOption.apiKey,
    ...(stripeUrl !== undefined && { STRIPE_API_BASE: stripeUrl }),
    AWS_REGION: region,
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    AWS_ENDPOINT_URL_DYNAMODB: dynamodbProxy.url,
    AWS_ENDPOINT_URL_SQS: sqsProxy.url,
    AWS_LAMBDA_FUNCTION_MEMORY_SIZE: '512',
    ...options.environment,
  };
  const handler = (file: string, more: Readonly<Record<string, string>> = {}): WorkerPool => {
    const name = { AWS_LAMBDA_FUNCTION_NAME: `charge-once-${basename(file).replace(/\.\w+$/, '')}` };
    const pool = createWorkerPool(resolve(projectRoot, file), { ...name, ...environment, ...more }, clock);
    pool.onLine((line) => events.emit({ type: 'workerLine', ...line }));
    pool.onExit((exit) => events.emit({ type: 'workerExited', ...exit }));
    closers.push(() => pool.stop());
    return pool;
  };
  const workers = handler(options.handler ?? join('lambdas', 'work.ts'));
  const api = options.api === true ? await serveApi(handler, limits) : undefined;
  if (api) closers.push(() => api.stop());
  const reconciler = handler(join('lambdas', 'reconcile.ts'));
  const served = options.functions === true ? await serveFunctions(handler, reconciler) : undefined;
  if (served) closers.push(() => served.stop());
  if (options.reconcileEveryMs !== undefined) {
    let runs = 0;
    const end = runEvery(options.reconcileEveryMs, () =>
      reconciler.invoke(runs++ % 10 === 0 ? censusEvent : {}, 10_000),
    );
    // A run under way ends with its process.
    closers.push(async () => {
      const ended = end();
      await reconciler.stop();
      await ended;
    });
  }
  const eventSource = createEventSource({
    ...queues,
    sqs,
    workers,
    maxConcurrency: limits.maxConcurrency,
    batchSize: limits.batchSize,
    batchWindowSeconds: limits.batchWindowSeconds,
    timeoutMs: limits.workerTimeoutSeconds * 1000,
  });
  // The invocations that run end with their processes.
  closers.push(async () => {
    const polling = eventSource.stop();
    await workers.stop();
    await polling;
  });
  eventSource.onEvent((event) => events.emit(event));
  if (options.startEventSource ?? true) {
    // One process ahead of the first message; if its module does not load, the first invocation says so.
    workers.warm(1).catch(() => {});
    eventSource.start();
  }

  const documents = DynamoDBDocumentClient.from(dynamodb);
  const item = async (partitionKey: string): Promise<Record<string, unknown> | undefined> => {
    const key = { [table.partitionKey]: partitionKey };
    const command = new GetCommand({ TableName: tableName, Key: key, ConsistentRead: true });
    return (await documents.send(command)).Item;
  };
  const inspect = (name: string) => inspectQueue(emulators.sqsPort, name);
  let stopping: Promise<void> | undefined;
  return {
    ...queues,
    tableName,
    functions: functionNames,
    limits,
    endpoints: {
      dynamodb: dynamodbProxy.url,
      sqs: sqsProxy.url,
      stripe: stripeUrl,
      api: api?.url,
      lambda: served?.url,
    },
    environment,
    clock,
    dynamodbProxy,
    sqsProxy,
    stripe,
    eventSource,
    workers,
    handler,
    send: (body, sendOptions) => sendJob(directSqs, queues.queueUrl, body, sendOptions),
    operation: (tenantId, operationId) => item(`op#${tenantId}#${operationId}`),
    item,
    async items() {
      const items: Record<string, unknown>[] = [];
      const pages = paginateScan({ client: documents }, { TableName: tableName, ConsistentRead: true });
      for await (const page of pages) items.push(...(page.Items ?? []));
      return items;
    },
    async queueContents() {
      const [jobs, deadLetters] = await Promise.all([inspect(queueName), inspect(deadLetterQueueName)]);
      return { jobs, deadLetters };
    },
    deadLetters: async () => (await inspect(deadLetterQueueName)).messages.map(({ body }) => body),
    queueDepth: async () => (await inspect(queueName)).depth,
    async openConnections() {
      const servers = [dynamodbProxy, sqsProxy, stripe, api].filter((server) => server !== undefined);
      const counts = await Promise.all(servers.map((server) => server.openConnections()));
      return counts.reduce((sum, count) => sum + count, 0);
    },
    waitFor,
    onEvent: (listener) => events.add(listener),
    stop() {
      stopping ??= closeAll(closers);
      return stopping;
    },
  };
}

/** The API's functions share one process at a time or two; more would only wait for the same two cores. */
async function serveApi(handler: LocalStack['handler'], limits: Limits): Promise<ApiServer> {
  const pool = handler(join('local', 'api-handlers.ts'));
  pool.warm(1).catch(() => {});
  return startApiServer(
    pool,
    allRoutes.map(routeKeyOf),
    2,
    Math.max(5_000, limits.workerTimeoutSeconds * 1000),
  );
}

/** As `handler` names them. */
const functionNames = { operate: 'charge-once-operate', reconcile: 'charge-once-reconcile' };

/** What people invoke. A process of each starts with its first invocation; both have the reconciler's timeout. */
function serveFunctions(handler: LocalStack['handler'], reconciler: WorkerPool) {
  const timeoutMs = 30_000;
  return startLambdaEndpoint({
    [functionNames.operate]: { pool: handler(join('lambdas', 'operate.ts')), timeoutMs },
    [functionNames.reconcile]: { pool: reconciler, timeoutMs },
  });
}

/** Last started, first stopped. All are, whatever one of them throws. */
async function closeAll(closers: readonly (() => Promise<void> | void)[]): Promise<void> {
  const errors: unknown[] = [];
  for (const close of closers.toReversed()) {
    try {
      await close();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length === 1) throw errors[0];
  if (errors.length > 1) throw new AggregateError(errors, errors.map(String).join('\n'));
}
