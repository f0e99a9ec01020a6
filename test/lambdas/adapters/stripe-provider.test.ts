import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { ApiKey } from '../../../lambdas/adapters/stripe-key';
import { fixedKey } from '../../../lambdas/adapters/stripe-key';
import { paramsVersionOf } from '../../../lambdas/adapters/stripe-params';
import { StripeProvider } from '../../../lambdas/adapters/stripe-provider';
import type { Fault, FaultMatch } from '../../../local/stripe-faults';
import { type StripeStandIn, startStripeStandIn } from '../../../local/stripe-stand-in';
import { type Charge, operation } from '../fixtures';

const timeoutMs = 400;
let stripe: StripeStandIn;
let provider: StripeProvider;
beforeAll(async () => {
  stripe = await startStripeStandIn();
  provider = providerAt(stripe.url);
});
// Throws when an operation used two keys for one step, or moved money twice.
afterAll(() => stripe.stop());
afterEach(() => stripe.clearFaults());

function providerAt(url: string, key: ApiKey = fixedKey('sk_test_local_stand_in')): StripeProvider {
  return new StripeProvider(key, () => performance.now(), new URL(url));
}

let count = 0;
function fresh(input: Partial<Charge['input']> = {}, changes: Partial<Charge> = {}): Charge {
  count += 1;
  const { input: base, ...rest } = operation({ operationId: `op-${count}`, ...changes });
  return { ...rest, input: { ...base, ...input } };
}

const charge = (of: Charge, by = provider) => by.charge(of, timeoutMs);
const plan = (of: Charge, fault: Fault, match: FaultMatch = {}) =>
  stripe.fault(fault, { operationId: of.operationId, ...match });
const requestsOf = ({ operationId }: Charge) =>
  stripe.requests().filter((request) => request.operation === `acme/${operationId}`);
const movedBy = ({ operationId }: Charge) =>
  stripe.ledger().filter(({ metadata }) => metadata.operationId === operationId);

describe('the request', () => {
  test('carries the stored key, the pinned version and the frozen parameters', async () => {
    const of = fresh();
    expect(await charge(of)).toEqual({
      kind: 'succeeded',
      providerRef: expect.stringMatching(/^pi_/),
      result: { amountMinor: 1999, currency: 'usd', chargeId: expect.stringMatching(/^ch_/) },
    });
    expect(requestsOf(of)).toEqual([
      expect.objectContaining({
        method: 'POST',
        path: '/v1/payment_intents',
        idempotencyKey: of.providerKey,
        apiVersion: '2026-10-28.endive',
        params: {
          amount: '1999',
          currency: 'usd',
          customer: 'cus_A',
          payment_method: 'pm_A',
          confirm: 'true',
          off_session: 'true',
          error_on_requires_action: 'true',
          metadata: {
            tenantId: 'acme',
            operationId: of.operationId,
            inputDigest: of.inputDigest,
            providerKey: of.providerKey,
            invoiceId: 'inv-77',
          },
        },
      }),
    ]);
  });

  test('has the same bytes and the same key in every attempt, also after a restart', async () => {
    const of = fresh();
    plan(of, { kind: 'reset', effect: 'done' }, { times: 2 });
    for (const by of [provider, provider, providerAt(stripe.url)]) await charge(of, by);
    const requests = requestsOf(of);
    expect(requests).toHaveLength(3);
    expect(new Set(requests.map(({ rawBody }) => rawBody)).size).toBe(1);
    expect(new Set(requests.map(({ idempotencyKey }) => idempotencyKey))).toEqual(new Set([of.providerKey]));
    expect(movedBy(of)).toHaveLength(1);
  });

  test('does not depend on the order in which the record stores the input', async () => {
    const of = fresh();
    const { reference, amountMinor, currency, customerId, paymentMethodId } = of.input;
    await charge(of);
    await charge({ ...of, input: { paymentMethodId, customerId, currency, amountMinor, reference } });
    expect(new Set(requestsOf(of).map(({ rawBody }) => rawBody)).size).toBe(1);
  });

  test('has a description where the operation has one: parameters of version 2, and of version 1 in all else', async () => {
    const [without, described] = [fresh(), fresh({ description: 'Café Zoë 😀' })];
    expect([without, described].map(paramsVersionOf)).toEqual([1, 2]);
    await charge(without);
    await charge({ ...described, providerParamsVersion: 2 });
    const [first, second] = [without, described].map((of) => requestsOf(of)[0]?.params);
    const { operationId, inputDigest, providerKey } = described;
    expect(second).toEqual({
      ...first,
      description: 'Café Zoë 😀',
      metadata: { ...Object(first?.metadata), operationId, inputDigest, providerKey },
    });
  });

  test('parameters of a version that this build does not know are not sent', async () => {
    const of = fresh({}, { providerParamsVersion: 3 });
    expect(await charge(of)).toEqual({ kind: 'notSent', reason: 'params_version_unknown' });
    expect(requestsOf(of)).toEqual([]);
  });

  test('is not made when no time is left', async () => {
    const of = fresh();
    expect(await provider.charge(of, 0)).toEqual({ kind: 'notSent', reason: 'out_of_time' });
    expect(requestsOf(of)).toEqual([]);
  });
});

