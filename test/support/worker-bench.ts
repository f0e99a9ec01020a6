import { randomUUID } from 'node:crypto';
import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { type LocalStack, type LocalStackOptions, startLocalStack } from '../../local/stack';
import type { StripeStandIn } from '../../local/stripe-stand-in';

/** The real handler in the test's own process, against the laptop stack, without an event source. */
export interface WorkerBench {
  readonly stack: LocalStack;
  readonly stripe: StripeStandIn;
  /** Hands messages to the handler. @returns the ids that it reported as failed */
  deliver(records: readonly SQSRecord[], options?: DeliverOptions): Promise<string[]>;
  /** Calls the handler with anything. */
  invoke(event: unknown, options?: DeliverOptions): Promise<SQSBatchResponse>;
  /** The delays that the handler set since the last call, by receipt handle, in seconds. */
  visibilities(): Map<string, number>;
  /** Log lines and metrics since the last call. */
  logs(): Record<string, unknown>[];
  /** A fresh process: module state is gone, and `environment` goes over the stack's. */
  restart(environment?: Readonly<Record<string, string | undefined>>): void;
  stop(): Promise<void>;
}

export interface DeliverOptions {
  /** @default the worker's whole timeout */
  readonly remainingMs?: () => number;
}

/** Time is the stack's clock, for the handler too. */
export async function startWorkerBench(options: LocalStackOptions = {}): Promise<WorkerBench> {
  const stack = await startLocalStack({ ...options, startEventSource: false });
  const { stripe } = stack;
  if (!stripe) throw new Error('The bench needs the Stripe stand-in');
  const now = jest.spyOn(Date, 'now').mockImplementation(() => stack.clock.now());
  const visibilities = new Map<string, number>();
  const stopListening = stack.sqsProxy.onCall(({ action, body }) => {
    if (action !== 'ChangeMessageVisibility' || typeof body !== 'object' || body === null) return;
    if (!('ReceiptHandle' in body) || !('VisibilityTimeout' in body)) return;
    visibilities.set(String(body.ReceiptHandle), Number(body.VisibilityTimeout));
  });
  const lines: Record<string, unknown>[] = [];
  const consoles = (['log', 'info', 'warn', 'error', 'debug'] as const).map((level) =>
    jest.spyOn(console, level).mockImplementation((...said: unknown[]) => {
      const [line] = said;
      lines.push(typeof line === 'string' && line.startsWith('{') ? JSON.parse(line) : { level, line });
    }),
  );
  const before = { ...process.env };
  let handler: (event: SQSEvent, context: Context) => Promise<SQSBatchResponse>;
  const restart = (environment: Readonly<Record<string, string | undefined>> = {}) => {
    process.env = { ...before, POWERTOOLS_DEV: 'true', POWERTOOLS_METRICS_DISABLED: 'false' };
    Object.assign(process.env, stack.environment);
    for (const [name, value] of Object.entries(environment)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    jest.isolateModules(() => {
      handler = require('../../lambdas/work').handler;
    });
  };
  restart();
  const take = <T>(from: T[]): T[] => from.splice(0);
  const bench: WorkerBench = {
    stack,
    stripe,
    async deliver(records, deliverOptions) {
      const { batchItemFailures } = await bench.invoke({ Records: records }, deliverOptions);
      return batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
    },
    // The event is whatever the test says: the handler must live with it.
    invoke: (event, { remainingMs } = {}) => handler(event as SQSEvent, contextOf(stack, remainingMs)),
    visibilities: () => {
      const seen = new Map(visibilities);
      visibilities.clear();
      return seen;
    },
    logs: () => take(lines),
    restart,
    async stop() {
      stopListening();
      for (const spy of [now, ...consoles]) spy.mockRestore();
      process.env = before;
      await stack.stop();
    },
  };
  return bench;
}

function contextOf(stack: LocalStack, remainingMs?: () => number): Context {
  const endMs = performance.now() + stack.limits.workerTimeoutSeconds * 1000;
  return {
    awsRequestId: randomUUID(),
    functionName: 'charge-once-worker',
    functionVersion: '$LATEST',
    invokedFunctionArn: 'arn:aws:lambda:us-east-1:000000000000:function:charge-once-worker',
    memoryLimitInMB: '512',
    logGroupName: 'worker',
    logStreamName: 'worker',
    callbackWaitsForEmptyEventLoop: false,
    getRemainingTimeInMillis: remainingMs ?? (() => endMs - performance.now()),
    done: () => {},
    fail: () => {},
    succeed: () => {},
  };
}

/** A job of the contract, with parts changed. */
export function job(changes: { readonly input?: object; readonly [field: string]: unknown } = {}) {
  const { input, ...fields } = changes;
  return {
    version: 1,
    tenantId: 'acme',
    operationId: `op-${randomUUID()}`,
    type: 'charge',
    ...fields,
    input: {
      invoiceId: 'inv-77',
      amountMinor: 1999,
      currency: 'usd',
      customerId: 'cus_A',
      paymentMethodId: 'pm_A',
      ...input,
    },
  };
}

export interface RecordOptions {
  readonly messageId?: string;
  readonly receiveCount?: number;
  readonly sentAtMs?: number;
}

/** A delivery of a message, with a receipt handle equal to its message id. */
export function record(body: string | object, options: RecordOptions = {}): SQSRecord {
  const { messageId = randomUUID(), receiveCount = 1, sentAtMs = Date.now() } = options;
  return {
    messageId,
    receiptHandle: messageId,
    body: typeof body === 'string' ? body : JSON.stringify(body),
    attributes: {
      ApproximateReceiveCount: String(receiveCount),
      SentTimestamp: String(sentAtMs),
      SenderId: 'test',
      ApproximateFirstReceiveTimestamp: String(sentAtMs),
    },
    messageAttributes: {},
    md5OfBody: '',
    eventSource: 'aws:sqs',
    eventSourceARN: 'arn:aws:sqs:us-east-1:000000000000:charge-once-jobs',
    awsRegion: 'us-east-1',
  };
}
