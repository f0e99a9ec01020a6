import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';

type Environment = Readonly<Record<string, string | undefined>>;

const alive = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of alive) signal(child, 'SIGKILL');
});
for (const [name, exitCode] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['SIGHUP', 129],
] as const) {
  process.on(name, () => process.exit(exitCode));
}

/** Starts a program that lives until it is ended, or until this process ends for whatever reason. Its output goes to a file. */
export function startProgram(
  command: string,
  args: readonly string[],
  environment: Environment,
  logFile: string,
): ChildProcess {
  const child = spawnGroup(command, args, environment);
  const log = createWriteStream(logFile, { flags: 'a' });
  child.stdout?.pipe(log, { end: false });
  child.stderr?.pipe(log, { end: false });
  child.once('close', () => log.end());
  return child;
}

/**
 * Runs a program to its end.
 * @returns its exit code, undefined when it could not be started or took too long, and what it printed
 */
export async function runProgram(
  command: string,
  args: readonly string[],
  environment: Environment,
  options: { readonly cwd?: string; readonly timeoutMs?: number } = {},
): Promise<{ readonly exitCode: number | undefined; readonly output: string }> {
  const { timeoutMs = 180_000 } = options;
  const child = spawnGroup(command, args, environment, options.cwd);
  let output = '';
  const add = (chunk: unknown) => {
    output += String(chunk);
  };
  child.stdout?.on('data', add);
  child.stderr?.on('data', add);
  const timer = setTimeout(() => {
    add(`\n${command} was ended: it took longer than ${timeoutMs / 1000} s`);
    signal(child, 'SIGKILL');
  }, timeoutMs);
  await once(child, 'close').catch((error: unknown) => add(`\n${String(error)}`));
  clearTimeout(timer);
  return { exitCode: child.exitCode ?? undefined, output: output.trim() };
}

/** Ends a program with all that it started, first kindly. */
export async function endProgram(child: ChildProcess): Promise<void> {
  if (!alive.has(child)) return;
  const gone = once(child, 'close');
  signal(child, 'SIGTERM');
  const timer = setTimeout(() => signal(child, 'SIGKILL'), 5000);
  await gone;
  clearTimeout(timer);
}

/** A process group of its own, where the system has them: what the program starts ends with it. */
function spawnGroup(
  command: string,
  args: readonly string[],
  environment: Environment,
  cwd?: string,
): ChildProcess {
  const child = spawn(command, args, {
    env: { ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: hasGroups,
    ...(cwd !== undefined && { cwd }),
  });
  if (child.pid !== undefined) {
    alive.add(child);
    child.once('exit', () => {
      signal(child, 'SIGKILL');
      alive.delete(child);
    });
  }
  return child;
}

const hasGroups = process.platform !== 'win32';

function signal(child: ChildProcess, name: NodeJS.Signals): void {
  try {
    if (hasGroups && child.pid !== undefined) process.kill(-child.pid, name);
    else child.kill(name);
  } catch {
    // The whole group is gone.
  }
}
