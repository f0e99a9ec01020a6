import type { ApiKey } from '../../../lambdas/adapters/stripe-key';
import { fixedKey } from '../../../lambdas/adapters/stripe-key';
import { StripeProvider } from '../../../lambdas/adapters/stripe-provider';
import type { Operation } from '../../../lambdas/operation/operation';
import type { Fault } from '../../../local/stripe-faults';
import { type StripeStandIn, startStripeStandIn } from '../../../local/stripe-stand-in';
import { type Charge, hourMs, nowMs, operation } from '../fixtures';

const timeoutMs = 5_000;
let stripe: StripeStandIn;
let provider: StripeProvider;
/** Stripe's time. */
let stripeMs = nowMs;
beforeAll(async () => {
  stripe = await startStripeStandIn({ now: () => stripeMs });
  provider = providerWith(fixedKey('sk_test_local_stand_in'));
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => stripe.stop());
beforeEach(() => {
  stripeMs = nowMs;
});
afterEach(() => stripe.clearFaults());

const providerWith = (key: ApiKey, checksCustomers = false, url = stripe.url) =>
  new StripeProvider(key, () => performance.now(), new URL(url), checksCustomers);

let count = 0;
/** A charge in doubt, of a customer of its own. */
function fresh(changes: Partial<Charge> = {}, input: Partial<Charge['input']> = {}): Charge {
  count += 1;
  const { input: base, ...rest } = operation({
    operationId: `op-${count}`,
    effectPossibleSinceMs: nowMs,
    ...changes,
  });
  return { ...rest, input: { ...base, customerId: `cus_${count}`, ...input } };
}

type Refund = Operation & { readonly type: 'refund' };
function refundOf(chargeRef: string | undefined, changes: Partial<Refund> = {}): Refund {
  count += 1;
  const { input: _, type: __, ...record } = operation({ operationId: `re-${count}` });
  const providerKey = `test/acme/re-${count}/refund/0`;
  const input = { chargeOperationId: 'op-1', amountMinor: 500 };
  const reference = chargeRef === undefined ? {} : { chargeRef };
  return { ...record, type: 'refund', providerKey, input, ...reference, ...changes };
}

const find = (of: Operation, by = provider) => by.find(of, timeoutMs);
/** Charges at Stripe; only its answer is lost to us. @returns its reference */
async function charged(of: Charge): Promise<string> {
  await provider.charge(of, timeoutMs);
  const [intent] = stripe.paymentIntents().filter(({ metadata }) => metadata.operationId === of.operationId);
  if (!intent) throw new Error('Stripe has no payment of it');
  return intent.id;
}
/** What somebody else makes on the same account. */
async function post(params: Readonly<Record<string, string>>): Promise<string> {
  const response = await fetch(`${stripe.url}/v1/payment_intents`, {
    method: 'POST',
    headers: { authorization: 'Bearer sk_test_local_stand_in' },
    body: new URLSearchParams({
      amount: '1999',
      currency: 'usd',
      payment_method: 'pm_A',
      confirm: 'true',
      ...params,
    }),
  });
  const intent: unknown = await response.json();
  return String(Object(intent).id);
}
const postedFor = (
  { input, tenantId, operationId, inputDigest, providerKey }: Charge,
  changes: object = {},
) => {
  const metadata: Readonly<Record<string, string>> = {
    tenantId,
    operationId,
    inputDigest,
    providerKey,
    ...changes,
  };
  const fields = Object.entries(metadata).map(([name, value]) => [`metadata[${name}]`, value]);
  return post({ customer: input.customerId, ...Object.fromEntries(fields) });
};
/** What a call asked Stripe for, since `before` requests. */
async function asked<T>(run: () => Promise<T>) {
  const before = stripe.requests().length;
  const found = await run();
  return { found, requests: stripe.requests().slice(before) };
}
const lists = { method: 'GET', path: '/v1/payment_intents' };
const succeeded = (providerRef: unknown) => ({
  kind: 'found',
  outcome: { kind: 'succeeded', providerRef, result: expect.anything() },
});

describe('a charge', () => {
  test('is found by its reference, with one question', async () => {
    const of = fresh();
    const providerRef = await charged(of);
    const { found, requests } = await asked(() => find({ ...of, providerRef }));
    expect(found).toEqual({
      kind: 'found',
      outcome: {
        kind: 'succeeded',
        providerRef,
        result: { amountMinor: 1999, currency: 'usd', chargeId: expect.stringMatching(/^ch_/) },
      },
    });
    expect(requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      `GET /v1/payment_intents/${providerRef}`,
    ]);
  });

  test('is found by the list of its customer, behind more than a hundred other payments', async () => {
    const of = fresh();
    const providerRef = await charged(of);
    const others = Array.from({ length: 205 }, () => post({ customer: of.input.customerId }));
    await Promise.all(others);
    const { found, requests } = await asked(() => find(of));
    expect(found).toEqual(succeeded(providerRef));
    expect(requests.map(({ path }) => path)).toEqual(Array(3).fill('/v1/payment_intents'));
  });

  test('is absent only when the whole list was read', async () => {
    const of = fresh();
    await Promise.all(Array.from({ length: 101 }, () => post({ customer: of.input.customerId })));
    const { found, requests } = await asked(() => find(of));
    expect(found).toEqual({ kind: 'absent' });
    expect(requests).toHaveLength(2);
  });

  test('is absent to a customer without any payment', async () => {
    expect(await find(fresh())).toEqual({ kind: 'absent' });
  });

  test('is looked for among the payments of its customer from an hour before it became possible on', async () => {
    const of = fresh();
    stripeMs = nowMs - hourMs;
    const providerRef = await charged(of);
    const { found, requests } = await asked(() => find(of));
    expect(found).toEqual(succeeded(providerRef));
    expect(requests[0]?.params).toMatchObject({
      customer: of.input.customerId,
      created: { gte: String((nowMs - hourMs) / 1000) },
      limit: '100',
    });
  });

  test.each<[string, Partial<Charge>]>([
    ['a proof of absence', { absentProvenAtMs: nowMs - 2 * hourMs }],
    ['its creation', { createdAtMs: nowMs - 2 * hourMs }],
  ])('without a possible effect is looked for from %s on', async (_name, changes) => {
    const { effectPossibleSinceMs: _, ...of } = fresh(changes);
    const { requests } = await asked(() => find(of));
    expect(requests[0]?.params).toMatchObject({ created: { gte: String((nowMs - 3 * hourMs) / 1000) } });
  });

  test('whose reference Stripe does not have is looked for in the list', async () => {
    const of = fresh();
    const providerRef = await charged(of);
    expect(await find({ ...of, providerRef: 'pi_of_another_mode' })).toEqual(succeeded(providerRef));
  });

  test.each<[string, object]>([
    ['has other inputs', { inputDigest: 'another' }],
    ['is of another tenant', { tenantId: 'zeta' }],
    ['is of another operation', { operationId: 'op-of-another' }],
    ['is of another service on the account', { providerKey: 'other/acme/op/charge/0' }],
  ])('is not the payment that %s', async (_name, changes) => {
    const of = fresh();
    await postedFor(of, changes);
    expect(await find(of)).toEqual({ kind: 'absent' });
  });

  test('is its own payment also under the key of an earlier proof of absence, or one that says no key', async () => {
    const proven = fresh();
    const key = (proofs: number) => proven.providerKey.replace(/\d+$/, String(proofs));
    const earlier = await postedFor(proven, { providerKey: key(3) });
    expect(await find({ ...proven, providerKey: key(12) })).toEqual(succeeded(earlier));
    const of = fresh();
    const { tenantId, operationId, inputDigest } = of;
    const unmarked = await post({
      customer: of.input.customerId,
      'metadata[tenantId]': tenantId,
      'metadata[operationId]': operationId,
      'metadata[inputDigest]': inputDigest,
    });
    expect(await find(of)).toEqual(succeeded(unmarked));
  });

  test('is found in a list that carries payments without metadata', async () => {
    const of = fresh();
    const data = [
      { id: 'pi_null', metadata: null },
      { id: 'pi_none' },
      { id: 'pi_own', status: 'succeeded', amount: 1999, metadata: metadataOf(of) },
    ];
    stripe.fault({ kind: 'answer', status: 200, body: { data, has_more: false } }, lists);
    expect(await find(of)).toEqual(succeeded('pi_own'));
  });
});

