import type { readBody } from '../../../lambdas/http/body';
import { evidenceOf, postsOf } from '../fixtures';
import { type ApiBench, chargeOf, type Named, startApiBench } from './api-bench';

let api: ApiBench;
beforeAll(async () => {
  api = await startApiBench();
});
afterAll(() => api.stop());

const description = 'Roof repair, second part';
const inputV1 = chargeOf().input;
const { invoiceId, ...common } = inputV1;
const inputV2 = { version: 2, reference: invoiceId, ...common };
const fresh = (): Named => chargeOf();
const put = (of: Named, body: object) =>
  api.request('PUT', `/tenants/${of.tenantId}/charges/${of.operationId}`, { body });

/** The message that the last request put on the queue, taken off it. */
async function sent(): Promise<object> {
  const [message] = await api.stack.eventSource.receive(1);
  return JSON.parse(message?.body ?? '{}');
}

describe('a body', () => {
  test('without a version is one of version 1, also when it says so', async () => {
    const charge = fresh();
    expect(await put(charge, inputV1)).toMatchObject({ status: 202 });
    expect(await put(charge, { version: 1, ...inputV1 })).toMatchObject({
      status: 200,
      body: { replay: true },
    });
    await sent();
  });

  test('of version 2 that says nothing new is the same operation, in a message that every build reads', async () => {
    const charge = fresh();
    expect(await put(charge, inputV2)).toMatchObject({ status: 202 });
    expect(await put(charge, inputV1)).toMatchObject({ status: 200, body: { replay: true } });
    expect(await sent()).toMatchObject({ version: 1, input: inputV1 });
    expect(await evidenceOf(api, charge)).toMatchObject({ record: { version: 1, input: inputV1 } });
  });

  test('with a description is another operation than one without, and goes to Stripe with it', async () => {
    const charge = fresh();
    expect(await put(charge, { ...inputV2, description })).toMatchObject({ status: 202 });
    expect(await put(charge, inputV1)).toMatchObject({ status: 409 });
    const message = await sent();
    expect(message).toMatchObject({ version: 2, input: { reference: invoiceId, description } });
    expect(await api.work(message)).toBe(true);
    expect(postsOf(api, charge).map(({ params }) => params)).toEqual([
      expect.objectContaining({ description }),
    ]);
  });

  test.each([
    ['3', { ...inputV2, version: 3 }],
    ['0', { ...inputV2, version: 0 }],
    ['1.5', { ...inputV2, version: 1.5 }],
    ['"2"', { ...inputV2, version: '2' }],
    ['null', { ...inputV2, version: null }],
  ])('of version %s is refused: it names one that is offered', async (got, body) => {
    expect((await put(fresh(), body)).body).toMatchObject({
      status: 400,
      errors: [{ field: 'version', detail: `is ${got}; it must be a whole number from 1 to 2` }],
    });
  });

  test.each([
    ['description', { ...inputV1, description }, 'a charge of version 1; its fields are invoiceId,'],
    ['reference', { ...inputV1, reference: 'inv-77' }, 'a charge of version 1; its fields are invoiceId,'],
    ['invoiceId', { ...inputV2, invoiceId: 'inv-77' }, 'a charge of version 2; its fields are reference,'],
  ])('with a %s that its version does not have is refused', async (field, body, problem) => {
    expect((await put(fresh(), body)).body).toMatchObject({
      status: 400,
      errors: [{ field: `"${field}"`, detail: expect.stringContaining(`is no field of ${problem}`) }],
    });
  });

  test('of a refund may name either version', async () => {
    for (const version of [1, 2]) {
      const body = { version, chargeOperationId: 'nobody', amountMinor: 1 };
      const answer = await api.request('PUT', `/tenants/acme/refunds/r${version}`, { body });
      expect(answer.body).toMatchObject({ type: 'urn:charge-once:problem:charge-not-final' });
    }
  });

  test('of a version that is read but not offered yet is refused: its consumers come first', () => {
    const module = '../../../lambdas/operation/message';
    jest.doMock(module, () => ({ ...jest.requireActual(module), offeredVersion: 1 }));
    let read: typeof readBody | undefined;
    jest.isolateModules(() => {
      read = require('../../../lambdas/http/body').readBody;
    });
    jest.dontMock(module);
    const event = { headers: {}, isBase64Encoded: false };
    const of = (body: object) =>
      read?.(Object({ ...event, body: JSON.stringify(body) }), 'charge', fresh(), 16_384);
    expect(of(inputV1)).toMatchObject({ version: 2 });
    expect(of(inputV2)).toMatchObject({ detail: 'version is 2; it must be a whole number from 1 to 1.' });
  });
});

test('a charge is told under both of its names, and without its description', async () => {
  const charge = fresh();
  await put(charge, { ...inputV2, description });
  await sent();
  const { body, text } = await api.get(charge);
  expect(body).toMatchObject({ reference: invoiceId, invoiceId });
  expect(text).not.toContain(description);
});