describe('an answer', () => {
  const error = (code: string, declineCode?: string) =>
    expect.objectContaining({ code, message: expect.any(String), ...(declineCode ? { declineCode } : {}) });
  const anIntent = expect.stringMatching(/^pi_/);

  test.each([
    ['pm_card_chargeDeclinedInsufficientFunds', error('card_declined', 'insufficient_funds')],
    ['pm_card_chargeDeclinedExpiredCard', error('expired_card', 'expired_card')],
    ['pm_card_authenticationRequired', error('authentication_required')],
  ])('402 for %s is a decline with its code and the reference', async (paymentMethodId, expected) => {
    expect(await charge(fresh({ paymentMethodId }))).toEqual({
      kind: 'declined',
      error: expected,
      providerRef: anIntent,
    });
  });

  test.each([
    ['customer', { customerId: 'cus_missing' }, 'resource_missing'],
    ['payment method', { paymentMethodId: 'pm_missing' }, 'resource_missing'],
    ['amount below the minimum', { amountMinor: 1 }, 'amount_too_small'],
  ])('400 for a wrong %s is invalid with its code', async (_name, input, code) => {
    expect(await charge(fresh(input))).toEqual({ kind: 'invalid', error: error(code) });
  });

  test('400 for a customer of live mode is invalid too, and says that our key is of the other mode', async () => {
    expect(await charge(fresh({ customerId: 'cus_live_mode' }))).toEqual({
      kind: 'invalid',
      error: error('resource_missing'),
      reason: 'other_mode',
    });
  });

  test.each<[string, Fault, object]>([
    ['404', answer(404, { code: 'resource_missing' }), { kind: 'invalid', error: error('resource_missing') }],
    ['400 without a code', answer(400, {}), { kind: 'invalid', error: error('invalid_request_error') }],
    ['403', answer(403, { code: 'account_invalid' }), { kind: 'forbidden', error: error('account_invalid') }],
    ['409', answer(409, {}), { kind: 'unknown', reason: 'key_in_use', keySpent: false }],
    ['429 rate limit', answer(429, { code: 'rate_limit' }), { kind: 'notSent', reason: 'rate_limited' }],
    ['429 lock time-out', answer(429, { code: 'lock_timeout' }), { kind: 'notSent', reason: 'lock_timeout' }],
    ['401', answer(401, {}), { kind: 'notSent', reason: 'unauthorized' }],
    [
      '400 already refunded',
      answer(400, { code: 'charge_already_refunded' }),
      { kind: 'effectExists', error: error('charge_already_refunded') },
    ],
    ['500', answer(500, {}), { kind: 'unknown', reason: 'status_500', keySpent: false }],
    ['503', answer(503, {}), { kind: 'unknown', reason: 'status_503', keySpent: false }],
    ['424', answer(424, {}), { kind: 'unknown', reason: 'status_424', keySpent: false }],
    ['200 with an error', answer(200, {}), { kind: 'unknown', reason: 'status_200', keySpent: false }],
    [
      '503 marked as replayed',
      { ...answer(503, {}), headers: { 'idempotent-replayed': 'true' } },
      { kind: 'unknown', reason: 'status_503', keySpent: true },
    ],
  ])('%s has its outcome in the table', async (_name, fault, outcome) => {
    const of = fresh();
    plan(of, fault);
    expect(await charge(of)).toEqual(outcome);
    expect(requestsOf(of)).toHaveLength(1);
  });

  test.each<[string, Fault]>([
    ['502 with a page of HTML', { kind: 'answer', status: 502, body: '<html>Bad gateway</html>' }],
    ['500 with an empty body', { kind: 'answer', status: 500, body: '', save: false }],
    [
      '500 with JSON that is no error',
      { kind: 'answer', status: 500, body: { id: 'pi_1', status: 'succeeded' }, save: false },
    ],
    ['504 with null', { kind: 'answer', status: 504, body: 'null' }],
    ['200 with an empty body', { kind: 'answer', status: 200, body: '', save: false }],
    ['200 with an empty object', { kind: 'answer', status: 200, body: {}, save: false }],
    ['200 with null', { kind: 'answer', status: 200, body: 'null', save: false }],
    ['200 with a list', { kind: 'answer', status: 200, body: '[]', save: false }],
    ['200 without an id', { kind: 'answer', status: 200, body: { status: 'succeeded' }, save: false }],
    ['201 with HTML', { kind: 'answer', status: 201, body: '<html>', save: false }],
  ])('%s says nothing about the money', async (_name, fault) => {
    const of = fresh();
    plan(of, fault);
    expect(await charge(of)).toMatchObject({ kind: 'unknown', keySpent: false });
  });

  test('an answer that was given under the same key for other parameters is a conflict', async () => {
    const of = fresh();
    await charge(of);
    const changed = { ...of, input: { ...of.input, amountMinor: 9000 } };
    expect(await charge(changed)).toEqual({ kind: 'conflict', error: error('idempotency_error') });
    expect(movedBy(of)).toHaveLength(1);
  });

  test.each([
    ['an error', {}],
    ['an empty body', { body: '' }],
    ['a page of HTML', { body: '<html>' }],
    ['JSON that is no error', { body: {} }],
  ])('500 saved and replayed with %s spends the key', async (_name, shape) => {
    const of = fresh();
    plan(of, { kind: 'answer', status: 500, save: true, ...shape });
    expect(await charge(of)).toMatchObject({ kind: 'unknown', keySpent: false });
    expect(await charge(of)).toMatchObject({ kind: 'unknown', keySpent: true });
  });

  test('429 with a page of HTML was not sent either', async () => {
    const of = fresh();
    plan(of, { kind: 'answer', status: 429, body: '<html>Too many requests</html>' });
    expect(await charge(of)).toEqual({ kind: 'notSent', reason: 'rate_limited' });
  });

  test.each(['requires_confirmation', 'requires_capture', 'requires_payment_method', 'teleported'])(
    '200 with the status %s is unknown with its reference, never success',
    async (status) => {
      const of = fresh({ paymentMethodId: `pm_status_${status}` });
      expect(await charge(of)).toEqual({
        kind: 'unknown',
        reason: `intent_${status}`,
        keySpent: false,
        providerRef: anIntent,
      });
    },
  );

  test('200 with processing is accepted, with canceled declined', async () => {
    expect(await charge(fresh({ paymentMethodId: 'pm_usBankAccount_success' }))).toEqual({
      kind: 'accepted',
      providerRef: anIntent,
    });
    expect(await charge(fresh({ paymentMethodId: 'pm_status_canceled' }))).toMatchObject({
      kind: 'declined',
      providerRef: anIntent,
      error: { code: 'canceled' },
    });
  });

  test('a message of the provider is kept to 100 characters', async () => {
    const of = fresh();
    plan(of, answer(400, { message: 'é'.repeat(5000) }));
    const outcome = await charge(of);
    expect(outcome.kind === 'invalid' && outcome.error.message.length).toBe(100);
  });
});

