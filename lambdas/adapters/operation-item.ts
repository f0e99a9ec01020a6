import * as z from 'zod/mini';
import { upcastChargeV1 } from '../operation/message-v2';
import type { Operation, OperationId } from '../operation/operation';
import { keyOf } from '../operation/ports';
import { parkedReasons, states } from '../operation/state';
import { table } from './table';

const ms = z.number();

const record = {
  [table.partitionKey]: z.string().check(z.regex(/^op#[^#]+#[^#]+$/)),
  inputDigest: z.string(),
  state: z.enum(states),
  claimId: z.optional(z.string()),
  leaseExpiresAtMs: z.optional(ms),
  attemptCount: z.number(),
  attemptLimit: z.number(),
  redriveCount: z.number(),
  effectPossibleSinceMs: z.optional(ms),
  effectPossibleClaimId: z.optional(z.string()),
  absentProvenAtMs: z.optional(ms),
  providerKey: z.string(),
  providerParamsVersion: z.number(),
  providerRef: z.optional(z.string()),
  result: z.optional(
    z.object({
      amountMinor: z.optional(z.number()),
      currency: z.optional(z.string()),
      chargeId: z.optional(z.string()),
    }),
  ),
  error: z.optional(z.object({ code: z.string(), message: z.string(), declineCode: z.optional(z.string()) })),
  parkedReason: z.optional(z.enum(parkedReasons)),
  parkedAtMs: z.optional(ms),
  escalatedAtMs: z.optional(ms),
  intervention: z.optional(
    z.object({
      action: z.enum(['settled', 'proven_absent', 'retried', 'cancelled', 'discarded', 'adopted']),
      by: z.string(),
      atMs: ms,
      evidence: z.optional(z.string()),
    }),
  ),
  cancelRequestedAtMs: z.optional(ms),
  deadlineAtMs: ms,
  refunds: z.optional(z.record(z.string(), z.object({ amountMinor: z.number(), reservedAtMs: ms }))),
  refundedMinor: z.optional(z.number()),
  acceptedBy: z.enum(['api', 'queue']),
  createdAtMs: ms,
  updatedAtMs: ms,
  openShard: z.optional(z.number()),
  dueAtMs: z.optional(ms),
  expiresAtSeconds: z.optional(z.number()),
};

const payment = {
  amountMinor: z.number(),
  currency: z.string(),
  customerId: z.string(),
  paymentMethodId: z.string(),
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
      input: z.pipe(z.object({ ...payment, invoiceId: z.string() }), z.transform(upcastChargeV1)),
    }),
    z.object({
      ...charge,
      version: z.literal(2),
      input: z.object({ ...payment, reference: z.string(), description: z.optional(z.string()) }),
    }),
  ]),
  z.object({
    ...record,
    version: z.literal(1),
    type: z.literal('refund'),
    input: z.object({
      chargeOperationId: z.string(),
      amountMinor: z.number(),
      reason: z.optional(z.enum(['duplicate', 'fraudulent', 'requested_by_customer'])),
    }),
    chargeRef: z.optional(z.string()),
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
