import { once } from 'node:events';
import { createServer } from 'node:http';
import { record, refundOf } from '../support/worker-bench';
import { onWrites } from './fixtures';
import { type ApiBench, chargeOf, type Job, type Named, startApiBench } from './http/api-bench';

const secretKey = 'sk_test_51PLANTEDsecret';
const restrictedKey = 'rk_live_51PLANTEDrestricted';
const card = '4242424242424242';
const cardInGroups = '4242 4242-4242.4242';
/** Bodies of jobs: nothing of them is in any log. */
const input = {
  invoiceId: 'inv-PLANTED-1',
  amountMinor: 7654321,
  customerId: 'cus_PLANTED2',
  paymentMethodId: 'pm_PLANTED3',
};
/** Said by whoever answers: a key, a card number and a body in one. */
const gossip = `${secretKey} ${restrictedKey} ${cardInGroups} ${input.customerId} "${input.invoiceId}" {"card":"${card}"`;
const planted = /PLANTED|4242.?4242|7654321|pm_card|sk_test|rk_live/;

let bench: ApiBench;
beforeAll(async () => {
  bench = await startApiBench({
    limits: { tenantMaxRunning: 50, workerTimeoutSeconds: 10, allowDirectRefunds: true },
    environment: { STRIPE_API_KEY: secretKey },
  });
});
afterAll(() => bench.stop());
const undo: (() => void)[] = [];
beforeEach(() => bench.logs());
afterEach(async () => {
  for (const remove of undo.splice(0)) remove();
  bench.stripe.clearFaults();
  // A refused key opens the breaker for whatever comes next.
  await bench.operate({ action: 'resume', by: 'the next test' });
});

const plantedJob = (changes: Parameters<typeof chargeOf>[0] = {}) =>
  chargeOf({ ...changes, input: { ...input, ...changes.input } });
const deliver = (body: object | string, receiveCount = 1) =>
  bench.deliver([record(body, { receiveCount, sentAtMs: bench.stack.clock.now() - 5 })]);
const fault = (of: Named, ...[planned, match = {}]: Parameters<ApiBench['stripe']['fault']>) =>
  undo.push(bench.stripe.fault(planned, { operationId: of.operationId, ...match }));
const answer = (status: number, error: object, more: object = {}) => ({
  kind: 'answer' as const,
  status,
  error: { type: 'invalid_request_error', message: gossip, param: gossip, ...error },
  ...more,
});

/** Every line that was printed, metrics too; none of them may hold what was planted. */
function said(): readonly Record<string, unknown>[] {
  const lines = bench.logs();
  for (const line of lines) expect(JSON.stringify(line)).not.toMatch(planted);
  expect(lines).not.toEqual([]);
  return lines;
}

/** One attempt of a charge that meets a fault, and what the log says of it. */
async function attemptWith(...faults: Parameters<ApiBench['stripe']['fault']>[0][]) {
  const charge = plantedJob();
  for (const planned of faults) fault(charge, planned);
  await deliver(charge);
  const lines = said();
  expect(lines).toContainEqual(expect.objectContaining({ operationId: charge.operationId }));
  return lines;
}

test('an ordinary life of a charge and its refund', async () => {
  const charge = plantedJob();
  await deliver(charge);
  await deliver(charge);
  await deliver(refundOf(charge, 1000));
  expect(said().filter(({ message }) => message === 'operation succeeded')).toHaveLength(2);
});

test('a message of version 2, with words for the customer, and one with words that are none', async () => {
  const { invoiceId: reference, ...rest } = input;
  const { input: _, ...charge } = plantedJob({ version: 2 });
  const worded = (description: string) => ({
    ...charge,
    input: { ...rest, reference, currency: 'usd', description },
  });
  await deliver(worded(`PLANTED ${cardInGroups.slice(0, 4)}`));
  await deliver(worded(`two lines\n${gossip}`));
  const messages = said().map(({ message }) => message);
  expect(messages).toContain('operation succeeded');
  expect(messages).toContain('message rejected');
});

