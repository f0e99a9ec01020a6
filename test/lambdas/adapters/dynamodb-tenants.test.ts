import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, PutCommand } from '@aws-sdk/lib-dynamodb';
import fc from 'fast-check';
import { DynamoDbStore } from '../../../lambdas/adapters/dynamodb-store';
import { DynamoDbTenants } from '../../../lambdas/adapters/dynamodb-tenants';
import { TableClient } from '../../../lambdas/adapters/table-client';
import { type LimitOverrides, limitsFrom } from '../../../lambdas/operation/limits';
import type { SlotAnswer, SlotRequest } from '../../../lambdas/operation/ports';
import { slotAdvice, type Tenant } from '../../../lambdas/operation/tenant';
import { type LocalStack, startLocalStack } from '../../../local/stack';
import { hourMs, nowMs } from '../fixtures';

let stack: LocalStack;
let client: DynamoDBClient;
let table: TableClient;
beforeAll(async () => {
  stack = await startLocalStack({ startEventSource: false });
  client = new DynamoDBClient({
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    endpoint: stack.endpoints.dynamodb,
    maxAttempts: 3,
  });
  table = new TableClient(client, stack.tableName);
});
afterAll(async () => {
  client.destroy();
  await stack.stop();
});

const tenantsWith = (overrides: LimitOverrides = {}) => new DynamoDbTenants(table, limitsFrom(overrides));

/** A tenant of its own for each test, and what one worker does for it. */
let count = 0;
function fresh(overrides: LimitOverrides = {}) {
  count += 1;
  const tenantId = `t${count}`;
  const tenants = tenantsWith(overrides);
  const id = (operationId: string) => ({ tenantId, operationId });
  const item = () => seenOf(tenantId);
  return {
    tenantId,
    tenants,
    id,
    item,
    /** A slot for an operation, by a worker that looked just before, or saw what `changes` says. */
    take: async (operationId: string, changes: Partial<SlotRequest> = {}): Promise<SlotAnswer> =>
      tenants.takeSlot({
        id: id(operationId),
        seen: 'seen' in changes ? changes.seen : await item(),
        claimId: `claim-${operationId}`,
        leaseExpiresAtMs: nowMs + 60_000,
        nowMs,
        ...changes,
      }),
    release: (operationId: string, claimId = `claim-${operationId}`, hasEnded = false) =>
      tenants.releaseSlot(id(operationId), claimId, hasEnded),
    admit: async (operationId: string, atMs = nowMs) => tenants.admit(id(operationId), await item(), atMs),
  };
}

async function seenOf(tenantId: string): Promise<Tenant | undefined> {
  const { tenants } = await new DynamoDbStore(table, limitsFrom()).look([], [tenantId]);
  return tenants.get(tenantId);
}

/** What an operator writes into a tenant's item, perhaps the first to write it. */
async function override(tenantId: string, limits: Readonly<Record<string, unknown>>) {
  const documents = DynamoDBDocumentClient.from(client);
  await documents.send(
    new PutCommand({ TableName: stack.tableName, Item: { pk: `tenant#${tenantId}`, ...limits } }),
  );
}

const slot = (operationId: string, leaseExpiresAtMs = nowMs + 60_000) => ({
  claimId: `claim-${operationId}`,
  leaseExpiresAtMs,
});

/** The next write of the tenant is applied, and its answer is lost. */
const loseAnswer = (tenantId: string) =>
  stack.dynamodbProxy.intercept(
    {
      action: 'UpdateItem',
      where: (body) => JSON.stringify(body).includes(`"tenant#${tenantId}"`),
      times: 1,
    },
    { kind: 'loseAnswer' },
  );