const metadataOf = ({ tenantId, operationId, inputDigest, providerKey }: Charge) => ({
  tenantId,
  operationId,
  inputDigest,
  providerKey,
});

describe('a payment that has not succeeded', () => {
  const statusOf = (providerRef: string) =>
    stripe.paymentIntents().find(({ id }) => id === providerRef)?.status;

  test('and is under way is found as accepted', async () => {
    const of = fresh({}, { paymentMethodId: 'pm_usBankAccount_success' });
    const providerRef = await charged(of);
    expect(await find(of)).toEqual({ kind: 'found', outcome: { kind: 'accepted', providerRef } });
  });

  test('and was canceled is found as declined', async () => {
    const of = fresh({}, { paymentMethodId: 'pm_status_canceled' });
    const providerRef = await charged(of);
    expect(await find(of)).toMatchObject({
      kind: 'found',
      outcome: { kind: 'declined', providerRef, error: { code: 'canceled' } },
    });
  });

  test("and was declined is ended first, and found with its issuer's code", async () => {
    const of = fresh({}, { paymentMethodId: 'pm_card_chargeDeclinedInsufficientFunds' });
    const providerRef = await charged(of);
    expect(statusOf(providerRef)).toBe('requires_payment_method');
    expect(await find(of)).toEqual({
      kind: 'found',
      outcome: {
        kind: 'declined',
        providerRef,
        error: {
          code: 'card_declined',
          declineCode: 'insufficient_funds',
          message: 'The card has insufficient funds.',
        },
      },
    });
    expect(statusOf(providerRef)).toBe('canceled');
  });

  test('and failed days later is ended first, and found with its code', async () => {
    const of = fresh({}, { paymentMethodId: 'pm_usBankAccount_success' });
    const providerRef = await charged(of);
    stripe.settle(providerRef, 'failed');
    expect(await find({ ...of, providerRef })).toMatchObject({
      kind: 'found',
      outcome: { kind: 'declined', error: { code: 'payment_intent_payment_attempt_failed' } },
    });
    expect(statusOf(providerRef)).toBe('canceled');
  });

  test.each(['requires_action', 'requires_payment_method'])(
    'and waits for the customer (%s) is ended first, and found as declined',
    async (status) => {
      const of = fresh({}, { paymentMethodId: `pm_status_${status}` });
      const providerRef = await postedFor(of, {});
      const waiting = { id: providerRef, status, metadata: metadataOf(of), last_payment_error: null };
      stripe.fault({ kind: 'answer', status: 200, body: { data: [waiting], has_more: false } }, lists);
      stripe.fault(
        { kind: 'answer', status: 200, body: { id: providerRef, status: 'canceled' } },
        { method: 'POST', path: /\/cancel$/ },
      );
      const { found, requests } = await asked(() => find(of));
      expect(found).toMatchObject({
        kind: 'found',
        outcome: { kind: 'declined', providerRef, error: { code: 'authentication_required' } },
      });
      expect(requests.at(-1)).toMatchObject({
        method: 'POST',
        path: `/v1/payment_intents/${providerRef}/cancel`,
        idempotencyKey: `${of.providerKey}/cancel`,
      });
    },
  );

  test.each<[string, Fault]>([
    ['lost', { kind: 'reset', effect: 'none' }],
    ['refused', { kind: 'answer', status: 429 }],
  ])('and cannot be ended (%s) is not called failed', async (_name, fault) => {
    const of = fresh({}, { paymentMethodId: 'pm_card_chargeDeclined' });
    const providerRef = await charged(of);
    stripe.fault(fault, { path: /\/cancel$/ });
    expect(await find(of)).toEqual({ kind: 'unknown', reason: 'cancel_unproven', providerRef });
  });

  test('and was paid while it was being ended has succeeded', async () => {
    const of = fresh({}, { paymentMethodId: 'pm_card_chargeDeclined' });
    const providerRef = await charged(of);
    const paid = { id: providerRef, status: 'succeeded', amount: 1999, currency: 'usd' };
    const error = {
      type: 'invalid_request_error',
      code: 'payment_intent_unexpected_state',
      message: 'no',
      payment_intent: paid,
    };
    stripe.fault({ kind: 'answer', status: 400, error, save: false }, { path: /\/cancel$/ });
    expect(await find(of)).toEqual(succeeded(providerRef));
  });

  test.each(['requires_capture', 'requires_confirmation', 'teleported'])(
    'and is %s cannot be told, and is left alone',
    async (status) => {
      const of = fresh({}, { paymentMethodId: `pm_status_${status}` });
      const providerRef = await charged(of);
      const { found, requests } = await asked(() => find(of));
      expect(found).toEqual({ kind: 'unknown', reason: `intent_${status}`, providerRef });
      expect(requests.filter(({ method }) => method === 'POST')).toEqual([]);
    },
  );
});

