import * as z from 'zod/mini';
import type { Operation } from '../operation/operation';
import { parkedReasons, states } from '../operation/state';
import { table } from './table';

const maybe = <T extends z.core.SomeType>(schema: T) => z.optional(schema);
const ms = z.number();

const item = z.object({
  [table.partitionKey]: z.string().check(z.regex(/^op#[^#]+#[^#]+$/)),
  type: z.literal('charge'),
  version: z.number(),
  input: z.object({
    invoiceId: z.string(),
    amountMinor: z.number(),
    currency: z.string(),
    customerId: z.string(),
    paymentMethodId: z.string(),
  }),
  inputDigest: z.string(),
  state: z.enum(states),
  claimId: maybe(z.string()),
  leaseExpiresAtMs: maybe(ms),
  attemptCount: z.number(),
  attemptLimit: z.number(),
  redriveCount: z.number(),
  effectPossibleSinceMs: maybe(ms),
  effectPossibleClaimId: maybe(z.string()),
  providerKey: z.string(),
  providerParamsVersion: z.number(),
  providerRef: maybe(z.string()),
  result: maybe(
    z.object({ amountMinor: maybe(z.number()), currency: maybe(z.string()), chargeId: maybe(z.string()) }),
  ),
  error: maybe(z.object({ code: z.string(), message: z.string(), declineCode: maybe(z.string()) })),
  parkedReason: maybe(z.enum(parkedReasons)),
  parkedAtMs: maybe(ms),
  acceptedBy: z.enum(['api', 'queue']),
  createdAtMs: ms,
  updatedAtMs: ms,
  openShard: maybe(z.number()),
  dueAtMs: maybe(ms),
  expiresAtSeconds: maybe(z.number()),
});

/** The operation that a table item holds; undefined when this build cannot read it, as a newer one wrote it. */
export function readOperation(stored: unknown): Operation | undefined {
  const parsed = item.safeParse(stored);
  if (!parsed.success) return undefined;
  const { [table.partitionKey]: pk, ...operation } = parsed.data;
  const [, tenantId = '', operationId = ''] = pk.split('#');
  return { tenantId, operationId, ...operation };
}

/** @throws when the item is no operation that this build can read */
export function operationFromItem(stored: unknown): Operation {
  const operation = readOperation(stored);
  if (!operation) throw new Error('the table holds a record that this build cannot read');
  return operation;
}
