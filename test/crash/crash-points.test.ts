import { type CrashPoint, crashAt, crashPoints } from '../../local/crash-points';
import { type LocalStack, startLocalStack } from '../../local/stack';
import { job } from '../support/worker-bench';

const leftBehind: readonly { point: CrashPoint; calls: number; leftState: string | undefined }[] = [
  { point: 'beforeClaim', calls: 1, leftState: undefined },
  { point: 'beforeCall', calls: 2, leftState: 'running' },
  { point: 'afterEffect', calls: 2, leftState: 'running' },
  { point: 'beforeSettle', calls: 2, leftState: 'running' },
  { point: 'afterSettle', calls: 1, leftState: 'succeeded' },
];

let stack: LocalStack;
beforeAll(async () => {
  stack = await startLocalStack();
});
afterAll(() => stack.stop());

test.each(leftBehind.map((row) => ({ ...row, where: crashPoints[row.point] })))(
  'a worker killed $where leaves one charge and one succeeded record',
  async ({ point, calls, leftState }) => {
    const charge = job();
    const { tenantId, operationId } = charge;
    const { killed } = crashAt(stack, point);

    await stack.send(charge);
    expect(await killed).toBeGreaterThanOrEqual(1);
    await stack.waitFor(() => stack.workers.busyPids().length === 0);
    expect((await stack.operation(tenantId, operationId))?.state).toBe(leftState);

    // The lease ends and the message's visibility timeout passes.
    await stack.clock.advance(13_000);
    await stack.waitFor(async () => (await stack.queueDepth()).total === 0, { timeoutMs: 20_000 });

    const operation = `${tenantId}/${operationId}`;
    const requests = stack.stripe?.requests().filter((request) => request.operation === operation) ?? [];
    const charges =
      stack.stripe?.ledger().filter(({ metadata }) => metadata.operationId === operationId) ?? [];
    expect(charges).toHaveLength(1);
    expect(requests).toHaveLength(calls);
    expect(new Set(requests.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
    expect(await stack.operation(tenantId, operationId)).toMatchObject({
      state: 'succeeded',
      providerRef: charges[0]?.paymentIntentId,
    });
    expect(await stack.deadLetters()).toEqual([]);
  },
);
