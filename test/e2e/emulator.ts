import { createServer } from 'node:net';
import { dockerEmulator } from './docker';
import { ministackEmulator } from './ministack';
import type { Surroundings } from './surroundings';

/** A local stand-in for AWS with CloudFormation, and Lambda that runs the code. */
export interface Emulator {
  /** How it was got, for the report. */
  readonly what: string;
  readonly endpoint: string;
  stop(): Promise<void>;
}

/** No emulator could be started. The message names the ways, and why each was none. */
export class NoEmulator extends Error {
  override readonly name = 'NoEmulator';
}

/**
 * The first of the three ways that works here.
 * @throws NoEmulator when none does, or when AWS_ENDPOINT_URL is AWS itself
 */
export async function findEmulator(surroundings: Surroundings): Promise<Emulator> {
  const given = process.env.AWS_ENDPOINT_URL;
  if (given) return { what: 'AWS_ENDPOINT_URL', endpoint: usableEndpoint(given), stop: async () => {} };

  const problems: string[] = [];
  for (const [way, start] of Object.entries({ MiniStack: ministackEmulator, Docker: dockerEmulator })) {
    try {
      return await start(surroundings, await freePort());
    } catch (error) {
      problems.push(`${way}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  throw new NoEmulator(`No local AWS emulator. Any of these three ways will do:
  - AWS_ENDPOINT_URL: the address of an emulator that runs on this machine, such as http://127.0.0.1:4566
  - MiniStack: python3 (3.10 or later, with venv) on the PATH; it is installed into .venv/e2e
  - Docker: an engine that runs
${problems.join('\n')}`);
}

/** This script never touches AWS itself. Elsewhere than on this machine it goes only when told so. */
function usableEndpoint(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (!url || !/^https?:$/.test(url.protocol))
    throw new NoEmulator(`AWS_ENDPOINT_URL is ${JSON.stringify(given)}; it must be an http or https URL`);
  if (/(^|\.)(amazonaws\.com(\.cn)?|aws|amazonaws\.eu)$/.test(url.hostname))
    throw new NoEmulator(
      `AWS_ENDPOINT_URL is ${given}, which is AWS itself; it must be a local emulator's address`,
    );
  // S3 clients put a bucket's name before a host name, but not before an address.
  if (url.hostname === 'localhost') url.hostname = '127.0.0.1';
  return url.origin;
}

async function freePort(): Promise<number> {
  const server = createServer();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject).listen(0, '127.0.0.1', resolve);
  await promise;
  const address = server.address();
  server.close();
  if (address === null || typeof address === 'string') throw new Error('there is no free port on 127.0.0.1');
  return address.port;
}
