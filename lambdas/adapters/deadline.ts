import { AsyncLocalStorage } from 'node:async_hooks';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';

/** The end of an invocation's time: what aborts then, and when that is by `performance.now()`. */
const ends = new AsyncLocalStorage<{ readonly signal: AbortSignal; readonly atMs: number }>();

/**
 * Runs an invocation's work. When its time ends, every call to DynamoDB, SQS and Stripe that it still waits for is
 * aborted, and no further one begins: nothing goes on in a frozen process, or in the next invocation.
 * @param timeMs 0 to 900 000, Lambda's longest
 */
export function withinTime<T>(timeMs: number, work: () => Promise<T>): Promise<T> {
  const leftMs = Math.floor(Math.max(0, Math.min(timeMs, 900_000)));
  return ends.run({ signal: AbortSignal.timeout(leftMs), atMs: performance.now() + leftMs }, work);
}

/** Options of an AWS SDK call: the end of the invocation's time. */
export const inTime = (): { abortSignal?: AbortSignal } => {
  const end = ends.getStore();
  return end === undefined ? {} : { abortSignal: end.signal };
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

/** Milliseconds until the end of the invocation's time; infinite outside of one. */
export const leftOfInvocationMs = (): number =>
  (ends.getStore()?.atMs ?? Number.POSITIVE_INFINITY) - performance.now();
