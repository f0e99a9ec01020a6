import { connect } from 'node:net';
import Stripe from 'stripe';
import {
  type StripeStandIn,
  type StripeStandInOptions,
  startStripeStandIn,
} from '../../local/stripe-stand-in';

const HOUR_MS = 3_600_000;
const charge = {
  amount: 5000,
  currency: 'usd',
  customer: 'cus_A',
  payment_method: 'pm_card_visa',
  confirm: true,
  off_session: true,
  error_on_requires_action: true,
  metadata: { tenantId: 'North', operationId: 'O7' },
} satisfies Stripe.PaymentIntentCreateParams;
const withKey = (idempotencyKey: string) => ({ idempotencyKey });

let clockMs: number;
let standIn: StripeStandIn;
let stripe: Stripe;
let stopOptions: { allowKeyChange?: boolean };

async function start(options: StripeStandInOptions = {}): Promise<void> {
  standIn = await startStripeStandIn({ now: () => clockMs, ...options });
  stripe = client();
}

function client(apiKey = 'sk_test_x', timeout = 5000): Stripe {
  const { port } = standIn;
  return new Stripe(apiKey, { host: '127.0.0.1', port, protocol: 'http', maxNetworkRetries: 0, timeout });
}

/** A charge that names no operation, for tests in which several are right. */
const anyone = (changes: Partial<Stripe.PaymentIntentCreateParams> = {}) => ({
  ...charge,
  metadata: {},
  ...changes,
});

async function post(path: string, form: string, headers: Record<string, string> = {}) {
  const authorization = 'Bearer sk_test_x';
  const response = await fetch(standIn.url + path, {
    method: 'POST',
    body: form,
    headers: { authorization, 'content-type': 'application/x-www-form-urlencoded', ...headers },
  });
  const body = await response.text();
  return { status: response.status, headers: response.headers, body };
}

const FORM = 'amount=5000&currency=usd&payment_method=pm_card_visa&confirm=true';

async function rejection(promise: Promise<unknown>): Promise<Stripe.errors.StripeError> {
  const error = await promise.then(
    () => new Error('it did not reject'),
    (reason: unknown) => reason,
  );
  if (error instanceof Stripe.errors.StripeError) return error;
  throw error;
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 2));
}

/** The SDK sends a request again, once, after a reset connection, also with `maxNetworkRetries: 0`. */
const bothSends = { method: 'POST', times: 2 };

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

beforeEach(async () => {
  clockMs = Date.UTC(2026, 0, 1);
  stopOptions = {};
  await start();
});

afterEach(() => standIn.stop(stopOptions));

