import { job, record, startWorkerBench, type WorkerBench } from '../support/worker-bench';

let bench: WorkerBench;
beforeAll(async () => {
  bench = await startWorkerBench();
});
afterAll(() => bench.stop());
afterEach(() => bench.stripe.clearFaults());

const operationOf = ({ tenantId, operationId }: { tenantId: string; operationId: string }) =>
  bench.stack.operation(tenantId, operationId);

/** The POSTs of an operation. */
const callsOf = ({ tenantId, operationId }: { tenantId: string; operationId: string }) =>
  bench.stripe.requests().filter((request) => request.operation === `${tenantId}/${operationId}`);

const chargesOf = ({ tenantId, operationId }: { tenantId: string; operationId: string }) =>
  bench.stripe
    .ledger()
    .filter(({ metadata }) => metadata.tenantId === tenantId && metadata.operationId === operationId);

test('a first delivery charges once, settles and is acknowledged', async () => {
  const charge = job();
  expect(await bench.deliver([record(charge)])).toEqual([]);
  expect(await operationOf(charge)).toMatchObject({
    state: 'succeeded',
    attemptCount: 1,
    providerRef: expect.stringMatching(/^pi_/),
    result: { amountMinor: 1999, currency: 'usd' },
  });
  expect(chargesOf(charge)).toHaveLength(1);
});

test('a second delivery of a settled operation does nothing', async () => {
  const charge = job();
  await bench.deliver([record(charge)]);
  const settled = await operationOf(charge);
  expect(await bench.deliver([record(charge)])).toEqual([]);
  expect(await operationOf(charge)).toEqual(settled);
  expect(callsOf(charge)).toHaveLength(1);
});
