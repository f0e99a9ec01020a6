import { digestOf } from '../../lambdas/operation/digest';
import type { Message } from '../../lambdas/operation/message';
import { oldestForm, parseMessage } from '../../lambdas/operation/message';
import type { OperationId } from '../../lambdas/operation/operation';
import { keyOf } from '../../lambdas/operation/ports';
import type { Behaviour, Plan } from './plan';

export function idOf({ operations }: Plan, index: number): OperationId {
  return { tenantId: `t${operations[index]?.tenant ?? 0}`, operationId: `o${index}` };
}

/** When every plan begins: a Thursday, 22 minutes before a UTC day ends. */
export const beginMs = Date.UTC(2026, 0, 15, 23, 38);

/** The job of a planned operation. */
export function jobOf(plan: Plan, index: number): Message {
  const { tenantId, operationId } = idOf(plan, index);
  const planned = plan.operations[index];
  const job = chargeOf(tenantId, operationId, planned?.behaviour ?? 'ok', planned?.hasDescription ?? false);
  if (typeof planned?.deadlineAfterMs !== 'number') return job;
  return { ...job, deadlineAt: new Date(beginMs + planned.atMs + planned.deadlineAfterMs).toISOString() };
}

/** A charge whose payment method says what its card does. */
export const chargeOf = (
  tenantId: string,
  operationId: string,
  behaviour: Behaviour,
  hasDescription: boolean,
): Message => ({
  version: 2,
  tenantId,
  operationId,
  type: 'charge',
  input: {
    reference: `inv-${operationId}`,
    amountMinor: 1000,
    currency: 'usd',
    customerId: `cus_${tenantId}`,
    paymentMethodId: `pm_${behaviour}`,
    ...(hasDescription ? { description: 'Two chairs' } : {}),
  },
});

const reasons = ['requested_by_customer', 'duplicate', 'fraudulent'] as const;

/** A refund of a part of a charge, one of four of it; its reason says how it ends at the provider. */
export const refundOf = ({ tenantId, operationId }: OperationId, amountMinor: number): Message => ({
  version: 2,
  tenantId,
  operationId: `${operationId}-r${amountMinor % 4}`,
  type: 'refund',
  input: {
    chargeOperationId: operationId,
    amountMinor,
    reason: reasons[amountMinor % reasons.length] ?? 'duplicate',
  },
});

/** The same id with other inputs. */
export function withOtherInputs(message: Message): Message {
  if (message.type !== 'charge') return message;
  return { ...message, input: { ...message.input, amountMinor: message.input.amountMinor + 1 } };
}

export const bodyOf = (message: Message): string => JSON.stringify(message);

/** The same job in the oldest version that can say it. */
export const oldestBodyOf = (message: Message): string =>
  JSON.stringify({ ...message, ...oldestForm(message) });

/** The operation that a message's body is of, valid or not. */
export function keyIn(body: string): string {
  const parsed = parseMessage(body, 16_384);
  return parsed.kind === 'message' ? keyOf(parsed.message) : 'unreadable';
}

/** The digest of the inputs in a message's body. */
export function digestIn(body: string): string | undefined {
  const parsed = parseMessage(body, 16_384);
  return parsed.kind === 'message' ? digestOf(parsed.message) : undefined;
}
