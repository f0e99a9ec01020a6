import type { OperatorAnswer } from '../../lambdas/operation/operate';
import { record, refundOf } from '../support/worker-bench';
import { dieAfterClaim, evidenceOf, hourMs, pastTheLease } from './fixtures';
import { type ApiBench, chargeOf, type Named, startApiBench } from './http/api-bench';

// What a person may do, each through the real function, and what it refuses: then nothing is changed.

let bench: ApiBench;
beforeAll(async () => {
  // One attempt in doubt parks an operation.
  bench = await startApiBench({
    limits: { maxAttempts: 1, workerTimeoutSeconds: 20, providerTimeoutSeconds: 5 },
  });
});
afterAll(async () => {
  // Proofs of absence change keys, as nothing else does.
  await bench.stripe.stop({ allowKeyChange: true });
  await bench.stop().catch((error: unknown) => {
    expect(String(error)).toMatch(/used 2 idempotency keys: \S+\/0 \| \S+\/1/);
  });
});
afterEach(() => bench.stripe.clearFaults());

type Job = ReturnType<typeof chargeOf>;
const by = 'ada';
const evidence = 'looked through the payments of the customer';
const evidenceFor = (of: Named) => evidenceOf(bench, of);
const recordOf = async (of: Named) => (await evidenceFor(of)).record;
const operateOn = ({ tenantId, operationId }: Named, request: object) =>
  bench.operate({ tenantId, operationId, by, ...request });
const later = (hours: number) => bench.stack.clock.advance(hours * hourMs);
const creations = { method: 'POST', path: '/v1/payment_intents' } as const;
const lists = { method: 'GET', path: '/v1/payment_intents' } as const;
const refundCreations = { method: 'POST', path: '/v1/refunds' } as const;
const isDone = async (of: object) => (await bench.deliver([record(of)])).length === 0;

let customers = 0;
/** A charge of a customer of its own, so that no list has another's payments. */
function fresh(input: object = {}): Job {
  customers += 1;
  return chargeOf({ input: { customerId: `cus_operate_${customers}`, ...input } });
}

/** Parked by one attempt whose answer was lost. */
async function inDoubt(effect: 'none' | 'done', input: object = {}): Promise<Job> {
  const charge = fresh(input);
  bench.stripe.fault({ kind: 'reset', effect }, { operationId: charge.operationId, ...creations });
  expect(await isDone(charge)).toBe(false);
  expect(await recordOf(charge)).toMatchObject({ state: 'parked', parkedReason: 'attempts_exhausted' });
  return charge;
}

/** Stripe only repeats an error under its key. */
async function withSpentKey(): Promise<Job> {
  const charge = fresh();
  const saved = { kind: 'answer', status: 500, save: true } as const;
  bench.stripe.fault(saved, { operationId: charge.operationId, ...creations });
  await isDone(charge);
  await bench.stack.clock.advance(1000);
  expect(await isDone(charge)).toBe(false);
  expect(await recordOf(charge)).toMatchObject({ state: 'parked', parkedReason: 'provider_key_spent' });
  return charge;
}

async function succeeded(): Promise<Job> {
  const charge = fresh();
  expect(await isDone(charge)).toBe(true);
  return charge;
}

async function settling(): Promise<Job> {
  const charge = fresh({ paymentMethodId: 'pm_usBankAccount_success' });
  expect(await isDone(charge)).toBe(true);
  expect(await recordOf(charge)).toMatchObject({ state: 'settling' });
  return charge;
}

/** Its worker holds the lease and is not heard of any more. */
async function running(): Promise<Job> {
  const charge = fresh();
  dieAfterClaim(bench, charge);
  await isDone(charge);
  expect(await recordOf(charge)).toMatchObject({ state: 'running' });
  return charge;
}

/** Accepted by the API, and not yet heard of by a worker. */
async function accepted(): Promise<Job> {
  const charge = fresh();
  expect((await bench.charge(charge)).status).toBe(202);
  return charge;
}