describe('the idempotency key', () => {
  test('a second request with the same key and parameters replays the first answer', async () => {
    const first = await stripe.paymentIntents.create(charge, withKey('k1'));
    const second = await stripe.paymentIntents.create(charge, withKey('k1'));
    expect(second).toEqual(first);
    expect(first.lastResponse.headers['idempotent-replayed']).toBeUndefined();
    expect(second.lastResponse.headers['idempotent-replayed']).toBe('true');
    expect(second.lastResponse.headers['original-request']).toBe(first.lastResponse.requestId);
    expect(second.lastResponse.headers['idempotency-key']).toBe('k1');
    expect(second.lastResponse.requestId).toMatch(/^req_/);
    expect(standIn.ledger()).toHaveLength(1);
    expect(standIn.requests().map((request) => request.replayed)).toEqual([false, true]);
  });

  test('the order of the parameters does not matter', async () => {
    await post('/v1/payment_intents', `${FORM}&metadata[a]=1&metadata[b]=2`, { 'idempotency-key': 'k1' });
    const again = await post('/v1/payment_intents', `metadata[b]=2&${FORM}&metadata[a]=1`, {
      'idempotency-key': 'k1',
    });
    expect(again.headers.get('idempotent-replayed')).toBe('true');
  });

  test('other parameters under a used key are refused and change nothing', async () => {
    await stripe.paymentIntents.create(charge, withKey('k1'));
    const error = await rejection(stripe.paymentIntents.create({ ...charge, amount: 9000 }, withKey('k1')));
    expect(error).toBeInstanceOf(Stripe.errors.StripeIdempotencyError);
    expect(error).toMatchObject({ statusCode: 400, rawType: 'idempotency_error' });
    expect(standIn.ledger()).toMatchObject([{ amountMinor: 5000 }]);
  });

  test('another endpoint under a used key is refused', async () => {
    const intent = await stripe.paymentIntents.create(charge, withKey('k1'));
    const error = await rejection(stripe.refunds.create({ payment_intent: intent.id }, withKey('k1')));
    expect(error).toMatchObject({ statusCode: 400, rawType: 'idempotency_error' });
  });

  test('a key in flight is refused with 409 and usable afterwards', async () => {
    standIn.fault({ kind: 'stall', ms: 60, effect: 'done' });
    const first = stripe.paymentIntents.create(charge, withKey('k1'));
    await until(() => standIn.openRequests() === 1);
    const error = await rejection(stripe.paymentIntents.create(charge, withKey('k1')));
    expect(error).toMatchObject({
      statusCode: 409,
      code: 'idempotency_key_in_use',
      rawType: 'idempotency_error',
    });
    const { id } = await first;
    expect(await stripe.paymentIntents.create(charge, withKey('k1'))).toMatchObject({ id });
  });

  test('of many requests at once with one key, one is executed', async () => {
    const all = Array.from({ length: 20 }, () => stripe.paymentIntents.create(charge, withKey('k1')));
    await Promise.allSettled(all);
    expect(standIn.ledger()).toHaveLength(1);
  });

  test('a 500 is saved and replayed; without an effect no money moves', async () => {
    standIn.fault({ kind: 'answer', status: 500 });
    expect(await rejection(stripe.paymentIntents.create(charge, withKey('k1')))).toMatchObject({
      statusCode: 500,
    });
    const again = await rejection(stripe.paymentIntents.create(charge, withKey('k1')));
    expect(again).toMatchObject({ statusCode: 500, headers: { 'idempotent-replayed': 'true' } });
    expect(standIn.ledger()).toEqual([]);
  });

  test('a 500 after the effect is replayed too, though the money moved', async () => {
    standIn.fault({ kind: 'answer', status: 500, effect: 'done' });
    await rejection(stripe.paymentIntents.create(charge, withKey('k1')));
    const again = await rejection(stripe.paymentIntents.create(charge, withKey('k1')));
    expect(again).toMatchObject({ statusCode: 500, headers: { 'idempotent-replayed': 'true' } });
    expect(standIn.ledger()).toHaveLength(1);
  });

  test.each([401, 403, 409, 429, 503])('a %i is not saved', async (status) => {
    standIn.fault({ kind: 'answer', status });
    expect(await rejection(stripe.paymentIntents.create(charge, withKey('k1')))).toMatchObject({
      statusCode: status,
    });
    const paid = await stripe.paymentIntents.create(charge, withKey('k1'));
    expect(paid.lastResponse.headers['idempotent-replayed']).toBeUndefined();
    expect(paid.status).toBe('succeeded');
  });

  test('a gateway answer behind a done effect leaves the real answer under the key', async () => {
    standIn.fault({ kind: 'answer', status: 502, body: '<html>bad gateway</html>', effect: 'done' });
    await rejection(stripe.paymentIntents.create(charge, withKey('k1')));
    const again = await stripe.paymentIntents.create(charge, withKey('k1'));
    expect(again).toMatchObject({ status: 'succeeded' });
    expect(again.lastResponse.headers['idempotent-replayed']).toBe('true');
  });

  test('a refused parameter is not saved, a decline is', async () => {
    await rejection(stripe.paymentIntents.create(anyone({ amount: 1 }), withKey('k1')));
    await stripe.paymentIntents.create(anyone(), withKey('k1'));
    const declined = anyone({ payment_method: 'pm_card_chargeDeclined' });
    await rejection(stripe.paymentIntents.create(declined, withKey('k2')));
    const again = await rejection(stripe.paymentIntents.create(declined, withKey('k2')));
    expect(again).toMatchObject({ statusCode: 402, headers: { 'idempotent-replayed': 'true' } });
  });

  test('a key is kept for 24 h of the clock and then forgotten', async () => {
    await stripe.paymentIntents.create(anyone(), withKey('k1'));
    clockMs += 24 * HOUR_MS - 1;
    await stripe.paymentIntents.create(anyone(), withKey('k1'));
    expect(standIn.ledger()).toHaveLength(1);
    clockMs += 1;
    await stripe.paymentIntents.create(anyone(), withKey('k1'));
    expect(standIn.ledger()).toHaveLength(2);
  });

  test('forgetKeys forgets at once', async () => {
    await stripe.paymentIntents.create(anyone(), withKey('k1'));
    standIn.forgetKeys();
    await stripe.paymentIntents.create(anyone(), withKey('k1'));
    expect(standIn.ledger()).toHaveLength(2);
  });

  test.each(['', 'k'.repeat(256)])('a key of no or more than 255 characters is refused', async (key) => {
    const answer = await post('/v1/payment_intents', FORM, { 'idempotency-key': key });
    expect(answer.status).toBe(400);
    expect(standIn.ledger()).toEqual([]);
  });

  test('requests without a key are each executed', async () => {
    await post('/v1/payment_intents', FORM);
    await post('/v1/payment_intents', FORM);
    expect(standIn.ledger()).toHaveLength(2);
  });
});

