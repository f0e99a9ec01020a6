import { type SQSClient, StartMessageMoveTaskCommand } from '@aws-sdk/client-sqs';
import * as z from 'zod/mini';
import { ApiError } from '../../client/api-error';
import { OperationsClient } from '../../client/operations-client';
import { readOperation } from '../../lambdas/adapters/operation-item';
import { messageOf, type Operation } from '../../lambdas/operation/operation';
import { type ArmedCrash, type CrashPoint, crashAt, crashPoints, isCrashPoint } from '../crash-points';
import type { LocalStack } from '../stack';
import type { ConsoleDocument } from './document';
import { describeFault, type FaultName, faults, isFaultName } from './faults';
import type { History } from './history';

const text = z.string().check(z.maxLength(200));
const operation = { tenantId: text, operationId: text };
const crashPoint = z.custom<CrashPoint>((value) => typeof value === 'string' && isCrashPoint(value));
const faultName = z.custom<FaultName>((value) => typeof value === 'string' && isFaultName(value));

/**
 * What the page's buttons ask for. What an operation may be is not checked here: that is the service's own task, and
 * its refusals are worth seeing.
 */
export const actionSchema = z.discriminatedUnion('action', [
  z.strictObject({
    action: z.literal('enqueue'),
    ...operation,
    way: z.enum(['api', 'queue']),
    amountMinor: z.number(),
    currency: text,
    paymentMethodId: text,
    times: z.int().check(z.gte(1), z.lte(50)),
    /** One operation so many times, or so many operations. */
    sameId: z.boolean(),
  }),
  z.strictObject({ action: z.literal('sendMalformed') }),
  z.strictObject({ action: z.literal('duplicate'), ...operation }),
  z.strictObject({ action: z.literal('conflict'), ...operation }),
  z.strictObject({ action: z.literal('cancel'), ...operation }),
  z.strictObject({ action: z.literal('refund'), ...operation, amountMinor: z.number() }),
  z.strictObject({ action: z.literal('redrive') }),
  z.strictObject({ action: z.literal('hold') }),
  z.strictObject({ action: z.literal('deliver') }),
  z.strictObject({ action: z.literal('pause') }),
  z.strictObject({ action: z.literal('resume') }),
  z.strictObject({ action: z.literal('killWorkers') }),
  z.strictObject({ action: z.literal('armCrash'), point: crashPoint }),
  z.strictObject({ action: z.literal('disarmCrash') }),
  z.strictObject({
    action: z.literal('planFault'),
    fault: faultName,
    /** Null for every call until the faults are cleared. */
    times: z.nullable(z.int().check(z.gte(1), z.lte(1000))),
  }),
  z.strictObject({ action: z.literal('clearFaults') }),
  z.strictObject({
    action: z.literal('settleAtProvider'),
    id: text,
    outcome: z.enum(['succeeded', 'failed']),
  }),
  z.strictObject({
    action: z.literal('moveClock'),
    /** At most a week at a time. */
    seconds: z.int().check(z.gte(1), z.lte(7 * 86_400)),
  }),
]);
export type Action = Readonly<z.infer<typeof actionSchema>>;
type ActionOf<Name extends Action['action']> = Extract<Action, { action: Name }>;

/** What became of an action, in one sentence. `ok` is false when the service refused it. */
export interface Said {
  readonly ok: boolean;
  readonly said: string;
}

/** What only this page changes about a stack. */
export interface Actions {
  run(action: Action): Promise<Said>;
  isHeld(): boolean;
  armed(): ConsoleDocument['workers']['armed'];
}

