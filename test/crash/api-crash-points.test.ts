import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { type LocalStack, startLocalStack } from '../../local/stack';
import type { WorkerPool } from '../../local/worker-pool';
import { type Job, job, refundOf } from '../support/worker-bench';

let stack: LocalStack;
let accept: WorkerPool;
let cancel: WorkerPool;
let reconcile: WorkerPool;
beforeAll(async () => {
  stack = await startLocalStack({ startEventSource: false });
  accept = stack.handler('lambdas/accept.ts');
  cancel = stack.handler('lambdas/cancel.ts');
  reconcile = stack.handler('lambdas/reconcile.ts');
  await Promise.all([accept.warm(1), cancel.warm(1), reconcile.warm(1)]);
});
afterAll(() => stack.stop());
const undo: (() => void)[] = [];
afterEach(async () => {
  for (const remove of undo.splice(0)) remove();
  await stack.eventSource.stop();
});

let count = 0;
function fresh() {
  count += 1;
  return job({ tenantId: `tenant-${count}` });
}
const recordOf = ({ tenantId, operationId }: Job) => stack.operation(tenantId, operationId);
const tenantOf = ({ tenantId }: Job) => stack.item(`tenant#${tenantId}`);
const chargesOf = ({ operationId }: Job) =>
  (stack.stripe?.ledger() ?? []).filter(({ metadata }) => metadata.operationId === operationId);

/** What API Gateway hands to a function. */
function eventOf(method: string, template: string, { tenantId, operationId }: Job, body?: object) {
  const routeKey = `${method} ${template}`;
  const path = template.replace('{tenantId}', tenantId).replace('{operationId}', operationId);
  const event: APIGatewayProxyEventV2 = {
    version: '2.0',
    routeKey,
    rawPath: path,
    rawQueryString: '',
    headers: { 'content-type': 'application/json' },
    pathParameters: { tenantId, operationId },
    requestContext: {
      accountId: '000000000000',
      apiId: 'test',
      domainName: 'test',
      domainPrefix: 'test',
      http: { method, path, protocol: 'HTTP/1.1', sourceIp: '127.0.0.1', userAgent: 'test' },
      requestId: 'test',
      routeKey,
      stage: '$default',
      time: '',
      timeEpoch: 0,
    },
    ...(body ? { body: JSON.stringify(body) } : {}),
    isBase64Encoded: false,
  };
  return event;
}

/** @returns the status of the answer, or how the process ended instead */
async function ask(pool: WorkerPool, event: APIGatewayProxyEventV2) {
  const result = await pool.invoke(event, 10_000);
  return result.outcome === 'responded' ? JSON.parse(result.payload ?? '{}').statusCode : result.outcome;
}
const putCharge = (of: Job) =>
  ask(accept, eventOf('PUT', '/tenants/{tenantId}/charges/{operationId}', of, Object(of.input)));
const putRefund = (of: Job) =>
  ask(accept, eventOf('PUT', '/tenants/{tenantId}/refunds/{operationId}', of, Object(of.input)));
const postCancel = (of: Job) =>
  ask(cancel, eventOf('POST', '/tenants/{tenantId}/operations/{operationId}/cancel', of));

/** Kills the pool's processes as they make, or have made, one call to AWS. */
function killAt(pool: WorkerPool, action: string, text: string, when: 'before' | 'after') {
  const proxy = action === 'SendMessage' ? stack.sqsProxy : stack.dynamodbProxy;
  const where = (body: unknown) => JSON.stringify(body).includes(text);
  const kill = (): 'drop' => {
    pool.killAll('SIGKILL');
    return 'drop';
  };
  undo.push(proxy.intercept({ action, where, times: 1 }, { kind: 'hook', [when]: kill }));
}
const keyOf = ({ tenantId, operationId }: Job) => `"op#${tenantId}#${operationId}"`;

/** Lets everything run until the operations have ended; the reconciler finds what is due. */
async function runToTheEnd(...jobs: readonly Job[]) {
  stack.eventSource.start();
  for (let round = 0; round < 20; round++) {
    const states = await Promise.all(jobs.map(async (of) => (await recordOf(of))?.state));
    if (states.every((state) => ['succeeded', 'failed', 'cancelled'].includes(String(state)))) break;
    await stack.clock.advance(13_000);
    await reconcile.invoke({}, 10_000);
    await stack.waitFor(async () => (await stack.queueDepth()).visible === 0);
    await stack.waitFor(() => stack.workers.busyPids().length === 0);
  }
  await stack.waitFor(async () => (await stack.queueDepth()).total === 0, { timeoutMs: 15_000 });
}

