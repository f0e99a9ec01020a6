import { once } from 'node:events';
import { createServer } from 'node:http';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, PutCommand } from '@aws-sdk/lib-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { DynamoDbStore } from '../../../lambdas/adapters/dynamodb-store';
import { TableClient } from '../../../lambdas/adapters/table-client';
import { decide, maxRedrives, windowOpensAtMs } from '../../../lambdas/operation/delivery';
import { leaseMs, limitsFrom } from '../../../lambdas/operation/limits';
import { oldestForm } from '../../../lambdas/operation/message';
import type { Operation } from '../../../lambdas/operation/operation';
import { type ClaimRequest, keyOf, type SettleRequest } from '../../../lambdas/operation/ports';
import { isTerminal, parkedReasons, type Settlement, states } from '../../../lambdas/operation/state';
import { type LocalStack, startLocalStack } from '../../../local/stack';
import { message as base, boundOf, type Charge, hourMs, nowMs, operation, writesOf } from '../fixtures';

const limits = limitsFrom();
let stack: LocalStack;
let store: DynamoDbStore;
let client: DynamoDBClient;
beforeAll(async () => {
  stack = await startLocalStack({ startEventSource: false });
  client = clientAt(stack.endpoints.dynamodb);
  store = new DynamoDbStore(new TableClient(client, stack.tableName), limits);
});
afterAll(async () => {
  client.destroy();
  await stack.stop();
});

function clientAt(endpoint: string): DynamoDBClient {
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  return new DynamoDBClient({ region: 'us-east-1', credentials, endpoint, maxAttempts: 3 });
}

let count = 0;
const freshId = () => {
  count += 1;
  return `op-${count}`;
};

/** As the store writes it. */
function itemOf({ tenantId, operationId, ...attributes }: Operation) {
  return { pk: `op#${tenantId}#${operationId}`, ...attributes, ...oldestForm(attributes) };
}

async function put(changes: Partial<Charge> = {}): Promise<Operation> {
  const stored = operation({ operationId: freshId(), ...changes });
  const Item = itemOf(stored);
  const documents = DynamoDBDocumentClient.from(client, { marshallOptions: { removeUndefinedValues: true } });
  await documents.send(new PutCommand({ TableName: stack.tableName, Item }));
  return stored;
}

const stored = async (of: { tenantId: string; operationId: string }) =>
  (await store.look([of])).operations.get(keyOf(of));

function claimOf(operationId: string, changes: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    id: { tenantId: base.tenantId, operationId },
    bound: boundOf(operationId),
    claimId: 'new-claim',
    isNew: false,
    nowMs,
    leaseExpiresAtMs: nowMs + 60_000,
    windowOpensAtMs: windowOpensAtMs(limits, nowMs),
    effectSinceMs: changes.nowMs ?? nowMs,
    paidBy: 'budget',
    ...changes,
  };
}
const redrive = { sentAtMs: nowMs - 1, maxAttempts: 5, maxRedrives };

