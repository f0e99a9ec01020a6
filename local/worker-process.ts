// The entry of a worker process: what Lambda's runtime is to a function. It loads one handler module and
// runs one invocation at a time; the parent enforces the timeout, from outside, as Lambda does.
import { pathToFileURL } from 'node:url';
import type { Context } from 'aws-lambda';
import { shiftDateNow } from './clock';
import { type FromWorker, type ToWorker, toWorker } from './worker-protocol';

type Handler = (event: unknown, context: Context) => unknown;

const tell = (message: FromWorker) => void process.send?.(message, undefined, undefined, () => {});

process.on('disconnect', () => process.exit());
void serve(process.env.HANDLER_FILE ?? '');

async function serve(file: string): Promise<void> {
  const handler = await load(file);
  process.on('message', (message) => {
    const told = toWorker.parse(message);
    if (told.kind === 'invoke') {
      void invoke(handler, told);
    } else {
      shiftDateNow(told.offsetMs);
      tell({ kind: 'clockMoved', offsetMs: told.offsetMs });
    }
  });
  tell({ kind: 'ready' });
}

/** A module without a function named `handler` ends the process, whose output says why. */
async function load(file: string): Promise<Handler> {
  const module: unknown = await import(pathToFileURL(file).href);
  for (const scope of [module, propertyOf(module, 'default')]) {
    const handler = propertyOf(scope, 'handler');
    if (typeof handler === 'function')
      return (event, context) => Reflect.apply(handler, undefined, [event, context]);
  }
  throw new Error(`${file} exports no function named handler.`);
}

async function invoke(handler: Handler, call: Extract<ToWorker, { kind: 'invoke' }>): Promise<void> {
  const { requestId } = call;
  shiftDateNow(call.clockOffsetMs);
  try {
    const response = await handler(call.event, contextOf(requestId, call.timeoutMs));
    tell({ kind: 'response', requestId, payload: JSON.stringify(response) });
  } catch (error) {
    tell({
      kind: 'error',
      requestId,
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
  }
}

function contextOf(requestId: string, timeoutMs: number): Context {
  // The remaining time is real time: moving the stack's clock must not make a function time out.
  const endsAt = performance.now() + timeoutMs;
  const functionName = process.env.AWS_LAMBDA_FUNCTION_NAME ?? '';
  const refuse = () => {
    throw new Error('The handlers are async; done, fail and succeed are not there.');
  };
  return {
    awsRequestId: requestId,
    functionName,
    functionVersion: '$LATEST',
    invokedFunctionArn: `arn:aws:lambda:us-east-1:000000000000:function:${functionName}`,
    memoryLimitInMB: process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE ?? '',
    logGroupName: `/aws/lambda/${functionName}`,
    logStreamName: `local/${process.pid}`,
    callbackWaitsForEmptyEventLoop: true,
    getRemainingTimeInMillis: () => Math.max(0, Math.round(endsAt - performance.now())),
    done: refuse,
    fail: refuse,
    succeed: refuse,
  };
}

function propertyOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}