describe('of several payments of one operation', () => {
  const listOf = (of: Charge, ...statuses: string[]) => {
    const data = statuses.map((status, index) => ({ id: `pi_${index}`, status, metadata: metadataOf(of) }));
    stripe.fault({ kind: 'answer', status: 200, body: { data, has_more: false } }, lists);
  };

  test.each([
    ['the one that moved money', ['canceled', 'processing', 'teleported', 'succeeded'], succeeded('pi_3')],
    [
      'then the one under way',
      ['canceled', 'teleported', 'processing'],
      { kind: 'found', outcome: { kind: 'accepted', providerRef: 'pi_2' } },
    ],
    [
      'then the one that cannot be told: none is called failed before that',
      ['canceled', 'teleported'],
      { kind: 'unknown', reason: 'intent_teleported', providerRef: 'pi_1' },
    ],
  ])('%s counts', async (_name, statuses, finding) => {
    const of = fresh();
    listOf(of, ...statuses);
    expect(await find(of)).toEqual(finding);
  });
});

describe('a list that cannot be read to its end is never absence', () => {
  const unavailable = (reason: string) => ({ kind: 'unavailable', reason });
  const unknown = (reason: string) => ({ kind: 'unknown', reason });
  const answers: [string, Fault, object][] = [
    ['401', { kind: 'answer', status: 401 }, unavailable('unauthorized')],
    ['429', { kind: 'answer', status: 429 }, unavailable('rate_limited')],
    ['500', { kind: 'answer', status: 500 }, unavailable('status_500')],
    ['503', { kind: 'answer', status: 503 }, unavailable('status_503')],
    ['a reset', { kind: 'reset', effect: 'none' }, unavailable('connection_lost')],
    ['no answer in time', { kind: 'stall', ms: 10_000, effect: 'none' }, unavailable('timeout')],
    [
      '403',
      { kind: 'answer', status: 403, error: { type: 'invalid_request_error' } },
      unknown('invalid_request_error'),
    ],
    [
      '400',
      { kind: 'answer', status: 400, error: { type: 'invalid_request_error', code: 'x' } },
      unknown('x'),
    ],
    ['a page of HTML as 404', { kind: 'answer', status: 404, body: '<html>' }, unknown('status_404')],
    ['an empty object', { kind: 'answer', status: 200, body: {} }, unknown('unreadable_list')],
    [
      'payments without an id',
      { kind: 'answer', status: 200, body: { data: [{}], has_more: false } },
      unknown('unreadable_list'),
    ],
    [
      'a list that does not say whether it ends',
      { kind: 'answer', status: 200, body: { data: [] } },
      unknown('unreadable_list'),
    ],
  ];

  test.each(answers)('%s', async (_name, fault, finding) => {
    stripe.fault(fault, lists);
    expect(await provider.find(fresh(), 500)).toEqual(finding);
  });

  test.each(answers)('%s for the second page', async (_name, fault, finding) => {
    const data = [{ id: 'pi_another' }];
    stripe.fault({ kind: 'answer', status: 200, body: { data, has_more: true } }, lists);
    stripe.fault(fault, lists);
    expect(await provider.find(fresh(), 500)).toEqual(finding);
  });

  test.each(answers.slice(0, 7))(
    '%s for the reference: the list is not even asked',
    async (_name, fault, finding) => {
      const of = fresh({ providerRef: 'pi_1' });
      stripe.fault(fault, { path: '/v1/payment_intents/pi_1' });
      const { found, requests } = await asked(() => provider.find(of, 500));
      expect(found).toEqual(finding);
      expect(requests).toHaveLength(1);
    },
  );

  test('more pages than anybody would read', async () => {
    const page = { data: [{ id: 'pi_another' }], has_more: true };
    stripe.fault({ kind: 'answer', status: 200, body: page }, { ...lists, times: 100 });
    const { found, requests } = await asked(() => find(fresh()));
    expect(found).toEqual({ kind: 'unknown', reason: 'list_too_long' });
    expect(requests).toHaveLength(20);
  });

  test('a server that refuses connections', async () => {
    const closed = await startStripeStandIn();
    await closed.stop();
    const away = providerWith(fixedKey('sk_test_local_stand_in'), false, closed.url);
    expect(await find(fresh(), away)).toEqual({ kind: 'unavailable', reason: 'connection_refused' });
  });

  test('no time left, and no key', async () => {
    const { requests } = await asked(async () => {
      expect(await provider.find(fresh(), 0)).toEqual({ kind: 'unavailable', reason: 'out_of_time' });
      expect(await find(fresh(), providerWith(fixedKey('placeholder')))).toEqual({
        kind: 'unavailable',
        reason: 'provider_key_missing',
      });
    });
    expect(requests).toEqual([]);
  });

  test('a key that was rotated is read again, and the list with it', async () => {
    const of = fresh();
    const providerRef = await charged(of);
    stripe.fault({ kind: 'answer', status: 401 }, lists);
    const rotated: ApiKey = {
      current: async () => 'sk_test_local_old',
      reread: async () => 'sk_test_local_stand_in',
    };
    expect(await find(of, providerWith(rotated))).toEqual(succeeded(providerRef));
  });
});

