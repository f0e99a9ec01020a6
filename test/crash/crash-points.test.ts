import { type LocalStack, startLocalStack } from '../../local/stack';
import { job } from '../support/worker-bench';

/** Arms the stack so that the worker process is killed (SIGKILL) at one exact point of its next delivery. */
type Arm = (stack: LocalStack, kill: () => void) => void;

const atUpdate =
  (state: 'running' | 'succeeded', when: 'before' | 'after'): Arm =>
  (stack, kill) => {
    const where = (body: unknown) => JSON.stringify(body).includes(`":state":{"S":"${state}"}`);
    const killAndDrop = (): 'drop' => {
      kill();
      return 'drop';
    };
    stack.dynamodbProxy.intercept(
      { action: 'UpdateItem', where, times: 1 },
      { kind: 'hook', [when]: killAndDrop },
    );
  };

const atProvider =
  (at: 'beforeEffect' | 'afterEffect'): Arm =>
  (stack, kill) => {
    stack.stripe?.fault({ kind: 'hook', at, run: kill, next: 'drop' }, { method: 'POST' });
  };

const crashPoints: readonly { point: string; arm: Arm; calls: number; leftState: string | undefined }[] = [
  { point: 'before the claim', arm: atUpdate('running', 'before'), calls: 1, leftState: undefined },
  {
    point: 'after the claim, before the call',
    arm: atProvider('beforeEffect'),
    calls: 2,
    leftState: 'running',
  },
  {
    point: 'after the provider committed, before its answer',
    arm: atProvider('afterEffect'),
    calls: 2,
    leftState: 'running',
  },
  {
    point: 'after the answer, before the settle',
    arm: atUpdate('succeeded', 'before'),
    calls: 2,
    leftState: 'running',
  },
  {
    point: 'after the settle, before the acknowledgement',
    arm: atUpdate('succeeded', 'after'),
    calls: 1,
    leftState: 'succeeded',
  },
];

let stack: LocalStack;
beforeAll(async () => {
  stack = await startLocalStack();
});
afterAll(() => stack.stop());

test.each(crashPoints)(
  'a worker killed $point leaves one charge and one succeeded record',
  async ({ arm, calls, leftState }) => {
    const charge = job();
    const { tenantId, operationId } = charge;
    const killed = Promise.withResolvers<number>();
    arm(stack, () => killed.resolve(stack.workers.killAll('SIGKILL')));

    await stack.send(charge);
    expect(await killed.promise).toBeGreaterThanOrEqual(1);
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
