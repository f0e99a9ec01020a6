import { evidenceOf } from '../fixtures';
import { type ApiBench, chargeOf, type Named, startApiBench } from './api-bench';

let api: ApiBench;
beforeAll(async () => {
  api = await startApiBench();
});
afterAll(() => api.stop());
afterEach(() => api.stripe.clearFaults());

const urn = (name: string) => `urn:charge-once:problem:${name}`;
const refund = ({ tenantId }: Named, operationId: string, body: object) =>
  api.request('PUT', `/tenants/${tenantId}/refunds/${operationId}`, { body });

describe('accepting a charge', () => {
  test('answers 202 with where to ask, when, and the operation, once the record and the message are there', async () => {
    const charge = chargeOf();
    const before = (await api.stack.queueDepth()).visible;
    const answer = await api.charge(charge);
    expect(answer).toMatchObject({
      status: 202,
      headers: {
        location: `/tenants/${charge.tenantId}/operations/${charge.operationId}`,
        'retry-after': '1',
        'content-type': 'application/json',
        'cache-control': 'no-store',
      },
      body: {
        tenantId: charge.tenantId,
        operationId: charge.operationId,
        type: 'charge',
        state: 'queued',
        done: false,
        effectPossible: false,
        attempts: 0,
        amountMinor: 1999,
        acceptedBy: 'api',
        replay: false,
      },
    });
    expect((await api.stack.queueDepth()).visible).toBe(before + 1);
    expect(await api.stack.operation(charge.tenantId, charge.operationId)).toMatchObject({ state: 'queued' });
  });

  test('answers 200 to the same inputs again and says that it is a replay, whatever became of it', async () => {
    const charge = chargeOf();
    await api.charge(charge);
    expect(await api.charge(charge)).toMatchObject({ status: 200, body: { replay: true, state: 'queued' } });
    await api.work(charge);
    const replay = await api.charge(charge);
    expect(replay).toMatchObject({ status: 200, body: { replay: true, state: 'succeeded', done: true } });
    expect(replay.headers).not.toHaveProperty('retry-after');
    expect(await evidenceOf(api, charge)).toMatchObject({ charges: 1, posts: 1 });
  });

  test('tells a replay as a replay in the log', async () => {
    const charge = chargeOf();
    await api.charge(charge);
    api.logs();
    await api.charge(charge);
    expect(api.logs()).toContainEqual(
      expect.objectContaining({ message: 'request replayed', operationId: charge.operationId }),
    );
  });

  test('makes one operation of twenty identical requests at once', async () => {
    const charge = chargeOf();
    const answers = await Promise.all(Array.from({ length: 20 }, () => api.charge(charge)));
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 202)).toHaveLength(1);
    expect(statuses.filter((status) => status === 200)).toHaveLength(19);
  });

  test('is the same operation as the same job sent straight to the queue, before or after', async () => {
    const charge = chargeOf();
    expect(await api.work(charge)).toBe(true);
    expect(await api.charge(charge)).toMatchObject({
      status: 200,
      body: { replay: true, acceptedBy: 'queue' },
    });
    expect(await evidenceOf(api, charge)).toMatchObject({ charges: 1 });
  });

  test('keeps the deadline that the caller sets, and a later one under the same id is a replay', async () => {
    const charge = chargeOf();
    const deadlineAt = '2099-01-31T12:00:00.000Z';
    const body = { ...charge.input, deadlineAt };
    expect(await api.charge(charge, { body })).toMatchObject({ status: 202, body: { deadlineAt } });
    expect(await api.charge(charge)).toMatchObject({ status: 200, body: { deadlineAt } });
  });

  test('names the operation under the stage, or the mapping, that it was asked under', async () => {
    const charge = chargeOf({ tenantId: 'tenants' });
    const path = `/live/tenants/tenants/charges/${charge.operationId}`;
    const answer = await api.request('PUT', path, { body: charge.input, stage: 'live' });
    expect(answer.headers.location).toBe(`/live/tenants/tenants/operations/${charge.operationId}`);
  });

  test('decodes an escaped ":" of an id once, as API Gateway does', async () => {
    const charge = chargeOf({ operationId: 'a:b' });
    const answer = await api.request('PUT', `/tenants/${charge.tenantId}/charges/a%3Ab`, {
      body: charge.input,
    });
    expect(answer).toMatchObject({ status: 202, body: { operationId: 'a:b' } });
  });

  test('BL-44 a second operation for the same invoice is another charge: an invoice is no identity', async () => {
    const first = chargeOf();
    const second = chargeOf({ tenantId: first.tenantId });
    expect(second.input).toEqual(first.input);
    for (const each of [first, second]) {
      expect((await api.charge(each)).status).toBe(202);
      expect(await api.work(each)).toBe(true);
    }
    for (const each of [first, second]) {
      expect(await evidenceOf(api, each)).toMatchObject({
        charges: 1,
        posts: 1,
        keys: [expect.stringContaining(`/${each.operationId}/`)],
        record: { state: 'succeeded' },
      });
    }
  });
});