describe('a claim', () => {
  test('of a new id writes everything that a crash would need, before the provider is called', async () => {
    const request = claimOf(freshId(), { isNew: true });
    const written = await store.claim(request);
    expect(written).toEqual({
      kind: 'claimed',
      operation: {
        ...request.id,
        ...request.bound,
        state: 'running',
        claimId: 'new-claim',
        leaseExpiresAtMs: nowMs + 60_000,
        attemptCount: 1,
        redriveCount: 0,
        effectPossibleSinceMs: nowMs,
        effectPossibleClaimId: 'new-claim',
        updatedAtMs: nowMs,
      },
    });
    expect(await stored(request.id)).toEqual(written.operation);
  });

  test('of a queued operation keeps what the first claim bound: inputs, key, parameters, limits and times', async () => {
    const before = await put({
      providerKey: 'of/an/older/build',
      providerParamsVersion: 7,
      attemptLimit: 3,
      effectPossibleSinceMs: nowMs - hourMs,
      effectPossibleClaimId: 'claim-of-before',
      acceptedBy: 'api',
      error: { code: 'x', message: 'x' },
      providerRef: 'pi_1',
    });
    const written = await store.claim(claimOf(before.operationId));
    const { error: _, ...kept } = before;
    expect(written).toEqual({
      kind: 'claimed',
      operation: {
        ...kept,
        state: 'running',
        claimId: 'new-claim',
        leaseExpiresAtMs: nowMs + 60_000,
        attemptCount: 2,
        updatedAtMs: nowMs,
      },
    });
  });

  test('of a parked operation whose message was sent again gives it fresh attempts and counts the redrive', async () => {
    const before = await put({
      state: 'parked',
      parkedReason: 'attempts_exhausted',
      parkedAtMs: nowMs - 2,
      attemptCount: 5,
      openShard: 1,
      dueAtMs: nowMs,
    });
    const written = await store.claim(claimOf(before.operationId, { redrive }));
    expect(written).toMatchObject({
      kind: 'claimed',
      operation: { state: 'running', attemptCount: 6, attemptLimit: 10, redriveCount: 1 },
    });
    for (const gone of ['parkedReason', 'parkedAtMs']) expect(written.operation).not.toHaveProperty(gone);
    // Who set it may have acknowledged the only message there was.
    expect(written.operation).toMatchObject({ openShard: 1, dueAtMs: nowMs });
  });

  test('after a proof of absence makes an effect possible from that listing on, not from itself', async () => {
    const before = await put({ absentProvenAtMs: nowMs - 2 * hourMs });
    const effectSinceMs = nowMs - 2 * hourMs;
    expect(await store.claim(claimOf(before.operationId, { effectSinceMs }))).toMatchObject({
      kind: 'claimed',
      operation: { effectPossibleSinceMs: effectSinceMs, effectPossibleClaimId: 'new-claim' },
    });
  });

  test("of the breaker's probe is given an attempt for it, and of nothing else", async () => {
    const limitAfter = async (changes: Partial<Charge>, request: Partial<ClaimRequest>) =>
      (await store.claim(claimOf((await put(changes)).operationId, request))).operation.attemptLimit;
    expect(await limitAfter({ attemptCount: 4 }, { paidBy: 'probe' })).toBe(6);
    expect(await limitAfter({ attemptCount: 4 }, { paidBy: 'budget' })).toBe(5);
    expect(await limitAfter({ attemptCount: 0 }, { paidBy: 'nobody' })).toBe(5);
    // A redrive has fresh ones, and one more for the probe.
    const parked = { state: 'parked', parkedAtMs: nowMs - 2, attemptCount: 5 } as const;
    expect(await limitAfter(parked, { paidBy: 'probe', redrive })).toBe(11);
    const isNew = claimOf(freshId(), { isNew: true, paidBy: 'probe' });
    expect((await store.claim(isNew)).operation).toMatchObject({ attemptCount: 1, attemptLimit: 6 });
  });

  const windowMs = limits.providerWindowHours * hourMs - leaseMs(limits);
  test.each<[clause: string, changes: Partial<Charge>, request?: Partial<ClaimRequest>]>([
    ['the inputs are others', { inputDigest: 'another' }],
    ['the window closed a moment ago', { effectPossibleSinceMs: nowMs - windowMs }],
    ['no attempt is left', { attemptCount: 5 }],
    ['another claim is live', { state: 'running', leaseExpiresAtMs: nowMs + 1 }],
    ['another claim ends now', { state: 'running', leaseExpiresAtMs: nowMs }],
    ['it is settling', { state: 'settling' }],
    ['it succeeded', { state: 'succeeded' }],
    ['it failed', { state: 'failed' }],
    ['it was cancelled', { state: 'cancelled' }],
    ['a cancel was asked for and no effect is possible', { cancelRequestedAtMs: nowMs - 1 }],
    ['its deadline has come and it was never attempted', { attemptCount: 0, deadlineAtMs: nowMs }],
    ['it is parked and this is no redrive', { state: 'parked', parkedAtMs: nowMs - 2 }],
    ['the redriven message was sent at the park', { state: 'parked', parkedAtMs: nowMs - 1 }, { redrive }],
    ['it was redriven too often', { state: 'parked', parkedAtMs: nowMs - 2, redriveCount: 5 }, { redrive }],
    [
      'the redriven inputs are others',
      { state: 'parked', parkedAtMs: nowMs - 2, inputDigest: 'another' },
      { redrive },
    ],
    [
      'the redrive is outside the window',
      { state: 'parked', parkedAtMs: nowMs - 2, effectPossibleSinceMs: nowMs - windowMs },
      { redrive },
    ],
    ['a redrive finds it running', { state: 'running', leaseExpiresAtMs: nowMs - 1 }, { redrive }],
    // isFirst
    ['it turns out to be a retry that nobody paid for', {}, { paidBy: 'nobody' }],
    [
      'it turns out to be a retry after a redrive, and nobody paid for it',
      { state: 'parked', parkedAtMs: nowMs - 2 },
      { redrive, paidBy: 'nobody' },
    ],
    // provenAsSeen
    ['its absence was proven since it was looked at', { absentProvenAtMs: nowMs - 1 }],
    [
      'its absence was proven again since it was looked at',
      { absentProvenAtMs: nowMs - 1 },
      { effectSinceMs: nowMs - hourMs },
    ],
    [
      'the absence of the redriven was proven since it was looked at',
      { state: 'parked', parkedAtMs: nowMs - 2, absentProvenAtMs: nowMs - 1 },
      { redrive },
    ],
  ])('is refused when %s, and nothing is written', async (...[_clause, changes, request]) => {
    const before = await put(changes);
    expect(await store.claim(claimOf(before.operationId, request))).toEqual({
      kind: 'refused',
      operation: before,
    });
    expect(await stored(before)).toEqual(before);
  });

  test.each<[clause: string, changes: Partial<Charge>, request?: Partial<ClaimRequest>]>([
    ['queued', {}],
    ['a millisecond before its deadline', { attemptCount: 0, deadlineAtMs: nowMs + 1 }],
    ['past its deadline and attempted before', { deadlineAtMs: nowMs - 1 }],
    [
      'in doubt, though a cancel was asked for',
      { cancelRequestedAtMs: nowMs - 1, effectPossibleSinceMs: nowMs - 2 },
    ],
    ['inside the window by a millisecond', { effectPossibleSinceMs: nowMs - windowMs + 1 }],
    ['at its last attempt', { attemptCount: 4 }],
    ['held by a claim that lapsed a millisecond ago', { state: 'running', leaseExpiresAtMs: nowMs - 1 }],
    ['redriven', { state: 'parked', parkedAtMs: nowMs - 2 }, { redrive }],
    ['redriven for the last time', { state: 'parked', parkedAtMs: nowMs - 2, redriveCount: 4 }, { redrive }],
    ['a first attempt that nobody pays for', { attemptCount: 0 }, { paidBy: 'nobody' }],
    [
      'redriven, and never attempted before',
      { state: 'parked', parkedAtMs: nowMs - 2, attemptCount: 0 },
      { redrive, paidBy: 'nobody' },
    ],
    ['as its absence was proven', { absentProvenAtMs: nowMs - 9 }, { effectSinceMs: nowMs - 9 }],
    [
      'redriven without attempts left',
      { state: 'parked', parkedAtMs: nowMs - 2, attemptCount: 5 },
      { redrive },
    ],
  ])('is granted when it is %s', async (...[_clause, changes, request]) => {
    const before = await put(changes);
    expect(await store.claim(claimOf(before.operationId, request))).toMatchObject({ kind: 'claimed' });
  });

  test('is decided by the same rules as the look: reading and writing never disagree', async () => {
    const combinations = states.flatMap((state) =>
      [nowMs - 1, nowMs, nowMs + 1].flatMap((leaseExpiresAtMs) =>
        [undefined, nowMs - windowMs, nowMs - windowMs + 1].flatMap((effectPossibleSinceMs) =>
          [4, 5].flatMap((attemptCount) =>
            [nowMs - 2, nowMs - 1].map((parkedAtMs) => ({
              state,
              attemptCount,
              ...(effectPossibleSinceMs === undefined ? {} : { effectPossibleSinceMs }),
              ...(state === 'running' ? { leaseExpiresAtMs } : {}),
              ...(state === 'parked' ? { parkedAtMs, parkedReason: 'attempts_exhausted' as const } : {}),
            })),
          ),
        ),
      ),
    );
    const unique = [...new Map(combinations.map((of) => [JSON.stringify(of), of])).values()];
    for (const changes of unique) {
      const before = await put(changes);
      const request = claimOf(before.operationId);
      const delivery = {
        message: { ...base, operationId: before.operationId },
        inputDigest: request.bound.inputDigest,
        receiveCount: 1,
        sentAtMs: redrive.sentAtMs,
      };
      const decision = decide(delivery, before, limits, nowMs);
      const isRedrive = decision.kind === 'claim' ? decision.isRedrive : before.state === 'parked';
      const { kind } = await store.claim(isRedrive ? { ...request, redrive } : request);
      expect({ changes, kind }).toEqual({ changes, kind: decision.kind === 'claim' ? 'claimed' : 'refused' });
    }
    expect(unique.length).toBeGreaterThanOrEqual(60);
  });

  test('of two at once is granted to one', async () => {
    const operationId = freshId();
    const both = await Promise.all(
      ['a', 'b'].map((claimId) => store.claim(claimOf(operationId, { claimId, isNew: true }))),
    );
    expect(both.map(({ kind }) => kind).sort()).toEqual(['claimed', 'refused']);
    const winner = both.find(({ kind }) => kind === 'claimed');
    expect(await stored({ ...base, operationId })).toEqual(winner?.operation);
  });

  test.each([
    ['of a new operation', {}],
    ['of a queued one', { state: 'queued' }],
    ['of a lapsed one', { state: 'running', leaseExpiresAtMs: nowMs - 1 }],
  ] as const)('%s whose answer was lost recognises itself, and counts one attempt', async (name, changes) => {
    const before =
      name === 'of a new operation'
        ? operation({ operationId: freshId(), attemptCount: 0 })
        : await put(changes);
    const remove = stack.dynamodbProxy.intercept(
      { ...writesOf(before, 'claim'), times: 1 },
      { kind: 'loseAnswer' },
    );
    const isNew = name === 'of a new operation';
    expect(await store.claim(claimOf(before.operationId, { isNew }))).toMatchObject({
      kind: 'claimed',
      operation: { claimId: 'new-claim', state: 'running', attemptCount: before.attemptCount + 1 },
    });
    remove();
  });

  test('of a redrive whose answer was lost recognises itself, and counts one redrive', async () => {
    const before = await put({ state: 'parked', parkedAtMs: nowMs - 2, attemptCount: 5 });
    stack.dynamodbProxy.intercept({ ...writesOf(before, 'claim'), times: 1 }, { kind: 'loseAnswer' });
    expect(await store.claim(claimOf(before.operationId, { redrive }))).toMatchObject({
      kind: 'claimed',
      operation: { attemptCount: 6, attemptLimit: 10, redriveCount: 1 },
    });
  });
});