function answer(status: number, error: { code?: string; message?: string }) {
  return { kind: 'answer', status, error, save: false } as const;
}

describe('an intent that waits for the customer', () => {
  const waiting = () => fresh({ paymentMethodId: 'pm_requiresAction' });
  const cancels = { path: /\/cancel$/ };
  const statusOf = ({ operationId }: Charge) =>
    stripe
      .paymentIntents()
      .filter(({ metadata }) => metadata.operationId === operationId)
      .map(({ status }) => status);

  test('is cancelled at Stripe before it is called declined, with a key of its own', async () => {
    const of = waiting();
    expect(await charge(of)).toMatchObject({ kind: 'declined', error: { code: 'authentication_required' } });
    expect(statusOf(of)).toEqual(['canceled']);
    expect(requestsOf(of).map(({ idempotencyKey }) => idempotencyKey)).toEqual([
      of.providerKey,
      `${of.providerKey}/cancel`,
    ]);
  });

  test.each<[string, Fault]>([
    ['lost before', { kind: 'reset', effect: 'none' }],
    ['lost after', { kind: 'reset', effect: 'done' }],
    ['refused', answer(429, {})],
    ['failed', answer(500, {})],
    ['stalled', { kind: 'stall', ms: 5000, effect: 'none' }],
  ])('is not declined while the cancellation is %s; the next attempt proves it', async (_name, fault) => {
    const of = waiting();
    plan(of, fault, cancels);
    expect(await charge(of)).toEqual({
      kind: 'unknown',
      reason: 'cancel_unproven',
      keySpent: false,
      providerRef: anyIntent,
    });
    expect(await charge(of)).toMatchObject({ kind: 'declined', providerRef: anyIntent });
    expect(statusOf(of)).toEqual(['canceled']);
  });

  test('and was paid before the cancellation came has succeeded', async () => {
    const of = waiting();
    plan(
      of,
      answerWith(400, {
        code: 'payment_intent_unexpected_state',
        payment_intent: { id: 'pi_9', status: 'succeeded', amount: 1999, currency: 'usd' },
      }),
      cancels,
    );
    expect(await charge(of)).toEqual({
      kind: 'succeeded',
      providerRef: 'pi_9',
      result: { amountMinor: 1999, currency: 'usd' },
    });
  });

  test('and was cancelled by somebody else is declined', async () => {
    const of = waiting();
    plan(
      of,
      answerWith(400, {
        code: 'payment_intent_unexpected_state',
        payment_intent: { id: 'pi_9', status: 'canceled' },
      }),
      cancels,
    );
    expect(await charge(of)).toMatchObject({ kind: 'declined', error: { code: 'authentication_required' } });
  });

  const anyIntent = expect.stringMatching(/^pi_/);
});

