import { type LocalStack, startLocalStack } from '../../local/stack';
import { job } from '../support/worker-bench';

let stack: LocalStack;
beforeAll(async () => {
  stack = await startLocalStack({
    api: true,
    startEventSource: false,
    limits: { queueMaxDepth: 60 },
  });
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => stack.stop());

/** One request over HTTP, as any client sends it. */
async function send(method: string, path: string, body?: unknown) {
  const response = await fetch(`${stack.endpoints.api}${path}`, {
    method,
    ...(body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
  return { status: response.status, headers: response.headers, body: Object(await response.json()) };
}
const { input } = job();
const charge = (tenantId: string, operationId: string, changes: object = {}) =>
  send('PUT', `/tenants/${tenantId}/charges/${operationId}`, { ...input, ...changes });
const problem = (name: string) => `urn:charge-once:problem:${name}`;

test('of 50 accepts at once of one tenant seven are taken and 43 are told when to ask again', async () => {
  const ids = Array.from({ length: 50 }, (_, index) => `op-${index}`);
  const answers = await Promise.all(ids.map((operationId) => charge('Flood', operationId)));
  expect(answers.filter(({ status }) => status === 202)).toHaveLength(7);
  const refused = answers.filter(({ status }) => status === 429);
  expect(refused).toHaveLength(43);
  for (const { headers } of refused) expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  const records = await Promise.all(ids.map((operationId) => stack.operation('Flood', operationId)));
  expect(records.filter((record) => record !== undefined)).toHaveLength(7);
});

test('every answer of an accept, of a status and of a cancel comes over HTTP with its status and type', async () => {
  const accepted = await charge('North', 'O1');
  expect(accepted).toMatchObject({ status: 202, body: { state: 'queued', replay: false } });
  expect(accepted.headers.get('location')).toBe('/tenants/North/operations/O1');
  expect(accepted.headers.get('retry-after')).not.toBeNull();
  expect(await charge('North', 'O1')).toMatchObject({ status: 200, body: { replay: true } });
  expect(await charge('North', 'O1', { amountMinor: 1 })).toMatchObject({
    status: 409,
    body: { type: problem('inputs-conflict') },
  });
  expect(await charge('North', 'O2', { memo: 'x' })).toMatchObject({
    status: 400,
    body: { type: problem('invalid-body') },
  });
  expect(await charge('North', 'a%23b')).toMatchObject({
    status: 400,
    body: { type: problem('invalid-id') },
  });
  expect(await charge('North', 'O3', { invoiceId: 'x'.repeat(20_000) })).toMatchObject({
    status: 413,
    body: { type: problem('body-too-large') },
  });
  expect(
    await send('PUT', '/tenants/North/refunds/R1', { chargeOperationId: 'O1', amountMinor: 1 }),
  ).toMatchObject({ status: 409, body: { type: problem('charge-not-final') } });
  expect(await send('GET', '/tenants/North/operations/O1')).toMatchObject({
    status: 200,
    body: { state: 'queued', done: false, effectPossible: false },
  });
  expect(await send('GET', '/tenants/North/operations/nobody')).toMatchObject({
    status: 404,
    body: { type: problem('operation-not-found') },
  });
  expect(await send('POST', '/tenants/North/operations/O1/cancel')).toMatchObject({
    status: 200,
    body: { state: 'cancelled', done: true },
  });
  for (const refused of ['O2', 'O3', 'R1']) expect(await stack.operation('North', refused)).toBeUndefined();
});

test('a charge that has succeeded is refunded by 202, and a cancel of it is answered by 409', async () => {
  await charge('South', 'O1');
  stack.eventSource.start();
  await stack.waitFor(async () => (await stack.operation('South', 'O1'))?.state === 'succeeded');
  await stack.eventSource.stop();
  expect(await send('POST', '/tenants/South/operations/O1/cancel')).toMatchObject({
    status: 409,
    body: { type: problem('cancel-refused'), operation: { state: 'succeeded' } },
  });
  const refund = { chargeOperationId: 'O1', amountMinor: input.amountMinor };
  expect(await send('PUT', '/tenants/South/refunds/R1', refund)).toMatchObject({ status: 202 });
});

test('a full queue, and AWS out of reach, are answered by 503 with when to ask again', async () => {
  const away = stack.dynamodbProxy.intercept(
    { action: 'BatchGetItem' },
    { kind: 'answer', statusCode: 500, error: 'InternalServerError' },
  );
  const unavailable = await charge('East', 'O1');
  away();
  expect(unavailable).toMatchObject({ status: 503, body: { type: problem('unavailable') } });
  expect(unavailable.headers.get('retry-after')).not.toBeNull();

  for (let index = 0; index < 60; index++) await stack.send(job());
  // A depth that was read is good for five seconds.
  await stack.clock.advance(6_000);
  const full = await charge('East', 'O2');
  expect(full).toMatchObject({ status: 503, body: { type: problem('service-full') } });
  expect(full.headers.get('retry-after')).not.toBeNull();
  expect(await stack.operation('East', 'O2')).toBeUndefined();
});