/** @param sqs for the redrive; it is not destroyed here */
export function createActions(stack: LocalStack, history: History, sqs: SQSClient): Actions {
  const client = new OperationsClient({ apiUrl: stack.endpoints.api ?? '' });
  let isHeld = false;
  let armed: (ArmedCrash & { readonly point: CrashPoint }) | undefined;

  /** Stopping takes until the deliveries under way have ended; a start in the middle of it would be lost. */
  let switching = Promise.resolve();
  const inTurn = (turn: () => Promise<void>): Promise<void> => {
    switching = switching.then(turn, turn);
    return switching;
  };

  const disarm = (): void => {
    armed?.disarm();
    armed = undefined;
  };

  const run = async (action: Action): Promise<Said> => {
    switch (action.action) {
      case 'enqueue':
        return action.way === 'api' ? accept(client, action) : send(stack, action);
      case 'sendMalformed':
        await stack.send('{"version": 1, "tenantId": "North", "operationId"');
        return done('A message that is no JSON is on the queue: it will end in the dead-letter queue.');
      case 'duplicate': {
        const known = await read(stack, action);
        if (!known) return unknown(action);
        await stack.send(messageOf(known));
        return done(`The message of ${action.operationId} is on the queue once more.`);
      }
      case 'conflict': {
        const known = await read(stack, action);
        if (!known) return unknown(action);
        const message = messageOf(known);
        const amountMinor = otherAmount(message.input.amountMinor);
        await stack.send({ ...message, input: { ...message.input, amountMinor } });
        return done(`${action.operationId} with another amount is on the queue: it must be refused.`);
      }
      case 'cancel':
        return refusable(async () => {
          const { state } = await client.cancel(action.tenantId, action.operationId);
          return `${action.operationId} is ${state}.`;
        });
      case 'refund':
        return refund(stack, client, action);
      case 'redrive': {
        const { deadLetters } = await stack.queueContents();
        if (deadLetters.depth.total === 0) return refused('The dead-letter queue is empty.');
        await sqs.send(new StartMessageMoveTaskCommand({ SourceArn: stack.deadLetterQueueArn }));
        return done(`A redrive of ${counted(deadLetters.depth.total, 'message')} has started.`);
      }
      case 'hold':
        await inTurn(async () => {
          isHeld = true;
          await stack.eventSource.stop();
        });
        return done('Deliveries are held: messages stay on the queue.');
      case 'deliver':
        await inTurn(async () => {
          isHeld = false;
          stack.eventSource.start();
        });
        return done('Messages are delivered again.');
      case 'pause':
        return operate(stack, { action: 'pause', by: 'console', reason: 'on the console page' });
      case 'resume':
        return operate(stack, { action: 'resume', by: 'console' });
      case 'killWorkers':
        return done(
          `${counted(stack.workers.killAll('SIGKILL'), 'worker process', 'worker processes')} killed.`,
        );
      case 'armCrash': {
        disarm();
        const { point } = action;
        const crash = { ...crashAt(stack, point), point };
        armed = crash;
        crash.killed.then(() => {
          if (armed === crash) armed = undefined;
        });
        return done(`The next delivery is killed ${crashPoints[point]}.`);
      }
      case 'disarmCrash':
        disarm();
        return done('No delivery will be killed.');
      case 'planFault': {
        if (!stack.stripe) return refused(noStandIn);
        const fault = faults[action.fault];
        stack.stripe.fault(fault, { method: 'POST', times: action.times ?? Number.POSITIVE_INFINITY });
        const calls = action.times === null ? 'Every call' : `The next ${counted(action.times, 'call')}`;
        return done(`${calls} of the provider: ${describeFault(fault)}.`);
      }
      case 'clearFaults':
        // An armed crash is a fault of the provider's too.
        disarm();
        stack.stripe?.clearFaults();
        return done('The provider is well again.');
      case 'settleAtProvider':
        if (!stack.stripe) return refused(noStandIn);
        stack.stripe.settle(action.id, action.outcome);
        return done(`${action.id} ${action.outcome} at the provider.`);
      case 'moveClock':
        await stack.clock.advance(action.seconds * 1000);
        return done(`The clock moved by ${action.seconds} s.`);
    }
  };

  return {
    async run(action) {
      // A clock move is told by the stack itself.
      const told = await run(action).catch((error: unknown) => refused(messageIn(error)));
      if (action.action !== 'moveClock') history.note(told.said, keyIn(action));
      return told;
    },
    isHeld: () => isHeld,
    armed: () => armed?.point,
  };
}

const done = (said: string): Said => ({ ok: true, said });
const refused = (said: string): Said => ({ ok: false, said });
const unknown = ({ operationId }: { readonly operationId: string }): Said =>
  refused(`${operationId} is not in the table yet.`);
const noStandIn = 'This stack charges through Stripe itself, which takes no orders from here.';