const error = { code: 'card_declined', message: 'no', declineCode: 'generic_decline' };
const settlements: readonly Settlement[] = [
  {
    state: 'succeeded',
    providerRef: 'pi_1',
    result: { amountMinor: 1999, currency: 'usd', chargeId: 'ch_1' },
  },
  { state: 'settling', providerRef: 'pi_1' },
  { state: 'failed', error, providerRef: 'pi_1' },
  { state: 'queued', reason: 'timeout', effect: 'unchanged', countsAsAttempt: true },
  { state: 'queued', reason: 'rate_limited', effect: 'none', countsAsAttempt: false },
  { state: 'queued', reason: 'rate_limited', effect: 'unchanged', countsAsAttempt: false },
  { state: 'parked', parkedReason: 'attempts_exhausted', effect: 'unchanged', countsAsAttempt: true },
  { state: 'parked', parkedReason: 'provider_forbidden', error, effect: 'none', countsAsAttempt: false },
];
const notProof = settlements.filter(({ state }) => state !== 'succeeded');

/** An operation that a claim of ours runs. */
async function claimed(changes: Partial<ClaimRequest> = {}) {
  const { operation: running } = await store.claim(claimOf(freshId(), { isNew: true, ...changes }));
  return running;
}
const settleOf = (
  running: Operation,
  settlement: Settlement,
  changes: Partial<SettleRequest> = {},
): SettleRequest => ({
  operation: running,
  by: 'claim',
  settlement,
  nowMs: nowMs + 1000,
  sentAtMs: nowMs - 1000,
  ...changes,
});

describe('a settle', () => {
  test.each(settlements)('of a current claim writes $state ($effect)', async (settlement) => {
    const running = await claimed();
    const write = await store.settle(settleOf(running, settlement));
    expect(write).toMatchObject({
      kind: 'written',
      operation: { state: settlement.state, updatedAtMs: nowMs + 1000 },
    });
    const after = await stored(running);
    expect(write.operation).toEqual(after);
    // From the lease's end counts the quiet hour, while an effect is possible that no reference tells of.
    const isInDoubt = 'effect' in settlement && settlement.effect === 'unchanged';
    expect(after?.leaseExpiresAtMs).toBe(isInDoubt ? running.leaseExpiresAtMs : undefined);
    const takesBack = 'countsAsAttempt' in settlement && !settlement.countsAsAttempt;
    expect(after?.attemptCount).toBe(takesBack ? 0 : 1);
    const provesNone =
      settlement.state === 'failed' || ('effect' in settlement && settlement.effect === 'none');
    expect(after?.effectPossibleSinceMs).toBe(provesNone ? undefined : nowMs);
    expect(after?.effectPossibleClaimId).toBe(provesNone ? undefined : 'new-claim');
    expect(after?.expiresAtSeconds).toBe(
      isTerminal(settlement.state) ? (nowMs + 1000) / 1000 + limits.recordRetentionDays * 86_400 : undefined,
    );
    // In the attention index exactly when no message brings it back.
    const needsAttention = settlement.state === 'settling' || (settlement.state === 'parked' && !provesNone);
    expect([after?.openShard !== undefined, after?.dueAtMs !== undefined]).toEqual([
      needsAttention,
      needsAttention,
    ]);
  });

  test.each(settlements)(
    'of $state whose answer was lost recognises itself and writes once',
    async (settlement) => {
      const running = await claimed();
      stack.dynamodbProxy.intercept({ ...writesOf(running, 'settle'), times: 1 }, { kind: 'loseAnswer' });
      expect(await store.settle(settleOf(running, settlement))).toMatchObject({
        kind: 'written',
        operation: {
          state: settlement.state,
          attemptCount: 'countsAsAttempt' in settlement && !settlement.countsAsAttempt ? 0 : 1,
        },
      });
    },
  );

  const withoutReference = notProof.filter(({ state }) => state !== 'settling');
  test.each(withoutReference)(
    'of $state by a claim that was superseded writes nothing',
    async (settlement) => {
      const running = await claimed();
      const next = { claimId: 'next-claim', nowMs: nowMs + 60_001, leaseExpiresAtMs: nowMs + 120_000 };
      const { operation: taken } = await store.claim(claimOf(running.operationId, next));
      expect(taken.claimId).toBe('next-claim');
      expect(await store.settle(settleOf(running, settlement))).toEqual({
        kind: 'superseded',
        operation: taken,
      });
      expect(await stored(running)).toEqual(taken);
    },
  );

  test('with the reference of what the provider has taken is kept, whatever claim is current', async () => {
    const running = await claimed();
    const next = { claimId: 'next-claim', nowMs: nowMs + 60_001, leaseExpiresAtMs: nowMs + 120_000 };
    await store.claim(claimOf(running.operationId, next));
    const late = await store.settle(settleOf(running, { state: 'settling', providerRef: 'pi_late' }));
    expect(late).toMatchObject({ kind: 'written', operation: { state: 'settling', providerRef: 'pi_late' } });
  });

  test('by a refusal never removes an effect that an earlier claim made possible', async () => {
    const running = await claimed();
    const next = { claimId: 'next-claim', nowMs: nowMs + 60_001, leaseExpiresAtMs: nowMs + 120_000 };
    const { operation: taken } = await store.claim(claimOf(running.operationId, next));
    const settlement = {
      state: 'queued',
      reason: 'rate_limited',
      effect: 'none',
      countsAsAttempt: false,
    } as const;
    expect(await store.settle(settleOf(taken, settlement))).toMatchObject({ kind: 'superseded' });
    expect(await stored(running)).toMatchObject({ effectPossibleSinceMs: nowMs });
  });

  test.each(states)(
    'with proof of an effect settles a %s operation, whatever claim is current, unless it ended',
    async (state) => {
      const before = await put({
        state,
        claimId: 'of-somebody-else',
        ...(state === 'running' ? { leaseExpiresAtMs: nowMs + 60_000 } : {}),
        ...(state === 'parked'
          ? { parkedAtMs: nowMs, parkedReason: 'attempts_exhausted' as const, openShard: 1, dueAtMs: 1 }
          : {}),
      });
      const proof = { state: 'succeeded', providerRef: 'pi_1', result: {} } as const;
      const write = await store.settle(settleOf({ ...before, claimId: 'of-ours' }, proof));
      if (isTerminal(state)) {
        expect(write).toEqual({ kind: 'superseded', operation: before });
        expect(await stored(before)).toEqual(before);
        return;
      }
      expect(write).toMatchObject({
        kind: 'written',
        operation: { state: 'succeeded', providerRef: 'pi_1' },
      });
      for (const gone of ['leaseExpiresAtMs', 'parkedReason', 'parkedAtMs', 'openShard', 'dueAtMs']) {
        expect(write.operation).not.toHaveProperty(gone);
      }
    },
  );

  test('that lost to the proof of another owner does not call that write its own', async () => {
    const first = await claimed();
    const next = { claimId: 'next-claim', nowMs: nowMs + 60_001, leaseExpiresAtMs: nowMs + 120_000 };
    const { operation: second } = await store.claim(claimOf(first.operationId, next));
    const proof = { state: 'succeeded', providerRef: 'pi_1', result: {} } as const;
    expect(await store.settle(settleOf(first, proof))).toMatchObject({ kind: 'written' });
    expect(await store.settle(settleOf(second, proof, { nowMs: nowMs + 2000 }))).toMatchObject({
      kind: 'superseded',
    });
  });

  test('of an operation whose record is gone writes none', async () => {
    const ghost = operation({ operationId: freshId(), state: 'running' });
    for (const settlement of settlements) {
      expect(await store.settle(settleOf(ghost, settlement))).toEqual({
        kind: 'superseded',
        operation: undefined,
      });
    }
    expect(await stored(ghost)).toBeUndefined();
  });

  test('never parks earlier than the message was sent, or the message would look redriven', async () => {
    const running = await claimed();
    const settlement = {
      state: 'parked',
      parkedReason: 'attempts_exhausted',
      effect: 'unchanged',
      countsAsAttempt: true,
    } as const;
    const sentAtMs = nowMs + 5000;
    expect(await store.settle(settleOf(running, settlement, { sentAtMs }))).toMatchObject({
      operation: { parkedAtMs: sentAtMs },
    });
  });
});