/** A refund of a charge, accepted by the API. */
async function acceptedRefund(charge: Job, amountMinor: number) {
  const refund = refundOf(charge, amountMinor);
  const path = `/tenants/${refund.tenantId}/refunds/${refund.operationId}`;
  expect((await bench.request('PUT', path, { body: refund.input })).status).toBe(202);
  return refund;
}

const paymentOf = ({ operationId }: Named): string => {
  const [intent] = bench.stripe
    .paymentIntents()
    .filter(({ metadata }) => metadata.operationId === operationId);
  if (!intent) throw new Error('Stripe has no payment of it');
  return intent.id;
};

/** A payment that somebody made by hand. */
const byHand = (params: Readonly<Record<string, string>> = {}): Promise<string> =>
  madeByHand(creations.path, {
    amount: '1999',
    currency: 'usd',
    payment_method: 'pm_A',
    confirm: 'true',
    ...params,
  });

async function madeByHand(path: string, params: Readonly<Record<string, string>>): Promise<string> {
  const response = await fetch(`${bench.stripe.url}${path}`, {
    method: 'POST',
    headers: { authorization: 'Bearer sk_test_local_stand_in' },
    body: new URLSearchParams(params),
  });
  return String(Object(await response.json()).id);
}

/** Nothing was done: no write on the operation, no message, no call that moves money. */
async function expectRefusal(of: Named, ask: () => Promise<OperatorAnswer>, said: RegExp) {
  const before = await evidenceFor(of);
  const depth = await bench.stack.queueDepth();
  const answer = await ask();
  expect(answer).toMatchObject({ done: false, said: expect.stringMatching(said) });
  expect(await evidenceFor(of)).toEqual(before);
  expect(await bench.stack.queueDepth()).toEqual(depth);
}