describe('authentication', () => {
  test.each(['pk_test_x', 'sk_live_x', 'sk_test_revoked_1'])('%s is refused with 401', async (apiKey) => {
    const error = await rejection(client(apiKey).paymentIntents.create(charge, withKey('k1')));
    expect(error).toBeInstanceOf(Stripe.errors.StripeAuthenticationError);
    await stripe.paymentIntents.create(charge, withKey('k1'));
  });

  test('no key is refused, Basic authentication is accepted', async () => {
    expect(await post('/v1/payment_intents', FORM, { authorization: '' })).toMatchObject({ status: 401 });
    const authorization = `Basic ${Buffer.from('rk_test_x:').toString('base64')}`;
    expect(await post('/v1/payment_intents', FORM, { authorization })).toMatchObject({ status: 200 });
  });
});

describe('PaymentIntents', () => {
  test('a confirmed payment moves the money once and carries its metadata', async () => {
    const intent = await stripe.paymentIntents.create(
      { ...charge, expand: ['latest_charge'] },
      withKey('k1'),
    );
    expect(intent).toMatchObject({
      object: 'payment_intent',
      amount: 5000,
      amount_received: 5000,
      currency: 'usd',
      customer: 'cus_A',
      livemode: false,
      status: 'succeeded',
      created: clockMs / 1000,
      metadata: charge.metadata,
      latest_charge: { object: 'charge', paid: true, payment_intent: intent.id },
    });
    expect(standIn.ledger()).toEqual([
      {
        kind: 'charge',
        id: expect.stringMatching(/^ch_/),
        paymentIntentId: intent.id,
        amountMinor: 5000,
        currency: 'usd',
        customerId: 'cus_A',
        metadata: charge.metadata,
        idempotencyKey: 'k1',
        atMs: clockMs,
      },
    ]);
    expect(standIn.requests()).toMatchObject([
      {
        method: 'POST',
        path: '/v1/payment_intents',
        idempotencyKey: 'k1',
        step: 'charge',
        operation: 'North/O7',
        status: 200,
        apiVersion: '2026-10-28.endive',
        params: { amount: '5000', metadata: charge.metadata },
      },
    ]);
    expect(standIn.requests()[0]?.rawBody).toContain('metadata[tenantId]=North');
  });

  test('yen are whole yen and a currency may come in capitals', async () => {
    await stripe.paymentIntents.create({ ...charge, amount: 500, currency: 'JPY' }, withKey('k1'));
    expect(standIn.ledger()).toMatchObject([{ amountMinor: 500, currency: 'jpy' }]);
  });

  test.each([
    ['pm_card_chargeDeclined', 'card_declined', 'generic_decline'],
    ['pm_card_chargeDeclinedInsufficientFunds', 'card_declined', 'insufficient_funds'],
    ['pm_card_chargeDeclinedExpiredCard', 'expired_card', 'expired_card'],
    ['pm_card_authenticationRequired', 'authentication_required', 'authentication_required'],
  ])('%s is declined with 402, its intent inside the error', async (payment_method, code, decline_code) => {
    const error = await rejection(stripe.paymentIntents.create({ ...charge, payment_method }, withKey('k1')));
    expect(error).toBeInstanceOf(Stripe.errors.StripeCardError);
    expect(error).toMatchObject({
      statusCode: 402,
      code,
      decline_code,
      charge: expect.stringMatching(/^ch_/),
      payment_intent: {
        object: 'payment_intent',
        status: 'requires_payment_method',
        last_payment_error: { code },
      },
    });
    expect(standIn.ledger()).toEqual([]);
    expect(standIn.paymentIntents()).toHaveLength(1);
  });

  test('pm_card_authenticationRequired asks for action when the customer is there', async () => {
    const asked = anyone({ payment_method: 'pm_card_authenticationRequired' });
    const onSession = { ...asked, off_session: false, error_on_requires_action: false };
    expect(await stripe.paymentIntents.create(onSession)).toMatchObject({ status: 'requires_action' });
  });

  test('pm_requiresAction comes back as requires_action all the same, and can be cancelled', async () => {
    const intent = await stripe.paymentIntents.create({ ...charge, payment_method: 'pm_requiresAction' });
    expect(intent).toMatchObject({ status: 'requires_action', next_action: { type: 'use_stripe_sdk' } });
    const cancelled = await stripe.paymentIntents.cancel(intent.id, { cancellation_reason: 'abandoned' });
    expect(cancelled).toMatchObject({ status: 'canceled', cancellation_reason: 'abandoned' });
    expect(standIn.requests()[1]).toMatchObject({ step: 'cancel', operation: 'North/O7' });
    const error = await rejection(stripe.paymentIntents.cancel(intent.id));
    expect(error).toMatchObject({ statusCode: 400, code: 'payment_intent_unexpected_state' });
    stopOptions = { allowKeyChange: true };
  });

  test('pm_status_... comes back with that status and no money moved', async () => {
    const intent = await stripe.paymentIntents.create({
      ...charge,
      payment_method: 'pm_status_from_the_future',
    });
    expect(intent.status).toBe('from_the_future');
    expect(standIn.ledger()).toEqual([]);
  });

  test('a bank payment is processing until it is settled; the saved answer stays as it was', async () => {
    const bank = { ...charge, payment_method: 'pm_usBankAccount_success' };
    const intent = await stripe.paymentIntents.create(bank, withKey('k1'));
    expect(intent.status).toBe('processing');
    expect(standIn.ledger()).toEqual([]);
    standIn.settle(intent.id, 'succeeded');
    expect(standIn.ledger()).toMatchObject([{ kind: 'charge', idempotencyKey: 'k1', amountMinor: 5000 }]);
    expect(await stripe.paymentIntents.retrieve(intent.id)).toMatchObject({ status: 'succeeded' });
    expect(await stripe.paymentIntents.create(bank, withKey('k1'))).toMatchObject({ status: 'processing' });
    expect(() => standIn.settle(intent.id, 'failed')).toThrow('not a processing PaymentIntent');
  });

  test('a bank payment that fails moves no money', async () => {
    const intent = await stripe.paymentIntents.create({
      ...charge,
      payment_method: 'pm_usBankAccount_success',
    });
    standIn.settle(intent.id, 'failed');
    const failed = await stripe.paymentIntents.retrieve(intent.id);
    expect(failed).toMatchObject({
      status: 'requires_payment_method',
      last_payment_error: { type: 'invalid_request_error' },
    });
    expect(standIn.ledger()).toEqual([]);
  });

  test.each([
    [{ amount: 49 }, 'amount', 'amount_too_small'],
    [{ amount: 0 }, 'amount', 'parameter_invalid_integer'],
    [{ amount: 19.99 }, 'amount', 'parameter_invalid_integer'],
    [{ amount: 100_000_000 }, 'amount', 'amount_too_large'],
    [{ currency: 'dollar' }, 'currency', undefined],
    [{ customer: 'cus_missing' }, 'customer', 'resource_missing'],
    [{ customer: 'cus_live_mode' }, 'customer', 'resource_missing'],
    [{ payment_method: 'pm_missing' }, 'payment_method', 'resource_missing'],
    [{ metadata: { note: 'x'.repeat(501) } }, 'metadata[note]', undefined],
  ])('%j is refused with 400 and nothing is made', async (changes, param, code) => {
    const error = await rejection(stripe.paymentIntents.create({ ...charge, ...changes }, withKey('k1')));
    expect(error).toBeInstanceOf(Stripe.errors.StripeInvalidRequestError);
    expect(error).toMatchObject({ statusCode: 400, param });
    expect(error.code).toBe(code);
    expect(standIn.paymentIntents()).toEqual([]);
  });

  test('a customer of the other mode is told apart by the message', async () => {
    const error = await rejection(stripe.paymentIntents.create({ ...charge, customer: 'cus_live_mode' }));
    expect(error.message).toContain('a similar object exists in live mode');
  });

  test('confirming without a payment method, unknown parameters and missing ones are refused', async () => {
    const forms = ['amount=5000&currency=usd&confirm=true', `${FORM}&amout=1`, 'currency=usd', 'amount=500'];
    for (const form of forms) expect(await post('/v1/payment_intents', form)).toMatchObject({ status: 400 });
    expect(standIn.paymentIntents()).toEqual([]);
  });

  test('a paid intent cannot be cancelled, and the error carries it', async () => {
    const { id } = await stripe.paymentIntents.create(charge);
    const error = await rejection(stripe.paymentIntents.cancel(id, {}, withKey('c1')));
    expect(error).toMatchObject({
      statusCode: 400,
      code: 'payment_intent_unexpected_state',
      payment_intent: { id, status: 'succeeded' },
    });
  });

  test('an id or a URL that does not exist is 404', async () => {
    expect(await rejection(stripe.paymentIntents.retrieve('pi_none'))).toMatchObject({
      statusCode: 404,
      code: 'resource_missing',
    });
    expect(await rejection(stripe.paymentIntents.cancel('pi_none'))).toMatchObject({ statusCode: 404 });
    expect(await rejection(stripe.products.retrieve('prod_A'))).toMatchObject({ statusCode: 404 });
    expect(await rejection(stripe.customers.retrieve('cus_missing'))).toMatchObject({ statusCode: 404 });
  });
});