describe("a settle of the breaker's probe", () => {
  const probed = () => claimed({ paidBy: 'probe' });
  const limitsOf = (of: Operation | undefined) => [of?.attemptCount, of?.attemptLimit];

  test('takes back the attempt that it was given, where it proved that nothing was sent', async () => {
    for (const effect of ['none', 'unchanged'] as const) {
      const settlement = { state: 'queued', reason: 'rate_limited', effect, countsAsAttempt: false } as const;
      const { operation: after } = await store.settle(
        settleOf(await probed(), settlement, { isProbe: true }),
      );
      expect(limitsOf(after)).toEqual([0, 5]);
    }
    const running = await probed();
    await store.requestCancel({ seen: running, nowMs });
    const cancelled = await store.settle(settleOf(running, { state: 'cancelled' }, { isProbe: true }));
    expect(limitsOf(cancelled.operation)).toEqual([0, 5]);
  });

  test('leaves it, where it was an attempt: the operation has as many of its own as before', async () => {
    const settlement = {
      state: 'queued',
      reason: 'timeout',
      effect: 'unchanged',
      countsAsAttempt: true,
    } as const;
    const { operation: after } = await store.settle(settleOf(await probed(), settlement, { isProbe: true }));
    expect(limitsOf(after)).toEqual([1, 6]);
  });
});

