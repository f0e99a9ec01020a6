import { viewSchema } from '../../../lambdas/http/view';
import { dieAfterClaim, dieBeforeSettle, evidenceOf, pastTheLease } from '../fixtures';
import { type ApiBench, chargeOf, startApiBench } from './api-bench';

let api: ApiBench;
beforeAll(async () => {
  api = await startApiBench();
});
afterAll(() => api.stop());
afterEach(() => api.stripe.clearFaults());

const urn = (name: string) => `urn:charge-once:problem:${name}`;
type Charge = ReturnType<typeof chargeOf>;

async function accepted(changes: Parameters<typeof chargeOf>[0] = {}): Promise<Charge> {
  const charge = chargeOf(changes);
  expect((await api.charge(charge)).status).toBe(202);
  return charge;
}

async function settled(paymentMethodId: string): Promise<Charge> {
  const charge = await accepted({ input: { paymentMethodId } });
  await api.work(charge);
  return charge;
}

async function parked(): Promise<Charge> {
  const charge = await accepted();
  api.stripe.fault({ kind: 'answer', status: 403 }, { operationId: charge.operationId });
  await api.work(charge);
  return charge;
}

/** Claimed by a worker that died before its call. */
async function running(): Promise<Charge> {
  const charge = await accepted();
  dieAfterClaim(api, charge);
  await api.work(charge);
  return charge;
}

/** Charged by a worker that died before it could write so. */
async function unknown(): Promise<Charge> {
  const charge = await accepted();
  dieBeforeSettle(api, charge);
  await api.work(charge);
  return charge;
}

