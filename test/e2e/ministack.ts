import type { ChildProcess } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { waitFor } from '../../local/wait-for';
import type { Emulator } from './emulator';
import { endProgram, runProgram, startProgram } from './processes';
import { projectRoot, type Surroundings } from './surroundings';

/** The release that the gaps in `template-gaps.ts` were seen with. https://ministack.org */
export const ministackVersion = '1.5.33';

const venv = join(projectRoot, '.venv/e2e');
const python =
  process.platform === 'win32' ? join(venv, 'Scripts', 'python.exe') : join(venv, 'bin', 'python');

/**
 * Installs MiniStack into `.venv/e2e` if it is not there, and starts it.
 * @throws Error when there is no Python that can
 */
export async function ministackEmulator(surroundings: Surroundings, port: number): Promise<Emulator> {
  await install();
  const child = startProgram(
    python,
    ['-m', 'ministack'],
    { ...surroundings.environment, ...ministackSettings(port), PYTHONUNBUFFERED: '1' },
    surroundings.emulatorLog,
  );
  return emulatorWhenReady(
    child,
    `MiniStack ${ministackVersion} in .venv/e2e`,
    port,
    surroundings.emulatorLog,
  );
}

/** Nothing is kept, nothing is offered to the network, functions run as processes. */
export const ministackSettings = (port: number) => ({
  GATEWAY_PORT: String(port),
  BIND_HOST: '127.0.0.1',
  MINISTACK_HOST: '127.0.0.1',
  LAMBDA_EXECUTOR: 'local',
  PERSIST_STATE: '0',
  S3_PERSIST: '0',
});

/** @throws Error when it ends or does not answer; it is ended then */
export async function emulatorWhenReady(
  child: ChildProcess,
  what: string,
  port: number,
  logFile: string,
): Promise<Emulator> {
  const endpoint = `http://127.0.0.1:${port}`;
  let ended = false;
  child.once('close', () => {
    ended = true;
  });
  const isReady = async () => ended || (await fetch(`${endpoint}/_ministack/health`)).ok;
  try {
    await waitFor(isReady, { timeoutMs: 60_000, intervalMs: 100, what: `${what} to answer` });
    if (ended) throw new Error(`${what} ended at once: ${readFileSync(logFile, 'utf8').slice(-500)}`);
  } catch (error) {
    await endProgram(child);
    throw error;
  }
  return { what, endpoint, stop: () => endProgram(child) };
}

async function install(): Promise<void> {
  const installed = "import importlib.metadata as m; print(m.version('ministack'))";
  if (existsSync(python)) {
    const { output } = await runProgram(python, ['-c', installed], process.env);
    if (output === ministackVersion) return;
  } else {
    const command = process.platform === 'win32' ? 'python' : 'python3';
    await must(command, ['-m', 'venv', venv]);
  }
  console.log(`   installing MiniStack ${ministackVersion} into .venv/e2e`);
  await must(python, ['-m', 'pip', 'install', '--quiet', `ministack==${ministackVersion}`]);
}

/** With the developer's own environment: it says where packages come from. */
async function must(command: string, args: readonly string[]): Promise<void> {
  const { exitCode, output } = await runProgram(command, args, process.env);
  if (exitCode !== 0) throw new Error(`${command} ${args.join(' ')} failed: ${output.slice(-500)}`);
}
