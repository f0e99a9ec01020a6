import { ApiError } from '../client/api-error';
import { OperationsClient } from '../client/operations-client';
import type { LocalStack, StackEvent } from './stack';
import type { LedgerEntry } from './stripe-books';
import type { StripeStandIn } from './stripe-stand-in';

export interface Step {
  readonly name: string;
  /** Whether what the step tells of is what happened. */
  readonly ok: boolean;
  /** One sentence for the screen. */
  readonly said: string;
  readonly figures?: Readonly<Record<string, unknown>>;
}

export interface Story {
  readonly ok: boolean;
  readonly steps: readonly Step[];
  /** POSTs that the provider received, by operation. */
  readonly providerCalls: Readonly<Record<string, number>>;
  /** Movements of money, by operation. */
  readonly charges: Readonly<Record<string, number>>;
  readonly ledger: readonly LedgerEntry[];
}

/** What a scene of the story plays with. */
interface Scene {
  readonly stack: LocalStack;
  readonly stripe: StripeStandIn;
  readonly client: OperationsClient;
}

const tenantId = 'North';
const jobO7 = {
  version: 1,
  tenantId,
  operationId: 'O7',
  type: 'charge',
  input: { invoiceId: '7', amountMinor: 5000, currency: 'usd', customerId: 'cus_A', paymentMethodId: 'pm_A' },
};
const jobO8 = { ...jobO7, operationId: 'O8', input: { ...jobO7.input, invoiceId: '8' } };
const changedO7 = { ...jobO7, input: { ...jobO7.input, amountMinor: 9000 } };

/**
 * The main job, told on a running stack: one charge, however often it is delivered. Every figure is counted from the
 * stand-in's requests and ledger, and every step says whether it held.
 */
export async function tellStory(
  stack: LocalStack,
  stripe: StripeStandIn,
  tell: (step: Step) => void,
): Promise<Story> {
  const steps: Step[] = [];
  const client = new OperationsClient({ apiUrl: stack.endpoints.api ?? '' });
  const scenes = [
    acceptAndCrash,
    redeliver,
    refuseChanged,
    keepUnsaved,
    askStatus,
    refuseCancel,
    cancelInTime,
    refund,
  ];
  for (const scene of scenes) {
    for await (const step of scene({ stack, stripe, client })) {
      steps.push(step);
      tell(step);
    }
    if (steps.some(({ ok }) => !ok)) break;
  }
  return {
    ok: steps.every(({ ok }) => ok),
    steps,
    providerCalls: { O7: callsOf(stripe, 'O7') },
    charges: { O7: chargesOf(stripe, 'O7').length },
    ledger: stripe.ledger(),
  };
}

async function* acceptAndCrash({ stack, stripe, client }: Scene): AsyncGenerator<Step> {
  const killed = Promise.withResolvers<boolean>();
  stripe.fault(
    {
      kind: 'hook',
      at: 'afterEffect',
      run: () => killed.resolve(stack.workers.killAll('SIGKILL') > 0),
      next: 'drop',
    },
    { method: 'POST', operationId: `${tenantId}/O7` },
  );
  const ended = endOfDelivery(stack, 'O7');
  const { isNew } = await client.charge(tenantId, 'O7', jobO7.input);
  yield {
    name: 'accept',
    ok: isNew,
    said: 'O7 (tenant North, invoice 7, 5000 cents) was accepted by the API: its record is durable, its message on the queue.',
    figures: { isNew },
  };
  const isKilled =
    (await within(killed.promise, 15_000, false)) && (await within(ended, 15_000, undefined)) === 'failed';
  const record = await stack.operation(tenantId, 'O7');
  yield {
    name: 'crash',
    ok: isKilled && record?.state === 'running' && chargesOf(stripe, 'O7').length === 1,
    said: 'W1 charged the card and was killed (SIGKILL) before it could save that: the record still says running.',
    figures: { recordState: record?.state, charges: chargesOf(stripe, 'O7').length },
  };
}