/** Seven places can be taken by others: none is held by what crashed. */
async function expectAllPlacesFree({ tenantId }: Job) {
  await stack.clock.advance(61_000);
  const others = Array.from({ length: 7 }, () => job({ tenantId }));
  const answers: unknown[] = [];
  for (const each of others) answers.push(await putCharge(each));
  expect(answers).toEqual(Array(7).fill(202));
  await runToTheEnd(...others);
  expect(await tenantOf({ tenantId, operationId: '' })).toMatchObject({ running: {}, accepted: {} });
}

describe('an accept that is killed between its record and its message', () => {
  test.each(["the caller's retry", 'the reconciler'])(
    'is finished by %s: one charge, no place left',
    async (by) => {
      const charge = fresh();
      killAt(accept, 'SendMessage', charge.operationId, 'before');
      expect(await putCharge(charge)).toBe('died');
      expect(await recordOf(charge)).toMatchObject({ state: 'queued' });
      await stack.clock.advance(by === 'the reconciler' ? 301_000 : 6_000);
      if (by === 'the reconciler') await reconcile.invoke({}, 10_000);
      else expect(await putCharge(charge)).toBe(200);
      await runToTheEnd(charge);
      expect(await recordOf(charge)).toMatchObject({ state: 'succeeded' });
      expect(chargesOf(charge)).toHaveLength(1);
      expect(await tenantOf(charge)).toMatchObject({ running: {}, accepted: {} });
      expect(await stack.deadLetters()).toEqual([]);
    },
  );
});

test('an accept that is killed between its admission and its record blocks nobody a minute later', async () => {
  const charge = fresh();
  killAt(accept, 'UpdateItem', keyOf(charge), 'before');
  expect(await putCharge(charge)).toBe('died');
  expect(await recordOf(charge)).toBeUndefined();
  expect(await tenantOf(charge)).toMatchObject({ accepted: { [charge.operationId]: expect.any(Number) } });
  await expectAllPlacesFree(charge);
});

describe('a cancel', () => {
  test('that is killed before its write changes nothing: the operation goes on', async () => {
    const charge = fresh();
    expect(await putCharge(charge)).toBe(202);
    killAt(cancel, 'UpdateItem', keyOf(charge), 'before');
    expect(await postCancel(charge)).toBe('died');
    await runToTheEnd(charge);
    expect(await recordOf(charge)).toMatchObject({ state: 'succeeded' });
    expect(chargesOf(charge)).toHaveLength(1);
    expect(await tenantOf(charge)).toMatchObject({ running: {}, accepted: {} });
  });

  test('that is killed after its write holds: the claim that comes then charges nothing, no place is lost', async () => {
    const charge = fresh();
    expect(await putCharge(charge)).toBe(202);
    killAt(cancel, 'UpdateItem', keyOf(charge), 'after');
    expect(await postCancel(charge)).toBe('died');
    await runToTheEnd(charge);
    expect(await recordOf(charge)).toMatchObject({ state: 'cancelled' });
    expect(chargesOf(charge)).toHaveLength(0);
    expect(await postCancel(charge)).toBe(200);
    await expectAllPlacesFree(charge);
  });

  test('between a claim and the death of its worker is refused: the next worker charges once', async () => {
    const charge = fresh();
    expect(await putCharge(charge)).toBe(202);
    const killed = Promise.withResolvers<void>();
    undo.push(
      stack.stripe?.fault(
        {
          kind: 'hook',
          at: 'beforeEffect',
          run: async () => {
            expect(await postCancel(charge)).toBe(409);
            stack.workers.killAll('SIGKILL');
            killed.resolve();
          },
          next: 'drop',
        },
        { operationId: charge.operationId },
      ) ?? (() => {}),
    );
    stack.eventSource.start();
    await killed.promise;
    await stack.waitFor(() => stack.workers.busyPids().length === 0);
    expect(await recordOf(charge)).toMatchObject({
      state: 'running',
      cancelRequestedAtMs: expect.any(Number),
    });
    await runToTheEnd(charge);
    expect(await recordOf(charge)).toMatchObject({ state: 'succeeded' });
    expect(chargesOf(charge)).toHaveLength(1);
    expect(await tenantOf(charge)).toMatchObject({ running: {}, accepted: {} });
  });
});