describe('a slot', () => {
  test('is taken by the first delivery of a tenant that nobody knows', async () => {
    const { take, item } = fresh();
    expect(await take('a')).toBe('taken');
    expect(await item()).toMatchObject({ running: { a: slot('a') }, accepted: {}, calls: {} });
  });

  test('is refused when all are taken, and nothing is written', async () => {
    const { take, item } = fresh();
    for (const operationId of ['a', 'b']) expect(await take(operationId)).toBe('taken');
    const before = await item();
    expect(await take('c')).toBe('full');
    expect(await item()).toEqual(before);
  });

  test('is free until the very end of a lease', async () => {
    const { take } = fresh();
    await take('a', { leaseExpiresAtMs: nowMs + 10 });
    await take('b');
    expect(await take('c', { nowMs: nowMs + 10 })).toBe('full');
    expect(await take('c', { nowMs: nowMs + 11 })).toBe('taken');
  });

  test('of a dead worker goes with the next taker, by name; one that was renewed meanwhile stays', async () => {
    const { take, item } = fresh();
    for (const operationId of ['a', 'b'])
      await take(operationId, { leaseExpiresAtMs: nowMs - 1, nowMs: nowMs - 9 });
    const seen = await item();
    // Another worker takes `a` again between the look and the write.
    expect(await take('a', { claimId: 'again' })).toBe('taken');
    expect(await take('c', { ...(seen ? { seen } : {}) })).toBe('taken');
    expect((await item())?.running).toEqual({ a: { ...slot('a'), claimId: 'again' }, c: slot('c') });
    expect(await take('d', { ...(seen ? { seen } : {}) })).toBe('full');
  });

  test('of the own operation that lapsed and went to others meanwhile is not there any more', async () => {
    const { take, item } = fresh();
    await take('a', { leaseExpiresAtMs: nowMs - 1, nowMs: nowMs - 9 });
    const seen = await item();
    for (const operationId of ['b', 'c']) expect(await take(operationId)).toBe('taken');
    expect(await take('a', { claimId: 'redelivered', ...(seen ? { seen } : {}) })).toBe('full');
    expect(Object.keys((await item())?.running ?? {}).sort()).toEqual(['b', 'c']);
  });

  test('is not shared by a duplicate of the delivery that runs', async () => {
    const { take, release, item } = fresh();
    await take('a');
    const seen = await item();
    for (const known of [seen, undefined])
      expect(await take('a', { claimId: 'duplicate', seen: known })).toBe('held');
    await release('a', 'duplicate');
    expect((await item())?.running).toEqual({ a: slot('a') });
  });

  test('taken twice by one claim is taken once', async () => {
    const { take, item } = fresh();
    for (let more = 0; more < 2; more++) expect(await take('a', { seen: undefined })).toBe('taken');
    expect((await item())?.running).toEqual({ a: slot('a') });
    expect(await take('b')).toBe('taken');
  });

  test.each([
    ['the first of its tenant', []],
    ['one of a tenant that is known', ['b']],
  ])('whose answer was lost recognises itself: %s', async (_name, others) => {
    const { take, item, tenantId } = fresh({ tenantDailyCalls: 5 });
    for (const operationId of others) await take(operationId);
    loseAnswer(tenantId);
    expect(await take('a')).toBe('taken');
    expect((await item())?.running).toMatchObject({ a: slot('a') });
    expect(Object.values((await item())?.calls ?? {})).toEqual([others.length + 1]);
  });

  test('of 20 at once goes to as many as there are places', async () => {
    const { take, item } = fresh();
    const ids = Array.from({ length: 20 }, (_, index) => `op-${index}`);
    const answers = await Promise.all(ids.map((operationId) => take(operationId)));
    expect(answers.filter((answer) => answer === 'taken')).toHaveLength(2);
    expect(Object.keys((await item())?.running ?? {})).toHaveLength(2);
  });

  test('of one operation goes to one of ten claims at once', async () => {
    const { take } = fresh();
    const claims = Array.from({ length: 10 }, (_, index) => `claim-${index}`);
    const answers = await Promise.all(claims.map((claimId) => take('a', { claimId })));
    expect(answers.filter((answer) => answer === 'taken')).toHaveLength(1);
  });
});

