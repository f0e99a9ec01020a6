import { join } from 'node:path';
import { stackName } from './cdk';
import { runProgram } from './processes';
import { projectRoot, type Surroundings } from './surroundings';

/** The operator's commands as a person types them, which find the deployed stack by its name. */
export class Operator {
  readonly #environment: Readonly<Record<string, string>>;

  constructor(
    private readonly surroundings: Surroundings,
    endpoint: string,
  ) {
    this.#environment = { ...surroundings.environment, AWS_ENDPOINT_URL: endpoint };
  }

  /** @returns the document of `--json` */
  async ops(...command: readonly string[]): Promise<Record<string, unknown>> {
    const args = [
      ...command,
      '--stack',
      stackName,
      '--region',
      this.surroundings.region,
      '--json',
      '--by',
      'e2e',
    ];
    const { exitCode, output } = await runProgram(
      process.execPath,
      [require.resolve('tsx/cli'), join(projectRoot, 'bin', 'ops.ts'), ...args],
      this.#environment,
      { cwd: projectRoot },
    );
    if (exitCode !== 0)
      throw new Error(`ops ${command.join(' ')} ended with ${exitCode}:\n${output.slice(-2000)}`);
    // What is said beside the document is on stderr, which is in the output too.
    return JSON.parse(output.slice(output.indexOf('{'), output.lastIndexOf('}') + 1));
  }
}