describe('a settle by reconciliation', () => {
  const inDoubt = {
    effectPossibleSinceMs: nowMs - 2 * hourMs,
    effectPossibleClaimId: 'claim-of-before',
    leaseExpiresAtMs: nowMs - 2 * hourMs + 60_000,
  };
  const absent = (providerKey: string): Settlement => ({
    state: 'queued',
    reason: 'absence_proven',
    effect: 'absent',
    providerKey,
  });
  const bySettling = (seen: Operation, settlement: Settlement, changes: Partial<SettleRequest> = {}) =>
    store.settle(settleOf(seen, settlement, { by: 'reconciliation', sentAtMs: 0, ...changes }));
  const conditional: readonly Settlement[] = [
    { state: 'failed', error, providerRef: 'pi_1' },
    { state: 'cancelled' },
    absent('test/acme/op/charge/0'),
    { state: 'parked', parkedReason: 'attempts_exhausted', effect: 'unchanged', countsAsAttempt: true },
  ];
  const proofs: readonly Settlement[] = [
    { state: 'succeeded', providerRef: 'pi_1', result: { amountMinor: 1999 } },
    { state: 'settling', providerRef: 'pi_1' },
  ];

  test.each([...conditional, ...proofs])(
    'writes $state of an operation as it was read, held by nobody',
    async (settlement) => {
      for (const state of ['queued', 'parked', 'running'] as const) {
        const seen = await put({ ...inDoubt, state });
        expect(await bySettling(seen, settlement)).toMatchObject({
          kind: 'written',
          operation: { state: settlement.state, updatedAtMs: nowMs + 1000, claimId: 'claim-of-before' },
        });
      }
    },
  );

  const asRead = (now: Operation, seen: Partial<Charge>): Operation =>
    operation({ operationId: now.operationId, ...inDoubt, ...seen });

  const meanwhile: [clause: string, now: Partial<Charge>, seen: Partial<Charge>][] = [
    ['asSeen: its state changed', { state: 'queued' }, { state: 'parked' }],
    ['asSeen: another claim has had it', { state: 'parked', claimId: 'next' }, { state: 'parked' }],
    [
      'asSeen: another claim runs it',
      { state: 'running', claimId: 'next', leaseExpiresAtMs: nowMs - 1 },
      { state: 'running' },
    ],
    [
      'isUnheld: its lease is live',
      { state: 'running', leaseExpiresAtMs: nowMs + 60_000 },
      { state: 'running' },
    ],
    [
      'isUnheld: its lease ends now',
      { state: 'running', leaseExpiresAtMs: nowMs + 1000 },
      { state: 'running' },
    ],
    ['it ended', { state: 'succeeded', providerRef: 'pi_1' }, { state: 'parked' }],
  ];
  test.each(meanwhile)('is refused when %s, and nothing is written', async (_clause, changes, seen) => {
    const now = await put({ ...inDoubt, ...changes });
    // Proofs too: the attempt that is live finds the same under its key.
    for (const settlement of [...conditional, ...proofs]) {
      const read = asRead(now, seen);
      expect(await bySettling(read, settlement)).toEqual({ kind: 'superseded', operation: now });
      expect(await stored(now)).toEqual(now);
    }
  });

  test('settles what Stripe has taken, and never goes back there', async () => {
    const settling = await put({ ...inDoubt, state: 'settling', providerRef: 'pi_1' });
    expect(await bySettling(settling, { state: 'settling', providerRef: 'pi_1' })).toMatchObject({
      kind: 'superseded',
    });
    expect(await bySettling(settling, { state: 'failed', error })).toMatchObject({ kind: 'written' });
  });

  test('that proved the absence makes an operation as good as new: with attempts, a redrive less, and without a trace of an effect', async () => {
    const seen = await put({
      ...inDoubt,
      state: 'parked',
      parkedReason: 'provider_window_closed',
      parkedAtMs: nowMs - hourMs,
      escalatedAtMs: nowMs - 1,
      attemptCount: 4,
      redriveCount: 2,
      error,
      openShard: 3,
      dueAtMs: nowMs,
    });
    const dueAtMs = nowMs + 60_000;
    const names = ['parkedReason', 'parkedAtMs', 'escalatedAtMs', 'error', ...Object.keys(inDoubt)];
    const gone = Object.fromEntries(names.map((name) => [name, undefined]));
    expect(await bySettling(seen, absent('a/new/key/1'), { dueAtMs })).toEqual({
      kind: 'written',
      operation: {
        ...seen,
        ...gone,
        state: 'queued',
        providerKey: 'a/new/key/1',
        absentProvenAtMs: nowMs + 1000,
        updatedAtMs: nowMs + 1000,
        attemptLimit: 9,
        redriveCount: 3,
        openShard: expect.any(Number),
        dueAtMs,
      },
    });
  });

  test('that proved the absence, and sets no due time, leaves the one that is there', async () => {
    const seen = await put({ ...inDoubt, state: 'queued', openShard: 3, dueAtMs: nowMs });
    const { operation: after } = await bySettling(seen, absent(seen.providerKey));
    expect(after).toMatchObject({ openShard: 3, dueAtMs: nowMs });
  });

  test('that ends an operation leaves nothing in doubt, and keeps it for its retention', async () => {
    for (const settlement of conditional.slice(0, 2)) {
      const seen = await put({
        ...inDoubt,
        state: 'parked',
        parkedAtMs: nowMs,
        openShard: 3,
        dueAtMs: nowMs,
      });
      const { operation: after } = await bySettling(seen, settlement);
      expect(after).toMatchObject({ attemptCount: 1, expiresAtSeconds: expect.any(Number) });
      for (const gone of [...Object.keys(inDoubt), 'openShard', 'dueAtMs', 'parkedAtMs'])
        expect(after).not.toHaveProperty(gone);
    }
  });

  test("keeps the lease's end of what stays in doubt: from it counts the quiet hour", async () => {
    const seen = await put({ ...inDoubt, state: 'queued' });
    expect((await bySettling(seen, conditional[3] ?? { state: 'cancelled' })).operation).toMatchObject(
      inDoubt,
    );
  });

  test('keeps who said so, and why', async () => {
    const intervention = { action: 'settled', by: 'ada', atMs: nowMs, evidence: 'seen it' } as const;
    for (const settlement of [...conditional, ...proofs]) {
      const seen = await put({ ...inDoubt, state: 'parked' });
      const { operation: after } = await bySettling(seen, settlement, { intervention });
      expect(after).toMatchObject({ intervention });
      expect(await stored(seen)).toEqual(after);
    }
  });
});

describe('a park', () => {
  const parkedReason = 'provider_window_closed';
  const parkOf = (seen: Operation) => store.park({ seen, parkedReason, nowMs, sentAtMs: nowMs - 1000 });
  const lapsed = {
    state: 'running',
    leaseExpiresAtMs: nowMs - 1,
    effectPossibleSinceMs: nowMs - 24 * hourMs,
  } as const;

  test('of a lapsed claim keeps the evidence, with the end of its lease, and asks for attention', async () => {
    const before = await put(lapsed);
    expect(await parkOf(before)).toEqual({
      kind: 'written',
      operation: {
        ...before,
        state: 'parked',
        parkedReason,
        parkedAtMs: nowMs,
        updatedAtMs: nowMs,
        openShard: expect.any(Number),
        dueAtMs: nowMs,
      },
    });
  });

  test('of an operation without a possible effect leaves its due time: the message that set it may be gone', async () => {
    const before = await put({
      ...lapsed,
      effectPossibleSinceMs: undefined,
      openShard: 3,
      dueAtMs: nowMs + 5,
    });
    const { kind, operation } = await parkOf(before);
    expect(kind).toBe('written');
    expect(operation).toMatchObject({ state: 'parked', openShard: 3, dueAtMs: nowMs + 5 });
    expect(operation).not.toHaveProperty('leaseExpiresAtMs');
  });

  test.each<[string, Partial<Charge>]>([
    ['it was claimed meanwhile', { ...lapsed, claimId: 'next-claim', leaseExpiresAtMs: nowMs + 60_000 }],
    ['it was settled meanwhile', { state: 'succeeded' }],
    ['it was queued meanwhile', { state: 'queued' }],
  ])('is refused when %s, and nothing is written', async (_name, changes) => {
    const now = await put(changes);
    const seen = { ...now, claimId: 'claim-of-before', ...lapsed };
    expect(await parkOf(seen)).toEqual({ kind: 'superseded', operation: now });
    expect(await stored(now)).toEqual(now);
  });

  test('whose answer was lost recognises itself', async () => {
    const before = await put(lapsed);
    stack.dynamodbProxy.intercept({ ...writesOf(before, 'settle'), times: 1 }, { kind: 'loseAnswer' });
    expect(await parkOf(before)).toMatchObject({
      kind: 'written',
      operation: { state: 'parked', parkedAtMs: nowMs },
    });
  });
});

const aCancel = { state: 'cancelled' } as const;

describe('a cancel that was asked for while a call ran', () => {
  const notSent = {
    state: 'queued',
    reason: 'rate_limited',
    effect: 'none',
    countsAsAttempt: false,
  } as const;
  const asked = async () => {
    const running = await claimed();
    await store.requestCancel({ seen: running, nowMs });
    return running;
  };

  test('comes before a requeue that proved nothing was sent, and not before any other settle', async () => {
    expect(await store.settle(settleOf(await asked(), notSent))).toMatchObject({
      kind: 'superseded',
      operation: { state: 'running', cancelRequestedAtMs: nowMs },
    });
    for (const settlement of settlements.filter((of) => !('effect' in of && of.effect === 'none')))
      expect(await store.settle(settleOf(await asked(), settlement))).toMatchObject({ kind: 'written' });
  });

  test('ends the operation without a trace of an effect, an attempt or attention', async () => {
    const running = await asked();
    expect(await store.settle(settleOf(running, aCancel))).toMatchObject({ kind: 'written' });
    const after = await stored(running);
    expect(after).toMatchObject({
      state: 'cancelled',
      attemptCount: 0,
      expiresAtSeconds: expect.any(Number),
    });
    for (const gone of ['effectPossibleSinceMs', 'effectPossibleClaimId', 'leaseExpiresAtMs', 'dueAtMs'])
      expect(after).not.toHaveProperty(gone);
  });

  test('is refused where an earlier claim made the effect possible, and to a claim that is superseded', async () => {
    const running = await asked();
    const next = { claimId: 'next-claim', nowMs: nowMs + 60_001, leaseExpiresAtMs: nowMs + 120_000 };
    const { operation: taken } = await store.claim(claimOf(running.operationId, next));
    for (const by of [running, taken])
      expect(await store.settle(settleOf(by, aCancel))).toMatchObject({ kind: 'superseded' });
    expect(await stored(running)).toEqual(taken);
  });
});

