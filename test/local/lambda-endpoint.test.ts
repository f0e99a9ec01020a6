import { join } from 'node:path';
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { createClock } from '../../local/clock';
import { type LambdaEndpoint, startLambdaEndpoint } from '../../local/lambda-endpoint';
import { createWorkerPool } from '../../local/worker-pool';

const pool = createWorkerPool(
  join(__dirname, '../support/dummy-handler.ts'),
  { POWERTOOLS_DEV: 'true' },
  createClock(),
);
let endpoint: LambdaEndpoint;
let lambda: LambdaClient;
beforeAll(async () => {
  endpoint = await startLambdaEndpoint({
    jobs: { pool, timeoutMs: 10_000 },
    hasty: { pool, timeoutMs: 300 },
  });
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  lambda = new LambdaClient({ region: 'us-east-1', credentials, endpoint: endpoint.url });
  await pool.warm(1);
});
afterAll(async () => {
  lambda.destroy();
  await endpoint.stop();
  await pool.stop();
});

const invoke = async (FunctionName: string, body: string) => {
  const Payload = JSON.stringify({ Records: [{ messageId: 'm1', body, attributes: {} }] });
  const answer = await lambda.send(new InvokeCommand({ FunctionName, Payload }));
  return { ...answer, payload: JSON.parse(Buffer.from(answer.Payload ?? []).toString()) };
};

describe('the Lambda endpoint', () => {
  test('answers with what the function returns', async () => {
    const { StatusCode, FunctionError, payload } = await invoke('jobs', 'fail');
    expect(StatusCode).toBe(200);
    expect(FunctionError).toBeUndefined();
    expect(payload).toEqual({ batchItemFailures: [{ itemIdentifier: 'm1' }] });
  });

  test.each([
    ['jobs', 'throw', { errorType: 'Error', errorMessage: 'as told' }],
    ['jobs', 'exit', { errorType: 'Runtime.ExitError' }],
    ['hasty', 'hang', { errorType: 'Sandbox.Timedout', errorMessage: 'Task timed out' }],
  ])('says of %s, told to %s, that the function failed, and how', async (name, body, error) => {
    const { FunctionError, payload } = await invoke(name, body);
    expect(FunctionError).toBe('Unhandled');
    expect(payload).toMatchObject(error);
  });

  test('knows no other function, and no invocation that is not waited for', async () => {
    await expect(invoke('charge', 'fail')).rejects.toMatchObject({ name: 'ResourceNotFoundException' });
    await expect(
      lambda.send(new InvokeCommand({ FunctionName: 'jobs', InvocationType: 'Event' })),
    ).rejects.toMatchObject({ name: 'InvalidParameterValueException' });
  });

  test('refuses what is no JSON, and what is larger than Lambda takes', async () => {
    const post = async (body: string) =>
      (await fetch(`${endpoint.url}/2015-03-31/functions/jobs/invocations`, { method: 'POST', body })).status;
    expect(await post('{')).toBe(400);
    expect(await post(`"${'x'.repeat(6 * 1024 * 1024)}"`)).toBe(413);
  });

  test('serves nothing else', async () => {
    expect((await fetch(`${endpoint.url}/2015-03-31/functions`)).status).toBe(404);
  });
});