describe('BL-05 other inputs under a known id', () => {
  const prepared: [state: string, prepare: (charge: ReturnType<typeof chargeOf>) => Promise<unknown>][] = [
    ['queued', async () => {}],
    ['succeeded', (charge) => api.work(charge)],
    [
      'parked',
      (charge) => {
        api.stripe.fault({ kind: 'answer', status: 403 }, { operationId: charge.operationId });
        return api.work(charge);
      },
    ],
  ];
  test.each(prepared)('answer 409 while it is %s, and nothing changes', async (...[state, prepare]) => {
    const charge = chargeOf();
    await api.charge(charge);
    await prepare(charge);
    const before = await evidenceOf(api, charge);
    expect(before.record).toMatchObject({ state });
    const answer = await api.charge(charge, { body: { ...charge.input, amountMinor: 199_900 } });
    expect(answer).toMatchObject({
      status: 409,
      headers: { 'content-type': 'application/problem+json' },
      body: { type: urn('inputs-conflict'), status: 409, operation: { state, amountMinor: 1999 } },
    });
    expect(await evidenceOf(api, charge)).toEqual(before);
  });

  test('a refund under the id of a charge is a conflict', async () => {
    const charge = chargeOf();
    await api.charge(charge);
    const answer = await refund(charge, charge.operationId, { chargeOperationId: 'x', amountMinor: 1 });
    expect(answer).toMatchObject({ status: 409, body: { type: urn('inputs-conflict') } });
  });
});

describe('accepting a refund', () => {
  test('answers 202, and 200 when it is known', async () => {
    const charge = chargeOf();
    await api.work(charge);
    const body = { chargeOperationId: charge.operationId, amountMinor: 500, reason: 'duplicate' };
    expect(await refund(charge, 'r1', body)).toMatchObject({
      status: 202,
      body: { type: 'refund', chargeOperationId: charge.operationId, amountMinor: 500, reason: 'duplicate' },
    });
    expect(await refund(charge, 'r1', body)).toMatchObject({ status: 200, body: { replay: true } });
    expect(await api.get(charge)).toMatchObject({ body: { refundedMinor: 500 } });
  });

  test('answers 409 for a charge that is not known or has not ended, and when to ask again', async () => {
    const charge = chargeOf();
    const body = { chargeOperationId: charge.operationId, amountMinor: 500 };
    const expected = {
      status: 409,
      headers: { 'retry-after': '5' },
      body: { type: urn('charge-not-final'), code: 'charge_not_final' },
    };
    expect(await refund(charge, 'r1', body)).toMatchObject(expected);
    await api.charge(charge);
    expect(await refund(charge, 'r1', body)).toMatchObject(expected);
    expect(await api.get({ ...charge, operationId: 'r1' })).toMatchObject({ status: 404 });
  });

  test('answers 409 for a charge that was cancelled, and for an operation that is no charge', async () => {
    const charge = chargeOf();
    await api.charge(charge);
    await api.postCancel(charge);
    const body = { chargeOperationId: charge.operationId, amountMinor: 500 };
    expect(await refund(charge, 'r1', body)).toMatchObject({
      status: 409,
      body: { type: urn('charge-not-succeeded') },
    });
  });

  test('answers 409 for more than what other refunds left', async () => {
    const charge = chargeOf();
    await api.work(charge);
    const body = { chargeOperationId: charge.operationId, amountMinor: 1500 };
    expect(await refund(charge, 'r1', body)).toMatchObject({ status: 202 });
    expect(await refund(charge, 'r2', body)).toMatchObject({
      status: 409,
      body: { type: urn('refund-exceeds-charge'), detail: expect.stringContaining('499') },
    });
    expect(await api.get({ ...charge, operationId: 'r2' })).toMatchObject({ status: 404 });
  });
});

