import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import * as z from 'zod/mini';

/** What a child gets of our own environment: nothing of the developer's AWS profile or Node options. */
const passedOn = ['PATH', 'HOME', 'USERPROFILE', 'TMPDIR', 'TEMP', 'TMP', 'SystemRoot'];

/** How long a clock move waits for a child, in milliseconds: one that is stopped or spins must not block it. */
const clockAnswerMs = 1000;

const clockMoved = z.object({ kind: z.literal('clockMoved'), offsetMs: z.number() });

/**
 * Starts a TypeScript file in a Node process of its own, with an IPC channel. Its output is offered as lines
 * and never reaches the parent's own output.
 * @param environment all that the child's code needs; of our own variables it gets those that Node needs
 */
export function forkTypeScript(
  entry: string,
  environment: Readonly<Record<string, string>>,
  onLine: (line: string, stream: 'stdout' | 'stderr') => void,
): ChildProcess {
  const env: Record<string, string> = {};
  for (const name of passedOn) {
    const value = process.env[name];
    if (value !== undefined) env[name] = value;
  }
  const child = fork(entry, [], {
    cwd: dirname(__dirname),
    execPath: process.execPath,
    execArgv: ['--import', pathToFileURL(require.resolve('tsx')).href],
    env: { ...env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    serialization: 'advanced',
  });
  for (const stream of ['stdout', 'stderr'] as const) {
    const input = child[stream];
    if (input) createInterface({ input }).on('line', (line) => onLine(line, stream));
  }
  return child;
}

/** Whether the process has not ended yet. */
export function isAlive(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}

/**
 * Sends a message, and says whether the channel was open. A child that is going away is no error here: its
 * exit is.
 */
export function tell(child: ChildProcess, message: object): boolean {
  if (!child.connected) return false;
  child.send(message, () => {});
  return true;
}

/** Tells a child the clock's offset and waits until it says so, is gone, or a second has passed. */
export async function moveChildClock(child: ChildProcess, offsetMs: number): Promise<void> {
  if (!isAlive(child) || !child.connected) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const onMessage = (message: unknown) => {
    const parsed = clockMoved.safeParse(message);
    if (parsed.success && parsed.data.offsetMs === offsetMs) resolve();
  };
  const timer = setTimeout(resolve, clockAnswerMs);
  child.on('message', onMessage).once('exit', resolve);
  if (!tell(child, { kind: 'clock', offsetMs })) resolve();
  await promise;
  clearTimeout(timer);
  child.off('message', onMessage).off('exit', resolve);
}

/** Ends a child by its id and waits until it is gone and its output has been read. */
export async function endChild(child: ChildProcess, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
  if (!isAlive(child)) return;
  const gone = once(child, 'close');
  child.kill(signal);
  await gone;
}
