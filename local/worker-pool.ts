import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { endChild, forkTypeScript, isAlive, moveChildClock, tell } from './child';
import type { Clock } from './clock';
import { Listeners } from './listeners';
import { fromWorker, type ToWorker } from './worker-protocol';

/** How an invocation ended. */
export type InvocationResult = { readonly requestId: string; readonly pid: number } & (
  | { readonly outcome: 'responded' /** JSON text; undefined for undefined. */; readonly payload?: string }
  | { readonly outcome: 'threw'; readonly error: string }
  /** The function's timeout passed and its process was killed. */
  | { readonly outcome: 'timedOut' }
  /** The process ended before it answered; `output` is what it printed last. */
  | {
      readonly outcome: 'died';
      readonly signal?: string;
      readonly exitCode?: number;
      readonly output: string;
    }
);

export interface WorkerLine {
  readonly pid: number;
  readonly stream: 'stdout' | 'stderr';
  readonly line: string;
}

export interface WorkerExit {
  readonly pid: number;
  readonly signal?: string;
  readonly exitCode?: number;
  /** The invocation that it was running, if any. */
  readonly requestId?: string;
}

export interface WorkerPool {
  /**
   * Runs the handler once, in an idle process or a new one. Never rejects for what the handler does.
   * @param timeoutMs the function's timeout, counted from when the process is ready
   * @param onStart called with the process's id as the handler begins
   */
  invoke(
    event: unknown,
    timeoutMs: number,
    onStart?: (start: { requestId: string; pid: number }) => void,
  ): Promise<InvocationResult>;
  /**
   * Starts processes ahead of their first invocation, until `count` are there. Resolves when they are ready.
   */
  warm(count: number): Promise<void>;
  /** Kills one process of the pool. @returns false when it has none of that id */
  kill(pid: number, signal?: NodeJS.Signals): boolean;
  /** @returns how many were killed */
  killAll(signal?: NodeJS.Signals): number;
  /** Ids of the living processes. */
  pids(): number[];
  /** Ids of those that run an invocation now, or start for one. */
  busyPids(): number[];
  /** Since the pool began: processes started, processes killed by a test or a timeout, invocations begun. */
  counts(): { readonly started: number; readonly killed: number; readonly invocations: number };
  onLine(listener: (line: WorkerLine) => void): () => void;
  onExit(listener: (exit: WorkerExit) => void): () => void;
  /** Kills every process and waits until all are gone. */
  stop(): Promise<void>;
}

/** Of a worker's output, for the message when it ends. */
const keptLines = 20;

interface Worker {
  readonly child: ChildProcess;
  readonly pid: number;
  /** Rejects with the exit when the process ends before it is ready. */
  readonly ready: Promise<void>;
  readonly exited: Promise<WorkerExit>;
  requestId?: string;
  readonly lastLines: string[];
  /** Was sent a signal: it may look alive for a moment, and takes no more work. */
  isDoomed?: boolean;
}

/**
 * Processes that each run one handler module, one invocation at a time, and are used again while they live.
 * @param handlerFile absolute path of a module that exports `handler`
 * @param environment all variables that the handler gets
 */