const messageIn = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const counted = (count: number, one: string, many = `${one}s`): string =>
  `${count} ${count === 1 ? one : many}`;

function keyIn(action: Action): string | undefined {
  if (!('operationId' in action) || (action.action === 'enqueue' && !action.sameId)) return undefined;
  return `${action.tenantId}/${action.operationId}`;
}

/** Runs what the API may refuse, and gives its reason then. */
async function refusable(ask: () => Promise<string>): Promise<Said> {
  try {
    return done(await ask());
  } catch (error) {
    if (error instanceof ApiError) return refused(`${error.status}: ${error.message}`);
    throw error;
  }
}

const operatorAnswer = z.object({ done: z.boolean(), said: z.string() });

/** Has the service's own function do it, as `npm run ops` has. */
async function operate({ endpoints, functions }: LocalStack, request: object): Promise<Said> {
  if (endpoints.lambda === undefined) return refused("The operator's function is not served by this stack.");
  const url = `${endpoints.lambda}/2015-03-31/functions/${functions.operate}/invocations`;
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(request) });
  const answer = operatorAnswer.safeParse(await response.json());
  if (!answer.success) return refused("The operator's function failed: its log says why.");
  return { ok: answer.data.done, said: answer.data.said };
}

async function read(
  stack: LocalStack,
  { tenantId, operationId }: { readonly tenantId: string; readonly operationId: string },
): Promise<Operation | undefined> {
  return readOperation(await stack.operation(tenantId, operationId));
}

/** Another amount that the currency allows: a few take only multiples of a hundred. */
const otherAmount = (amountMinor: number): number =>
  amountMinor > 99_990_000 ? amountMinor - 1000 : amountMinor + 1000;

const chargeInput = ({ operationId, amountMinor, currency, paymentMethodId }: ActionOf<'enqueue'>) => ({
  reference: operationId,
  amountMinor,
  currency,
  customerId: 'cus_A',
  paymentMethodId,
});

const idsOf = ({ operationId, times, sameId }: ActionOf<'enqueue'>): string[] =>
  Array.from({ length: times }, (_, index) =>
    sameId || times === 1 ? operationId : `${operationId}-${index + 1}`,
  );

async function send(stack: LocalStack, action: ActionOf<'enqueue'>): Promise<Said> {
  const { tenantId } = action;
  const messages = idsOf(action).map((operationId) => ({
    version: 2,
    tenantId,
    operationId,
    type: 'charge',
    input: chargeInput(action),
  }));
  await Promise.all(messages.map((message) => stack.send(message)));
  return done(`${action.operationId}: ${counted(messages.length, 'message')} on the queue.`);
}

/** Asks the API for each, all at once, and tells how it answered. */
async function accept(client: OperationsClient, action: ActionOf<'enqueue'>): Promise<Said> {
  const { tenantId, operationId } = action;
  const answers = await Promise.all(
    idsOf(action).map((id) =>
      refusable(async () => {
        const { isNew } = await client.charge(tenantId, id, chargeInput(action));
        return isNew ? 'accepted (202)' : 'known already (200)';
      }),
    ),
  );
  const tally = Map.groupBy(answers, ({ said }) => said);
  const told = [...tally].map(([said, same]) => (answers.length === 1 ? said : `${same.length} ${said}`));
  return { ok: answers.every(({ ok }) => ok), said: `${operationId}: ${told.join(', ')}` };
}

/** A refund is an operation of its own; its id is the first that is free of `R-O7`, `R-O7-2` and so on. */
async function refund(
  stack: LocalStack,
  client: OperationsClient,
  action: ActionOf<'refund'>,
): Promise<Said> {
  const { tenantId, operationId: chargeOperationId, amountMinor } = action;
  const base = `R-${chargeOperationId}`;
  let refundId = base;
  for (let next = 2; await stack.operation(tenantId, refundId); next++) refundId = `${base}-${next}`;
  return refusable(async () => {
    await client.refund(tenantId, refundId, {
      chargeOperationId,
      amountMinor,
      reason: 'requested_by_customer',
    });
    return `The refund of ${chargeOperationId} is accepted (202), as operation ${refundId}.`;
  });
}
