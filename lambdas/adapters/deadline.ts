import { AsyncLocalStorage } from 'node:async_hooks';

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

/** A signal of one request, ended by the end of the invocation's time too. */
export function signalInTime(own: AbortSignal | null | undefined): AbortSignal | undefined {
  const all = [own, signals.getStore()].filter((signal) => signal instanceof AbortSignal);
  return all.length > 0 ? AbortSignal.any(all) : undefined;
}
