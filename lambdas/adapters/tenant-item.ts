import * as z from 'zod/mini';
import type { Tenant } from '../operation/tenant';
import { table } from './table';

const item = z.object({
  [table.partitionKey]: z.string().check(z.startsWith('tenant#')),
  running: z.optional(z.record(z.string(), z.object({ claimId: z.string(), leaseExpiresAtMs: z.number() }))),
  accepted: z.optional(z.record(z.string(), z.number())),
  calls: z.optional(z.record(z.string(), z.number())),
  maxRunning: z.optional(z.number()),
  maxAccepted: z.optional(z.number()),
});

export const tenantPartition = (tenantId: string): string => `tenant#${tenantId}`;

/** The tenant that a table item holds; undefined when this build cannot read it. */
export function readTenant(stored: unknown): Tenant | undefined {
  const parsed = item.safeParse(stored);
  if (!parsed.success) return undefined;
  const { [table.partitionKey]: pk, ...tenant } = parsed.data;
  const { running = {}, accepted = {}, calls = {} } = tenant;
  const hasPlaces = tenant.running !== undefined;
  return { ...tenant, tenantId: pk.slice('tenant#'.length), hasPlaces, running, accepted, calls };
}

/** @throws when the item is no tenant that this build can read */
export function tenantFromItem(stored: unknown): Tenant {
  const tenant = readTenant(stored);
  if (!tenant) throw new Error('the table holds a tenant that this build cannot read');
  return tenant;
}
