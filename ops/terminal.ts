import { userInfo } from 'node:os';
import { createInterface } from 'node:readline/promises';
import { SingleBar } from 'cli-progress';
import type { Io } from './io';

/** The terminal that this process was started from. */
export function terminal(): Io {
  const isAsked = process.stdin.isTTY === true && process.stderr.isTTY === true;
  return {
    out: (text) => void process.stdout.write(`${text}\n`),
    err: (text) => void process.stderr.write(`${text}\n`),
    ...(isAsked ? { ask } : {}),
    progress,
    userName: nameOfUser(),
    // npm runs its scripts in the project's root.
    projectRoot: process.cwd(),
  };
}

/** The question goes to stderr, so that stdout stays what was asked for. An end of input is no answer. */
async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const ended = new Promise<string>((resolve) => lines.once('close', () => resolve('')));
    return await Promise.race([lines.question(question), ended]);
  } finally {
    lines.close();
  }
}

function progress(title: string, total: number) {
  if (process.stderr.isTTY !== true) return { update: () => {}, stop: () => {} };
  const bar = new SingleBar({
    format: `${title} [{bar}] {value}/{total}`,
    stream: process.stderr,
    hideCursor: true,
    clearOnComplete: true,
  });
  bar.start(Math.max(total, 1), 0);
  return {
    update: (done: number, newTotal = total) => {
      bar.setTotal(Math.max(newTotal, done, 1));
      bar.update(done);
    },
    stop: () => bar.stop(),
  };
}

function nameOfUser(): string {
  try {
    return userInfo().username;
  } catch {
    // A user id without an entry in the system's list, as containers have.
    return process.env.USER ?? process.env.USERNAME ?? 'unknown';
  }
}