describe('settled as succeeded', () => {
  const settle = (of: Named, providerRef: string, more: object = {}) =>
    operateOn(of, { action: 'settle', succeeded: providerRef, ...more });

  test('is what its own payment did: with the reference, without a call that moves money, and on record', async () => {
    const charge = await inDoubt('done');
    bench.logs();
    const answer = await settle(charge, paymentOf(charge));
    expect(answer).toMatchObject({ done: true, operation: { state: 'succeeded' } });
    expect(await evidenceFor(charge)).toMatchObject({
      charges: 1,
      posts: 1,
      record: {
        state: 'succeeded',
        providerRef: paymentOf(charge),
        result: { amountMinor: 1999, currency: 'usd' },
        intervention: { action: 'settled', by, atMs: expect.any(Number) },
      },
    });
    const told = bench.logs().filter(({ message }) => message === 'operation settled by a person');
    expect(told).toEqual([expect.objectContaining({ by, operationId: charge.operationId })]);
    // Its message is a replay now.
    expect(await isDone(charge)).toBe(true);
    expect((await evidenceFor(charge)).posts).toBe(1);
  });

  test("is refused by another operation's payment, whatever the evidence", async () => {
    const [charge, other] = [await inDoubt('none'), await succeeded()];
    const ask = () => settle(charge, paymentOf(other), { evidence });
    await expectRefusal(charge, ask, /belongs to another operation/);
  });

  test('is refused by a payment that does not say whose it is, unless there is evidence, which is kept', async () => {
    const charge = await inDoubt('none');
    const payment = await byHand();
    await expectRefusal(charge, () => settle(charge, payment), /give the evidence/);
    expect(await settle(charge, payment, { evidence })).toMatchObject({ done: true });
    expect(await evidenceFor(charge)).toMatchObject({
      charges: 0,
      posts: 1,
      record: { state: 'succeeded', providerRef: payment, intervention: { action: 'settled', evidence } },
    });
  });

  test.each([
    ['amount', { amount: '9000' }, /moved 9000; \S+ asks for 1999/],
    ['currency', { currency: 'eur' }, /moved eur; \S+ asks for usd/],
  ])('is refused by a payment of another %s', async (_name, params, said) => {
    const charge = await inDoubt('none');
    const payment = await byHand(params);
    await expectRefusal(charge, () => settle(charge, payment, { evidence }), said);
  });

  test.each([
    ['is under way', 'pm_usBankAccount_success', /has not succeeded/],
    ['was canceled', 'pm_status_canceled', /has not succeeded/],
    ['was declined', 'pm_card_chargeDeclined', /could not be read at Stripe: intent_requires_payment_method/],
  ])('is refused by a payment that %s, which is left as it is', async (_name, paymentMethodId, said) => {
    const charge = await inDoubt('done', { paymentMethodId });
    const payment = paymentOf(charge);
    const status = () => bench.stripe.paymentIntents().find(({ id }) => id === payment)?.status;
    const before = status();
    await expectRefusal(charge, () => settle(charge, payment), said);
    expect(status()).toBe(before);
  });

  test('is refused where Stripe does not have the payment, or cannot be asked', async () => {
    const charge = await inDoubt('done');
    await expectRefusal(
      charge,
      () => settle(charge, 'pi_nobody'),
      /could not be read at Stripe: resource_missing/,
    );
    bench.stripe.fault({ kind: 'answer', status: 503 }, { path: `/v1/payment_intents/${paymentOf(charge)}` });
    await expectRefusal(
      charge,
      () => settle(charge, paymentOf(charge)),
      /could not be read at Stripe: status_503/,
    );
  });

  test('is what its own refund did, and refused by a payment in its place', async () => {
    const charge = await inDoubt('done');
    await settle(charge, paymentOf(charge));
    const refund = await acceptedRefund(charge, 500);
    const { operationId } = refund;
    bench.stripe.fault({ kind: 'reset', effect: 'done' }, { operationId, path: '/v1/refunds' });
    await bench.drain();
    const [made] = bench.stripe.refunds().filter(({ metadata }) => metadata.operationId === operationId);
    await expectRefusal(refund, () => settle(refund, paymentOf(charge)), /could not be read/);
    expect(await settle(refund, made?.id ?? '')).toMatchObject({ done: true });
    expect(await recordOf(refund)).toMatchObject({ state: 'succeeded', providerRef: made?.id });
  });

  test('is refused by a refund of another charge, whatever the evidence', async () => {
    const [charge, other] = [await succeeded(), await succeeded()];
    const foreign = await madeByHand(refundCreations.path, {
      payment_intent: paymentOf(other),
      amount: '500',
    });
    const refund = await acceptedRefund(charge, 500);
    await expectRefusal(refund, () => settle(refund, foreign, { evidence }), /belongs to another operation/);
    await bench.drain();
    expect(await recordOf(refund)).toMatchObject({ state: 'succeeded' });
  });

  test('is refused where a worker took it up while the payment was read: its own call wins', async () => {
    const charge = await accepted();
    const payment = await byHand();
    const claimed = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<void>();
    const call = async () => {
      claimed.resolve();
      await answered.promise;
    };
    let worked: Promise<unknown> = Promise.resolve();
    const work = async () => {
      worked = isDone(charge);
      await claimed.promise;
    };
    const hook = { kind: 'hook', at: 'beforeEffect' } as const;
    bench.stripe.fault({ ...hook, run: call }, { operationId: charge.operationId, ...creations });
    bench.stripe.fault({ ...hook, run: work }, { method: 'GET', path: `${creations.path}/${payment}` });
    const answer = await settle(charge, payment, { evidence });
    answered.resolve();
    await worked;
    expect(answer).toMatchObject({
      done: false,
      said: expect.stringMatching(/look at it again|A worker runs it/),
    });
    expect(await evidenceFor(charge)).toMatchObject({
      charges: 1,
      record: { state: 'succeeded', providerRef: paymentOf(charge) },
    });
    await bench.drain();
  });
});

