import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod/mini';
import { runProgram } from './processes';
import { projectRoot, type Surroundings } from './surroundings';

export const stage = 'e2e';
export const stackName = `charge-once-${stage}`;

const outputs = z.object({
  [stackName]: z.object({
    ApiUrl: z.string(),
    QueueUrl: z.string(),
    DeadLetterQueueUrl: z.string(),
    TableName: z.string(),
    SetStripeKeyCommand: z.string(),
  }),
});

export type Outputs = z.infer<typeof outputs>[typeof stackName];

const template = z.object({
  Resources: z.record(
    z.string(),
    z.object({ Type: z.string(), Properties: z.optional(z.record(z.string(), z.unknown())) }),
  ),
});

export type Template = z.infer<typeof template>;

/** The CDK CLI as a user runs it, against the emulator. */
export class Cdk {
  readonly #outdir: string;
  readonly #environment: Readonly<Record<string, string>>;

  constructor(
    private readonly surroundings: Surroundings,
    endpoint: string,
  ) {
    this.#outdir = join(surroundings.directory, 'cdk.out');
    this.#environment = {
      ...surroundings.environment,
      AWS_ENDPOINT_URL: endpoint,
      CDK_DISABLE_CLI_TELEMETRY: 'true',
      npm_config_update_notifier: 'false',
    };
  }

  async bootstrap(): Promise<void> {
    const { account, region } = this.surroundings;
    await this.#run(['bootstrap', `aws://${account}/${region}`], {});
  }

  async deploy(settings: object): Promise<Outputs> {
    const file = join(this.surroundings.directory, 'outputs.json');
    await this.#run(['deploy', stackName, '--require-approval', 'never', '--outputs-file', file], settings);
    return outputs.parse(JSON.parse(readFileSync(file, 'utf8')))[stackName];
  }

  async destroy(settings: object): Promise<void> {
    await this.#run(['destroy', stackName, '--force'], settings);
  }

  /** What was deployed last. */
  template(): Template {
    return template.parse(JSON.parse(readFileSync(join(this.#outdir, `${stackName}.template.json`), 'utf8')));
  }

  async #run(args: readonly string[], settings: object): Promise<void> {
    const context = ['--context', `stage=${stage}`, '--context', `settings=${JSON.stringify(settings)}`];
    const { exitCode, output } = await runProgram(
      process.execPath,
      [require.resolve('aws-cdk/bin/cdk'), ...args, ...context, '--output', this.#outdir, '--no-notices'],
      this.#environment,
      { cwd: projectRoot },
    );
    if (exitCode !== 0) throw new Error(`cdk ${args[0]} failed:\n${output.slice(-3000)}`);
  }
}