describe('listing and searching', () => {
  test('a list is newest first, filtered by customer and time, in pages', async () => {
    const ids: string[] = [];
    for (const customer of ['cus_A', 'cus_B', 'cus_A', 'cus_A']) {
      ids.unshift((await stripe.paymentIntents.create(anyone({ customer }))).id);
      clockMs += 1000;
    }
    const [newest = '', second, , oldest] = ids;
    const customer = 'cus_A';
    const page = await stripe.paymentIntents.list({ customer, limit: 1 });
    expect(page).toMatchObject({ object: 'list', has_more: true, data: [{ id: newest }] });
    const rest = await stripe.paymentIntents.list({ customer, limit: 2, starting_after: newest });
    expect(rest).toMatchObject({ has_more: false, data: [{ id: second }, { id: oldest }] });
    const gte = clockMs / 1000 - 2;
    const recent = await stripe.paymentIntents.list({ customer, created: { gte, lt: gte + 1 } });
    expect(recent.data.map(({ id }) => id)).toEqual([second]);
    const every = await stripe.paymentIntents.list({ limit: 1 }).autoPagingToArray({ limit: 10 });
    expect(every.map(({ id }) => id)).toEqual(ids);
  });

  test('a list refuses what it cannot filter by', async () => {
    expect(await rejection(stripe.paymentIntents.list({ limit: 101 }))).toMatchObject({ statusCode: 400 });
    expect(await rejection(stripe.paymentIntents.list({ ending_before: 'pi_1' }))).toMatchObject({
      code: 'parameter_unknown',
    });
    expect(await rejection(stripe.paymentIntents.list({ starting_after: 'pi_1' }))).toMatchObject({
      code: 'resource_missing',
    });
  });

  test('BL-34: a new payment is in the list at once and in the search after its lag', async () => {
    const { id } = await stripe.paymentIntents.create(charge);
    const query = `metadata['tenantId']:'North' AND metadata["operationId"]:"O7" AND status:'succeeded'`;
    expect((await stripe.paymentIntents.list()).data).toHaveLength(1);
    clockMs += 59_999;
    expect((await stripe.paymentIntents.search({ query })).data).toEqual([]);
    clockMs += 1;
    expect(await stripe.paymentIntents.search({ query })).toMatchObject({
      object: 'search_result',
      has_more: false,
      data: [{ id }],
    });
  });

  test('a search understands quotes, numbers, not, null and or, and refuses the rest', async () => {
    await stripe.paymentIntents.create(anyone({ metadata: { note: "it's" } }));
    clockMs += 60_000;
    const found = async (query: string) => (await stripe.paymentIntents.search({ query })).data.length;
    expect(await found(String.raw`metadata['note']:'it\'s'`)).toBe(1);
    expect(await found('amount>4999 amount<=5000')).toBe(1);
    expect(await found(`-status:'succeeded'`)).toBe(0);
    expect(await found(`metadata['other']:null`)).toBe(1);
    expect(await found(`status:'canceled' OR customer:'cus_A'`)).toBe(1);
    for (const query of ['O7', `status:'a' AND status:'b' OR status:'c'`, `shoe:'7'`]) {
      expect(await rejection(stripe.paymentIntents.search({ query }))).toMatchObject({ statusCode: 400 });
    }
  });
});