describe('proven absent', () => {
  const prove = (of: Named) => operateOn(of, { action: 'settle', absent: true, evidence });

  test('runs again under a new key, and is charged once', async () => {
    const charge = await inDoubt('none');
    const [key = ''] = (await evidenceFor(charge)).keys;
    await later(2);
    expect(await prove(charge)).toMatchObject({ done: true, operation: { state: 'queued' } });
    await bench.drain();
    expect(await evidenceFor(charge)).toMatchObject({
      charges: 1,
      posts: 2,
      keys: [key, key.replace(/0$/, '1')],
      record: {
        state: 'succeeded',
        providerKey: key.replace(/0$/, '1'),
        intervention: { action: 'proven_absent', by, evidence },
      },
    });
  });

  test('where Stripe only repeated itself under its key, is charged once under the new one', async () => {
    const charge = await withSpentKey();
    const { posts } = await evidenceFor(charge);
    await later(2);
    expect(await prove(charge)).toMatchObject({ done: true });
    await bench.drain();
    expect(await evidenceFor(charge)).toMatchObject({
      charges: 1,
      posts: posts + 1,
      record: { state: 'succeeded', providerKey: expect.stringMatching(/\/charge\/1$/) },
    });
  });

  test('is refused within the quiet hour: a request may still land', async () => {
    const charge = await inDoubt('none');
    await expectRefusal(charge, () => prove(charge), /may still land until 20\S+Z/);
    // Not even a minute before its end, counted from the last lease's.
    const leaseEndMs = Number((await recordOf(charge))?.leaseExpiresAtMs);
    await bench.stack.clock.advance(leaseEndMs + hourMs - 60_000 - bench.stack.clock.now());
    await expectRefusal(charge, () => prove(charge), /may still land/);
    await bench.stack.clock.advance(61_000);
    expect(await prove(charge)).toMatchObject({ done: true });
    await bench.drain();
  });

  test('is refused where Stripe has it, and says which payment', async () => {
    const charge = await inDoubt('done');
    await later(2);
    await expectRefusal(charge, () => prove(charge), new RegExp(`Stripe has ${paymentOf(charge)}`));
  });

  test('is refused where Stripe has it in a state that says nothing', async () => {
    const charge = await inDoubt('done', { paymentMethodId: 'pm_status_requires_capture' });
    await later(2);
    await expectRefusal(charge, () => prove(charge), new RegExp(`Stripe has ${paymentOf(charge)}`));
  });

  test('is refused while Stripe cannot be asked: it may know better', async () => {
    const charge = await inDoubt('done');
    await later(2);
    bench.stripe.fault({ kind: 'answer', status: 503 }, lists);
    await expectRefusal(charge, () => prove(charge), /cannot be asked at the moment: status_503/);
  });

  test("is a person's to say where the list may not be read", async () => {
    const charge = await inDoubt('none');
    await later(2);
    bench.stripe.fault({ kind: 'answer', status: 403 }, lists);
    expect(await prove(charge)).toMatchObject({ done: true });
    await bench.drain();
    expect(await evidenceFor(charge)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
  });

  test('ends as cancelled where that was asked for, and is never charged', async () => {
    const charge = await inDoubt('none');
    expect((await bench.postCancel(charge)).status).toBe(409);
    await later(2);
    expect(await prove(charge)).toMatchObject({ done: true, operation: { state: 'cancelled' } });
    expect(await isDone(charge)).toBe(true);
    const cancelled = await evidenceFor(charge);
    expect(cancelled).toMatchObject({ charges: 0, posts: 1, record: { state: 'cancelled' } });
    expect(cancelled.record).not.toHaveProperty('effectPossibleSinceMs');
  });

  test('and cancelled gives the place back that it was accepted on', async () => {
    const charge = await accepted();
    dieAfterClaim(bench, charge);
    await isDone(charge);
    await pastTheLease(bench);
    await later(2);
    await bench.postCancel(charge);
    expect(await prove(charge)).toMatchObject({ done: true, operation: { state: 'cancelled' } });
    expect(await bench.stack.item(`tenant#${charge.tenantId}`)).toHaveProperty('accepted', {});
    await bench.drain();
  });

  test('and cancelled gives the part of the charge back that a refund held', async () => {
    const charge = await succeeded();
    const refund = await acceptedRefund(charge, 1000);
    bench.stripe.fault({ kind: 'reset', effect: 'none' }, refundCreations);
    await isDone(refund);
    expect(await recordOf(charge)).toMatchObject({ refundedMinor: 1000 });
    await later(2);
    await bench.postCancel(refund);
    expect(await prove(refund)).toMatchObject({ done: true, operation: { state: 'cancelled' } });
    expect(await recordOf(charge)).toMatchObject({ refundedMinor: 0 });
    await bench.drain();
  });

  test('keeps the longest evidence in a record of less than 1 024 bytes, or every write costs double', async () => {
    const charge = chargeOf({
      tenantId: 't'.repeat(36),
      operationId: 'o'.repeat(36),
      input: {
        invoiceId: 'i'.repeat(36),
        customerId: 'cus_SzQ8nBkGZ8jDqp',
        paymentMethodId: 'pm_1MqLiJLkdIwHu7ixUEgbFdYF',
      },
    });
    expect((await bench.charge(charge)).status).toBe(202);
    bench.stripe.fault({ kind: 'reset', effect: 'none' }, { operationId: charge.operationId, ...creations });
    await isDone(charge);
    await later(2);
    const longest = 'e'.repeat(120);
    const proof = { action: 'settle', absent: true, evidence: longest };
    expect(await operateOn(charge, proof)).toMatchObject({ done: true });
    bench.stripe.fault({ kind: 'reset', effect: 'none' }, { operationId: charge.operationId, ...creations });
    await isDone(charge);
    const again = await recordOf(charge);
    expect(again).toMatchObject({ state: 'parked', intervention: { evidence: longest } });
    expect(bytesOf(again ?? {})).toBeLessThan(1024);
    await bench.drain();
  });

  test('is refused where no effect is possible, and where Stripe has taken it', async () => {
    const charge = await accepted();
    await expectRefusal(charge, () => prove(charge), /No effect is possible/);
    await bench.drain();
    const taken = await settling();
    await later(2);
    await expectRefusal(taken, () => prove(taken), /Stripe has taken it/);
  });
});

describe('retried', () => {
  const retry = (of: Named) => operateOn(of, { action: 'retry' });

  test('runs again by a message of its own, under its own key', async () => {
    const charge = await inDoubt('none');
    expect(await retry(charge)).toMatchObject({ done: true });
    expect(await recordOf(charge)).toMatchObject({
      state: 'parked',
      intervention: { action: 'retried', by },
    });
    // The call that was given up may still run: its place is free after that.
    await bench.stack.clock.advance(bench.stack.limits.providerTimeoutSeconds * 1000 + 1);
    await bench.drain();
    expect(await evidenceFor(charge)).toMatchObject({
      charges: 1,
      posts: 2,
      keys: [expect.any(String)],
      record: { state: 'succeeded', attemptCount: 2, redriveCount: 1 },
    });
  });

  test('runs also after as many redrives as are allowed: their count starts anew', async () => {
    const charge = fresh();
    const refusal = { kind: 'answer', status: 403 } as const;
    bench.stripe.fault(refusal, { operationId: charge.operationId, ...creations, times: 6 });
    for (let delivery = 1; delivery <= 6; delivery++) {
      expect(await isDone(charge)).toBe(false);
      await bench.stack.clock.advance(bench.stack.limits.providerTimeoutSeconds * 1000 + 1);
    }
    expect(await recordOf(charge)).toMatchObject({ state: 'parked', redriveCount: 5, attemptCount: 0 });
    // Nobody but a person makes it run again.
    expect(await isDone(charge)).toBe(false);
    expect((await evidenceFor(charge)).posts).toBe(6);
    expect(await retry(charge)).toMatchObject({ done: true });
    await bench.stack.clock.advance(1000);
    await bench.drain();
    expect(await evidenceFor(charge)).toMatchObject({
      charges: 1,
      posts: 7,
      record: { state: 'succeeded', redriveCount: 1 },
    });
  });

  test('is refused past the deadline of what was never attempted: it would only fail', async () => {
    const charge = fresh();
    bench.stripe.fault({ kind: 'answer', status: 403 }, { operationId: charge.operationId, ...creations });
    expect(await isDone(charge)).toBe(false);
    await later(bench.stack.limits.deadlineHours + 1);
    await expectRefusal(charge, () => retry(charge), /deadline/);
  });

  test('is refused where Stripe only repeats itself under its key', async () => {
    const charge = await withSpentKey();
    await expectRefusal(charge, () => retry(charge), /only repeats itself/);
  });

  test('is refused where Stripe has taken it', async () => {
    const charge = await settling();
    await expectRefusal(charge, () => retry(charge), /Stripe has taken it/);
  });
});

describe('cancelled', () => {
  const cancel = (of: Named) => operateOn(of, { action: 'cancel' });

  test('before it ran: never called, its place is free, and it is on record', async () => {
    const charge = await accepted();
    expect(await cancel(charge)).toMatchObject({ done: true, operation: { state: 'cancelled' } });
    await bench.drain();
    expect(await evidenceFor(charge)).toMatchObject({
      posts: 0,
      record: { state: 'cancelled', intervention: { action: 'cancelled', by } },
    });
    expect(await bench.stack.item(`tenant#${charge.tenantId}`)).toMatchObject({ accepted: {} });
  });

  test('when it was refused before anything was done', async () => {
    const charge = fresh();
    bench.stripe.fault({ kind: 'answer', status: 403 }, { operationId: charge.operationId });
    await isDone(charge);
    expect(await cancel(charge)).toMatchObject({ done: true, operation: { state: 'cancelled' } });
  });

  test('is refused where an effect is possible; the wish is kept, and granted when it proves that there is none', async () => {
    const charge = await inDoubt('none');
    expect(await cancel(charge)).toMatchObject({
      done: false,
      said: expect.stringMatching(/may have had an effect/),
    });
    expect(await recordOf(charge)).toMatchObject({
      state: 'parked',
      cancelRequestedAtMs: expect.any(Number),
    });
    await later(2);
    expect(await bench.reconcileOne(charge)).toMatchObject({ done: true, operation: { state: 'cancelled' } });
    expect(await evidenceFor(charge)).toMatchObject({ charges: 0, posts: 1 });
  });

  test('is refused where it succeeded, with what to do instead', async () => {
    const charge = await succeeded();
    await expectRefusal(charge, () => cancel(charge), /refund it/);
  });
});

describe('discarded', () => {
  const discard = (of: Named) => operateOn(of, { action: 'discard' });

  test('is noted on the operation, whatever its state, and changes nothing else', async () => {
    for (const charge of [await inDoubt('none'), await succeeded()]) {
      const before = await recordOf(charge);
      expect(await discard(charge)).toMatchObject({ done: true });
      expect(await recordOf(charge)).toEqual({
        ...before,
        intervention: { action: 'discarded', by, atMs: expect.any(Number) },
      });
    }
  });
});

describe('reconciled by a person', () => {
  test('ends as what Stripe has', async () => {
    const charge = await inDoubt('done');
    expect(await bench.reconcileOne(charge)).toMatchObject({ done: true, operation: { state: 'succeeded' } });
    expect(await evidenceFor(charge)).toMatchObject({ charges: 1, posts: 1 });
  });

  test('runs again where Stripe has nothing after the quiet hour, under its own key', async () => {
    const charge = await inDoubt('none');
    await expectRefusal(charge, () => bench.reconcileOne(charge), /quiet_hour/);
    await later(2);
    expect(await bench.reconcileOne(charge)).toMatchObject({ done: true, operation: { state: 'queued' } });
    await bench.drain();
    expect(await evidenceFor(charge)).toMatchObject({
      charges: 1,
      posts: 2,
      keys: [expect.any(String)],
      record: { state: 'succeeded' },
    });
  });

  test.each([
    ['may not be asked', 403, /cannot be told what happened/],
    ['cannot be asked', 503, /cannot be asked at the moment/],
  ])('is left as it is where Stripe %s', async (_name, status, said) => {
    const charge = await inDoubt('done');
    bench.stripe.fault({ kind: 'answer', status }, lists);
    await expectRefusal(charge, () => bench.reconcileOne(charge), said);
  });

  test('has nothing to ask where no effect is possible', async () => {
    const charge = await accepted();
    await expectRefusal(charge, () => bench.reconcileOne(charge), /No effect is possible/);
    await bench.drain();
  });
});

describe('whatever is asked for', () => {
  const requests: [string, object][] = [
    ['settle as succeeded', { action: 'settle', succeeded: 'pi_1', evidence }],
    ['settle as absent', { action: 'settle', absent: true, evidence }],
    ['retry', { action: 'retry' }],
    ['cancel', { action: 'cancel' }],
    ['discard', { action: 'discard' }],
  ];

  test.each(requests)(
    '%s of an operation that nobody knows is refused, and makes none',
    async (_name, request) => {
      const charge = fresh();
      await expectRefusal(charge, () => operateOn(charge, request), /There is no operation/);
    },
  );

  test.each(requests.slice(0, 3))('%s of an operation that ended is refused', async (_name, request) => {
    const charge = await succeeded();
    await expectRefusal(charge, () => operateOn(charge, request), /succeeded already, and that is final/);
  });

  test('nothing is settled or retried while a worker runs it, and all is possible once its lease ended', async () => {
    const charge = await running();
    for (const [, request] of requests.slice(0, 3))
      await expectRefusal(charge, () => operateOn(charge, request), /A worker runs it until 20\S+Z/);
    await expectRefusal(charge, () => bench.reconcileOne(charge), /A worker runs it/);
    await pastTheLease(bench);
    expect(await operateOn(charge, { action: 'retry' })).toMatchObject({ done: true });
    await bench.drain();
  });

  const one = { tenantId: 'North', operationId: 'O7', by };
  test.each<[string, unknown]>([
    ['nothing', undefined],
    ['a text', 'pause'],
    ['no action', one],
    ['another action', { ...one, action: 'charge' }],
    ['nobody who asks', { ...one, action: 'retry', by: undefined }],
    ['an empty name', { ...one, action: 'retry', by: '' }],
    ['a long name', { ...one, action: 'retry', by: 'a'.repeat(65) }],
    ['an id with a hash', { ...one, action: 'retry', operationId: 'O#7' }],
    ['no operation', { ...one, action: 'retry', operationId: undefined }],
    ['neither an effect nor its absence', { ...one, action: 'settle' }],
    ['both', { ...one, action: 'settle', succeeded: 'pi_1', absent: true, evidence }],
    ['an effect that is none', { ...one, action: 'settle', succeeded: 'cus_1' }],
    ['an absence without evidence', { ...one, action: 'settle', absent: true }],
    ['an absence that is false', { ...one, action: 'settle', absent: false, evidence }],
    ['evidence that says nothing', { ...one, action: 'settle', absent: true, evidence: 'none' }],
    ['evidence without end', { ...one, action: 'settle', absent: true, evidence: 'e'.repeat(121) }],
    ['a pause without a reason', { action: 'pause', by }],
    ['a resume by nobody', { action: 'resume' }],
    ['more than is known', { ...one, action: 'retry', force: true }],
  ])('%s is refused, and nothing is read, written or called', async (_name, request) => {
    bench.stack.dynamodbProxy.resetCounts();
    const before = bench.stripe.requests().length;
    expect(await bench.operate(Object(request))).toEqual({
      done: false,
      said: expect.stringMatching(/^This cannot be asked for: ./),
    });
    expect(bench.stack.dynamodbProxy.counts()).toEqual({});
    expect(bench.stripe.requests()).toHaveLength(before);
  });
});

describe('a pause', () => {
  afterEach(() => bench.operate({ action: 'resume', by }));
  const pause = () => bench.operate({ action: 'pause', by, reason: 'a wrong price list' });

  test('stops every call and takes nothing on; after it everything is done, once', async () => {
    const known = await accepted();
    await bench.drain();
    const retried = await inDoubt('none');
    await operateOn(retried, { action: 'retry' });
    const direct = [fresh(), fresh()];
    for (const each of direct) await bench.stack.send(each);
    bench.logs();

    expect(await pause()).toMatchObject({ done: true });
    const refused = fresh();
    expect(await bench.charge(refused)).toMatchObject({
      status: 503,
      headers: { 'retry-after': '60' },
      body: { type: 'urn:charge-once:problem:service-paused' },
    });
    expect(await recordOf(refused)).toBeUndefined();
    expect(await bench.charge(known)).toMatchObject({ status: 200 });

    const before = bench.stripe.requests().length;
    for (let round = 0; round < 12; round++) {
      await bench.stack.clock.advance(11_000);
      await bench.drain();
      await bench.reconcile();
    }
    // What is left over is asked about all the same: questions move no money.
    const posts = bench.stripe
      .requests()
      .slice(before)
      .filter(({ method, path }) => method === 'POST' && path === creations.path);
    expect(posts).toEqual([]);
    expect(await bench.stack.deadLetters()).not.toContainEqual(
      expect.stringContaining(direct[0]?.operationId ?? ''),
    );

    expect(await bench.operate({ action: 'resume', by })).toMatchObject({ done: true });
    for (let round = 0; round < 12; round++) {
      await bench.stack.clock.advance(11_000);
      await bench.drain();
      await bench.reconcile();
    }
    for (const each of [known, retried, ...direct])
      expect(await evidenceFor(each)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
    expect((await bench.charge(refused)).status).toBe(202);
    await bench.drain();
    const changes = bench.logs().filter(({ message }) => String(message).startsWith('breaker'));
    expect(changes).toEqual([
      expect.objectContaining({
        message: 'breaker opened',
        reason: 'paused',
        by,
        note: 'a wrong price list',
      }),
      expect.objectContaining({ message: 'breaker closed', reason: 'paused', by }),
    ]);
  });

  test('is kept with who wants it, and asked for twice is one', async () => {
    await pause();
    await pause();
    expect(await bench.stack.item('provider#stripe')).toMatchObject({
      breakerReason: 'paused',
      breakerNote: 'ada: a wrong price list',
    });
    expect(await bench.operate({ action: 'resume', by })).toMatchObject({ done: true });
  });

  test('that is none cannot be ended', async () => {
    expect(await bench.operate({ action: 'resume', by })).toEqual({
      done: false,
      said: 'It is neither paused nor open.',
    });
  });
});

describe('a check', () => {
  test('says that the key may do all that is needed', async () => {
    const answer = await bench.operate({ action: 'check' });
    expect(answer).toMatchObject({ done: true, said: 'The key may do all that is needed.' });
    expect(answer.checks).toHaveLength(5);
  });

  test('says what it may not do', async () => {
    bench.stripe.fault({ kind: 'answer', status: 403 }, { method: 'POST', path: '/v1/refunds' });
    expect(await bench.operate({ action: 'check' })).toMatchObject({
      done: false,
      said: '1 of 5 checks failed.',
    });
  });
});

/**
 * As DynamoDB counts: names and texts in UTF-8; a number about half its digits and one; a map three and one for each
 * member. https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
 */
function bytesOf(item: object): number {
  return Object.entries(item).reduce(
    (sum, [name, value]) => sum + Buffer.byteLength(name) + bytesOfValue(value),
    0,
  );
}

function bytesOfValue(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (typeof value === 'number') return Math.ceil(String(Math.abs(value)).length / 2) + 1;
  if (typeof value === 'object' && value !== null) return 3 + bytesOf(value) + Object.keys(value).length;
  throw new Error(`No record holds ${String(value)}`);
}