describe('a refund', () => {
  async function refunded(paymentMethodId = 'pm_A') {
    const chargeRef = await charged(fresh({}, { paymentMethodId }));
    const of = refundOf(chargeRef);
    await provider.refund(of, timeoutMs);
    const [refund] = stripe.refunds().filter(({ metadata }) => metadata.operationId === of.operationId);
    if (!refund) throw new Error('Stripe has no refund of it');
    return { of, providerRef: refund.id };
  }
  const refundLists = { method: 'GET', path: '/v1/refunds' };

  test('is found by its reference, and without one by the list of its charge', async () => {
    const { of, providerRef } = await refunded();
    for (const known of [{ providerRef }, {}]) {
      const { found, requests } = await asked(() => find({ ...of, ...known }));
      expect(found).toEqual({
        kind: 'found',
        outcome: {
          kind: 'succeeded',
          providerRef,
          result: { amountMinor: 500, currency: 'usd', chargeId: expect.stringMatching(/^ch_/) },
        },
      });
      expect(requests.map(({ path }) => path)).toEqual([
        'providerRef' in known ? `/v1/refunds/${providerRef}` : '/v1/refunds',
      ]);
    }
  });

  test('is absent among the refunds that others made of the same charge', async () => {
    const { of } = await refunded();
    expect(await find(refundOf(of.chargeRef))).toEqual({ kind: 'absent' });
  });

  test('that is pending is accepted, and one that failed declined with its code', async () => {
    const { of, providerRef } = await refunded('pm_card_pendingRefund');
    expect(await find(of)).toEqual({ kind: 'found', outcome: { kind: 'accepted', providerRef } });
    stripe.settle(providerRef, 'failed');
    expect(await find(of)).toMatchObject({
      kind: 'found',
      outcome: { kind: 'declined', providerRef, error: { code: 'refund_failed' } },
    });
  });

  test('of a charge whose reference nobody knows cannot be told', async () => {
    const { found, requests } = await asked(() => find(refundOf(undefined)));
    expect(found).toEqual({ kind: 'unknown', reason: 'charge_reference_unknown' });
    expect(requests).toEqual([]);
  });

  test.each<[string, Fault, object]>([
    ['403', { kind: 'answer', status: 403, error: { code: 'x' } }, { kind: 'unknown', reason: 'x' }],
    ['503', { kind: 'answer', status: 503 }, { kind: 'unavailable', reason: 'status_503' }],
    ['junk', { kind: 'answer', status: 200, body: '[]' }, { kind: 'unknown', reason: 'unreadable_list' }],
  ])('whose list is answered with %s is not absent', async (_name, fault, finding) => {
    const { of } = await refunded();
    stripe.fault(fault, refundLists);
    expect(await find(of)).toEqual(finding);
  });
});

