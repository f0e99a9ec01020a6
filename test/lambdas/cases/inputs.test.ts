import { job, record, startWorkerBench, type WorkerBench } from '../../support/worker-bench';
import { dieBeforeSettle, evidenceOf, pastTheLease } from '../fixtures';

let bench: WorkerBench;
beforeAll(async () => {
  bench = await startWorkerBench();
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => bench.stop());
afterEach(() => bench.stripe.clearFaults());

type Job = ReturnType<typeof job>;
const evidence = (of: Job) => evidenceOf(bench, of);

/** Whether a message was acknowledged, or reported as failed with visibility 0: on its way to the dead-letter queue. */
async function deliver(body: object | string): Promise<'acknowledged' | 'rejected' | 'other'> {
  bench.visibilities();
  const delivered = record(body);
  const failed = await bench.deliver([delivered]);
  if (failed.length === 0) return 'acknowledged';
  return bench.visibilities().get(delivered.messageId) === 0 ? 'rejected' : 'other';
}

/** A malformed body: no provider call, no read and no write of the table, at any of its deliveries. */
async function expectRejectedUntouched(body: object | string): Promise<void> {
  const before = bench.stripe.requests().length;
  bench.stack.dynamodbProxy.resetCounts();
  expect(await deliver(body)).toBe('rejected');
  expect(bench.stripe.requests()).toHaveLength(before);
  expect(bench.stack.dynamodbProxy.counts()).toEqual({});
}

describe('BL-04 the same logical payload', () => {
  const charged = {
    charges: 1,
    posts: 1,
    keys: [expect.any(String)],
    record: expect.objectContaining({ state: 'succeeded' }),
  };

  test('BL-04 i: keys reversed and pretty-printed is a replay', async () => {
    const charge = job();
    await deliver(charge);
    const reversed = Object.fromEntries(
      Object.entries({
        ...charge,
        input: Object.fromEntries(Object.entries(charge.input).reverse()),
      }).reverse(),
    );
    expect(await deliver(JSON.stringify(reversed, null, 4))).toBe('acknowledged');
    expect(await evidence(charge)).toMatchObject(charged);
  });

  test('BL-04 ii, iii: lists and odd keys outside input, in any order, are a replay; inside input no nesting exists', async () => {
    const charge = job({ meta: { lines: [{ b: 2, a: 1 }], ä: 1, z: 2, Z: 3 } });
    await deliver(charge);
    expect(await deliver({ ...charge, meta: { Z: 3, z: 2, ä: 1, lines: [{ a: 1, b: 2 }] } })).toBe(
      'acknowledged',
    );
    expect(await evidence(charge)).toMatchObject(charged);
    await expectRejectedUntouched(job({ input: { lines: [{ b: 2, a: 1 }] } }));
  });

  test('BL-04 iv: ids are ASCII only, so composed and decomposed text never meet', async () => {
    for (const invoiceId of ['caf\u00e9', 'cafe\u0301'])
      await expectRejectedUntouched(job({ input: { invoiceId } }));
  });

  test('BL-04 v: the currency is lower-cased once, before the digest: one record, one charge', async () => {
    const charge = job({ input: { currency: 'USD' } });
    await deliver(charge);
    expect(await deliver(job({ operationId: charge.operationId, input: { currency: 'usd' } }))).toBe(
      'acknowledged',
    );
    expect(await evidence(charge)).toMatchObject({ ...charged, record: { input: { currency: 'usd' } } });
  });
});

describe('BL-05 other inputs under a known id', () => {
  const prepared: [state: string, prepare: (charge: Job) => Promise<unknown>, charge?: Job][] = [
    [
      'queued',
      (charge) => {
        bench.stripe.fault({ kind: 'answer', status: 429 }, { operationId: charge.operationId });
        return deliver(charge);
      },
    ],
    [
      'running',
      (charge) => {
        dieBeforeSettle(bench, charge);
        return deliver(charge);
      },
    ],
    ['succeeded', deliver],
    ['failed', deliver, job({ input: { paymentMethodId: 'pm_card_chargeDeclined' } })],
    ['settling', deliver, job({ input: { paymentMethodId: 'pm_usBankAccount_success' } })],
    [
      'parked',
      (charge) => {
        bench.stripe.fault({ kind: 'answer', status: 403 }, { operationId: charge.operationId });
        return deliver(charge);
      },
    ],
  ];
  test.each(prepared)(
    'BL-05 are rejected while it is %s, on a warm and a cold worker, and nothing changes',
    async (...[state, prepare, given]) => {
      const charge = given ?? job();
      await prepare(charge);
      const before = await evidence(charge);
      expect(before.record).toMatchObject({ state });
      const changed = { ...charge, input: { ...charge.input, amountMinor: 199_900 } };
      bench.logs();
      expect(await deliver(changed)).toBe('rejected');
      expect(bench.logs()).toContainEqual(
        expect.objectContaining({
          message: 'message rejected',
          reason: 'input_conflict',
          operationId: charge.operationId,
        }),
      );
      bench.restart();
      expect(await deliver(changed)).toBe('rejected');
      expect(await evidence(charge)).toEqual(before);
    },
  );

  test('BL-05 are rejected also where the look did not see the record yet: the write decides', async () => {
    const charge = job();
    const changed = { ...charge, input: { ...charge.input, amountMinor: 199_900 } };
    // The first delivery is settled between the other one's look and its claim.
    const undo = bench.stack.dynamodbProxy.intercept(
      { action: 'BatchGetItem', times: 1 },
      {
        kind: 'hook',
        after: async (): Promise<'continue'> => {
          await bench.deliver([record(charge)]);
          return 'continue';
        },
      },
    );
    bench.visibilities();
    expect(await bench.deliver([record(changed, { messageId: 'm' })])).toEqual(['m']);
    undo();
    expect(bench.visibilities().get('m')).toBe(0);
    expect(await evidence(charge)).toMatchObject({
      amounts: [1999],
      posts: 1,
      record: { state: 'succeeded' },
    });
  });
});

describe('BL-06 odd ids', () => {
  test('BL-06 a missing or odd operation id is rejected, and no record of any name appears', async () => {
    for (const operationId of [undefined, null, '', '  ', 7, {}, ['x'], 'eu#1'])
      await expectRejectedUntouched(job({ operationId }));
    await expectRejectedUntouched(job({ tenantId: 'acme#eu' }));
    for (const name of ['undefined', 'null', '', '7'])
      expect(await bench.stack.operation('acme', name)).toBeUndefined();
  });

  test('BL-06 two tenants with one operation id are two operations: two records, two keys, two charges', async () => {
    const [acme, zeta] = ['acme', 'zeta'].map((tenantId) => job({ tenantId, operationId: 'op-1001' }));
    if (!acme || !zeta) throw new Error('both are there');
    expect([await deliver(acme), await deliver(zeta)]).toEqual(['acknowledged', 'acknowledged']);
    expect(await evidence(acme)).toMatchObject({ charges: 1, keys: ['local/acme/op-1001/charge/0'] });
    expect(await evidence(zeta)).toMatchObject({ charges: 1, keys: ['local/zeta/op-1001/charge/0'] });
  });

  test('BL-06 ids that only differ in where a separator stands never share a key', async () => {
    const pairs = [
      job({ tenantId: 'a.b', operationId: 'c' }),
      job({ tenantId: 'a', operationId: 'b.c' }),
      job({ tenantId: 'a:b', operationId: 'c' }),
      job({ tenantId: 'a', operationId: 'b:c' }),
    ];
    for (const each of pairs) expect(await deliver(each)).toBe('acknowledged');
    const keys = await Promise.all(pairs.map(async (of) => (await evidence(of)).keys[0]));
    expect(new Set(keys).size).toBe(4);
  });

  test('BL-06 a refreshed payment method is a conflict, not a second charge', async () => {
    const charge = job();
    await deliver(charge);
    const before = await evidence(charge);
    expect(await deliver({ ...charge, input: { ...charge.input, paymentMethodId: 'pm_B' } })).toBe(
      'rejected',
    );
    expect(await evidence(charge)).toEqual(before);
  });

  test('BL-06 two genuine operations of one customer and amount are two charges', async () => {
    const both = [job(), job()];
    for (const each of both) expect(await deliver(each)).toBe('acknowledged');
    for (const each of both) expect(await evidence(each)).toMatchObject({ charges: 1, amounts: [1999] });
  });

  test('BL-06, BL-43 the longest ids give an ASCII key of at most 255 characters, told apart to the last one', async () => {
    bench.restart({ PROVIDER_KEY_PREFIX: 'p'.repeat(100) });
    const both = ['x', 'y'].map((last) =>
      job({ tenantId: 't'.repeat(64), operationId: `${'o'.repeat(63)}${last}` }),
    );
    for (const each of both) expect(await deliver(each)).toBe('acknowledged');
    bench.restart();
    const keys = await Promise.all(both.map(async (of) => (await evidence(of)).keys[0] ?? ''));
    expect(new Set(keys).size).toBe(2);
    for (const key of keys) expect(key).toMatch(/^[\x21-\x7e]{1,248}$/);
  });
});

describe('BL-07 numbers', () => {
  const withAmount = (text: string) => JSON.stringify(job()).replace('1999', text);

  test.each([
    '1998.9999999999998',
    '7840.000000000001',
    '1000.4',
    '"1999"',
    '"19.99"',
    '-0',
    '-5',
    '0',
    '1e21',
    '9007199254740993',
    '100000000',
    'null',
    'true',
    '[1999]',
  ])('BL-07 an amount of %s is rejected and named, without a call', async (text) => {
    bench.logs();
    await expectRejectedUntouched(withAmount(text));
    expect(bench.logs()).toContainEqual(
      expect.objectContaining({
        message: 'message rejected',
        reason: 'malformed',
        problem: expect.stringMatching(/^input\.amountMinor is /),
      }),
    );
  });

  test('BL-07 1999.0 and 1.999e3 are 1999: one payload, one charge', async () => {
    const charge = job();
    for (const text of ['1999.0', '1.999e3', '1999']) {
      expect(await deliver(JSON.stringify(charge).replace('1999', text))).toBe('acknowledged');
    }
    expect(await evidence(charge)).toMatchObject({ charges: 1, amounts: [1999], posts: 1 });
  });
});

describe('BL-14 minor units', () => {
  test.each(['jpy', 'JPY', 'krw'])(
    'BL-14 500 in %s reaches Stripe as 500 and is recorded as 500',
    async (currency) => {
      const charge = job({ input: { amountMinor: 500, currency } });
      expect(await deliver(charge)).toBe('acknowledged');
      const { record: stored, amounts } = await evidence(charge);
      expect(amounts).toEqual([500]);
      expect(stored).toMatchObject({
        state: 'succeeded',
        input: { amountMinor: 500, currency: currency.toLowerCase() },
        result: { amountMinor: 500, currency: currency.toLowerCase() },
      });
    },
  );

  test('BL-14 the case of the currency is no other input: one charge', async () => {
    const charge = job({ input: { amountMinor: 500, currency: 'jpy' } });
    await deliver(charge);
    expect(
      await deliver(job({ operationId: charge.operationId, input: { amountMinor: 500, currency: 'JPY' } })),
    ).toBe('acknowledged');
    expect(await evidence(charge)).toMatchObject({ charges: 1, posts: 1 });
  });
});

describe('BL-43 text and size limits', () => {
  test.each([
    ['an invoice of 501 characters', { input: { invoiceId: 'i'.repeat(501) } }],
    ['an invoice of 5000 characters with an emoji', { input: { invoiceId: `${'i'.repeat(4998)}😀` } }],
    ['an invoice [x]', { input: { invoiceId: '[x]' } }],
    ['an operation id of 300 characters', { operationId: 'o'.repeat(300) }],
    ['an operation id with spaces', { operationId: 'op 1' }],
    ['an operation id with é', { operationId: 'opé' }],
    ['an operation id with a line break', { operationId: 'op-1\n' }],
    ['an empty tenant', { tenantId: '' }],
  ])('BL-43 %s never reaches Stripe', async (_name, changes) => {
    await expectRejectedUntouched(job(changes));
  });

  test('BL-43 the longest ids that are allowed pass all of Stripe’s limits', async () => {
    const charge = job({
      operationId: 'o'.repeat(64),
      input: {
        invoiceId: 'i'.repeat(64),
        customerId: 'cus_'.padEnd(64, 'x'),
        paymentMethodId: 'pm_'.padEnd(64, 'x'),
      },
    });
    expect(await deliver(charge)).toBe('acknowledged');
    expect(await evidence(charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
  });

  test('BL-43 a message of the provider of any length is stored short', async () => {
    const charge = job();
    bench.stripe.fault(
      { kind: 'answer', status: 400, error: { code: 'parameter_invalid', message: '😀'.repeat(5000) } },
      { operationId: charge.operationId },
    );
    expect(await deliver(charge)).toBe('acknowledged');
    const { record: stored } = await evidence(charge);
    expect(stored).toMatchObject({ state: 'failed', error: { code: 'parameter_invalid' } });
    expect(JSON.stringify(stored).length).toBeLessThan(2000);
  });
});

test('BL-05 after a redelivery that lapsed, too: the inputs stay bound to the first ones', async () => {
  const charge = job();
  dieBeforeSettle(bench, charge);
  await deliver(charge);
  await pastTheLease(bench);
  expect(await deliver({ ...charge, input: { ...charge.input, amountMinor: 199_900 } })).toBe('rejected');
  expect(await deliver(charge)).toBe('acknowledged');
  expect(await evidence(charge)).toMatchObject({ amounts: [1999], keys: [expect.any(String)] });
});
