import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { App } from 'aws-cdk-lib';
import { OperationsStack } from '../../lib/operations-stack';
import { settingsFrom } from '../../lib/settings';
import { record } from '../support/worker-bench';

const run = promisify(execFile);

/** The bundle as a deploy uploads it, alone in an empty folder. */
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'charge-once-bundle-'));
  const app = new App({ outdir: join(folder, 'cdk.out') });
  new OperationsStack(app, 'Bundled', { settings: settingsFrom({ stage: 'bundle' }) });
  app.synth();
  const assets = readdirSync(join(folder, 'cdk.out'), { withFileTypes: true });
  const asset = assets.find(({ name }) => existsSync(join(folder, 'cdk.out', name, 'index.js')));
  cpSync(join(folder, 'cdk.out', asset?.name ?? 'no bundle'), join(folder, 'alone'), { recursive: true });
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs the bundle's handler in a Node of its own, with nothing but the bundle and these variables. */
async function invoke(event: unknown): Promise<unknown> {
  const program = `
    const { handler } = require('./index.js');
    const context = { awsRequestId: 'r', getRemainingTimeInMillis: () => 30000 };
    handler(${JSON.stringify(event)}, context).then((response) => console.log('response=' + JSON.stringify(response)));`;
  const { stdout } = await run(process.execPath, ['-e', program], {
    cwd: join(folder, 'alone'),
    env: {
      OPERATIONS_TABLE: 'table',
      QUEUE_URL: 'https://sqs.us-east-1.amazonaws.com/000000000000/jobs',
      STRIPE_API_KEY_SECRET_ID: 'secret',
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'none',
      AWS_SECRET_ACCESS_KEY: 'none',
      // Nobody listens there.
      AWS_ENDPOINT_URL: 'http://127.0.0.1:1',
    },
  });
  return JSON.parse(stdout.split('response=')[1] ?? 'null');
}

test('BL-47 the bundle copied alone into an empty folder loads and handles an event', async () => {
  expect(await invoke({ Records: [] })).toEqual({ batchItemFailures: [] });
  expect(await invoke({ Records: [record('not json{', { messageId: 'm1' })] })).toEqual({
    batchItemFailures: [{ itemIdentifier: 'm1' }],
  });
});

test('BL-47 the bundle is one minified module with its source map, and asks for nothing outside itself', () => {
  expect(readdirSync(join(folder, 'alone')).sort()).toEqual(['index.js', 'index.js.map']);
  const code = readFileSync(join(folder, 'alone', 'index.js'), 'utf8');
  const required = new Set([...code.matchAll(/\brequire\("([^"]+)"\)/g)].map(([, name = '']) => name));
  const { builtinModules } = process.getBuiltinModule('module');
  const foreign = [...required].filter((name) => !builtinModules.includes(name.replace('node:', '')));
  // The AWS SDK tries this one for signatures over several regions, and lives without it.
  expect(foreign).toEqual(['@aws-sdk/signature-v4-crt']);
  expect(statSync(join(folder, 'alone', 'index.js')).size).toBeLessThan(850_000);
});
