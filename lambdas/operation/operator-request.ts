import * as z from 'zod/mini';
import { idPattern } from './message-fields';

const id = z.string().check(z.regex(idPattern));
/** Who asks: a person's name, as the record and the log show it. */
const by = z.string().check(z.minLength(1), z.maxLength(64));
/** Short, because the record holds it. */
const evidence = z.string().check(z.minLength(10), z.maxLength(120));
const one = { tenantId: id, operationId: id, by };

/** What a person may ask for beside the API. */
export const operatorRequestSchema = z.union([
  z.strictObject({
    action: z.literal('settle'),
    ...one,
    /** The PaymentIntent or Refund that is the operation's effect. */
    succeeded: z.string().check(z.regex(/^(pi|re|pyr)_[A-Za-z0-9_]{1,100}$/)),
    evidence: z.optional(evidence),
  }),
  z.strictObject({
    action: z.literal('settle'),
    ...one,
    absent: z.literal(true),
    /** How the person knows that there is no effect, and that none is on its way. */
    evidence,
  }),
  z.strictObject({ action: z.enum(['retry', 'cancel', 'discard']), ...one }),
  z.strictObject({
    action: z.literal('pause'),
    by,
    reason: z.string().check(z.minLength(3), z.maxLength(200)),
  }),
  z.strictObject({ action: z.literal('resume'), by }),
  z.strictObject({ action: z.literal('check') }),
  z.strictObject({
    action: z.literal('audit'),
    by,
    type: z.enum(['charge', 'refund']),
    sinceMs: z.int().check(z.gte(0)),
    after: z.optional(z.string().check(z.regex(/^\w{1,100}$/))),
    adopts: z.boolean(),
  }),
]);
export type OperatorRequest = z.infer<typeof operatorRequestSchema>;