describe('a refund', () => {
  async function charged() {
    const charge = fresh();
    expect(await putCharge(charge)).toBe(202);
    await runToTheEnd(charge);
    await stack.eventSource.stop();
    return charge;
  }
  const refundedAtStripe = (charge: Job) =>
    (stack.stripe?.refunds() ?? []).filter(
      ({ metadata }) => metadata.chargeOperationId === charge.operationId,
    );

  test('whose accept is killed between its reservation and its record leaks no part of the charge', async () => {
    const charge = await charged();
    const [dead, next] = [refundOf(charge, 1999), refundOf(charge, 1999)];
    killAt(accept, 'UpdateItem', keyOf(dead), 'before');
    expect(await putRefund(dead)).toBe('died');
    expect(await recordOf(charge)).toMatchObject({ refunds: { [dead.operationId]: { amountMinor: 1999 } } });
    await stack.clock.advance(61_000);
    expect(await putRefund(next)).toBe(202);
    await runToTheEnd(next);
    expect(await recordOf(next)).toMatchObject({ state: 'succeeded' });
    expect(await recordOf(charge)).toMatchObject({
      refunds: { [next.operationId]: { amountMinor: 1999 } },
      refundedMinor: 1999,
    });
    expect(refundedAtStripe(charge)).toHaveLength(1);
    await expectAllPlacesFree(charge);
  });

  test.each(['beforeEffect', 'afterEffect'] as const)(
    'whose worker is killed in the call (%s) is made once, and no place is lost',
    async (at) => {
      const charge = await charged();
      const refund = refundOf(charge, 1000);
      expect(await putRefund(refund)).toBe(202);
      const killed = Promise.withResolvers<void>();
      const run = () => {
        stack.workers.killAll('SIGKILL');
        killed.resolve();
      };
      undo.push(
        stack.stripe?.fault({ kind: 'hook', at, run, next: 'drop' }, { operationId: refund.operationId }) ??
          (() => {}),
      );
      stack.eventSource.start();
      await killed.promise;
      await runToTheEnd(refund);
      expect(await recordOf(refund)).toMatchObject({ state: 'succeeded' });
      expect(refundedAtStripe(charge)).toHaveLength(1);
      expect(await recordOf(charge)).toMatchObject({ refundedMinor: 1000 });
      expect(await tenantOf(charge)).toMatchObject({ running: {}, accepted: {} });
      expect(await stack.deadLetters()).toEqual([]);
    },
  );
});

describe('during reconcile', () => {
  /** Five calls that committed, and whose answers were lost: parked, and due for the reconciler. */
  async function parked(): Promise<Job> {
    const charge = fresh();
    const end = stack.stripe?.fault(
      { kind: 'reset', effect: 'done' },
      { operationId: charge.operationId, times: 5 },
    );
    await stack.send(charge);
    stack.eventSource.start();
    for (let round = 0; round < 40 && (await recordOf(charge))?.state !== 'parked'; round++) {
      await stack.clock.advance(5_000);
      await stack.waitFor(() => stack.workers.busyPids().length === 0);
      if ((await recordOf(charge))?.state !== 'parked') await reconcile.invoke({}, 10_000);
    }
    await stack.eventSource.stop();
    end?.();
    expect(await recordOf(charge)).toMatchObject({ state: 'parked', parkedReason: 'attempts_exhausted' });
    return charge;
  }

  const isQuestion = { method: 'GET', path: '/v1/payment_intents' } as const;
  const points: [point: string, arm: (charge: Job, kill: () => 'drop') => () => void][] = [
    [
      'after it took the operation, before it asked Stripe',
      (_, kill) =>
        stack.stripe?.fault(
          { kind: 'hook', at: 'beforeEffect', run: () => void kill(), next: 'drop' },
          isQuestion,
        ) ?? (() => {}),
    ],
    ["after Stripe's answer, before the settle", (charge, kill) => onUpdate(charge, { before: kill })],
    ['after the settle', (charge, kill) => onUpdate(charge, { after: kill })],
  ];

  function onUpdate(charge: Job, hook: { before?: () => 'drop'; after?: () => 'drop' }) {
    const where = (body: unknown) => {
      const text = JSON.stringify(body);
      return text.includes(keyOf(charge)) && text.includes('":state":{"S":"succeeded"}');
    };
    return stack.dynamodbProxy.intercept(
      { action: 'UpdateItem', where, times: 1 },
      { kind: 'hook', ...hook },
    );
  }

  test.each(points)('%s: the next run finishes it, one charge and no further call', async (_point, arm) => {
    const charge = await parked();
    const killed = Promise.withResolvers<void>();
    undo.push(
      arm(charge, () => {
        reconcile.killAll('SIGKILL');
        killed.resolve();
        return 'drop';
      }),
    );
    // It is due a little later each time that it could not be told.
    await stack.clock.advance(3_600_000);
    await reconcile.invoke({}, 10_000).catch(() => {});
    await killed.promise;
    await stack.clock.advance(61_000);
    await reconcile.invoke({}, 10_000);
    expect(await recordOf(charge)).toMatchObject({ state: 'succeeded' });
    expect(chargesOf(charge)).toHaveLength(1);
  });
});