export function createWorkerPool(
  handlerFile: string,
  environment: Readonly<Record<string, string>>,
  clock: Clock,
): WorkerPool {
  const workers = new Set<Worker>();
  const idle: Worker[] = [];
  const lines = new Listeners<WorkerLine>();
  const exits = new Listeners<WorkerExit>();
  const counts = { started: 0, killed: 0, invocations: 0 };
  let stopped = false;

  const start = (): Worker => {
    if (stopped) throw new Error('The worker pool has stopped.');
    const ready = Promise.withResolvers<void>();
    const exited = Promise.withResolvers<WorkerExit>();
    const child = forkTypeScript(
      join(__dirname, 'worker-process.ts'),
      { ...environment, HANDLER_FILE: handlerFile },
      (line, stream) => {
        worker.lastLines.push(line);
        worker.lastLines.splice(0, worker.lastLines.length - keptLines);
        lines.emit({ pid: worker.pid, stream, line });
      },
    );
    const worker: Worker = {
      child,
      pid: child.pid ?? 0,
      lastLines: [],
      ready: ready.promise,
      exited: exited.promise,
    };
    counts.started += 1;
    workers.add(worker);
    child.on('message', (message) => {
      if (fromWorker.parse(message).kind === 'ready') ready.resolve();
    });
    // `close` comes after `exit`, when the last of its output has been read.
    child
      .once('error', () => {})
      .once('close', (code, signal) => {
        workers.delete(worker);
        const exit = {
          pid: worker.pid,
          ...(signal !== null && { signal }),
          ...(code !== null && { exitCode: code }),
          ...(worker.requestId !== undefined && { requestId: worker.requestId }),
        };
        exited.resolve(exit);
        exits.emit(exit);
        ready.reject(new Error(`The worker ended before it was ready: ${worker.lastLines.join('\n')}`));
      });
    ready.promise.catch(() => {});
    return worker;
  };

  const kill = (worker: Worker, signal: NodeJS.Signals): boolean => {
    if (!isAlive(worker.child)) return false;
    counts.killed += 1;
    worker.isDoomed = true;
    return worker.child.kill(signal);
  };

  const takeIdle = (): Worker => {
    for (let worker = idle.pop(); worker; worker = idle.pop()) {
      if (!worker.isDoomed && isAlive(worker.child) && worker.child.connected) return worker;
    }
    return start();
  };

  const unfollow = clock.follow(async (offsetMs) => {
    await Promise.all([...workers].map(({ child }) => moveChildClock(child, offsetMs)));
  });

  return {
    async invoke(event, timeoutMs, onStart = () => {}) {
      const requestId = randomUUID();
      const worker = takeIdle();
      const { pid, child } = worker;
      worker.requestId = requestId;
      const died = worker.exited.then(
        (exit): InvocationResult => ({
          requestId,
          pid,
          outcome: 'died',
          ...(exit.signal !== undefined && { signal: exit.signal }),
          ...(exit.exitCode !== undefined && { exitCode: exit.exitCode }),
          output: worker.lastLines.join('\n'),
        }),
      );
      const isReady = await worker.ready.then(
        () => true,
        () => false,
      );
      if (!isReady) return died;

      counts.invocations += 1;
      onStart({ requestId, pid });
      const answered = answerOf(child, requestId, pid);
      tell(child, {
        kind: 'invoke',
        requestId,
        event,
        timeoutMs,
        clockOffsetMs: clock.offsetMs(),
      } satisfies ToWorker);
      let timedOut = false;
      const timer = setTimeout(() => {
        timedOut = kill(worker, 'SIGKILL');
      }, timeoutMs);
      const result = await Promise.race([answered.promise, died]);
      clearTimeout(timer);
      answered.stopListening();
      if (result.outcome === 'died') return timedOut ? { requestId, pid, outcome: 'timedOut' } : result;
      delete worker.requestId;
      idle.push(worker);
      return result;
    },
    async warm(count) {
      const wanted = Math.max(0, count - workers.size);
      // Idle at once: an invocation that finds one waits for it instead of starting another.
      const fresh = Array.from({ length: wanted }, start);
      idle.push(...fresh);
      await Promise.all(fresh.map(({ ready }) => ready));
    },
    kill(pid, signal = 'SIGKILL') {
      const worker = [...workers].find((candidate) => candidate.pid === pid);
      return worker !== undefined && kill(worker, signal);
    },
    killAll: (signal = 'SIGKILL') => [...workers].filter((worker) => kill(worker, signal)).length,
    pids: () => [...workers].map(({ pid }) => pid),
    busyPids: () => [...workers].filter(({ requestId }) => requestId !== undefined).map(({ pid }) => pid),
    counts: () => ({ ...counts }),
    onLine: (listener) => lines.add(listener),
    onExit: (listener) => exits.add(listener),
    async stop() {
      stopped = true;
      unfollow();
      await Promise.all([...workers].map(({ child }) => endChild(child)));
    },
  };
}

function answerOf(child: ChildProcess, requestId: string, pid: number) {
  const { promise, resolve } = Promise.withResolvers<InvocationResult>();
  const onMessage = (message: unknown) => {
    const said = fromWorker.parse(message);
    if (said.kind !== 'response' && said.kind !== 'error') return;
    if (said.requestId !== requestId) return;
    const base = { requestId, pid };
    if (said.kind === 'error') resolve({ ...base, outcome: 'threw', error: said.error });
    else
      resolve({
        ...base,
        outcome: 'responded',
        ...(said.payload !== undefined && { payload: said.payload }),
      });
  };
  child.on('message', onMessage);
  return { promise, stopListening: () => void child.off('message', onMessage) };
}