describe('a write on an operation that no claim holds', () => {
  const dueAtMs = nowMs + 9000;
  const index = { openShard: expect.any(Number), dueAtMs };
  const idOf = (operationId: string) => ({ tenantId: base.tenantId, operationId });
  const requestOf = (operationId: string) => ({
    id: idOf(operationId),
    bound: boundOf(operationId, { acceptedBy: 'api' }),
    nowMs,
  });
  const error = { code: 'deadline_exceeded', message: 'late' };
  const writes = {
    accept: (id: string) => store.accept({ ...requestOf(id), acceptId: `accept-${id}`, dueAtMs }),
    defer: (id: string) => store.defer({ ...requestOf(id), seen: undefined, dueAtMs }),
    fail: (id: string) => store.fail({ ...requestOf(id), error }),
  };

  test('a failure with other inputs in the same millisecond is not taken for one of its own', async () => {
    const request = requestOf(freshId());
    const other = { ...request, bound: { ...request.bound, inputDigest: 'of-other-inputs' } };
    expect(await store.fail({ ...request, error })).toMatchObject({ kind: 'written' });
    expect(await store.fail({ ...request, error })).toMatchObject({ kind: 'written' });
    expect(await store.fail({ ...other, error })).toMatchObject({ kind: 'superseded' });
  });

  test.each([
    ['accept', { state: 'queued', attemptCount: 0, acceptedBy: 'api', ...index }],
    ['defer', { state: 'queued', attemptCount: 0, ...index }],
    ['fail', { state: 'failed', attemptCount: 0, error, expiresAtSeconds: expect.any(Number) }],
  ] as const)('%s binds a new id to its inputs', async (name, expected) => {
    const operationId = freshId();
    const write = await writes[name](operationId);
    expect(write).toMatchObject({
      kind: 'written',
      operation: { ...boundOf(operationId, { acceptedBy: 'api' }), ...expected },
    });
    expect(await stored(idOf(operationId))).toEqual(write.operation);
  });

  const allowed: Readonly<Record<keyof typeof writes, readonly Partial<Charge>[]>> = {
    accept: [],
    defer: [{ attemptCount: 0 }, { attemptCount: 3, effectPossibleSinceMs: nowMs - 1 }],
    fail: [{ attemptCount: 0 }],
  };
  const records: readonly Partial<Charge>[] = [
    ...states.map((state) => ({ state, attemptCount: 0, leaseExpiresAtMs: nowMs - 1 })),
    { attemptCount: 1 },
    { attemptCount: 0, inputDigest: 'another' },
    { attemptCount: 0, effectPossibleSinceMs: nowMs - 1 },
  ];
  test.each(['accept', 'defer', 'fail'] as const)('%s leaves every other record as it is', async (name) => {
    for (const changes of records) {
      const isAllowed =
        name !== 'accept' &&
        [...(name === 'fail' ? ['parked'] : []), 'queued'].includes(changes.state ?? 'queued') &&
        changes.inputDigest === undefined &&
        (name === 'defer' || (changes.attemptCount === 0 && changes.effectPossibleSinceMs === undefined));
      const before = await put(changes);
      const { kind, operation: now } = await writes[name](before.operationId);
      expect({ changes, kind }).toEqual({ changes, kind: isAllowed ? 'written' : 'superseded' });
      if (!isAllowed) expect([now, await stored(before)]).toEqual([before, before]);
    }
    for (const changes of allowed[name]) {
      const before = await put(changes);
      const { operation: now } = await writes[name](before.operationId);
      // What the id was bound to stays: key, deadline, who accepted it, and how often it was attempted.
      for (const kept of [
        'providerKey',
        'deadlineAtMs',
        'acceptedBy',
        'createdAtMs',
        'attemptCount',
      ] as const)
        expect(now?.[kept]).toEqual(before[kept]);
    }
  });

  test.each(['accept', 'fail', 'defer'] as const)(
    '%s whose answer was lost recognises itself',
    async (name) => {
      const operationId = freshId();
      stack.dynamodbProxy.intercept(
        { ...writesOf(idOf(operationId), 'settle'), times: 1 },
        { kind: 'loseAnswer' },
      );
      expect(await writes[name](operationId)).toMatchObject({ kind: 'written' });
    },
  );

  test('cancel is granted to a queued or parked operation without a possible effect, and to no other', async () => {
    for (const state of states) {
      for (const effectPossibleSinceMs of [undefined, nowMs - 1]) {
        const before = await put({
          state,
          ...(effectPossibleSinceMs === undefined ? {} : { effectPossibleSinceMs }),
        });
        const { kind } = await store.cancel({ seen: before, nowMs });
        const may = ['queued', 'parked'].includes(state) && effectPossibleSinceMs === undefined;
        expect({ state, kind }).toEqual({ state, kind: may ? 'written' : 'superseded' });
        if (!may) expect(await stored(before)).toEqual(before);
      }
    }
  });

  test('cancel and its request are refused when the operation was claimed since it was seen', async () => {
    const before = await put({ attemptCount: 0 });
    const { operation: running } = await store.claim(claimOf(before.operationId));
    for (const write of [store.cancel({ seen: before, nowMs }), store.requestCancel({ seen: before, nowMs })])
      expect(await write).toEqual({ kind: 'superseded', operation: running });
    expect(await stored(before)).toEqual(running);
  });

  test('a postpone moves the due time once, and only of the operation as it was read', async () => {
    const before = await put({ openShard: 1, dueAtMs: nowMs });
    expect(await store.postpone(before, nowMs + 5)).toBe(true);
    expect(await store.postpone(before, nowMs + 6)).toBe(false);
    expect(await stored(before)).toEqual({ ...before, dueAtMs: nowMs + 5 });
    const running = await put({ state: 'running', openShard: 1, dueAtMs: nowMs, leaseExpiresAtMs: nowMs });
    expect(await store.postpone({ ...running, state: 'queued' }, nowMs + 5)).toBe(false);
  });

  describe('defer of a redrive', () => {
    const parked = {
      state: 'parked',
      parkedReason: 'attempts_exhausted',
      parkedAtMs: nowMs - 2,
      attemptCount: 5,
      effectPossibleSinceMs: nowMs - hourMs,
      leaseExpiresAtMs: nowMs - hourMs,
    } as const;
    const deferOf = (seen: Operation, changes: Partial<typeof redrive> = {}) =>
      store.defer({ ...requestOf(seen.operationId), seen, dueAtMs, redrive: { ...redrive, ...changes } });

    test('begins it: queued with fresh attempts and a redrive less, in doubt as before', async () => {
      const seen = await put({ ...parked, escalatedAtMs: nowMs, error: { code: 'x', message: 'x' } });
      expect(await deferOf(seen)).toEqual({
        kind: 'written',
        operation: {
          ...seen,
          ...{ parkedReason: undefined, parkedAtMs: undefined, escalatedAtMs: undefined, error: undefined },
          state: 'queued',
          attemptLimit: 10,
          redriveCount: 1,
          updatedAtMs: nowMs,
          ...index,
        },
      });
    });

    test.each<[string, Partial<Charge>, Partial<typeof redrive>?]>([
      ['its message was sent before the park', {}, { sentAtMs: nowMs - 2 }],
      ['it was redriven too often', { redriveCount: maxRedrives }],
      ['it was claimed meanwhile', { claimId: 'next' }],
      ['it is not parked any more', { state: 'queued' }],
      ['it ended', { state: 'succeeded' }],
    ])('is refused when %s, and nothing is written', async (...[_name, changes, request]) => {
      const now = await put({ ...parked, ...changes });
      const seen = operation({ operationId: now.operationId, ...parked });
      expect(await deferOf(seen, request)).toEqual({ kind: 'superseded', operation: now });
      expect(await stored(now)).toEqual(now);
    });
  });

  test('a postpone says that a person was told, once, and a claim forgets that', async () => {
    const before = await put({ state: 'parked', parkedAtMs: nowMs - 2, openShard: 1, dueAtMs: nowMs });
    expect(await store.postpone(before, nowMs + 5, nowMs)).toBe(true);
    expect(await store.postpone(before, nowMs + 6, nowMs + 1)).toBe(false);
    expect(await stored(before)).toEqual({ ...before, dueAtMs: nowMs + 5, escalatedAtMs: nowMs });
    expect(await store.postpone({ ...before, dueAtMs: nowMs + 5 }, nowMs + 7)).toBe(true);
    expect(await stored(before)).toMatchObject({ escalatedAtMs: nowMs, dueAtMs: nowMs + 7 });
    const { operation: running } = await store.claim(claimOf(before.operationId, { redrive }));
    expect(running).not.toHaveProperty('escalatedAtMs');
  });

  test('what a person did is kept beside everything else, if the operation still is as it was seen', async () => {
    const intervention = { action: 'discarded', by: 'ada', atMs: nowMs } as const;
    for (const state of states) {
      const seen = await put({ state });
      expect(await store.intervene({ seen, nowMs, intervention })).toEqual({
        kind: 'written',
        operation: { ...seen, intervention },
      });
    }
    const now = await put({ state: 'queued', claimId: 'next' });
    for (const changes of [{ state: 'parked' }, { claimId: 'claim-of-before' }] as const) {
      const seen = operation({ operationId: now.operationId, claimId: 'next', ...changes });
      expect(await store.intervene({ seen, nowMs, intervention })).toEqual({
        kind: 'superseded',
        operation: now,
      });
    }
    expect(await stored(now)).toEqual(now);
  });

  test('a part of a charge is reserved once by its refund, within the charge, and given back once', async () => {
    const charge = await put({ state: 'succeeded', providerRef: 'pi_1' });
    const reserve = async (refundId: string, amountMinor: number) => {
      const seen = await stored(charge);
      return (await store.reserveRefund(seen ?? charge, refundId, { amountMinor, reservedAtMs: nowMs })).kind;
    };
    expect(await reserve('r0', 2000)).toBe('superseded');
    expect(await reserve('r1', 1000)).toBe('written');
    expect(await reserve('r1', 1000)).toBe('written');
    expect(await reserve('r1', 999)).toBe('superseded');
    expect(await reserve('r2', 1000)).toBe('superseded');
    expect(await reserve('r2', 999)).toBe('written');
    const [r1, r2] = [1000, 999].map((amountMinor) => ({ amountMinor, reservedAtMs: nowMs }));
    expect(await stored(charge)).toMatchObject({ refunds: { r1, r2 }, refundedMinor: 1999 });
    for (let more = 0; more < 2; more++) await store.releaseRefund(charge, 'r1', { amountMinor: 1000 });
    await store.releaseRefund(charge, 'r2', { amountMinor: 1000 });
    await store.releaseRefund(charge, 'r2', { amountMinor: 999, reservedAtMs: nowMs - 1 });
    expect(await stored(charge)).toMatchObject({ refunds: { r2 }, refundedMinor: 999 });
  });

  test.each(states.filter((state) => state !== 'succeeded'))(
    'no part of a %s charge is reserved',
    async (state) => {
      const charge = await put({ state });
      const part = { amountMinor: 1, reservedAtMs: nowMs };
      expect(await store.reserveRefund(charge, 'r1', part)).toEqual({
        kind: 'superseded',
        operation: charge,
      });
    },
  );
});

