import { DeleteItemCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { type OpsBench, startOpsBench } from '../support/ops-bench';
import { type Job, job, refundOf } from '../support/worker-bench';

// After a restore: what Stripe has, and the table does not.

let bench: OpsBench;
let dynamodb: DynamoDBClient;
beforeAll(async () => {
  bench = await startOpsBench({ limits: { allowDirectRefunds: true } });
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  dynamodb = new DynamoDBClient({
    region: 'us-east-1',
    credentials,
    endpoint: bench.stack.endpoints.dynamodb,
  });
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(async () => {
  dynamodb.destroy();
  await bench.stop();
});

const lose = ({ tenantId, operationId }: Job) =>
  dynamodb.send(
    new DeleteItemCommand({
      TableName: bench.stack.tableName,
      Key: { pk: { S: `op#${tenantId}#${operationId}` } },
    }),
  );
const since = () => new Date(bench.stack.clock.now() - 3_600_000).toISOString();
const chargesOf = ({ operationId }: Job) =>
  bench.stack.stripe?.ledger().filter(({ metadata }) => metadata.operationId === operationId).length;

test('BL-35 payments without a record are reported, and with --adopt get one: a message that comes again charges nothing, also after Stripe forgot the key', async () => {
  const kept = job({ operationId: 'kept' });
  const lost = job({ operationId: 'lost' });
  const described = {
    ...job({ operationId: 'described' }),
    version: 2,
    input: {
      reference: 'inv-78',
      amountMinor: 1999,
      currency: 'usd',
      customerId: 'cus_A',
      paymentMethodId: 'pm_A',
      description: 'Two tickets, Zürich',
    },
  };
  for (const each of [kept, lost, described]) await bench.stack.send(each);
  await bench.work();
  const refund = refundOf(lost, 500, { operationId: 'lost-refund' });
  await bench.stack.send(refund);
  await bench.work();
  for (const each of [lost, described, refund]) await lose(each);

  const reported = await bench.json(`provider audit --since ${since()}`, 1);
  expect(reported).toMatchObject({ read: 4, agreed: 1, left: 3 });
  expect(reported.discrepancies).toEqual(
    expect.arrayContaining(
      ['lost', 'described', 'lost-refund'].map((operationId) =>
        expect.objectContaining({ tenantId: 'acme', operationId, kind: 'unknown' }),
      ),
    ),
  );
  expect(await bench.stack.operation('acme', 'lost')).toBeUndefined();

  const adopted = await bench.json(`provider audit --since ${since()} --adopt`);
  expect(adopted).toMatchObject({ read: 4, agreed: 1, left: 0 });
  expect(await bench.stack.operation('acme', 'lost')).toMatchObject({
    state: 'succeeded',
    providerRef: expect.stringMatching(/^pi_/),
    refundedMinor: 500,
    intervention: { action: 'adopted' },
  });
  expect(await bench.json(`provider audit --since ${since()}`)).toMatchObject({ agreed: 4, left: 0 });

  bench.stack.stripe?.forgetKeys();
  for (const each of [lost, described, refund]) await bench.stack.send(each);
  await bench.work();
  for (const each of [lost, described, refund]) expect(chargesOf(each)).toBe(1);
});

test('an effect whose inputs Stripe does not tell as they were is reported, and never adopted', async () => {
  const strange = job({ operationId: 'strange' });
  await bench.stack.send(strange);
  await bench.work();
  await lose(strange);
  const intent = bench.stack.stripe
    ?.paymentIntents()
    .find(({ metadata }) => metadata.operationId === 'strange');
  // Somebody edited the payment in the dashboard.
  if (intent) Object.assign(intent.metadata, { invoiceId: 'inv-edited' });
  const { discrepancies } = await bench.json(`provider audit --since ${since()} --adopt`, 1);
  expect(discrepancies).toContainEqual(expect.objectContaining({ operationId: 'strange', kind: 'unknown' }));
  expect(await bench.stack.operation('acme', 'strange')).toBeUndefined();
});

test('a record that has not ended, and one that says something else, are told apart', async () => {
  const [open, denied] = [job({ operationId: 'open' }), job({ operationId: 'denied' })];
  for (const each of [open, denied]) await bench.stack.send(each);
  await bench.work();
  const nowMs = bench.stack.clock.now();
  await bench.record(open, {
    state: 'parked',
    parkedReason: 'attempts_exhausted',
    parkedAtMs: nowMs,
    effectPossibleSinceMs: nowMs,
  });
  await bench.record(denied, {
    state: 'failed',
    attemptCount: 1,
    error: { code: 'card_declined', message: 'no' },
  });
  const { discrepancies } = await bench.json(`provider audit --since ${since()}`, 1);
  expect(discrepancies).toContainEqual(expect.objectContaining({ operationId: 'open', kind: 'open' }));
  expect(discrepancies).toContainEqual(
    expect.objectContaining({ operationId: 'denied', kind: 'contradicted' }),
  );
});

test('a list that cannot be read, and a time that is none, are said', async () => {
  bench.stack.stripe?.fault({ kind: 'answer', status: 403 }, { method: 'GET', times: 1 });
  const refused = await bench.ops(`provider audit --since ${since()}`);
  expect(refused).toMatchObject({ exitCode: 1 });
  expect(refused.err).toContain("Stripe's list could not be read");
  expect(await bench.ops('provider audit --since yesterday')).toMatchObject({ exitCode: 2 });
});
