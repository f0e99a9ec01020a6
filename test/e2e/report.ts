import { inspect, isDeepStrictEqual } from 'node:util';
import { waitFor } from '../../local/wait-for';

/** Thrown by a step without which the others make no sense. It was printed when it happened. */
export class Stopped extends Error {
  override readonly name = 'Stopped';
}

/** Prints and counts what was shown. */
export class Report {
  readonly #startedAtMs = performance.now();
  #passed = 0;
  #failed = 0;

  /**
   * Something that everything after it needs.
   * @throws Stopped when it failed
   */
  async step<T>(name: string, action: () => Promise<T>): Promise<T> {
    const startedAtMs = performance.now();
    try {
      const result = await action();
      this.#passed += 1;
      console.log(`ok ${name} (${seconds(startedAtMs)})`);
      return result;
    } catch (error) {
      this.#failed += 1;
      console.log(`NOT OK ${name}: ${error instanceof Error ? error.message : inspect(error)}`);
      throw new Stopped(name);
    }
  }

  /** Something that the others can do without. */
  async check(name: string, action: () => Promise<unknown>): Promise<void> {
    await this.step(name, action).catch(() => {});
  }

  get hasFailures(): boolean {
    return this.#failed > 0;
  }

  /** The last line says how many steps passed and failed. */
  end(): void {
    console.log(`\nin ${seconds(this.#startedAtMs)}`);
    console.log(`${this.#passed} passed, ${this.#failed} failed`);
  }
}

/** @throws Error with both values */
export function expectEqual(what: string, actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected))
    throw new Error(`${what} is ${shown(actual)}; it must be ${shown(expected)}`);
}

/**
 * Reads until the value is as it must be. A read that throws is not there yet.
 * @throws Error with what it was at last, after `timeoutMs`
 */
export async function until<T>(
  what: string,
  read: () => Promise<T>,
  isMet: (value: T) => boolean,
  timeoutMs = 30_000,
): Promise<T> {
  let last: unknown;
  const look = async () => {
    const value = await read().catch((error: unknown) => {
      last = error instanceof Error ? error.message : error;
      throw error;
    });
    last = value;
    return isMet(value) && { value };
  };
  try {
    return (await waitFor(look, { timeoutMs, intervalMs: 100 })).value;
  } catch {
    throw new Error(`no ${what} within ${timeoutMs / 1000} s; at last it was ${shown(last)}`);
  }
}

const shown = (value: unknown) => inspect(value, { breakLength: Infinity, depth: 6 });

const seconds = (sinceMs: number) => `${((performance.now() - sinceMs) / 1000).toFixed(1)} s`;
