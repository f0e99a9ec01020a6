import { App, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { LimitsError } from '../lambdas/operation/limits';
import { OperationsStack } from '../lib/operations-stack';
import { settingsFrom } from '../lib/settings';

/**
 * `npx cdk deploy -c stage=dev`; other settings as `-c settings='{"maxConcurrency":5}'` or as an object
 * `settings` in the context of cdk.json. `-c alarmEmail=...` and `-c production=true` are short for the two
 * that a stage usually needs.
 */
const app = new App();
Validations.of(app).addPlugins(new AwsSolutionsChecks(app));

try {
  const settings = settingsFrom(
    {
      ...objectContext('settings'),
      ...context('stage'),
      ...context('alarmEmail'),
      ...booleanContext('production'),
    },
    process.env,
  );
  new OperationsStack(app, `charge-once-${settings.stage}`, { settings });
} catch (error) {
  if (!(error instanceof LimitsError)) throw error;
  console.error(error.message);
  process.exit(1);
}

function context(name: string): Record<string, unknown> {
  const value: unknown = app.node.tryGetContext(name);
  return value === undefined ? {} : { [name]: value };
}

/** The command line has strings only. */
function booleanContext(name: string): Record<string, unknown> {
  const value: unknown = app.node.tryGetContext(name);
  if (value === 'true' || value === 'false') return { [name]: value === 'true' };
  return context(name);
}

function objectContext(name: string): object {
  const value: unknown = app.node.tryGetContext(name) ?? {};
  try {
    const parsed: unknown = typeof value === 'string' ? JSON.parse(value) : value;
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return parsed;
  } catch {
    // Not JSON: refused below with what it should be.
  }
  throw new LimitsError([
    `${name} is ${JSON.stringify(value)}; it must be a JSON object of names and values`,
  ]);
}