describe('a release', () => {
  test('frees the place, and twice is once', async () => {
    const { take, release, item } = fresh();
    await take('a');
    for (let more = 0; more < 2; more++) await release('a');
    expect((await item())?.running).toEqual({});
  });

  test('by a claim that lost its slot leaves the new owner alone', async () => {
    const { take, release, item } = fresh();
    await take('a', { leaseExpiresAtMs: nowMs - 1, nowMs: nowMs - 9 });
    await take('a', { claimId: 'next' });
    await release('a');
    await release('a', 'claim-a', true);
    expect((await item())?.running).toEqual({ a: { ...slot('a'), claimId: 'next' } });
  });

  test('of an operation that ended gives up its accepted place in the same write, and only its own', async () => {
    const { take, release, admit, item } = fresh();
    for (const operationId of ['a', 'b']) await admit(operationId);
    await take('a');
    stack.dynamodbProxy.resetCounts();
    await release('a', 'claim-a', true);
    expect(stack.dynamodbProxy.count('UpdateItem')).toBe(1);
    expect(await item()).toMatchObject({ running: {}, accepted: { b: nowMs } });
    expect(Object.keys((await item())?.accepted ?? {})).toEqual(['b']);
  });

  test('of an operation that ended after its slot went gives up the accepted place all the same', async () => {
    const { release, admit, item } = fresh();
    await admit('a');
    await release('a', 'claim-a', true);
    expect((await item())?.accepted).toEqual({});
  });

  test('whose answer was lost is done', async () => {
    const { take, release, admit, item, tenantId } = fresh();
    await admit('a');
    await take('a');
    loseAnswer(tenantId);
    await release('a', 'claim-a', true);
    expect(await item()).toMatchObject({ running: {}, accepted: {} });
  });

  test('of a tenant that nobody knows does nothing', async () => {
    const { release, tenants, id, item } = fresh();
    await release('a', 'claim-a', true);
    await tenants.leave(id('a'));
    expect(await item()).toBeUndefined();
  });
});

describe('an accepted place', () => {
  test('is refused when all are taken: running and waiting together', async () => {
    const { admit, item } = fresh();
    for (let index = 0; index < 7; index++) expect(await admit(`op-${index}`)).toBe('admitted');
    const before = await item();
    expect(await admit('op-7')).toBe('full');
    expect(await item()).toEqual(before);
    expect(Object.keys(before?.accepted ?? {})).toHaveLength(7);
  });

  test('taken again is the same place, young again, also when all are taken', async () => {
    const { admit, item } = fresh();
    for (let index = 0; index < 7; index++) await admit(`op-${index}`);
    expect(await admit('op-0', nowMs + 1000)).toBe('admitted');
    expect((await item())?.accepted['op-0']).toBe(nowMs + 1000);
    expect(Object.keys((await item())?.accepted ?? {})).toHaveLength(7);
  });

  test('whose caller is back is not evicted by another, however long it was left', async () => {
    const { admit, tenants, tenantId, item } = fresh();
    for (let index = 0; index < 7; index++) await admit(`op-${index}`);
    expect(await admit('op-0', nowMs + 61_000)).toBe('admitted');
    await tenants.leave({ tenantId, operationId: 'op-0' }, nowMs);
    expect((await item())?.accepted).toHaveProperty('op-0');
  });

  test('of 50 at once goes to seven, of 20 twins one place', async () => {
    const flood = fresh();
    const ids = Array.from({ length: 50 }, (_, index) => `op-${index}`);
    const answers = await Promise.all(ids.map((operationId) => flood.admit(operationId)));
    expect(answers.filter((answer) => answer === 'admitted')).toHaveLength(7);
    const twins = fresh();
    const same = await Promise.all(Array.from({ length: 20 }, () => twins.admit('a')));
    expect(new Set(same)).toEqual(new Set(['admitted']));
    expect((await twins.item())?.accepted).toEqual({ a: nowMs });
  });

  test.each([
    ['the first of its tenant', []],
    ['the last of its tenant', ['1', '2', '3', '4', '5', '6']],
  ])('whose answer was lost recognises itself: %s', async (_name, others) => {
    const { admit, item, tenantId } = fresh();
    for (const operationId of others) await admit(operationId);
    loseAnswer(tenantId);
    expect(await admit('a')).toBe('admitted');
    expect(Object.keys((await item())?.accepted ?? {})).toHaveLength(others.length + 1);
  });

  test('is given up by name, with the time that was seen only if it is still that one', async () => {
    const { admit, tenants, id, item } = fresh();
    for (const operationId of ['a', 'b']) await admit(operationId);
    await tenants.leave(id('a'), nowMs - 1);
    expect(Object.keys((await item())?.accepted ?? {}).sort()).toEqual(['a', 'b']);
    await tenants.leave(id('a'), nowMs);
    await tenants.leave(id('a'));
    expect((await item())?.accepted).toEqual({ b: nowMs });
  });

  test('has nothing to do with a slot: neither takes the other', async () => {
    const { admit, take, item } = fresh();
    await take('a');
    await admit('b');
    expect(await item()).toMatchObject({ running: { a: slot('a') }, accepted: { b: nowMs } });
    expect(Object.keys((await item())?.running ?? {})).toEqual(['a']);
  });
});

