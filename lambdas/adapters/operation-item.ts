import * as z from 'zod/mini';
import { upcastChargeV1 } from '../operation/message-v2';
import type { Operation, OperationId } from '../operation/operation';
import { keyOf } from '../operation/ports';
import { parkedReasons, states } from '../operation/state';
import { table } from './table';

// A schema takes time at each cold start: what is the same is made once.
const text = z.string();
const number = z.number();
const mayBe = { text: z.optional(text), number: z.optional(number) };

const record = {
  [table.partitionKey]: z.string().check(z.regex(/^op#[^#]+#[^#]+$/)),
  inputDigest: text,
  state: z.enum(states),
  claimId: mayBe.text,
  leaseExpiresAtMs: mayBe.number,
  attemptCount: number,
  attemptLimit: number,
  redriveCount: number,
  effectPossibleSinceMs: mayBe.number,
  effectPossibleClaimId: mayBe.text,
  absentProvenAtMs: mayBe.number,
  providerKey: text,
  providerParamsVersion: number,
  providerRef: mayBe.text,
  result: z.optional(
    z.object({
      amountMinor: mayBe.number,
      currency: mayBe.text,
      chargeId: mayBe.text,
    }),
  ),
  error: z.optional(z.object({ code: text, message: text, declineCode: mayBe.text })),
  parkedReason: z.optional(z.enum(parkedReasons)),
  parkedAtMs: mayBe.number,
  escalatedAtMs: mayBe.number,
  intervention: z.optional(
    z.object({
      action: z.enum(['settled', 'proven_absent', 'retried', 'cancelled', 'discarded', 'adopted']),
      by: text,
      atMs: number,
      evidence: mayBe.text,
    }),
  ),
  cancelRequestedAtMs: mayBe.number,
  deadlineAtMs: number,
  refunds: z.optional(z.record(text, z.object({ amountMinor: number, reservedAtMs: number }))),
  refundedMinor: mayBe.number,
  acceptedBy: z.enum(['api', 'queue']),
  createdAtMs: number,
  updatedAtMs: number,
  openShard: mayBe.number,
  dueAtMs: mayBe.number,
  expiresAtSeconds: mayBe.number,
};

const payment = {
  amountMinor: number,
  currency: text,
  customerId: text,
  paymentMethodId: text,
};
const charge = { ...record, type: z.literal('charge') };

/**
 * Every form that a record may have: the oldest one that can say its inputs. Another `version` is of a newer build, and no
 * part of such a record is understood.
 */
const item = z.discriminatedUnion('type', [
  z.discriminatedUnion('version', [
    z.object({
      ...charge,
      version: z.literal(1),
      input: z.pipe(z.object({ ...payment, invoiceId: text }), z.transform(upcastChargeV1)),
    }),
    z.object({
      ...charge,
      version: z.literal(2),
      input: z.object({ ...payment, reference: text, description: mayBe.text }),
    }),
  ]),
  z.object({
    ...record,
    version: z.literal(1),
    type: z.literal('refund'),
    input: z.object({
      chargeOperationId: text,
      amountMinor: number,
      reason: z.optional(z.enum(['duplicate', 'fraudulent', 'requested_by_customer'])),
    }),
    chargeRef: mayBe.text,
  }),
]);

export const operationPartition = (id: OperationId): string => `op#${keyOf(id)}`;

/** The operation that a table item holds, in the current form; undefined when this build cannot read it, as a newer one wrote it. */
export function readOperation(stored: unknown): Operation | undefined {
  const parsed = item.safeParse(stored);
  if (!parsed.success) return undefined;
  const { [table.partitionKey]: pk, version: _, ...operation } = parsed.data;
  const [, tenantId = '', operationId = ''] = pk.split('#');
  return { tenantId, operationId, ...operation };
}

/** @throws when the item is no operation that this build can read */
export function operationFromItem(stored: unknown): Operation {
  const operation = readOperation(stored);
  if (!operation) throw new Error('the table holds a record that this build cannot read');
  return operation;
}
