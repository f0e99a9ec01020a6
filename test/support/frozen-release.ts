import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { App } from 'aws-cdk-lib';
import type { SettingsOverrides } from '../../lib/settings';
import { version } from '../../package.json';
import { operationsStack } from './stack-factory';

/** What holds data, a key to data, or an address that others know: another one in its place would lose it. */
export const lastingTypes = [
  'AWS::DynamoDB::Table',
  'AWS::SQS::Queue',
  'AWS::SecretsManager::Secret',
  'AWS::KMS::Key',
  'AWS::ApiGatewayV2::Api',
];

/** A release's lasting resources, as deployed with some settings. */
export interface Frozen {
  readonly settings: SettingsOverrides;
  readonly template: { readonly Resources: Readonly<Record<string, { readonly Type: string }>> };
}

/** The settings between which the lasting resources differ. */
const variants: readonly SettingsOverrides[] = [{}, { customerManagedKey: true, production: true }];

/** The lasting resources of the code as it is. */
export function freeze(settings: SettingsOverrides): Frozen {
  const { Resources } = operationsStack(settings).template.toJSON();
  const lasting = Object.entries<{ Type: string }>(Resources).filter(([, { Type }]) =>
    lastingTypes.includes(Type),
  );
  return { settings, template: { Resources: Object.fromEntries(lasting) } };
}

/** What becomes of a resource that does not simply stay or change, in the words of `cdk diff`. */
export type Loss = 'replace' | 'may be replaced' | 'destroy' | 'orphan';

/**
 * What an update from a frozen release to `settings` of the code as it is would do to the release's resources, by
 * logical id: the answer of the CDK CLI, which knows CloudFormation's own rules of replacement.
 * @throws Error when the CLI does not say what it compared
 */
export function lossesBy(update: SettingsOverrides, { template }: Frozen): Record<string, Loss> {
  const { stack } = operationsStack(update);
  const app = App.of(stack);
  if (!App.isApp(app)) throw new Error('The stack has no app');
  const folder = mkdtempSync(join(tmpdir(), 'charge-once-diff-'));
  try {
    writeFileSync(join(folder, 'before.json'), JSON.stringify(template));
    const args = ['diff', stack.stackName, '--app', app.synth().directory];
    const { stdout, stderr } = spawnSync(
      process.execPath,
      [
        require.resolve('aws-cdk/bin/cdk'),
        ...args,
        '--template',
        'before.json',
        '--no-color',
        '--no-notices',
      ],
      {
        cwd: folder,
        encoding: 'utf8',
        env: { PATH: process.env.PATH, HOME: folder, CDK_DISABLE_CLI_TELEMETRY: 'true' },
      },
    );
    const said = `${stdout}${stderr}`;
    if (!said.includes('Number of stacks with differences')) throw new Error(`cdk diff said: ${said}`);
    return Object.fromEntries(
      [...said.matchAll(/^\[[~-]\] AWS::\S+ .*?(\w+) (replace|may be replaced|destroy|orphan)$/gm)].map(
        ([, id = '', loss]) => [id, lossIn(loss)],
      ),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function lossIn(text: string | undefined): Loss {
  switch (text) {
    case 'replace':
    case 'may be replaced':
    case 'destroy':
    case 'orphan':
      return text;
    default:
      throw new Error(`cdk diff says ${text}`);
  }
}

/** `npx tsx test/support/frozen-release.ts` freezes a release, before its tag. */
if (require.main === module) {
  const file = join(__dirname, '..', 'fixtures', `release-${version}.json`);
  writeFileSync(file, `${JSON.stringify(variants.map(freeze), undefined, 2)}\n`);
  console.log(file);
}