describe('a look', () => {
  test('reads the records that exist, each id once, consistently', async () => {
    const [one, two] = [await put(), await put({ state: 'succeeded' })];
    stack.dynamodbProxy.resetCounts();
    const calls: unknown[] = [];
    const stopListening = stack.dynamodbProxy.onCall(({ body }) => calls.push(body));
    const { operations: seen } = await store.look([
      one,
      two,
      one,
      { tenantId: 'acme', operationId: 'nobody' },
    ]);
    stopListening();
    expect([...seen.values()]).toEqual(expect.arrayContaining([one, two]));
    expect(seen.size).toBe(2);
    expect(JSON.stringify(calls)).toContain('"ConsistentRead":true');
    expect(stack.dynamodbProxy.counts()).toEqual({ BatchGetItem: 1 });
  });

  test('asks again for the keys that a throttled table left out', async () => {
    const [one, two] = [operation({ operationId: 'one' }), operation({ operationId: 'two' })];
    const left = { [stack.tableName]: { Keys: [{ pk: { S: 'op#acme#two' } }] } };
    const table = await tableThatAnswers([
      { Responses: { [stack.tableName]: [marshall(itemOf(one))] }, UnprocessedKeys: left },
      { Responses: {}, UnprocessedKeys: left },
      { Responses: { [stack.tableName]: [marshall(itemOf(two))] }, UnprocessedKeys: {} },
    ]);
    const { operations: seen } = await new DynamoDbStore(
      new TableClient(table.client, stack.tableName),
      limits,
    ).look([one, two]);
    expect([...seen.values()]).toEqual([one, two]);
    expect(table.asked.slice(1)).toEqual(
      [left, left].map(({ [stack.tableName]: keys }) => ({
        RequestItems: { [stack.tableName]: { ...keys, ConsistentRead: true } },
      })),
    );
    await table.stop();
  });

  test('gives up when the table stays throttled, rather than calling a known operation new', async () => {
    const left = { [stack.tableName]: { Keys: [{ pk: { S: 'op#acme#one' } }] } };
    const table = await tableThatAnswers([{ Responses: {}, UnprocessedKeys: left }]);
    const look = new DynamoDbStore(new TableClient(table.client, stack.tableName), limits).look([
      { tenantId: 'acme', operationId: 'one' },
    ]);
    await expect(look).rejects.toThrow(/throttled/);
    await table.stop();
  });
});

