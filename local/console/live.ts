import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** Real milliseconds between two documents at least: a page that shows ten a second is read by nobody. */
const gapMs = 150;
/** Real milliseconds after which to look without being told: the queue's and leases' times pass silently. */
const idleMs = 1000;
/** Pages that are open at once. */
const mostReaders = 20;
/** What a slow reader may have unread, in bytes, before it misses a document: the next one says all. */
const mostUnreadBytes = 1_000_000;

/** Server-sent events: the latest document to every open page. */
export interface Live {
  /** @returns false when too many pages are open */
  add(response: ServerResponse): boolean;
  /** Something changed. */
  touch(): void;
  stop(): Promise<void>;
}

/**
 * Takes a document when something changed, and once a second, while a page is open; sends it when it differs.
 * @param take a document as JSON text. When it fails, the pages lose their connection, say so, and try again.
 */
export function createLive(take: () => Promise<string>): Live {
  const readers = new Set<ServerResponse>();
  const stopped = new AbortController();
  let last = '';
  let wake = Promise.withResolvers<void>();

  const sendTo = (reader: ServerResponse): void => {
    if (reader.writableLength <= mostUnreadBytes) reader.write(`data: ${last}\n\n`);
  };
  const run = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      const idle = new AbortController();
      await Promise.race([wake.promise, sleep(idleMs, undefined, { signal: idle.signal }).catch(() => {})]);
      idle.abort();
      wake = Promise.withResolvers<void>();
      if (readers.size === 0 || stopped.signal.aborted) continue;
      const startedAt = performance.now();
      const next = await take().catch(() => undefined);
      if (next === undefined) for (const reader of readers) reader.end();
      else if (next !== last) {
        last = next;
        for (const reader of readers) sendTo(reader);
      }
      // A stack with much to show is asked less often.
      const restMs = Math.max(gapMs, 3 * (performance.now() - startedAt));
      await sleep(restMs, undefined, { signal: stopped.signal }).catch(() => {});
    }
  };
  const running = run();

  return {
    add(response) {
      if (readers.size >= mostReaders) return false;
      response.writeHead(200, { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' });
      response.write('retry: 1000\n\n');
      readers.add(response);
      response.once('close', () => readers.delete(response));
      // The next document goes to all, also where nothing changed.
      last = '';
      wake.resolve();
      return true;
    },
    touch: () => wake.resolve(),
    async stop() {
      stopped.abort();
      wake.resolve();
      for (const reader of readers) reader.end();
      await running;
    },
  };
}