describe("a tenant's own limits", () => {
  test.each([
    [{ maxRunning: 3 }, 3, 7],
    [{ maxAccepted: 9 }, 2, 9],
  ])('%j stand in its item, also before anything else does', async (limits, running, accepted) => {
    const { take, admit, tenantId, item } = fresh();
    await override(tenantId, limits);
    const ids = Array.from({ length: 12 }, (_, index) => `op-${index}`);
    for (const operationId of ids) await take(operationId);
    for (const operationId of ids) await admit(operationId);
    const tenant = await item();
    expect(Object.keys(tenant?.running ?? {})).toHaveLength(running);
    expect(Object.keys(tenant?.accepted ?? {})).toHaveLength(accepted);
    expect(tenant).toMatchObject(limits);
  });
});

describe('the daily calls of a tenant', () => {
  test('are counted by UTC day, refused beyond the limit, and afresh the next day', async () => {
    const { take, release, item } = fresh({ tenantDailyCalls: 3 });
    const dayMs = 24 * hourMs;
    for (const day of [0, 1]) {
      const today = { nowMs: nowMs + day * dayMs, leaseExpiresAtMs: nowMs + day * dayMs + 60_000 };
      for (const operationId of ['a', 'b', 'c']) {
        expect(await take(operationId, today)).toBe('taken');
        await release(operationId);
      }
      expect(await take('d', today)).toBe('daily_calls_used');
      expect(await take('d', { ...today, seen: undefined })).toBe('daily_calls_used');
    }
    // Days that are over do not stay in the item.
    expect((await item())?.calls).toEqual({ '2026-01-16': 3 });
  });

  test('are not counted where there is no limit', async () => {
    const { take, item } = fresh();
    await take('a');
    expect((await item())?.calls).toEqual({});
  });
});

test('the look and the write never disagree about a slot', async () => {
  const leases = [undefined, nowMs - 1, nowMs, nowMs + 1];
  const days = [{}, { '2026-01-15': 1 }, { '2026-01-15': 2 }, { '2026-01-14': 2 }];
  const combinations = leases.flatMap((own) =>
    leases.flatMap((one) =>
      leases.slice(0, 3).flatMap((two) => days.map((calls) => ({ leases: { own, one, two }, calls }))),
    ),
  );
  const check = async (of: (typeof combinations)[number]) => {
    const { take, tenantId, item } = fresh({ tenantDailyCalls: 2 });
    const running = Object.entries(of.leases).flatMap(([operationId, leaseExpiresAtMs]) =>
      leaseExpiresAtMs === undefined ? [] : [[operationId, { claimId: 'before', leaseExpiresAtMs }] as const],
    );
    await override(tenantId, { running: Object.fromEntries(running), accepted: {}, calls: of.calls });
    const advice = slotAdvice(await item(), 'own', limitsFrom({ tenantDailyCalls: 2 }), nowMs);
    const answer = await take('own');
    expect({ of, answer }).toEqual({ of, answer: advice === 'free' ? 'taken' : advice });
  };
  await Promise.all(combinations.map(check));
});

