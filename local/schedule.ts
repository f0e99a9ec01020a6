import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Runs something again and again, each time after a pause, never two at once: what a schedule does to a function.
 * @param everyMs real milliseconds between the end of a run and the next
 * @returns a function that ends it and waits for the run under way
 */
export function runEvery(everyMs: number, run: () => Promise<unknown>): () => Promise<void> {
  const stopped = new AbortController();
  const done = (async () => {
    while (!stopped.signal.aborted) {
      await run().catch(() => {});
      await sleep(everyMs, undefined, { signal: stopped.signal }).catch(() => {});
    }
  })();
  return async () => {
    stopped.abort();
    await done;
  };
}
