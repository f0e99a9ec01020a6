import { AsyncLocalStorage } from 'node:async_hooks';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';

const signals = new AsyncLocalStorage<AbortSignal>();

/**
 * Runs an invocation's work. When its time ends, every call to DynamoDB, SQS and Stripe that it still waits for is
 * aborted, and no further one begins: nothing goes on in a frozen process, or in the next invocation.
 * @param timeMs 0 to 900 000, Lambda's longest
 */
export function withinTime<T>(timeMs: number, work: () => Promise<T>): Promise<T> {
  return signals.run(AbortSignal.timeout(Math.floor(Math.max(0, Math.min(timeMs, 900_000)))), work);
}

/** Options of an AWS SDK call: the end of the invocation's time. */
export const inTime = (): { abortSignal?: AbortSignal } => {
  const abortSignal = signals.getStore();
  return abortSignal === undefined ? {} : { abortSignal };
};

/**
 * Ends a client's requests at the end of the invocation's time too. Options of each call would do the same, and keep the
 * SDK from using again what it made of a command.
 */
export function endingInTime(client: DynamoDBClient): DynamoDBClient {
  const { requestHandler } = client.config;
  const handle = requestHandler.handle.bind(requestHandler);
  requestHandler.handle = (request, options) => handle(request, { ...options, ...inTime() });
  return client;
}

/** Aborts at the end of the invocation's time. */
export const endOfTime = (): AbortSignal | undefined => signals.getStore();