describe('refunds', () => {
  const refundOf = (payment_intent: string, amount?: number, operationId = 'R1') => ({
    payment_intent,
    ...(amount !== undefined && { amount }),
    metadata: { tenantId: 'North', operationId },
  });

  test('refunds stay within the charge, then it is already refunded', async () => {
    const { id } = await stripe.paymentIntents.create(charge, withKey('k1'));
    const first = await stripe.refunds.create(
      { ...refundOf(id, 3000), reason: 'requested_by_customer' },
      withKey('r1'),
    );
    expect(first).toMatchObject({ object: 'refund', status: 'succeeded', amount: 3000, payment_intent: id });
    const tooMuch = await rejection(stripe.refunds.create(refundOf(id, 2001, 'R2'), withKey('r2')));
    expect(tooMuch).toMatchObject({ statusCode: 400, param: 'amount' });
    await stripe.refunds.create(refundOf(id, undefined, 'R3'), withKey('r3'));
    const again = await rejection(stripe.refunds.create(refundOf(id, 1, 'R4'), withKey('r4')));
    expect(again).toMatchObject({ statusCode: 400, code: 'charge_already_refunded' });
    expect(standIn.ledger()).toMatchObject([
      { kind: 'charge', amountMinor: 5000 },
      { kind: 'refund', amountMinor: 3000, paymentIntentId: id, customerId: 'cus_A', idempotencyKey: 'r1' },
      { kind: 'refund', amountMinor: 2000, idempotencyKey: 'r3' },
    ]);
    const { data } = await stripe.refunds.list({ payment_intent: id });
    expect(data.map(({ amount }) => amount)).toEqual([2000, 3000]);
    expect(await stripe.refunds.retrieve(first.id)).toMatchObject({
      id: first.id,
      metadata: { operationId: 'R1' },
    });
  });

  test('a refund needs a payment that exists and succeeded', async () => {
    expect(await rejection(stripe.refunds.create(refundOf('pi_none')))).toMatchObject({
      code: 'resource_missing',
    });
    const { id } = await stripe.paymentIntents.create({
      ...charge,
      payment_method: 'pm_usBankAccount_success',
    });
    const error = await rejection(stripe.refunds.create(refundOf(id, undefined, 'R2')));
    expect(error).toMatchObject({ statusCode: 400, code: 'payment_intent_unexpected_state' });
    expect(await rejection(stripe.refunds.create({}))).toMatchObject({ code: 'parameter_missing' });
  });

  test('a pending refund moves money when it is settled, and gives the amount back when it fails', async () => {
    const { id } = await stripe.paymentIntents.create({ ...charge, payment_method: 'pm_card_pendingRefund' });
    const failing = await stripe.refunds.create(refundOf(id));
    expect(failing.status).toBe('pending');
    standIn.settle(failing.id, 'failed');
    const { id: refundId } = await stripe.refunds.create(refundOf(id, 5000, 'R2'));
    standIn.settle(refundId, 'succeeded');
    expect(standIn.refunds().map(({ status }) => status)).toEqual(['failed', 'succeeded']);
    expect(standIn.ledger()).toMatchObject([{ kind: 'charge' }, { kind: 'refund', id: refundId }]);
  });
});

