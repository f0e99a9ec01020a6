import { randomUUID } from 'node:crypto';
import { DeleteMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import type { Accepted } from '../../lambdas/operation/accept';
import type { BroughtOn } from '../../lambdas/operation/bring-on';
import type { Cancelled } from '../../lambdas/operation/cancel';
import type { Message } from '../../lambdas/operation/message';
import type { OperatorAnswer } from '../../lambdas/operation/operate';
import type { OperationId } from '../../lambdas/operation/operation';
import { type LocalStack, type LocalStackOptions, startLocalStack } from '../../local/stack';
import type { StripeStandIn } from '../../local/stripe-stand-in';

/** The real handlers in the test's own process, against the laptop stack, without an event source. */
export interface WorkerBench {
  readonly stack: LocalStack;
  readonly stripe: StripeStandIn;
  /** Hands messages to the handler, redelivered ones a provider timeout later. @returns the ids that it reported as failed */
  deliver(records: readonly SQSRecord[], options?: DeliverOptions): Promise<string[]>;
  /** Calls the handler with anything. */
  invoke(event: unknown, options?: DeliverOptions): Promise<SQSBatchResponse>;
  /** Delivers what the queue has now, in batches, and deletes what was not reported as failed. @returns the deliveries */
  drain(): Promise<SQSRecord[]>;
  /** Takes a job on, as the API does. */
  accept(of: Job): Promise<Accepted>;
  /** Asks for a cancel, as the API does. */
  cancel(of: OperationId): Promise<Cancelled>;
  /** One run of the reconciler, with the event that started it. */
  reconcile(event?: object): Promise<BroughtOn>;
  /** Has the reconciler ask about one operation. */
  reconcileOne(of: OperationId): Promise<OperatorAnswer>;
  /** What a person asks for through the function of that name. */
  operate(request: object): Promise<OperatorAnswer>;
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

/**
 * Time is the stack's clock, for the handler too. A tenant has 50 places, retries have a large budget and the breaker wants
 * many calls, so that what one test leaves behind stops no other.
 */
export async function startWorkerBench(options: LocalStackOptions = {}): Promise<WorkerBench> {
  const limits = {
    tenantMaxRunning: 50,
    retryBudgetFloor: 10_000,
    breakerMinCalls: 10_000,
    ...options.limits,
  };
  const stack = await startLocalStack({ ...options, limits, startEventSource: false });
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
  const sqs = new SQSClient({
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    endpoint: stack.endpoints.sqs,
  });
  let handler: (event: SQSEvent, context: Context) => Promise<SQSBatchResponse>;
  let modules: ReturnType<typeof loadModules>;
  const restart = (environment: Readonly<Record<string, string | undefined>> = {}) => {
    process.env = { ...before, POWERTOOLS_DEV: 'true', POWERTOOLS_METRICS_DISABLED: 'false' };
    Object.assign(process.env, stack.environment);
    for (const [name, value] of Object.entries(environment)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    jest.isolateModules(() => {
      handler = require('../../lambdas/work').handler;
      modules = loadModules();
    });
  };
  restart();
  const take = <T>(from: T[]): T[] => from.splice(0);
  const bench: WorkerBench = {
    stack,
    stripe,
    async deliver(records, deliverOptions) {
      // A message never comes back sooner than the call that was given up could still be running.
      const isBack = ({ attributes }: SQSRecord) => Number(attributes?.ApproximateReceiveCount) > 1;
      if (records.some(isBack)) await stack.clock.advance(stack.limits.providerTimeoutSeconds * 1000 + 1);
      const { batchItemFailures } = await bench.invoke({ Records: records }, deliverOptions);
      return batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
    },
    // The event is whatever the test says: the handler must live with it.
    invoke: (event, { remainingMs } = {}) => handler(event as SQSEvent, contextOf(stack, remainingMs)),
    async drain() {
      const all: SQSRecord[] = [];
      for (;;) {
        const records = await stack.eventSource.receive(stack.limits.batchSize);
        if (records.length === 0) return all;
        all.push(...records);
        const failed = new Set(await bench.deliver(records));
        const done = records.filter(({ messageId }) => !failed.has(messageId));
        const deleteOne = ({ receiptHandle: ReceiptHandle }: SQSRecord) =>
          sqs.send(new DeleteMessageCommand({ QueueUrl: stack.queueUrl, ReceiptHandle }));
        await Promise.all(done.map(deleteOne));
      }
    },
    accept: (of) => modules.accept(modules.api(), parsed(of)),
    cancel: (of) => modules.cancel(modules.api(), of),
    async reconcile(event = {}) {
      const done = await modules.reconcile(event, contextOf(stack, aMinute));
      if ('said' in done) throw new Error('The reconciler answered for one operation');
      return done;
    },
    async reconcileOne({ tenantId, operationId }) {
      const answer = await modules.reconcile({ tenantId, operationId }, contextOf(stack, aMinute));
      if ('sent' in answer) throw new Error('The reconciler ran for all operations');
      return answer;
    },
    operate: (request) => modules.operate(request, contextOf(stack, aMinute)),
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
      sqs.destroy();
      await stack.stop();
    },
  };
  return bench;
}

/** A fresh copy of the API's and the reconciler's code, as one process of each would load it. */
function loadModules() {
  const { accept } =
    require('../../lambdas/operation/accept') as typeof import('../../lambdas/operation/accept');
  const { cancel } =
    require('../../lambdas/operation/cancel') as typeof import('../../lambdas/operation/cancel');
  const { createApi } =
    require('../../lambdas/runtime/wiring') as typeof import('../../lambdas/runtime/wiring');
  const { handler: reconcile } =
    require('../../lambdas/reconcile') as typeof import('../../lambdas/reconcile');
  const { handler: operate } = require('../../lambdas/operate') as typeof import('../../lambdas/operate');
  const created = createApi(process.env);
  const api = () => ({ ...created.ports, telemetry: created.telemetry.of({ requestId: randomUUID() }) });
  return { accept, cancel, reconcile, operate, api };
}

/** What the API's request parser makes of a job. */
function parsed(of: Job): Message {
  const { parseMessage } =
    require('../../lambdas/operation/message') as typeof import('../../lambdas/operation/message');
  const read = parseMessage(JSON.stringify(of), 16_384);
  if (read.kind !== 'message') throw new Error(`This is no job: ${JSON.stringify(read)}`);
  return read.message;
}

const aMinute = () => 60_000;

/** What Lambda tells a handler of its invocation. */
export function contextOf(stack: LocalStack, remainingMs?: () => number): Context {
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

export type Job = OperationId & { readonly [field: string]: unknown };

/** A refund of the contract, with parts changed. */
export function refundOf(
  charge: OperationId,
  amountMinor: number,
  changes: Readonly<Record<string, unknown>> = {},
) {
  return {
    version: 1,
    tenantId: charge.tenantId,
    operationId: `re-${randomUUID()}`,
    type: 'refund',
    input: { chargeOperationId: charge.operationId, amountMinor },
    ...changes,
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
