import * as z from 'zod/mini';

// How a worker of version 1 read the inputs of records: as lambdas/adapters/operation-item.ts did before version 2. Frozen.
// The other fields of a record have no versions, and are read as this build reads them.

const inputs = z.discriminatedUnion('type', [
  z.object({
    version: z.number(),
    type: z.literal('charge'),
    input: z.object({
      invoiceId: z.string(),
      amountMinor: z.number(),
      currency: z.string(),
      customerId: z.string(),
      paymentMethodId: z.string(),
    }),
  }),
  z.object({
    version: z.number(),
    type: z.literal('refund'),
    input: z.object({
      chargeOperationId: z.string(),
      amountMinor: z.number(),
      reason: z.optional(z.enum(['duplicate', 'fraudulent', 'requested_by_customer'])),
    }),
  }),
]);

const current = jest.requireActual<typeof import('../../../lambdas/adapters/operation-item')>(
  '../../../lambdas/adapters/operation-item',
);

export const { operationPartition } = current;

export function readOperation(stored: unknown) {
  const known = inputs.safeParse(stored);
  if (!known.success) return undefined;
  const operation = current.readOperation({ ...Object(stored), version: 1 });
  return operation && { ...operation, ...known.data };
}

export function operationFromItem(stored: unknown) {
  const operation = readOperation(stored);
  if (!operation) throw new Error('the table holds a record that this build cannot read');
  return operation;
}
