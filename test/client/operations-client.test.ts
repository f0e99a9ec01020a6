import { once } from 'node:events';
import { createServer } from 'node:http';
import { SQSClient } from '@aws-sdk/client-sqs';
import { ApiError } from '../../client/api-error';
import { OperationsClient } from '../../client/operations-client';
import { signedFetch } from '../../client/signed-fetch';
import { type LocalStack, startLocalStack } from '../../local/stack';

let stack: LocalStack;
let client: OperationsClient;
beforeAll(async () => {
  stack = await startLocalStack({ api: true, reconcileEveryMs: 500 });
  const { environment, endpoints, queueUrl } = stack;
  const credentials = {
    accessKeyId: environment.AWS_ACCESS_KEY_ID ?? '',
    secretAccessKey: environment.AWS_SECRET_ACCESS_KEY ?? '',
  };
  const sqs = new SQSClient({ region: 'us-east-1', endpoint: endpoints.sqs, credentials });
  client = new OperationsClient({ apiUrl: endpoints.api ?? '', queue: { sqs, queueUrl } });
});
afterAll(() => stack.stop());

const input = {
  invoiceId: '7',
  amountMinor: 5000,
  currency: 'usd',
  customerId: 'cus_A',
  paymentMethodId: 'pm_A',
};
const refusalOf = async (refused: Promise<unknown>): Promise<ApiError> => {
  const error = await refused.catch((reason: unknown) => reason);
  if (error instanceof ApiError) return error;
  throw new Error(`it was not refused: ${String(error)}`);
};

test('a charge is accepted, known when repeated, and done in the end', async () => {
  expect(await client.charge('North', 'O1', input)).toMatchObject({ isNew: true });
  expect(await client.charge('North', 'O1', input)).toMatchObject({ isNew: false });
  expect(await client.waitUntilDone('North', 'O1', { intervalMs: 50 })).toMatchObject({
    state: 'succeeded',
    result: { amountMinor: 5000, currency: 'usd' },
  });
});

test('other inputs under a known id are an error with the status and type of the problem', async () => {
  await client.charge('North', 'O2', input);
  const error = await refusalOf(client.charge('North', 'O2', { ...input, amountMinor: 9000 }));
  expect(error).toMatchObject({ status: 409, type: expect.stringContaining('inputs-conflict') });
});

test('what is enqueued is the same operation as what is accepted', async () => {
  await client.enqueue({ tenantId: 'North', operationId: 'O3', type: 'charge', input });
  await client.charge('North', 'O3', input);
  await client.waitUntilDone('North', 'O3', { intervalMs: 50 });
  const charges = stack.stripe?.ledger().filter(({ metadata }) => metadata.operationId === 'O3');
  expect(charges).toHaveLength(1);
});

test('what is accepted or enqueued under the names of version 2 is the same operation, with its description at Stripe', async () => {
  const { invoiceId: reference, ...rest } = input;
  await client.charge('North', 'O6', input);
  expect(await client.charge('North', 'O6', { reference, ...rest })).toMatchObject({ isNew: false });
  const described = { reference, ...rest, description: 'Second part' };
  await client.charge('North', 'O7', described);
  const id = { tenantId: 'North', operationId: 'O7' };
  await client.enqueue({ version: 2, ...id, type: 'charge', input: described });
  await client.waitUntilDone('North', 'O7', { intervalMs: 50 });
  const intents = stack.stripe?.paymentIntents().filter(({ metadata }) => metadata.operationId === 'O7');
  expect(intents).toEqual([expect.objectContaining({ description: 'Second part', status: 'succeeded' })]);
});

test('a refund is an operation of its own, and a cancel of what has succeeded says to refund', async () => {
  await client.charge('North', 'O4', input);
  await client.waitUntilDone('North', 'O4', { intervalMs: 50 });
  const error = await refusalOf(client.cancel('North', 'O4'));
  expect(error.status).toBe(409);
  expect(error.message).toMatch(/refund/);
  await client.refund('North', 'R4', { chargeOperationId: 'O4', amountMinor: 2000 });
  expect(await client.waitUntilDone('North', 'R4', { intervalMs: 50 })).toMatchObject({ state: 'succeeded' });
});

test('an operation that nobody knows is undefined, and cannot be waited for', async () => {
  expect(await client.get('North', 'nobody')).toBeUndefined();
  await expect(client.waitUntilDone('North', 'nobody')).rejects.toThrow(/not known/);
});

test('a refusal says when to ask again', async () => {
  await stack.eventSource.stop();
  const all = await Promise.allSettled(
    Array.from({ length: 9 }, (_, index) => client.charge('Full', `F${index}`, input)),
  );
  stack.eventSource.start();
  const refused = all.filter(({ status }) => status === 'rejected');
  expect(refused).toHaveLength(2);
  for (const one of refused) {
    expect('reason' in one && one.reason).toMatchObject({
      status: 429,
      retryAfterSeconds: expect.any(Number),
    });
  }
});

test('a request whose answer is lost is sent again', async () => {
  let lost = 0;
  const losing: typeof fetch = async (...request) => {
    const response = await fetch(...request);
    if (lost++ > 0) return response;
    throw new TypeError('fetch failed');
  };
  const unlucky = new OperationsClient({ apiUrl: stack.endpoints.api ?? '', fetch: losing });
  expect(await unlucky.charge('North', 'O5', input)).toMatchObject({ isNew: false });
});

test('a signed request carries the signature of its service, region and body', async () => {
  const seen = Promise.withResolvers<{ authorization?: string; body: string }>();
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      seen.resolve({ authorization: request.headers.authorization ?? '', body });
      response.end('{}');
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const send = signedFetch('eu-west-1', { accessKeyId: 'AKID', secretAccessKey: 'secret' });
  await send(`http://127.0.0.1:${port}/tenants/North/charges/O%3A1`, { method: 'PUT', body: '{}' });
  server.close();
  const { authorization, body } = await seen.promise;
  expect(authorization).toMatch(
    /^AWS4-HMAC-SHA256 Credential=AKID\/\d{8}\/eu-west-1\/execute-api\/aws4_request/,
  );
  expect(body).toBe('{}');
});
