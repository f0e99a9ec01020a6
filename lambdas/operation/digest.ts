import { hash } from 'node:crypto';
import { oldestForm } from './message';
import type { Job, OperationId } from './operation';

/**
 * SHA-256, in hexadecimal, of the canonical material inputs: what must stay the same for the life of an
 * operation's id. They are taken in their oldest form, so that the same inputs digest equally in every version, and a
 * new version changes no digest that a record holds.
 */
export function digestOf({ tenantId, operationId, ...job }: OperationId & Job): string {
  const { type, input } = oldestForm(job);
  return hash('sha256', canonicalJson({ tenantId, operationId, type, input }), 'hex');
}

/**
 * JSON with the keys of every object, also of those inside lists, ordered by code unit: the same text whatever
 * order, white space or locale a producer used. The order of a list is significant.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, member]) => `${JSON.stringify(key)}:${canonicalJson(member)}`);
  return `{${members.join(',')}}`;
}
