import { setTimeout as sleep } from 'node:timers/promises';

export interface WaitOptions {
  /** Real milliseconds. @default 10000 */
  readonly timeoutMs?: number;
  /** Real milliseconds between looks. @default 20 */
  readonly intervalMs?: number;
  /** What was waited for, for the error's message. @default the condition's source text */
  readonly what?: string;
}

type Falsy = false | null | undefined | 0 | '';

/**
 * Waits until the condition is truthy, and returns what it then is. A condition that throws is not met yet.
 * @throws Error with what was waited for and what the condition was last, when the time has passed
 */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  options: WaitOptions = {},
): Promise<Exclude<T, Falsy>> {
  const { timeoutMs = 10_000, intervalMs = 20, what = String(condition) } = options;
  const until = performance.now() + timeoutMs;
  let last: unknown;
  do {
    try {
      const value = await condition();
      if (isTruthy(value)) return value;
      last = value;
    } catch (error) {
      last = error;
    }
    await sleep(intervalMs);
  } while (performance.now() < until);
  throw new Error(`Waited ${timeoutMs} ms for ${what}; at last it was ${String(last)}.`, { cause: last });
}

function isTruthy<T>(value: T): value is Exclude<T, Falsy> {
  return Boolean(value);
}