function answerWith(status: number, error: Readonly<Record<string, unknown>>): Fault {
  return {
    kind: 'answer',
    status,
    error: { type: 'invalid_request_error', message: 'no', ...error },
    save: false,
  };
}

describe('no answer', () => {
  test.each<[string, Fault, number]>([
    ['a reset before the effect', { kind: 'reset', effect: 'none' }, 0],
    ['a reset after the effect', { kind: 'reset', effect: 'done' }, 1],
    ['a body cut in half', { kind: 'truncate' }, 1],
  ])('%s is unknown, and the SDK does not try again behind our back', async (_name, fault, moved) => {
    const of = fresh();
    plan(of, fault);
    expect(await charge(of)).toEqual({ kind: 'unknown', reason: 'connection_lost', keySpent: false });
    expect(requestsOf(of)).toHaveLength(1);
    expect(movedBy(of)).toHaveLength(moved);
    expect(await charge(of)).toMatchObject({ kind: 'succeeded' });
    expect(movedBy(of)).toHaveLength(1);
  });

  test.each(['none', 'done'] as const)('a stall (effect %s) ends in time as unknown', async (effect) => {
    const of = fresh();
    plan(of, { kind: 'stall', ms: 10_000, effect });
    const startMs = performance.now();
    expect(await charge(of)).toEqual({ kind: 'unknown', reason: 'timeout', keySpent: false });
    expect(performance.now() - startMs).toBeLessThan(timeoutMs + 300);
    expect(requestsOf(of)).toHaveLength(1);
  });

  test('a connection that is refused was not sent', async () => {
    const closed = await serverThat(() => {});
    await closed.stop();
    expect(await charge(fresh(), providerAt(closed.url))).toEqual({
      kind: 'notSent',
      reason: 'connection_refused',
    });
  });

  test('a host that takes no connection in time was not sent', async () => {
    // An address for documentation, which nothing answers. https://www.rfc-editor.org/rfc/rfc5737
    expect(await charge(fresh(), providerAt('http://192.0.2.1'))).toEqual({
      kind: 'notSent',
      reason: 'connection_refused',
    });
  });

  test('a host that cannot be resolved was not sent', async () => {
    expect(await charge(fresh(), providerAt('https://no-such-host.invalid'))).toEqual({
      kind: 'notSent',
      reason: 'connection_refused',
    });
  });

  test.each<[string, (response: ServerResponse) => void]>([
    [
      'headers without a body',
      (response) => response.writeHead(200, { 'content-length': '500' }).flushHeaders(),
    ],
    [
      'a body that trickles',
      (response) => void response.writeHead(200, { 'content-length': '500' }).write('{"id":"pi_1",'),
    ],
    [
      'an error whose body trickles',
      (response) => void response.writeHead(500, { 'content-length': '500' }).write('{'),
    ],
  ])('%s ends in time as unknown: one time-out for all parts of a call', async (_name, respond) => {
    const server = await serverThat(respond);
    const startMs = performance.now();
    expect(await charge(fresh(), providerAt(server.url))).toMatchObject({ kind: 'unknown', keySpent: false });
    expect(performance.now() - startMs).toBeLessThan(timeoutMs + 300);
    await server.stop();
  });

  test('a server that is no HTTP server is unknown', async () => {
    const server = await serverThat((response) => void response.socket?.end('hello\r\n\r\n'));
    expect(await charge(fresh(), providerAt(server.url))).toMatchObject({ kind: 'unknown' });
    await server.stop();
  });
});