describe('faults', () => {
  test.each([
    ['none', 0],
    ['done', 1],
  ] as const)(
    'a reset with effect %s moves money %i times, and the same key then answers',
    async (effect, times) => {
      standIn.fault({ kind: 'reset', effect }, bothSends);
      const error = await rejection(stripe.paymentIntents.create(charge, withKey('k1')));
      expect(error).toBeInstanceOf(Stripe.errors.StripeConnectionError);
      expect(standIn.ledger()).toHaveLength(times);
      const unanswered = { idempotencyKey: 'k1', status: undefined, endedAtMs: clockMs };
      expect(standIn.requests()).toMatchObject([unanswered, unanswered]);
      const again = await stripe.paymentIntents.create(charge, withKey('k1'));
      expect(again.lastResponse.headers['idempotent-replayed']).toBe(times === 1 ? 'true' : undefined);
      expect(standIn.ledger()).toHaveLength(1);
    },
  );

  test('a stalled request whose client leaves does nothing with effect none, all with done', async () => {
    const impatient = client('sk_test_x', 40);
    for (const effect of ['none', 'done'] as const) {
      standIn.fault({ kind: 'stall', ms: 60_000, effect });
      const error = await rejection(impatient.paymentIntents.create(charge, withKey('k1')));
      expect(error).toBeInstanceOf(Stripe.errors.StripeConnectionError);
      await until(() => standIn.openRequests() === 0);
      expect(standIn.ledger()).toHaveLength(effect === 'done' ? 1 : 0);
    }
    expect(standIn.requests().map(({ status }) => status)).toEqual([undefined, undefined]);
  });

  test('a stalled request whose client stays is answered after the stall', async () => {
    standIn.fault({ kind: 'stall', ms: 20, effect: 'none' });
    expect(await stripe.paymentIntents.create(charge, withKey('k1'))).toMatchObject({ status: 'succeeded' });
  });

  test('a client that leaves an ordinary slow request does not roll it back', async () => {
    await standIn.stop();
    await start({ latencyMs: 60 });
    await rejection(client('sk_test_x', 20).paymentIntents.create(charge, withKey('k1')));
    await until(() => standIn.ledger().length === 1);
    expect(standIn.requests()).toMatchObject([{ status: undefined }]);
  });

  test('a late request lands after its sender was reset, once', async () => {
    const keyed = { 'idempotency-key': 'k1' };
    standIn.fault({ kind: 'lateEffect', ms: 30 });
    await expect(post('/v1/payment_intents', FORM, keyed)).rejects.toThrow('fetch failed');
    expect(standIn.ledger()).toEqual([]);
    await until(() => standIn.ledger().length === 1);
    expect(await post('/v1/payment_intents', FORM, keyed)).toMatchObject({ status: 200 });
    expect(standIn.ledger()).toHaveLength(1);
  });

  test('a late request that finds its key used does nothing', async () => {
    standIn.fault({ kind: 'lateEffect', ms: 20 }, bothSends);
    await rejection(stripe.paymentIntents.create(charge, withKey('k1')));
    await stripe.paymentIntents.create(charge, withKey('k1'));
    await wait(40);
    expect(standIn.ledger()).toHaveLength(1);
  });

  test('a late request still on its way lands when the stand-in stops', async () => {
    standIn.fault({ kind: 'lateEffect', ms: 60_000 }, bothSends);
    await rejection(stripe.paymentIntents.create(charge, withKey('k1')));
    await standIn.stop();
    expect(standIn.ledger()).toHaveLength(1);
  });

  test('a truncated answer is no answer, though the money moved', async () => {
    standIn.fault({ kind: 'truncate' });
    await rejection(stripe.paymentIntents.create(charge, withKey('k1')));
    expect(standIn.ledger()).toHaveLength(1);
    expect(standIn.requests()).toMatchObject([{ status: undefined }]);
    expect(await stripe.paymentIntents.create(charge, withKey('k1'))).toMatchObject({ status: 'succeeded' });
  });

  test.each([
    ['beforeEffect', 'continue', [0, 1, true]],
    ['beforeEffect', 'drop', [0, 0, false]],
    ['afterEffect', 'continue', [1, 1, true]],
    ['afterEffect', 'drop', [1, 1, false]],
  ] as const)('a hook %s that says %s sees and leaves %j', async (at, next, [seen, left, isAnswered]) => {
    let ledgerInHook = -1;
    const run = async (request: { operation: string | undefined }) => {
      await wait(5);
      expect(request.operation).toBe('North/O7');
      if (ledgerInHook === -1) ledgerInHook = standIn.ledger().length;
    };
    standIn.fault({ kind: 'hook', at, run, next }, bothSends);
    const answer = stripe.paymentIntents.create(charge, withKey('k1'));
    await (isAnswered ? answer : rejection(answer));
    expect(ledgerInHook).toBe(seen);
    expect(standIn.ledger()).toHaveLength(left);
  });

  test('a fault meets only the requests it fits, as often as it says, until it is taken back', async () => {
    standIn.fault({ kind: 'answer', status: 429 }, { operationId: 'O8' });
    standIn.fault({ kind: 'answer', status: 503 }, { method: 'GET', path: /payment_intents$/, times: 2 });
    const takeBack = standIn.fault({ kind: 'answer', status: 503 }, { path: '/v1/refunds', times: Infinity });
    const { id } = await stripe.paymentIntents.create(charge);
    await stripe.paymentIntents.retrieve(id);
    for (const _ of [1, 2])
      expect(await rejection(stripe.paymentIntents.list())).toMatchObject({ statusCode: 503 });
    await stripe.paymentIntents.list();
    for (const _ of [1, 2, 3])
      expect(await rejection(stripe.refunds.list())).toMatchObject({ statusCode: 503 });
    takeBack();
    await stripe.refunds.list();
    const other = { ...charge, metadata: { tenantId: 'North', operationId: 'O8' } };
    expect(await rejection(stripe.paymentIntents.create(other, withKey('k8')))).toMatchObject({
      statusCode: 429,
      code: 'rate_limit',
    });
  });

  test('faults are met in the order they were planned and can be cleared', async () => {
    standIn.fault({
      kind: 'answer',
      status: 429,
      error: { code: 'lock_timeout' },
      headers: { 'retry-after': '3' },
    });
    standIn.fault({ kind: 'answer', status: 403 });
    standIn.fault({ kind: 'answer', status: 401 });
    const first = await rejection(stripe.paymentIntents.create(charge, withKey('k1')));
    expect(first).toMatchObject({ statusCode: 429, code: 'lock_timeout', headers: { 'retry-after': '3' } });
    const second = await rejection(stripe.paymentIntents.create(charge, withKey('k1')));
    expect(second).toBeInstanceOf(Stripe.errors.StripePermissionError);
    standIn.clearFaults();
    await stripe.paymentIntents.create(charge, withKey('k1'));
  });

  test('a client that resets in mid-body harms nothing', async () => {
    const socket = connect(standIn.port, '127.0.0.1');
    socket.write(
      'POST /v1/payment_intents HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk_test_x\r\n' +
        `Content-Length: ${FORM.length}\r\n\r\n${FORM.slice(0, 20)}`,
    );
    await until(() => standIn.openRequests() === 1);
    socket.resetAndDestroy();
    await until(() => standIn.openRequests() === 0);
    expect(standIn.requests()).toMatchObject([{ status: undefined, params: {} }]);
    expect(standIn.ledger()).toEqual([]);
    await stripe.paymentIntents.create(charge, withKey('k1'));
  });
});

