import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type OpsBench, run, startOpsBench } from '../support/ops-bench';
import { job } from '../support/worker-bench';

let bench: OpsBench;
beforeAll(async () => {
  bench = await startOpsBench();
});
afterAll(() => bench.stop());

/** The real program in a process of its own, without a terminal. */
const spawned = (...args: string[]) =>
  new Promise<{ exitCode: unknown; stdout: string; stderr: string }>((resolve) => {
    const node = [
      '--import',
      pathToFileURL(require.resolve('tsx')).href,
      join(__dirname, '../../bin/ops.ts'),
    ];
    const options = { cwd: bench.projectRoot, env: { PATH: process.env.PATH ?? '' } };
    execFile(process.execPath, [...node, ...args], options, (error, stdout, stderr) =>
      resolve({ exitCode: error?.code ?? 0, stdout, stderr }),
    );
  });

describe('the program', () => {
  test('lists as one JSON document on stdout, with nothing on stderr: exit code 0', async () => {
    await bench.deadLetter(job({ operationId: 'O1' }));
    const { exitCode, stdout, stderr } = await spawned('dlq', 'list', '--json');
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    expect(JSON.parse(stdout)).toMatchObject({ count: 1, messages: [{ operationId: 'O1' }] });
  });

  test('without a terminal asks nobody: exit code 1, the question and the remedy on stderr', async () => {
    await bench.record(job({ operationId: 'O2' }));
    const { exitCode, stdout, stderr } = await spawned('operation', 'cancel', 'acme/O2');
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' });
    expect(stderr).toContain('pass --yes');
    expect(await bench.stack.operation('acme', 'O2')).toMatchObject({ state: 'queued' });
  });

  test('called wrongly says so on stderr: exit code 2', async () => {
    const { exitCode, stdout, stderr } = await spawned('dlq', 'lsit');
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
    expect(stderr).toContain("unknown command 'lsit'");
  });
});

const commands = [
  ...['list', 'show', 'redrive', 'discard'].map((name) => `dlq ${name}`),
  ...['list', 'show', 'reconcile', 'retry', 'settle', 'cancel'].map((name) => `operation ${name}`),
  'tenant show',
  ...['show', 'pause', 'resume', 'check'].map((name) => `provider ${name}`),
];

test.each(['', ...commands])(
  '%s --help says how it is called and what its exit codes mean',
  async (command) => {
    const { exitCode, out } = await run(`${command} --help`, bench.projectRoot);
    expect(exitCode).toBe(0);
    expect(out).toContain(`Usage: npm run ops -- ${command}`);
    expect(out).toContain('Exit codes: 0 done; 1 something failed or was refused; 2 called wrongly.');
    expect(out).toContain('--json');
    expect(out).toContain('--stack <name>');
  },
);

test.each(['dlq', 'operation', 'tenant', 'provider'])(
  '%s alone lists its commands: exit code 2',
  async (command) => {
    const { exitCode, err } = await run(command, bench.projectRoot);
    expect(exitCode).toBe(2);
    for (const one of commands.filter((name) => name.startsWith(`${command} `)))
      expect(err).toContain(`  ${one.split(' ')[1]}`);
  },
);

test('what fails is a JSON document too, with --json', async () => {
  const ran = await bench.ops('operation show acme/nobody --json');
  expect(ran).toMatchObject({ exitCode: 1, err: '' });
  expect(ran.json).toEqual({ done: false, said: expect.stringContaining('There is no record') });
});