test('no search was asked, which lags behind what happened', () => {
  expect(stripe.requests().length).toBeGreaterThan(400);
  expect(stripe.requests().filter(({ path }) => path.includes('search'))).toEqual([]);
});

describe('an effect that a person names', () => {
  const inspect = (of: Operation, providerRef: string) => provider.inspect(of, providerRef, timeoutMs);

  test("is the operation's, another's, or nobody's by its metadata", async () => {
    const of = fresh();
    const [own, foreign, unmarked] = [
      await charged(of),
      await charged(fresh()),
      await post({ customer: of.input.customerId }),
    ];
    expect(await inspect(of, own)).toEqual({ finding: succeeded(own), owner: 'this' });
    expect(await inspect(of, foreign)).toEqual({ finding: succeeded(foreign), owner: 'another' });
    expect(await inspect(of, unmarked)).toEqual({ finding: succeeded(unmarked), owner: 'unmarked' });
  });

  test('is read as it stands, and changed in nothing', async () => {
    const of = fresh({}, { paymentMethodId: 'pm_card_chargeDeclined' });
    const providerRef = await charged(of);
    const { found, requests } = await asked(() => inspect(of, providerRef));
    expect(found).toEqual({
      finding: { kind: 'unknown', reason: 'intent_requires_payment_method', providerRef },
      owner: 'this',
    });
    expect(requests.map(({ method }) => method)).toEqual(['GET']);
  });

  test.each<[string, Fault | undefined, object]>([
    ['does not exist', undefined, { kind: 'unknown', reason: 'resource_missing' }],
    ['cannot be read now', { kind: 'answer', status: 503 }, { kind: 'unavailable', reason: 'status_503' }],
    [
      'may not be read',
      { kind: 'answer', status: 403, error: { code: 'x' } },
      { kind: 'unknown', reason: 'x' },
    ],
    [
      'is read as junk',
      { kind: 'answer', status: 200, body: '[]' },
      { kind: 'unknown', reason: 'unreadable_answer' },
    ],
  ])("that %s is nobody's", async (_name, fault, finding) => {
    if (fault) stripe.fault(fault, { path: '/v1/payment_intents/pi_named' });
    expect(await inspect(fresh(), 'pi_named')).toEqual({ finding, owner: 'unmarked' });
  });

  test('is a refund where the operation is one', async () => {
    const chargeRef = await charged(fresh());
    const of = refundOf(chargeRef);
    await provider.refund(of, timeoutMs);
    const providerRef = stripe.refunds().at(-1)?.id ?? '';
    expect(await inspect(of, providerRef)).toMatchObject({ finding: succeeded(providerRef), owner: 'this' });
  });

  test('cannot be read without a key', async () => {
    const without = providerWith(fixedKey('placeholder'));
    expect(await without.inspect(fresh(), 'pi_named', timeoutMs)).toEqual({
      finding: { kind: 'unavailable', reason: 'provider_key_missing' },
      owner: 'unmarked',
    });
  });
});

