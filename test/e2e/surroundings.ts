import { randomInt } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';

export const projectRoot = join(__dirname, '../..');

/** Where one run keeps its files, and what its child processes see of this machine. */
export interface Surroundings {
  /** CDK's output, logs and an empty home directory, under `.e2e/`: a failed run keeps it. */
  readonly directory: string;
  readonly emulatorLog: string;
  readonly region: string;
  /** Emulators take twelve digits of an access key for the account, so a run shares nothing with an earlier one. */
  readonly account: string;
  /** Nothing of the developer's AWS profile, CDK or Node settings is in it. */
  readonly environment: Readonly<Record<string, string>>;
  removeFiles(): void;
}

/** A signature that says who calls: emulators read that, and check nothing. */
export function unverifiedSignature({ account, region }: Surroundings, service: string): string {
  const day = new Date().toISOString().slice(0, 10).replaceAll('-', '');
  return `AWS4-HMAC-SHA256 Credential=${account}/${day}/${region}/${service}/aws4_request, SignedHeaders=host, Signature=none`;
}

export function createSurroundings(): Surroundings {
  const directory = join(projectRoot, '.e2e', String(process.pid));
  const home = join(directory, 'home');
  mkdirSync(home, { recursive: true });
  // Outside the project: functions are unpacked there, and must not find the project's node_modules above them.
  const temporary = mkdtempSync(join(tmpdir(), 'charge-once-e2e-'));
  process.on('exit', () => rmSync(temporary, { recursive: true, force: true }));

  const account = `9${String(randomInt(1e11)).padStart(11, '0')}`;
  const region = 'us-east-1';
  return {
    directory,
    emulatorLog: join(directory, 'emulator.log'),
    region,
    account,
    environment: {
      // Emulators run functions with the `node` of their PATH: this one, which npm's scripts pin to the deployed major.
      PATH: [dirname(process.execPath), process.env.PATH].join(delimiter),
      ...(process.env.SystemRoot !== undefined && { SystemRoot: process.env.SystemRoot }),
      HOME: home,
      USERPROFILE: home,
      TMPDIR: temporary,
      TMP: temporary,
      TEMP: temporary,
      AWS_ACCESS_KEY_ID: account,
      AWS_SECRET_ACCESS_KEY: 'e2e',
      AWS_REGION: region,
      AWS_DEFAULT_REGION: region,
      AWS_EC2_METADATA_DISABLED: 'true',
    },
    removeFiles: () => rmSync(directory, { recursive: true, force: true }),
  };
}