test.each([
  ['a payment that is under way', { paymentMethodId: 'pm_usBankAccount_success' }, 'settling'],
  ['a card that is declined', { paymentMethodId: 'pm_card_chargeDeclined' }, 'failed'],
  ['a payment that asks for its customer', { paymentMethodId: 'pm_card_authenticationRequired' }, 'failed'],
])('%s', async (_what, changes, state) => {
  await deliver(plantedJob({ input: changes }));
  expect(said()).toContainEqual(expect.objectContaining({ message: `operation ${state}` }));
});

test.each([
  ['400', answer(400, {}), 'failed'],
  ['404', answer(404, { code: 'resource_missing' }), 'failed'],
  ['400 with a key for its code', answer(400, { code: secretKey }), 'failed'],
  [
    '402 with a body for its code',
    answer(402, { type: 'card_error', code: input.paymentMethodId }),
    'failed',
  ],
  [
    '402 with a card number for its decline code',
    answer(402, { type: 'card_error', decline_code: card }),
    'failed',
  ],
  ['403', answer(403, {}), 'parked'],
  ['409', answer(409, {}), 'queued'],
  ['429', answer(429, { code: 'lock_timeout' }), 'queued'],
  ['500', answer(500, { type: 'api_error' }), 'queued'],
  ['503 of a gateway', { kind: 'answer', status: 503, body: `<html>${gossip}</html>` }, 'queued'],
  ['the key with other parameters', answer(400, { type: 'idempotency_error' }), 'parked'],
  ['a lost answer', { kind: 'reset', effect: 'done' }, 'queued'],
  ['half an answer', { kind: 'truncate' }, 'queued'],
  [
    'a success with a key for its id',
    { kind: 'answer', status: 200, body: { id: secretKey, status: 'succeeded', latest_charge: card } },
    'succeeded',
  ],
  [
    'a state of a payment that is none',
    { kind: 'answer', status: 200, body: { id: 'pi_1', status: gossip } },
    'queued',
  ],
] as const)('Stripe answers with %s', async (_what, planned, state) => {
  const lines = await attemptWith(planned);
  expect(lines).toContainEqual(expect.objectContaining({ message: `operation ${state}` }));
});

test('Stripe answers 401, twice', async () => {
  const lines = await attemptWith(answer(401, {}), answer(401, {}));
  expect(lines).toContainEqual(expect.objectContaining({ outcome: 'notSent:unauthorized' }));
  expect(lines).toContainEqual(expect.objectContaining({ message: 'breaker opened' }));
  await bench.operate({ action: 'resume', by: 'test' });
});

test.each([
  ['no JSON', `{"paymentMethodId":"${input.paymentMethodId}","key":${secretKey}`],
  ['text', JSON.stringify(gossip)],
  ['a list', JSON.stringify([gossip])],
  ['an SNS notification', { Type: 'Notification', Message: gossip }],
  ['an EventBridge event', { 'detail-type': 'job', detail: gossip }],
  ['a version from the future', plantedJob({ version: 99, also: gossip })],
  ['a version that is none', plantedJob({ version: gossip })],
  ['a type that is none', plantedJob({ type: restrictedKey })],
  ['a key for the operation', plantedJob({ operationId: secretKey })],
  ['a card number for the operation', plantedJob({ operationId: card })],
  ['a tenant that is none', plantedJob({ tenantId: gossip })],
  ['a customer that is none', plantedJob({ input: { customerId: gossip } })],
  ['a card number for the customer', plantedJob({ input: { customerId: card } })],
  ['a payment method that is none', plantedJob({ input: { paymentMethodId: { number: card } } })],
  ['an amount that is none', plantedJob({ input: { amountMinor: 7654321.5 } })],
  ['an amount as text', plantedJob({ input: { amountMinor: '7654321' } })],
  ['a currency that is none', plantedJob({ input: { currency: secretKey } })],
  ['more than is asked for', plantedJob({ input: { [secretKey]: 1, cvc: card } })],
  ['a deadline that is none', plantedJob({ deadlineAt: gossip })],
  ['too much', plantedJob({ padding: gossip.repeat(200) })],
])('a message with %s', async (_what, body) => {
  for (const receiveCount of [1, 8]) await deliver(body, receiveCount);
  expect(said().length).toBeGreaterThan(1);
});