test('a refusal that carries the item, as DynamoDB itself gives it, needs no second read', async () => {
  const known = operation({ state: 'succeeded' });
  const refusal = {
    __type: 'com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException',
    message: 'The conditional request failed',
    Item: marshall(itemOf(known)),
  };
  const table = await tableThatAnswers([refusal], 400);
  const of = new DynamoDbStore(new TableClient(table.client, stack.tableName), limits);
  expect(await of.claim(claimOf(known.operationId))).toEqual({ kind: 'refused', operation: known });
  const proof = { state: 'succeeded', providerRef: 'pi_1', result: {} } as const;
  expect(await of.settle(settleOf({ ...known, claimId: 'of-ours' }, proof))).toEqual({
    kind: 'superseded',
    operation: known,
  });
  expect(table.asked).toEqual([
    expect.objectContaining({ ReturnValuesOnConditionCheckFailure: 'ALL_OLD' }),
    expect.objectContaining({ ReturnValuesOnConditionCheckFailure: 'ALL_OLD' }),
  ]);
  await table.stop();
});

/** Answers in turn, the last one for ever. */
async function tableThatAnswers(answers: readonly object[], statusCode = 200) {
  const asked: unknown[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(Buffer.from(chunk));
    asked.push(JSON.parse(Buffer.concat(chunks).toString()));
    const answer = answers[Math.min(asked.length, answers.length) - 1];
    response
      .writeHead(statusCode, { 'content-type': 'application/x-amz-json-1.0' })
      .end(JSON.stringify(answer));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const own = clientAt(
    `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`,
  );
  return {
    asked,
    client: own,
    async stop() {
      own.destroy();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

test('the end of a retention moves only where there is one', async () => {
  const ended = await put({ state: 'succeeded', expiresAtSeconds: 1 });
  const open = await put();
  for (const id of [ended, open]) await store.extendRetention(id, nowMs);
  await store.extendRetention({ tenantId: 'acme', operationId: 'nobody' }, nowMs);
  expect(await stored(ended)).toEqual({ ...ended, expiresAtSeconds: nowMs / 1000 + 90 * 86_400 });
  expect(await stored(open)).toEqual(open);
  expect(await stored({ tenantId: 'acme', operationId: 'nobody' })).toBeUndefined();
});

describe('a record', () => {
  const longId = (start: string) => start.padEnd(36, 'x');
  const largest = (changes: Partial<Charge> = {}): Operation => {
    const tenantId = longId('tenant');
    const operationId = longId('op');
    return operation({
      tenantId,
      operationId,
      input: {
        reference: longId('inv'),
        amountMinor: 99_999_999,
        currency: 'usd',
        customerId: longId('cus_'),
        paymentMethodId: longId('pm_'),
      },
      inputDigest: 'd'.repeat(64),
      claimId: 'c'.repeat(16),
      attemptCount: 100,
      attemptLimit: 100,
      effectPossibleSinceMs: nowMs,
      effectPossibleClaimId: 'c'.repeat(16),
      providerKey: `${'p'.repeat(60)}/${tenantId}/${operationId}/charge/0`,
      ...changes,
    });
  };
  const result = { amountMinor: 99_999_999, currency: 'usd', chargeId: 'ch_'.padEnd(27, 'x') };
  const providerRef = 'pi_'.padEnd(27, 'x');

  test.each<[string, Operation]>([
    ['running', largest({ state: 'running', leaseExpiresAtMs: nowMs })],
    ['succeeded', largest({ state: 'succeeded', providerRef, result, expiresAtSeconds: nowMs })],
    [
      'failed',
      largest({
        state: 'failed',
        providerRef,
        error: { ...error, message: 'm'.repeat(100) },
        expiresAtSeconds: nowMs,
      }),
    ],
    [
      'parked for an answer',
      largest({
        state: 'parked',
        parkedReason: 'earlier_attempt_unproven',
        parkedAtMs: nowMs,
        escalatedAtMs: nowMs,
        leaseExpiresAtMs: nowMs,
        error: { code: 'resource_missing', message: 'm'.repeat(100) },
        openShard: 7,
        dueAtMs: nowMs,
      }),
    ],
    [
      'parked for none',
      largest({
        state: 'parked',
        providerRef,
        parkedReason: 'provider_window_closed',
        parkedAtMs: nowMs,
        escalatedAtMs: nowMs,
        leaseExpiresAtMs: nowMs,
        absentProvenAtMs: nowMs,
        openShard: 7,
        dueAtMs: nowMs,
      }),
    ],
  ])(
    'of ids as long as a UUID that is %s stays under 1 024 bytes, or every write costs double',
    (_state, of) => {
      expect(bytesOf(itemOf(of))).toBeLessThan(1024);
    },
  );

  test('of ordinary ids stays under 1 024 bytes in its largest state', () => {
    const of = operation({
      tenantId: 'north-wind-energy',
      operationId: '018f6f0e-7b1a-7c3d-9e4f-1234567890ab',
      input: {
        reference: '018f6f0e-7b1a-7c3d-9e4f-1234567890ab',
        amountMinor: 1_999_00,
        currency: 'usd',
        customerId: 'cus_NffrFeUfNV2Hib',
        paymentMethodId: 'pm_1MqLiJLkdIwHu7ixUEgbFdYF',
      },
      inputDigest: 'd'.repeat(64),
      claimId: 'c'.repeat(16),
      effectPossibleClaimId: 'c'.repeat(16),
      effectPossibleSinceMs: nowMs,
      providerKey:
        'charge-once-prod-eu-north-1/north-wind-energy/018f6f0e-7b1a-7c3d-9e4f-1234567890ab/charge/0',
      state: 'parked',
      providerRef,
      parkedReason: 'provider_window_closed',
      parkedAtMs: nowMs,
      openShard: 7,
      dueAtMs: nowMs,
    });
    expect(bytesOf(itemOf(of))).toBeLessThan(1024);
  });

  test('keeps no reason that its readers would refuse', async () => {
    for (const parkedReason of parkedReasons) {
      const before = await put({ state: 'parked', parkedAtMs: nowMs, parkedReason });
      expect(await stored(before)).toEqual(before);
    }
  });
});

/**
 * As DynamoDB counts: names and texts in UTF-8; a number about half its digits and one; a map three and one for each
 * member. https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html
 */
function bytesOf(item: object): number {
  return Object.entries(item)
    .filter(([, value]) => value !== undefined)
    .reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + bytesOfValue(value), 0);
}

function bytesOfValue(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (typeof value === 'number') return Math.ceil(String(Math.abs(value)).length / 2) + 1;
  if (typeof value === 'object' && value !== null) return 3 + bytesOf(value) + Object.keys(value).length;
  throw new Error(`No record holds ${String(value)}`);
}
