import type { Emulator } from './emulator';
import { emulatorWhenReady, ministackSettings, ministackVersion } from './ministack';
import { runProgram, startProgram } from './processes';
import type { Surroundings } from './surroundings';

/**
 * MiniStack's image on the machine's own network: the functions in it call the Stripe stand-in on loopback.
 * https://docs.docker.com/engine/network/drivers/host/
 * @throws Error when there is no engine
 */
export async function dockerEmulator(surroundings: Surroundings, port: number): Promise<Emulator> {
  const engine = await runProgram('docker', ['info'], process.env, { timeoutMs: 10_000 });
  if (engine.exitCode !== 0) throw new Error(engine.output.split('\n').at(-1) ?? 'docker info failed');
  const image = `ministackorg/ministack:${ministackVersion}`;
  const pull = await runProgram('docker', ['pull', '--quiet', image], process.env, { timeoutMs: 600_000 });
  if (pull.exitCode !== 0) throw new Error(`docker pull ${image} failed: ${pull.output.slice(-500)}`);
  const variables = Object.entries(ministackSettings(port)).flatMap(([name, value]) => [
    '--env',
    `${name}=${value}`,
  ]);
  const child = startProgram(
    'docker',
    ['run', '--rm', '--init', '--network', 'host', ...variables, image],
    process.env,
    surroundings.emulatorLog,
  );
  return emulatorWhenReady(child, `${image} in Docker`, port, surroundings.emulatorLog);
}