async function serverThat(respond: (response: ServerResponse) => void) {
  const server: Server = createServer((_request, response) => respond(response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    async stop() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

describe('the API key', () => {
  const rotating = (keys: readonly (string | undefined)[]) => {
    let reads = 0;
    const apiKey: ApiKey = {
      current: async () => keys[0],
      reread: async () => {
        reads += 1;
        return keys[1];
      },
    };
    return { apiKey, reads: () => reads };
  };

  test('is read once more when it is refused: a rotated secret costs no attempt', async () => {
    const of = fresh();
    plan(of, answer(401, {}));
    const { apiKey, reads } = rotating(['sk_test_local_old', 'sk_test_local_stand_in']);
    expect(await charge(of, providerAt(stripe.url, apiKey))).toMatchObject({ kind: 'succeeded' });
    expect(reads()).toBe(1);
    expect(movedBy(of)).toHaveLength(1);
  });

  test.each([
    ['the same', 'sk_test_local_old', 1],
    ['another that is refused too', 'sk_test_local_other', 2],
    ['none', undefined, 1],
  ])('that is refused, and %s is read again, was not sent', async (_name, second, posts) => {
    const of = fresh();
    plan(of, answer(401, {}), { times: 5 });
    const { apiKey, reads } = rotating(['sk_test_local_old', second]);
    expect(await charge(of, providerAt(stripe.url, apiKey))).toEqual({
      kind: 'notSent',
      reason: 'unauthorized',
    });
    expect(reads()).toBe(1);
    expect(requestsOf(of)).toHaveLength(posts);
  });

  test.each(['', 'placeholder', 'REPLACE_ME', 'pk_test_public'])(
    '%j is a placeholder: nothing is sent',
    async (value) => {
      const of = fresh();
      expect(await charge(of, providerAt(stripe.url, fixedKey(value)))).toEqual({
        kind: 'notSent',
        reason: 'provider_key_missing',
      });
      expect(requestsOf(of)).toEqual([]);
    },
  );
});

describe('a charge where tenants call the API themselves', () => {
  const checking = () =>
    new StripeProvider(
      fixedKey('sk_test_local_stand_in'),
      () => performance.now(),
      new URL(stripe.url),
      true,
    );
  const gets = { method: 'GET', path: /^\/v1\/customers\// };

  test('of a customer that carries the tenant is made', async () => {
    const of = fresh({ customerId: 'cus_of_acme' });
    expect(await charge(of, checking())).toMatchObject({ kind: 'succeeded' });
    expect(movedBy(of)).toHaveLength(1);
  });

  test.each(['cus_of_zeta', 'cus_A', 'cus_missing'])(
    'of the customer %s is refused without a POST',
    async (customerId) => {
      const of = fresh({ customerId });
      const code = customerId === 'cus_missing' ? 'resource_missing' : 'customer_of_another_tenant';
      expect(await charge(of, checking())).toMatchObject({ kind: 'invalid', error: { code } });
      expect(requestsOf(of)).toEqual([]);
    },
  );

  test.each<[string, Fault, string]>([
    ['a lost connection', { kind: 'reset', effect: 'none' }, 'customer_unknown'],
    ['a 503', { kind: 'answer', status: 503 }, 'customer_unknown'],
    ['no answer in time', { kind: 'stall', ms: 5_000, effect: 'none' }, 'customer_unknown'],
    ['a 429', { kind: 'answer', status: 429 }, 'rate_limited'],
  ])('whose customer cannot be looked up (%s) was not sent', async (_name, fault, reason) => {
    const of = fresh({ customerId: 'cus_of_acme' });
    stripe.fault(fault, gets);
    expect(await charge(of, checking())).toEqual({ kind: 'notSent', reason });
    expect(requestsOf(of)).toEqual([]);
  });
});