describe('no room', () => {
  test('answers 429 and when to try again once the places of a tenant are taken; nothing refused has a record', async () => {
    const { tenantId } = chargeOf();
    const charges = Array.from({ length: 9 }, () => chargeOf({ tenantId }));
    const answers = [];
    for (const charge of charges) answers.push(await api.charge(charge));
    expect(answers.map(({ status }) => status)).toEqual([...Array(7).fill(202), 429, 429]);
    expect(answers[8]).toMatchObject({
      headers: { 'retry-after': expect.stringMatching(/^[1-9]\d*$/) },
      body: { type: urn('tenant-places-used'), detail: expect.stringContaining('2 running and 5 waiting') },
    });
    const [refused] = charges.slice(8);
    expect(refused && (await api.stack.operation(tenantId, refused.operationId))).toBeUndefined();
    const [other] = [chargeOf()];
    expect((await api.charge(other)).status).toBe(202);
  });

  test('answers 429 until the next UTC day once the calls of a tenant are used up', async () => {
    api.restart({ SETTINGS: JSON.stringify({ ...api.stack.limits, tenantDailyCalls: 1 }) });
    api.restartApi();
    const charge = chargeOf();
    await api.work(charge);
    const answer = await api.charge(chargeOf({ tenantId: charge.tenantId }));
    api.restart();
    api.restartApi();
    expect(answer).toMatchObject({ status: 429, body: { type: urn('tenant-daily-calls-used') } });
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
    expect(Number(answer.headers['retry-after'])).toBeLessThanOrEqual(86_400);
  });

  test('answers 503 and when to try again while the queue is full', async () => {
    await api.charge(chargeOf());
    api.restartApi({ SETTINGS: JSON.stringify({ ...api.stack.limits, queueMaxDepth: 1 }) });
    const charge = chargeOf();
    const answer = await api.charge(charge);
    api.restart();
    api.restartApi();
    expect(answer).toMatchObject({
      status: 503,
      headers: { 'retry-after': '30' },
      body: { type: urn('service-full') },
    });
    expect(await api.stack.operation(charge.tenantId, charge.operationId)).toBeUndefined();
  });
});

describe('when AWS is down', () => {
  test('answers 503 with a problem and when to try again, logs why under the request id, and shows no stack', async () => {
    const undo = api.stack.dynamodbProxy.intercept({}, { kind: 'loseRequest' });
    const charge = chargeOf();
    api.logs();
    const answers = [await api.charge(charge), await api.get(charge), await api.postCancel(charge)];
    undo();
    const logs = JSON.stringify(api.logs());
    for (const { status, headers, body, text } of answers) {
      expect({ status, type: body.type }).toEqual({ status: 503, type: urn('unavailable') });
      expect(headers['retry-after']).toBe('5');
      expect(text).not.toMatch(/ECONN|at \w+ \(|node_modules/);
      expect(logs).toContain(String(body.instance).replace('urn:charge-once:request:', ''));
    }
    expect((await api.charge(charge)).status).toBe(202);
  });

  test('a message that could not be sent is a 503; the same request again is a 200, and the message is sent', async () => {
    const charge = chargeOf();
    const undo = api.stack.sqsProxy.intercept({ action: 'SendMessage' }, { kind: 'loseRequest' });
    expect((await api.charge(charge)).status).toBe(503);
    undo();
    const before = (await api.stack.queueDepth()).visible;
    api.stack.clock.advance(6_000);
    expect((await api.charge(charge)).status).toBe(200);
    expect((await api.stack.queueDepth()).visible).toBe(before + 1);
  });

  test('answers before its time is up', async () => {
    const undo = api.stack.dynamodbProxy.intercept({ action: 'BatchGetItem' }, { kind: 'stall' });
    const answer = await api.get(chargeOf(), { remainingMs: 600 });
    undo();
    expect(answer).toMatchObject({ status: 503, body: { type: urn('unavailable') } });
  });
});