describe('asking for an operation', () => {
  const states: [string, () => Promise<Charge>, object][] = [
    ['queued', accepted, { state: 'queued', done: false, effectPossible: false, attempts: 0 }],
    ['running', running, { state: 'running', done: false, effectPossible: true, attempts: 1 }],
    [
      'settling',
      () => settled('pm_usBankAccount_success'),
      { state: 'settling', done: false, effectPossible: true, attempts: 1 },
    ],
    [
      'parked',
      parked,
      { state: 'parked', done: false, effectPossible: false, parkedReason: 'provider_forbidden' },
    ],
    [
      'succeeded',
      () => settled('pm_A'),
      {
        state: 'succeeded',
        done: true,
        effectPossible: true,
        attempts: 1,
        result: { providerRef: expect.stringMatching(/^pi_/), amountMinor: 1999, currency: 'usd' },
      },
    ],
    [
      'failed',
      () => settled('pm_card_chargeDeclined'),
      { state: 'failed', done: true, effectPossible: false, error: { code: 'card_declined' } },
    ],
    [
      'cancelled',
      async () => {
        const charge = await accepted();
        await api.postCancel(charge);
        return charge;
      },
      { state: 'cancelled', done: true, effectPossible: false, error: { code: 'cancelled' } },
    ],
  ];
  test.each(states)('that is %s tells where it stands, and no more', async (_, prepare, expected) => {
    const charge = await prepare();
    const { status, headers, body, text } = await api.get(charge);
    expect({ status, body }).toMatchObject({ status: 200, body: expected });
    expect(viewSchema.parse(body)).toEqual(body);
    const ends = ['result', 'error'].filter((name) => name in body);
    expect(ends).toHaveLength(body.done ? 1 : 0);
    expect(headers['retry-after']).toBe(body.done ? undefined : '1');
    for (const time of [body.createdAt, body.updatedAt, body.deadlineAt]) {
      expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    }
    expect(text).not.toMatch(/providerKey|claimId|inputDigest|lease|pm_|cus_|local\//);
  });

  test('that nobody knows is a 404', async () => {
    expect(await api.get(chargeOf())).toMatchObject({
      status: 404,
      body: { type: urn('operation-not-found') },
    });
  });

  test("of another tenant is a 404, with that tenant's id in the path or not", async () => {
    const charge = await accepted();
    const answer = await api.get({ ...charge, tenantId: 'other' });
    expect(answer).toMatchObject({ status: 404, body: { type: urn('operation-not-found') } });
  });
});

describe('BL-23 cancelling an operation', () => {
  const cancelledOnes: [string, () => Promise<Charge>][] = [
    ['queued', accepted],
    ['parked without a possible effect', parked],
  ];
  test.each(cancelledOnes)(
    'that is %s: 200, again too, and its message charges nothing',
    async (_, prepare) => {
      const charge = await prepare();
      const before = await evidenceOf(api, charge);
      for (let time = 0; time < 2; time++) {
        expect(await api.postCancel(charge)).toMatchObject({
          status: 200,
          body: { state: 'cancelled', done: true, effectPossible: false, error: { code: 'cancelled' } },
        });
      }
      expect(await api.work(charge)).toBe(true);
      const { charges, posts, record } = await evidenceOf(api, charge);
      expect({ charges, posts, state: record?.state }).toEqual({
        charges: 0,
        posts: before.posts,
        state: 'cancelled',
      });
    },
  );

  const refusedOnes: [string, () => Promise<Charge>, state: string, advice: RegExp][] = [
    ['is claimed and not yet charged', running, 'running', /ask for its state later/],
    ['was charged and not settled', unknown, 'running', /ask for its state later/],
    ['settles', () => settled('pm_usBankAccount_success'), 'settling', /ask for its state later/],
    ['has succeeded', () => settled('pm_A'), 'succeeded', /refund it/],
    ['has failed', () => settled('pm_card_chargeDeclined'), 'failed', /nothing to cancel/],
  ];
  test.each(refusedOnes)(
    'that %s: 409 with the operation as it is and what to do instead; the final state follows the money',
    async (...[, prepare, state, advice]) => {
      const charge = await prepare();
      const answer = await api.postCancel(charge);
      expect(answer).toMatchObject({
        status: 409,
        headers: { 'content-type': 'application/problem+json' },
        body: {
          type: urn('cancel-refused'),
          detail: expect.stringMatching(advice),
          operation: { state, operationId: charge.operationId },
        },
      });
      const isOpen = ['running', 'settling'].includes(state);
      expect(JSON.stringify(answer.body).includes('cancelRequestedAt')).toBe(isOpen);
      pastTheLease(api);
      await api.work(charge);
      const { charges, record } = await evidenceOf(api, charge);
      expect(record?.state === 'succeeded' ? 1 : 0).toBe(state === 'settling' ? 0 : charges);
      expect(record?.state).not.toBe('cancelled');
    },
  );

  test('a cancel asked for while its call is open takes effect when the call proves that nothing was done', async () => {
    const charge = await accepted();
    api.stripe.fault({ kind: 'answer', status: 429 }, { operationId: charge.operationId });
    const undo = api.stack.dynamodbProxy.intercept(
      {
        action: 'UpdateItem',
        times: 1,
        where: (body) => JSON.stringify(body).includes(':windowOpensAtMs'),
      },
      {
        kind: 'hook',
        after: async (): Promise<'continue'> => {
          expect((await api.postCancel(charge)).status).toBe(409);
          return 'continue';
        },
      },
    );
    await api.work(charge);
    undo();
    expect(await api.get(charge)).toMatchObject({
      body: { state: 'cancelled', error: { code: 'cancelled' } },
    });
    expect(await evidenceOf(api, charge)).toMatchObject({ charges: 0 });
  });

  test('that nobody knows, or of another tenant: 404, and nothing is written', async () => {
    const charge = await accepted();
    for (const named of [chargeOf(), { ...charge, tenantId: 'other' }]) {
      const answer = await api.postCancel(named);
      expect(answer).toMatchObject({ status: 404, body: { type: urn('operation-not-found') } });
      expect(await api.stack.operation(named.tenantId, named.operationId)).toBeUndefined();
    }
    expect(await api.get(charge)).toMatchObject({ body: { state: 'queued' } });
  });

  test('gives its place back', async () => {
    const { tenantId } = chargeOf();
    const charges = Array.from({ length: 8 }, () => chargeOf({ tenantId }));
    const [first, ...others] = charges;
    for (const charge of charges.slice(0, 7)) await api.charge(charge);
    const last = others[6] ?? chargeOf();
    expect((await api.charge(last)).status).toBe(429);
    expect((await api.postCancel(first ?? last)).status).toBe(200);
    expect((await api.charge(last)).status).toBe(202);
  });
});

describe("a token's tenant", () => {
  test("must be the path's to take anything on", async () => {
    const charge = chargeOf();
    for (const claims of [{ tenantId: 'other' }, {}, { tenantId: [charge.tenantId] }, { tenantId: 7 }]) {
      expect(await api.charge(charge, { claims })).toMatchObject({
        status: 403,
        body: { type: urn('tenant-forbidden') },
      });
    }
    expect(await api.stack.operation(charge.tenantId, charge.operationId)).toBeUndefined();
    expect((await api.charge(charge, { claims: { tenantId: charge.tenantId } })).status).toBe(202);
  });

  test("may see and cancel its own operations; another tenant's are a 404 whether or not they exist", async () => {
    const charge = await accepted();
    const own = { claims: { tenantId: charge.tenantId } };
    const foreign = { claims: { tenantId: 'other' } };
    const answers = [
      await api.get(charge, foreign),
      await api.get({ ...charge, operationId: 'none' }, foreign),
      await api.postCancel(charge, foreign),
    ];
    for (const { status, body } of answers) {
      expect({ status, type: body.type }).toEqual({ status: 404, type: urn('operation-not-found') });
    }
    expect(answers[0]?.body.detail).toBe((await api.get(charge, foreign)).body.detail);
    expect((await api.get(charge, own)).status).toBe(200);
    expect((await api.postCancel(charge, own)).status).toBe(200);
  });

  test('is the claim that the deployment names; a token without it may do nothing', async () => {
    api.restartApi({ JWT_TENANT_CLAIM: 'custom:tenant' });
    const charge = chargeOf();
    const claims = { 'custom:tenant': charge.tenantId };
    expect((await api.charge(charge, { claims })).status).toBe(202);
    const without = await api.get(charge, { claims: { tenantId: charge.tenantId } });
    api.restartApi({ JWT_TENANT_CLAIM: '' });
    expect(without).toMatchObject({ status: 403, body: { type: urn('tenant-forbidden') } });
  });
});