async function* redeliver({ stack, stripe }: Scene): AsyncGenerator<Step> {
  const first = chargesOf(stripe, 'O7')[0];
  // The save is held back for a moment: an acknowledgement that does not wait for it comes too early.
  const saved = Promise.withResolvers<void>();
  const release = stack.dynamodbProxy.intercept(
    { action: 'UpdateItem', where: isSaveOf('O7'), times: 1 },
    {
      kind: 'hook',
      before: async (): Promise<'continue'> => {
        await new Promise((resolve) => setTimeout(resolve, 100));
        return 'continue';
      },
      after: () => {
        saved.resolve();
        return 'continue';
      },
    },
  );
  const order: string[] = [];
  saved.promise.then(() => order.push('saved'));
  const acknowledged = acknowledgementOf(stack, 'O7').then((isAcknowledged) => {
    if (isAcknowledged) order.push('acknowledged');
  });
  // W1's lease and the message's visibility timeout pass.
  await stack.clock.advance(13_000);
  await acknowledged;
  release();
  const record = await stack.operation(tenantId, 'O7');
  const calls = callsOf(stripe, 'O7');
  const charges = chargesOf(stripe, 'O7').length;
  yield {
    name: 'redeliver',
    ok:
      record?.state === 'succeeded' &&
      record.providerRef === first?.paymentIntentId &&
      calls === 2 &&
      charges === 1,
    said: `The message came back to W2, which got the same charge: provider calls for O7: ${calls}, charges for O7: ${charges}.`,
    figures: { providerCalls: calls, charges, recordState: record?.state, providerRef: record?.providerRef },
  };
  yield {
    name: 'save before acknowledge',
    ok: order.join() === 'saved,acknowledged',
    said: 'The message was taken off the queue only after the outcome was saved.',
    figures: { order },
  };
}

async function* refuseChanged({ stack, stripe }: Scene): AsyncGenerator<Step> {
  const before = await stack.operation(tenantId, 'O7');
  const calls = callsOf(stripe, 'O7');
  await stack.send(changedO7);
  const body = await within(deadLetter(stack, 9000), 15_000, undefined);
  const after = await stack.operation(tenantId, 'O7');
  const isUnchanged = JSON.stringify(before) === JSON.stringify(after);
  yield {
    name: 'refuse',
    ok: body !== undefined && isUnchanged && callsOf(stripe, 'O7') === calls,
    said: 'O7 with 9000 cents was refused and is in the dead-letter queue; the record is unchanged.',
    figures: {
      inDeadLetterQueue: body !== undefined,
      recordUnchanged: isUnchanged,
      providerCalls: callsOf(stripe, 'O7'),
    },
  };
}

async function* keepUnsaved({ stack, stripe }: Scene): AsyncGenerator<Step> {
  const restore = stack.dynamodbProxy.intercept(
    { action: 'UpdateItem', where: isSaveOf('O8') },
    { kind: 'answer', statusCode: 500, error: 'InternalServerError' },
  );
  const firstDelivery = endOfDelivery(stack, 'O8');
  await stack.send(jobO8);
  const isKept = (await within(firstDelivery, 15_000, undefined)) === 'failed';
  restore();
  const acknowledged = acknowledgementOf(stack, 'O8');
  await stack.clock.advance(13_000);
  await acknowledged;
  const record = await stack.operation(tenantId, 'O8');
  const charges = chargesOf(stripe, 'O8').length;
  yield {
    name: 'keep what is not saved',
    ok: isKept && record?.state === 'succeeded' && charges === 1,
    said: 'O8 was charged while the table was down: its message stayed on the queue, came back, and found the same charge.',
    figures: { messageKept: isKept, recordState: record?.state, charges },
  };
}

async function* askStatus({ client }: Scene): AsyncGenerator<Step> {
  const status = await client.get(tenantId, 'O7');
  yield {
    name: 'status',
    ok: status?.state === 'succeeded' && status.done && status.result?.amountMinor === 5000,
    said: `A status request shows the result: O7 is ${status?.state}, ${status?.result?.amountMinor} ${status?.result?.currency}.`,
    figures: { ...status },
  };
}

async function* refuseCancel({ client }: Scene): AsyncGenerator<Step> {
  const refusal = await client.cancel(tenantId, 'O7').catch((error: unknown) => error);
  const isRefused = refusal instanceof ApiError && refusal.status === 409;
  yield {
    name: 'cancel refused',
    ok: isRefused && (await client.get(tenantId, 'O7'))?.state === 'succeeded',
    said: `Cancel of O7 is refused, with the reason: ${isRefused ? refusal.message : ''}`,
    figures: { refusal: String(refusal) },
  };
}