describe('the check of a key', () => {
  const names = ['the key', 'read PaymentIntents', 'read Refunds', 'write PaymentIntents', 'write Refunds'];
  const badOf = async (by = provider) =>
    (await by.check(timeoutMs)).filter(({ ok }) => !ok).map(({ name }) => name);

  test('that may do all that is needed finds nothing wrong, and moves no money', async () => {
    const [moved, intents] = [stripe.ledger().length, stripe.paymentIntents().length];
    const checks = await provider.check(timeoutMs);
    expect(checks.map(({ name }) => name)).toEqual(names);
    expect(checks.filter(({ ok }) => !ok)).toEqual([]);
    expect([stripe.ledger().length, stripe.paymentIntents().length]).toEqual([moved, intents]);
  });

  test.each([
    ['read PaymentIntents', 'GET', '/v1/payment_intents'],
    ['read Refunds', 'GET', '/v1/refunds'],
    ['write PaymentIntents', 'POST', '/v1/payment_intents'],
    ['write Refunds', 'POST', '/v1/refunds'],
  ])('that lacks the permission to %s says so, and no more', async (name, method, path) => {
    stripe.fault({ kind: 'answer', status: 403, error: { message: 'rak_x may not' } }, { method, path });
    const checks = await provider.check(timeoutMs);
    expect(checks.filter(({ ok }) => !ok)).toEqual([
      { name, ok: false, said: expect.stringContaining('rak_x may not') },
    ]);
  });

  test('also asks for customers where charges look them up', async () => {
    stripe.fault({ kind: 'answer', status: 403 }, { path: '/v1/customers' });
    expect(await badOf(providerWith(fixedKey('sk_test_local_stand_in'), true))).toEqual(['read Customers']);
    expect(await badOf()).toEqual([]);
  });

  test.each<[string, Fault]>([
    ['unauthorized', { kind: 'answer', status: 401 }],
    ['rate_limited', { kind: 'answer', status: 429 }],
    ['status_503', { kind: 'answer', status: 503 }],
    ['connection_lost', { kind: 'reset', effect: 'none' }],
  ])('says %s where it could not find out', async (said, fault) => {
    stripe.fault(fault, { method: 'GET', path: '/v1/refunds' });
    expect((await provider.check(timeoutMs)).filter(({ ok }) => !ok)).toEqual([
      { name: 'read Refunds', ok: false, said },
    ]);
  });

  test('that nobody has set says that alone', async () => {
    expect(await badOf(providerWith(fixedKey('placeholder')))).toEqual(['the key']);
  });

  test('says its mode, never the key', async () => {
    const modes = ['sk_test_local_stand_in', 'rk_live_local_stand_in'].map(async (key) => {
      const [first] = await providerWith(fixedKey(key)).check(timeoutMs);
      return first?.said;
    });
    expect(await Promise.all(modes)).toEqual(['is set, for test mode', 'is set, for live mode']);
  });

  test('without time left asks nothing', async () => {
    const { found, requests } = await asked(() => provider.check(0));
    expect(found.filter(({ ok }) => !ok).map(({ name }) => name)).toEqual(names.slice(1));
    expect(requests).toEqual([]);
  });
});
