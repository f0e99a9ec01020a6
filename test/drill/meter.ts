import { readdirSync } from 'node:fs';
import { relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LocalStack } from '../../local/stack';

/** What the stack is made of at one moment. */
export interface Sample {
  /** Milliseconds since 1970. */
  readonly atMs: number;
  /** Worker processes alive. */
  readonly workers: number;
  /** Those that run an invocation. */
  readonly busyWorkers: number;
  /** Requests that the provider works on. */
  readonly providerCalls: number;
  /** Connections open to the provider, the emulators' proxies and the API. */
  readonly connections: number;
  /** Messages in the queue: waiting, in flight and delayed. */
  readonly queueDepth: number;
  /** Files in the temporary directory of the functions' processes. */
  readonly temporaryFiles: number;
}

const everyMs = 250;

/** Looks at the stack four times a second while a drill runs. */
export class Meter {
  readonly #samples: Sample[] = [];
  readonly #ended = new AbortController();
  readonly #looking: Promise<void>;

  /** @param temporaryFolder what the functions' processes have for their temporary files, and nobody else */
  constructor(
    private readonly stack: LocalStack,
    private readonly temporaryFolder: string,
  ) {
    this.#looking = this.#look();
  }

  samples(): readonly Sample[] {
    return this.#samples;
  }

  async now(): Promise<Sample> {
    const { stack } = this;
    const [connections, { total }] = await Promise.all([stack.openConnections(), stack.queueDepth()]);
    return {
      atMs: Date.now(),
      workers: stack.workers.pids().length,
      busyWorkers: stack.workers.busyPids().length,
      providerCalls: stack.stripe?.openRequests() ?? 0,
      connections,
      queueDepth: total,
      temporaryFiles: filesIn(this.temporaryFolder),
    };
  }

  async stop(): Promise<void> {
    this.#ended.abort();
    await this.#looking;
  }

  async #look(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      this.#samples.push(await this.now());
      await sleep(everyMs, undefined, { signal }).catch(() => {});
    }
  }
}

/** All files below a folder but the cache of the TypeScript loader, which a deployed function does not have. */
function filesIn(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true }).filter(
    (entry) => !entry.isDirectory() && !relative(folder, entry.parentPath).startsWith('tsx-'),
  ).length;
}