test('other inputs under a known id, by the queue and by the API', async () => {
  const charge = plantedJob();
  await deliver(charge);
  const changed = plantedJob({ ...named(charge), input: { amountMinor: 7654322 } });
  await deliver(changed);
  await bench.charge(changed);
  const lines = said();
  expect(lines).toContainEqual(expect.objectContaining({ reason: 'input_conflict' }));
  expect(lines).toContainEqual(expect.objectContaining({ problem: 'inputs-conflict' }));
});

test.each([
  ['a body that is no JSON', (of: Job & Named) => bench.charge(of, { body: `{${gossip}` })],
  [
    'a card number in a field',
    (of: Job & Named) => bench.charge(of, { body: { ...input, invoiceId: card } }),
  ],
  [
    'a card number in a field of its own',
    (of: Job & Named) => bench.charge(of, { body: { ...input, number: cardInGroups } }),
  ],
  [
    'a key in the path',
    (of: Job & Named) => bench.request('GET', `/tenants/${of.tenantId}/operations/${secretKey}`),
  ],
  [
    'a card number in the path',
    (of: Job & Named) => bench.request('GET', `/tenants/${of.tenantId}/operations/${card}`),
  ],
  [
    'keys in its headers',
    (of: Job & Named) => bench.charge(of, { headers: { authorization: `Bearer ${secretKey}` } }),
  ],
  ['a token of another tenant', (of: Job & Named) => bench.charge(of, { claims: { tenantId: gossip } })],
])('a request with %s', async (_what, request) => {
  const charge = plantedJob();
  await request(charge);
  await bench.charge(charge);
  said();
});

test('the table, the queue and the secret answer with errors that repeat what they were sent', async () => {
  const charge = plantedJob();
  const error = { kind: 'answer', statusCode: 400, error: 'ValidationException', message: gossip } as const;
  onWrites(bench, charge, 'settle', [error, error, error]);
  await deliver(charge);
  undo.push(bench.stack.dynamodbProxy.intercept({ action: 'BatchGetItem' }, error));
  await deliver(plantedJob());
  await bench.charge(plantedJob());
  undo.push(bench.stack.sqsProxy.intercept({ action: 'ChangeMessageVisibility' }, error));
  await deliver('no JSON');
  const messages = said().map(({ message }) => message);
  for (const told of [
    'the delivery failed',
    'the batch could not be read',
    'the request failed',
    'the visibility could not be changed; the message comes back at its time-out',
  ])
    expect(messages).toContain(told);
});

test('an answer of Secrets Manager that cannot be parsed, with the key in it', async () => {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/x-amz-json-1.1' });
    response.end(`{"SecretString": ${secretKey} }`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  bench.restart({
    STRIPE_API_KEY: undefined,
    STRIPE_API_KEY_SECRET_ID: 'stripe-key',
    AWS_ENDPOINT_URL_SECRETS_MANAGER: `http://127.0.0.1:${port}`,
  });
  await deliver(plantedJob());
  bench.restart();
  server.closeAllConnections();
  server.close();
  const lines = said();
  expect(lines).toContainEqual(expect.objectContaining({ message: 'the Stripe API key could not be read' }));
  expect(lines).toContainEqual(expect.objectContaining({ outcome: 'notSent:provider_key_missing' }));
});

function named({ tenantId, operationId }: Named): Named {
  return { tenantId, operationId };
}
