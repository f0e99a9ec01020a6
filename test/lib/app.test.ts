import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import cdkJson from '../../cdk.json';

const root = join(__dirname, '../..');
const outdir = mkdtempSync(join(tmpdir(), 'charge-once-app-'));
afterAll(() => rmSync(outdir, { recursive: true }));

/** Runs the app as the CDK CLI does, with no account, no region, no credentials and no home. */
function synth(context: object, environment: Record<string, string> = {}) {
  const run = spawnSync(process.execPath, ['--import', 'tsx', join(root, 'bin/app.ts')], {
    cwd: root,
    encoding: 'utf8',
    env: {
      PATH: process.env.PATH,
      HOME: outdir,
      CDK_OUTDIR: outdir,
      CDK_CONTEXT_JSON: JSON.stringify({ ...cdkJson.context, 'aws:cdk:bundling-stacks': [], ...context }),
      ...environment,
    },
  });
  return { code: run.status, stderr: run.stderr };
}

test('without any context the stage is dev', () => {
  expect(synth({})).toEqual({ code: 0, stderr: '' });
  expect(readdirSync(outdir)).toContain('charge-once-dev.template.json');
});

test('a stage is a stack of its own; settings come from the command line as JSON, and production as a word', () => {
  const context = {
    stage: 'live',
    settings: '{"maxConcurrency":5}',
    production: 'true',
    alarmEmail: 'ops@shop.test',
  };
  expect(synth(context)).toEqual({ code: 0, stderr: '' });
  expect(readFileSync(join(outdir, 'charge-once-live.template.json'), 'utf8')).toContain(
    '"MaximumConcurrency": 5',
  );
});

test('what is wrong is printed without a stack trace, all of it at once', () => {
  const key = ['sk', 'live', 'abc123'].join('_');
  const { code, stderr } = synth({ stage: 'qa', settings: { batchSize: 11 } }, { STRIPE_API_KEY: key });
  expect(code).toBe(1);
  expect(stderr).toBe(
    'Invalid settings:\n' +
      '  - batchSize is 11; it must be a whole number from 1 to 10\n' +
      '  - STRIPE_API_KEY in the environment is a live Stripe key; stage qa is not marked production: unset it, or set production to true\n',
  );
});

test('settings that are no JSON object are refused', () => {
  expect(synth({ settings: 'maxConcurrency=5' }).stderr).toContain(
    'settings is "maxConcurrency=5"; it must be a JSON object of names and values',
  );
});
