import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import { digestOf } from '../../lambdas/operation/digest';
import type { Message } from '../../lambdas/operation/message';
import type { Bound, Operation } from '../../lambdas/operation/operation';
import type { Fault } from '../../local/proxy-faults';
import type { LocalStack } from '../../local/stack';
import type { WorkerBench } from '../support/worker-bench';

export interface Named {
  readonly tenantId: string;
  readonly operationId: string;
}

/** The base job of the cases, parsed: in the current version, whichever it was sent in. */
export const message: Message & { readonly type: 'charge' } = {
  version: 2,
  tenantId: 'acme',
  operationId: 'op-1001',
  type: 'charge',
  input: {
    reference: 'inv-77',
    amountMinor: 1999,
    currency: 'usd',
    customerId: 'cus_A',
    paymentMethodId: 'pm_A',
  },
};

export const nowMs = Date.UTC(2026, 0, 15);
export const hourMs = 3_600_000;

export type Charge = Operation & { readonly type: 'charge' };

/** A queued record of `message`, with parts changed. */
export function operation(changes: Partial<Charge> = {}): Charge {
  const { version: _, ...job } = message;
  return {
    ...job,
    inputDigest: digestOf({ ...message, ...changes }),
    state: 'queued',
    claimId: 'claim-of-before',
    attemptCount: 1,
    attemptLimit: 5,
    redriveCount: 0,
    providerKey: `test/${changes.tenantId ?? 'acme'}/${changes.operationId ?? 'op-1001'}/charge/0`,
    providerParamsVersion: 1,
    deadlineAtMs: nowMs + 12 * hourMs,
    acceptedBy: 'queue',
    createdAtMs: nowMs - 60_000,
    updatedAtMs: nowMs - 60_000,
    ...changes,
  };
}

/** What the first write of `message` under an id binds it to, with parts changed. */
export function boundOf(
  operationId: string,
  changes: Partial<Bound & Charge> = {},
): Bound & Pick<Charge, 'type'> {
  const { type, input } = message;
  return {
    type,
    input,
    inputDigest: digestOf({ ...message, operationId }),
    providerKey: `test/acme/${operationId}/charge/0`,
    providerParamsVersion: 1,
    attemptLimit: 5,
    deadlineAtMs: nowMs + 12 * hourMs,
    acceptedBy: 'queue',
    createdAtMs: nowMs,
    ...changes,
  };
}

/** The four things that every case asserts, beside the batch response. */
export async function evidenceOf(bench: WorkerBench, { tenantId, operationId }: Named) {
  const posts = postsOf(bench, { tenantId, operationId });
  const charges = bench.stripe
    .ledger()
    .filter(({ metadata }) => metadata.tenantId === tenantId && metadata.operationId === operationId);
  return {
    /** Movements of money. */
    charges: charges.length,
    /** The amounts that moved, in minor units. */
    amounts: charges.map(({ amountMinor }) => amountMinor),
    /** Calls that could move money. */
    posts: posts.length,
    keys: [...new Set(posts.map(({ idempotencyKey }) => idempotencyKey))],
    record: await bench.stack.operation(tenantId, operationId),
  };
}

export const postsOf = (bench: WorkerBench, { tenantId, operationId }: Named) =>
  bench.stripe.requests().filter(({ method, path, operation: of }) => {
    return method === 'POST' && path === '/v1/payment_intents' && of === `${tenantId}/${operationId}`;
  });

/** The store's writes of one operation: `claim` and what comes after it are told apart by the claim's window. */
export function writesOf({ tenantId, operationId }: Named, step: 'claim' | 'settle') {
  const where = (body: unknown) => {
    const text = JSON.stringify(body);
    return (
      text.includes(`"op#${tenantId}#${operationId}"`) &&
      text.includes('":state":{"S":"running"}') === (step === 'claim')
    );
  };
  return { action: 'UpdateItem', where };
}

/** The next writes meet one fault each, in order. The SDK makes three tries. */
export function onWrites(
  bench: WorkerBench,
  of: Named,
  step: 'claim' | 'settle',
  faults: readonly Fault[],
): void {
  for (const fault of faults) bench.stack.dynamodbProxy.intercept({ ...writesOf(of, step), times: 1 }, fault);
}

const lost: Fault = { kind: 'loseRequest' };

/** The claim is written and its worker gets no further: no provider call, no settle. */
export const dieAfterClaim = (bench: WorkerBench, of: Named) =>
  onWrites(bench, of, 'claim', [{ kind: 'loseAnswer' }, lost, lost]);

/** The provider was called, and nothing that came after it is written. */
export const dieBeforeSettle = (bench: WorkerBench, of: Named) =>
  onWrites(bench, of, 'settle', [lost, lost, lost]);

/** Past the lease of a claim that was made now. */
export const pastTheLease = (bench: WorkerBench) =>
  bench.stack.clock.advance(
    (bench.stack.limits.workerTimeoutSeconds + bench.stack.limits.leaseMarginSeconds) * 1000 + 100,
  );

/** Delivers, reconciles and moves the clock until all of the operations have ended. */
export async function toTheEnd(bench: WorkerBench, jobs: readonly Named[]): Promise<void> {
  for (let round = 0; round < 60; round++) {
    await bench.drain();
    const records = await Promise.all(
      jobs.map(({ tenantId, operationId }) => bench.stack.operation(tenantId, operationId)),
    );
    if (records.every((record) => ['succeeded', 'failed', 'cancelled'].includes(String(record?.state))))
      return;
    await bench.stack.clock.advance(5_000);
    await bench.reconcile();
  }
  throw new Error('It does not come to an end');
}

/** Writes what only a person's mistake or a bug would: that the operation failed, whatever its call is doing. */
export async function settleAsFailed(stack: LocalStack, { tenantId, operationId }: Named): Promise<void> {
  const client = new DynamoDBClient({
    region: 'us-east-1',
    endpoint: stack.endpoints.dynamodb,
    credentials: { accessKeyId: 'x', secretAccessKey: 'x' },
  });
  await DynamoDBDocumentClient.from(client).send(
    new UpdateCommand({
      TableName: stack.tableName,
      Key: { pk: `op#${tenantId}#${operationId}` },
      UpdateExpression: 'SET #state = :failed, claimId = :person, #error = :error REMOVE leaseExpiresAtMs',
      ExpressionAttributeNames: { '#state': 'state', '#error': 'error' },
      ExpressionAttributeValues: {
        ':failed': 'failed',
        ':person': 'of-a-person',
        ':error': { code: 'by_hand', message: 'settled by hand' },
      },
    }),
  );
  client.destroy();
}