describe('any interleaving of workers', () => {
  type Step =
    | {
        readonly kind: 'look' | 'take' | 'release' | 'end' | 'admit' | 'leave';
        readonly worker: number;
        readonly op: number;
      }
    | { readonly kind: 'wait'; readonly ms: number };
  const workers = 2;
  const op = fc.nat({ max: 2 });
  const worker = fc.nat({ max: workers - 1 });
  const step: fc.Arbitrary<Step> = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        kind: fc.constantFrom('look', 'take', 'take', 'take', 'release', 'end'),
        worker,
        op,
      }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('admit', 'leave'), worker, op }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('wait'), ms: fc.constantFrom(1, 101, 101) }) },
  );
  const leaseMs = 100;

  test('never has more live slots than places, counts what is open, and frees all once the leases ended', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), async (steps) => {
        const { tenantId, id, item } = fresh();
        const tenants = tenantsWith({ tenantMaxRunning: 2, tenantMaxWaiting: 1 });
        let atMs = nowMs;
        let claims = 0;
        /** What each worker saw last: perhaps long ago. */
        const seen: (Tenant | undefined)[] = Array(workers).fill(undefined);
        const live = new Map<string, { readonly claimId: string; readonly endsMs: number }>();
        const claimsOf = new Map<string, string>();
        const accepted = new Set<string>();
        for (const next of steps) {
          if (next.kind === 'wait') {
            atMs += next.ms;
            for (const [name, { endsMs }] of live) if (endsMs < atMs) live.delete(name);
            continue;
          }
          const name = `op-${next.op}`;
          const mine = `${next.worker}/${name}`;
          switch (next.kind) {
            case 'look':
              seen[next.worker] = await item();
              break;
            case 'take': {
              claims += 1;
              const claimId = `c${claims}`;
              const request = {
                id: id(name),
                seen: seen[next.worker],
                claimId,
                leaseExpiresAtMs: atMs + leaseMs,
                nowMs: atMs,
              };
              if ((await tenants.takeSlot(request)) !== 'taken') break;
              expect(live.has(name)).toBe(false);
              live.set(name, { claimId, endsMs: atMs + leaseMs });
              claimsOf.set(mine, claimId);
              break;
            }
            case 'release':
            case 'end': {
              const claimId = claimsOf.get(mine) ?? 'never-taken';
              await tenants.releaseSlot(id(name), claimId, next.kind === 'end');
              if (live.get(name)?.claimId === claimId) live.delete(name);
              if (next.kind === 'end') accepted.delete(name);
              break;
            }
            case 'admit':
              if ((await tenants.admit(id(name), seen[next.worker], atMs)) === 'admitted') accepted.add(name);
              break;
            case 'leave':
              await tenants.leave(id(name));
              accepted.delete(name);
          }
          const now = await item();
          const liveNow = Object.entries(now?.running ?? {}).filter(
            ([, entry]) => entry.leaseExpiresAtMs >= atMs,
          );
          expect(liveNow.map(([key]) => key).sort()).toEqual([...live.keys()].sort());
          expect(live.size).toBeLessThanOrEqual(2);
          expect(Object.keys(now?.accepted ?? {}).sort()).toEqual([...accepted].sort());
          expect(accepted.size).toBeLessThanOrEqual(3);
        }
        // A crash of everybody: past the leases each place can be had again.
        const takeAfter = (operationId: string) =>
          tenants.takeSlot({
            id: id(operationId),
            seen: undefined,
            claimId: `after-${operationId}`,
            leaseExpiresAtMs: atMs + 2 * leaseMs + 1,
            nowMs: atMs + leaseMs + 1,
          });
        expect([await takeAfter('x'), await takeAfter('y'), await takeAfter('z')]).toEqual([
          'taken',
          'taken',
          'full',
        ]);
        expect(tenantId).toBeDefined();
      }),
      { numRuns: 15 },
    );
  });
});