describe('stop', () => {
  test('throws when one operation used two keys for one step, unless a key change is allowed', async () => {
    standIn.fault({ kind: 'answer', status: 429 });
    await rejection(stripe.paymentIntents.create(charge, withKey('k1')));
    await stripe.paymentIntents.create(charge, withKey('k2'));
    await expect(standIn.stop()).rejects.toThrow('North/O7 (charge) used 2 idempotency keys: k1 | k2');
    stopOptions = { allowKeyChange: true };
  });

  test('throws when money moved twice for one operation', async () => {
    const first = await stripe.paymentIntents.create(charge, withKey('k1'));
    clockMs += 25 * HOUR_MS;
    const second = await stripe.paymentIntents.create(charge, withKey('k1'));
    const stopped = standIn.stop({ allowKeyChange: true });
    await expect(stopped).rejects.toThrow('North/O7 moved money 2 times');
    await expect(stopped).rejects.toThrow(String(second.latest_charge));
    expect(first.id).not.toBe(second.id);
    await start();
  });

  test('throws when one operation has money on its way twice', async () => {
    const bank = { ...charge, payment_method: 'pm_usBankAccount_success' };
    await stripe.paymentIntents.create(bank, withKey('k1'));
    standIn.forgetKeys();
    await stripe.paymentIntents.create(bank, withKey('k1'));
    await expect(standIn.stop()).rejects.toThrow('North/O7 moved money 2 times');
    await start();
  });

  test('lets a charge and its cancel, and another tenant with the same id, have keys of their own', async () => {
    const { id } = await stripe.paymentIntents.create(
      { ...charge, payment_method: 'pm_requiresAction' },
      withKey('k1'),
    );
    await stripe.paymentIntents.cancel(id, {}, withKey('k1/cancel'));
    const south = { ...charge, metadata: { tenantId: 'South', operationId: 'O7' } };
    await stripe.paymentIntents.create(south, withKey('k2'));
    await standIn.stop();
  });

  test('ends requests that are open, and can be called again', async () => {
    standIn.fault({ kind: 'stall', ms: Infinity, effect: 'none' });
    standIn.fault({ kind: 'hook', at: 'beforeEffect', run: () => new Promise(() => undefined) });
    const open = [1, 2].map((n) => rejection(stripe.paymentIntents.create(anyone(), withKey(`k${n}`))));
    await until(() => standIn.openRequests() === 2);
    await standIn.stop();
    await Promise.all(open);
    expect(standIn.ledger()).toEqual([]);
    await standIn.stop();
  });
});
