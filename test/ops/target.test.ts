import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { readLaptopFile } from '../../local/laptop-file';
import { type OpsBench, run, startOpsBench } from '../support/ops-bench';
import { job } from '../support/worker-bench';

let bench: OpsBench;
beforeAll(async () => {
  bench = await startOpsBench();
});
afterAll(() => bench.stop());

describe('the laptop', () => {
  const path = () => join(bench.projectRoot, '.laptop.json');
  const stale = async (changes: object) => {
    const before = readFileSync(path(), 'utf8');
    writeFileSync(path(), JSON.stringify({ ...JSON.parse(before), ...changes }));
    const ran = await bench.ops('operation list');
    writeFileSync(path(), before);
    return ran;
  };

  test('that does not run is told how to be started, and that --stack names another target', async () => {
    const { exitCode, err } = await run('dlq list', join(bench.projectRoot, 'elsewhere'));
    expect(exitCode).toBe(1);
    expect(err).toBe(
      'No laptop stack runs here. Start it with `npm start` in another terminal, or name a deployed stack with --stack NAME.',
    );
  });

  test('that was killed left a file whose process has ended, and that is said', async () => {
    // No process has the largest id that Linux allows.
    const { exitCode, err } = await stale({ pid: 4_194_304 });
    expect(exitCode).toBe(1);
    expect(err).toContain('left over from process 4194304, which has ended');
  });

  test('that cannot be reached is said so', async () => {
    const { exitCode, err } = await stale({ endpoints: { ...endpoints(), dynamodb: 'http://127.0.0.1:9' } });
    expect(exitCode).toBe(1);
    expect(err).toContain('it cannot be reached');
  });

  const endpoints = () => readLaptopFile(bench.projectRoot)?.endpoints;

  test('tells its own time, which may be ahead', async () => {
    await bench.record(job({ operationId: 'in-time' }), {
      openShard: 0,
      dueAtMs: bench.stack.clock.now() + 3_600_000,
    });
    await bench.stack.clock.advance(3_000_000);
    const { out } = await bench.ops('operation list');
    expect(out).toMatch(/acme\/in-time .* in (10 min|9 min 5\d s)/);
  });
});

describe('a deployed stack', () => {
  const before = { ...process.env };
  let outputs: Record<string, string>;
  const cloudFormation = createServer((_, response) => {
    const members = Object.entries(outputs).map(
      ([key, value]) =>
        `<member><OutputKey>${key}</OutputKey><OutputValue>${value.replaceAll('&', '&amp;')}</OutputValue></member>`,
    );
    if (members.length === 0) {
      const error = '<Code>ValidationError</Code><Message>Stack with id nope does not exist</Message>';
      response.writeHead(400, { 'content-type': 'text/xml' });
      response.end(`<ErrorResponse><Error><Type>Sender</Type>${error}</Error></ErrorResponse>`);
      return;
    }
    response.writeHead(200, { 'content-type': 'text/xml' });
    response.end(
      `<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>s</StackName><CreationTime>2026-01-01T00:00:00Z</CreationTime><StackStatus>CREATE_COMPLETE</StackStatus><Outputs>${members.join('')}</Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>`,
    );
  });
  beforeAll(async () => {
    cloudFormation.listen(0, '127.0.0.1');
    await once(cloudFormation, 'listening');
    const address = cloudFormation.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    Object.assign(process.env, {
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
      AWS_EC2_METADATA_DISABLED: 'true',
      AWS_ENDPOINT_URL_CLOUDFORMATION: `http://127.0.0.1:${port}`,
      AWS_ENDPOINT_URL_DYNAMODB: bench.stack.endpoints.dynamodb,
      AWS_ENDPOINT_URL_SQS: bench.stack.endpoints.sqs,
      AWS_ENDPOINT_URL_LAMBDA: bench.stack.endpoints.lambda,
    });
  });
  afterAll(async () => {
    process.env = before;
    cloudFormation.close();
    cloudFormation.closeAllConnections();
    await once(cloudFormation, 'close');
  });
  const deployed = () => ({
    QueueUrl: bench.stack.queueUrl,
    DeadLetterQueueUrl: bench.stack.deadLetterQueueUrl,
    TableName: bench.stack.tableName,
    Settings: '{"openShards":1}',
  });
  const ops = (args: string) => run(`${args} --stack charge-once-dev --region us-east-1`, '/nowhere');

  test('is found by its outputs, and named in what is said and in what is to be typed next', async () => {
    outputs = deployed();
    await bench.deadLetter(job({ operationId: 'on-aws' }));
    const { exitCode, out } = await ops('dlq list');
    expect(exitCode).toBe(0);
    expect(out).toContain('1 message in the dead-letter queue of stack charge-once-dev (us-east-1)');
    const shown = await ops('dlq show --operation acme/on-aws');
    expect(shown.out).toContain(
      'npm run ops -- dlq redrive --operation acme/on-aws --stack charge-once-dev --region us-east-1',
    );
  });

  test('is listed with the settings that it was deployed with', async () => {
    outputs = deployed();
    await bench.record(job({ operationId: 'first-shard' }), { openShard: 0, dueAtMs: 1 });
    await bench.record(job({ operationId: 'second-shard' }), { openShard: 1, dueAtMs: 1 });
    const { out } = await ops('operation list');
    expect(out).toContain('acme/first-shard');
    expect(out).not.toContain('acme/second-shard');
    outputs = { ...deployed(), Settings: '{"openShards":2}' };
    expect((await ops('operation list')).out).toContain('acme/second-shard');
  });

  test('without the function that changes operations is to be deployed again', async () => {
    outputs = deployed();
    const { exitCode, err } = await ops('operation cancel acme/on-aws --yes');
    expect(exitCode).toBe(1);
    expect(err).toContain('has no function operate: deploy this version of the service first');
  });

  test('that is not there, or is of another kind, is said so: exit code 1', async () => {
    outputs = {};
    const missing = await ops('dlq list');
    expect(missing).toMatchObject({
      exitCode: 1,
      err: expect.stringContaining('There is no stack charge-once-dev in us-east-1'),
    });
    outputs = { BucketName: 'b' };
    const other = await ops('dlq list');
    expect(other).toMatchObject({
      exitCode: 1,
      err: 'Stack charge-once-dev is no charge-once stack: it has no output QueueUrl, DeadLetterQueueUrl, TableName.',
    });
  });

  test('is named for a region: --region alone is called wrongly', async () => {
    expect(await run('dlq list --region us-east-1', '/nowhere')).toMatchObject({ exitCode: 2, out: '' });
  });
});