async function* cancelInTime({ stack, stripe, client }: Scene): AsyncGenerator<Step> {
  // Nobody takes O10 from the queue before the cancel.
  await stack.eventSource.stop();
  await client.charge(tenantId, 'O10', { ...jobO7.input, invoiceId: '10' });
  const cancelled = await client.cancel(tenantId, 'O10');
  const acknowledged = acknowledgementOf(stack, 'O10');
  stack.eventSource.start();
  const isAcknowledged = await acknowledged;
  const calls = callsOf(stripe, 'O10');
  yield {
    name: 'cancel',
    ok: cancelled.state === 'cancelled' && !cancelled.effectPossible && isAcknowledged && calls === 0,
    said: 'O10 was cancelled before a worker took it; its message was then taken off the queue without a call.',
    figures: { state: cancelled.state, acknowledged: isAcknowledged, providerCalls: calls },
  };
}

async function* refund({ stripe, client }: Scene): AsyncGenerator<Step> {
  const refundOfO7 = { chargeOperationId: 'O7', amountMinor: 5000, reason: 'requested_by_customer' } as const;
  await client.refund(tenantId, 'R7', refundOfO7);
  const status = await client.waitUntilDone(tenantId, 'R7', { timeoutMs: 15_000, intervalMs: 50 });
  const refunds = stripe.ledger().filter(({ kind }) => kind === 'refund');
  yield {
    name: 'refund',
    ok: status.state === 'succeeded' && refunds.length === 1 && refunds[0]?.amountMinor === 5000,
    said: 'The refund of O7 is an operation of its own, R7: it succeeded, and the ledger shows it once.',
    figures: { state: status.state, refunds: refunds.length },
  };
}

const callsOf = (stripe: StripeStandIn, operationId: string): number =>
  stripe
    .requests()
    .filter(({ method, operation }) => method === 'POST' && operation === `${tenantId}/${operationId}`)
    .length;

const chargesOf = (stripe: StripeStandIn, operationId: string): LedgerEntry[] =>
  stripe.ledger().filter(({ kind, metadata }) => kind === 'charge' && metadata.operationId === operationId);

/** Whether a DynamoDB update writes that the operation succeeded. */
const isSaveOf =
  (operationId: string) =>
  (body: unknown): boolean => {
    const text = JSON.stringify(body);
    return text.includes(`"op#${tenantId}#${operationId}"`) && text.includes('"succeeded"');
  };

const isOf = (operationId: string, body: string): boolean => body.includes(`"operationId":"${operationId}"`);

/** How the next delivery of an operation ends. */
function endOfDelivery(stack: LocalStack, operationId: string): Promise<'acknowledged' | 'failed'> {
  const { promise, resolve } = Promise.withResolvers<'acknowledged' | 'failed'>();
  const stop = stack.onEvent((event: StackEvent) => {
    if (event.type !== 'acknowledged' && event.type !== 'failed') return;
    if (!isOf(operationId, event.record.body)) return;
    stop();
    resolve(event.type);
  });
  return promise;
}

const acknowledgementOf = async (stack: LocalStack, operationId: string): Promise<boolean> =>
  (await within(endOfDelivery(stack, operationId), 15_000, undefined)) === 'acknowledged';

async function deadLetter(stack: LocalStack, amountMinor: number): Promise<string | undefined> {
  const find = async () =>
    (await stack.deadLetters()).find((body) => body.includes(`"amountMinor":${amountMinor}`));
  await stack.waitFor(async () => (await find()) !== undefined, { timeoutMs: 15_000 });
  return find();
}

/** What `promise` gives, or `otherwise` when that takes longer than `ms` or fails. */
async function within<T, U>(promise: Promise<T>, ms: number, otherwise: U): Promise<T | U> {
  const late = Promise.withResolvers<U>();
  const timer = setTimeout(() => late.resolve(otherwise), ms);
  try {
    return await Promise.race([promise.catch(() => otherwise), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
