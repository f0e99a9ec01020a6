// What a worker of version 1 knew of messages: a copy of lambdas/operation/message.ts as it was before version 2. Frozen.

import * as z from 'zod/mini';
import { amountMultiple } from '../../../lambdas/operation/currency';
import { describe, looksLikeCardNumber } from '../../../lambdas/operation/describe';

/** Tenant, operation, invoice, customer and payment method ids: ASCII only, so that one id has one spelling and `#` and `/` cannot occur. */
export const idPattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;

const must = (rule: string) => (issue: { input?: unknown }) =>
  issue.input === undefined
    ? `is missing; it must be ${rule}`
    : `is ${describe(issue.input)}; it must be ${rule}`;

const idRule = {
  error: must('1 to 64 of the characters A-Z a-z 0-9 . _ : - and start with a letter or digit'),
};
const amountRule = { error: must("a whole number from 1 to 99999999, in the currency's minor unit") };
const currencyRule = { error: must('a three-letter ISO 4217 code') };

const cardRule = { error: () => 'looks like a card number (not shown); it must be an identifier' };

const id = z.string(idRule).check(
  z.regex(idPattern, { ...idRule, abort: true }),
  z.refine((value) => !looksLikeCardNumber(value), cardRule),
);
const currency = z.pipe(
  z.string(currencyRule).check(z.regex(/^[A-Za-z]{3}$/, currencyRule)),
  z.transform((code) => code.toLowerCase()),
);

const chargeInput = z
  .strictObject({
    /** What is paid for. Not an identity: two operations may pay the same invoice. */
    invoiceId: id,
    /** In the currency's smallest unit as Stripe defines it, 1 to 99999999 (Stripe's eight digits). */
    amountMinor: z.int(amountRule).check(z.gte(1, amountRule), z.lte(99_999_999, amountRule)),
    /** ISO 4217, lower-cased before the digest is taken. */
    currency,
    customerId: id,
    paymentMethodId: id,
  })
  .check(({ value, issues }) => {
    const multiple = amountMultiple(value.currency);
    if (value.amountMinor % multiple === 0) return;
    const message = `is ${value.amountMinor}; in ${value.currency} it must be a multiple of ${multiple}`;
    issues.push({ code: 'custom', path: ['amountMinor'], input: value.amountMinor, message });
  });

const reasons = ['duplicate', 'fraudulent', 'requested_by_customer'] as const;
const refundInput = z.strictObject({
  /** The operation that charged, of the same tenant. */
  chargeOperationId: id,
  /** Part of the charge or all that is left of it, in its currency's smallest unit. */
  amountMinor: z.int(amountRule).check(z.gte(1, amountRule), z.lte(99_999_999, amountRule)),
  /** Stripe's own reasons. https://docs.stripe.com/api/refunds/create */
  reason: z.optional(z.enum(reasons, { error: must(`one of ${reasons.join(', ')}`) })),
});

const deadlineRule = { error: must('an ISO 8601 time in UTC, such as 2030-01-31T12:00:00Z') };
const common = {
  version: z.literal(1),
  tenantId: id,
  operationId: id,
  /** An operation that was never attempted by then fails. Not part of the digest. */
  deadlineAt: z.optional(z.iso.datetime(deadlineRule)),
};

const messageV1 = z.discriminatedUnion(
  'type',
  [
    z.object({ ...common, type: z.literal('charge'), input: chargeInput }),
    z.object({ ...common, type: z.literal('refund'), input: refundInput }),
  ],
  { error: () => 'must be "charge" or "refund"' },
);

/** The schema that documents are generated from. */
export const messageSchema = messageV1;
export const inputSchemas = { charge: chargeInput, refund: refundInput } as const;

/** A queue message of the current version. Unknown fields outside `input` were ignored. */
export type Message = Readonly<z.infer<typeof messageV1>>;
export type OperationType = Message['type'];
export type ChargeInput = Readonly<z.infer<typeof chargeInput>>;
export type RefundInput = Readonly<z.infer<typeof refundInput>>;

/** The newest version of the message that this build reads. */
export const currentVersion = 1;

export type Parsed =
  | { readonly kind: 'message'; readonly message: Message }
  /** Never to be run. `problem` says what was got and what is allowed, and shows no body. */
  | { readonly kind: 'malformed'; readonly problem: string; readonly ids: Ids }
  /** Written by a newer producer: a newer worker will read it. */
  | { readonly kind: 'futureVersion'; readonly version: number; readonly ids: Ids };

/** The ids of a message that could not be read, as far as they are valid: for the log line only. */
export interface Ids {
  readonly tenantId?: string;
  readonly operationId?: string;
  readonly type?: string;
}

/** Parses the body of a queue message. The size limit, in UTF-8 bytes, comes before everything else. */
export function parseMessage(body: string, maxBytes: number): Parsed {
  const bytes = Buffer.byteLength(body, 'utf8');
  if (bytes > maxBytes) return malformed(`the body has ${bytes} bytes; at most ${maxBytes} are allowed`);
  const json = parseJson(body);
  if (!isObject(json))
    return malformed(
      `the body is ${json === undefined ? 'not JSON' : describe(json)}; it must be a JSON object`,
    );
  const wrapper = wrapperOf(json);
  return wrapper ? malformed(wrapper, idsOf(json)) : messageFrom(json);
}

/** The message that a parsed JSON object is. */
export function messageFrom(json: Record<string, unknown>): Parsed {
  const ids = idsOf(json);
  const { version } = json;
  if (typeof version !== 'number' || !Number.isInteger(version) || version < 1) {
    return malformed(
      `version ${must(`a whole number from 1 to ${currentVersion}`)({ input: version })}`,
      ids,
    );
  }
  if (version > currentVersion) return { kind: 'futureVersion', version, ids };
  const parsed = messageV1.safeParse(json);
  if (parsed.success) return { kind: 'message', message: parsed.data };
  const problems = parsed.error.issues.map((issue) => problemOf(issue, json));
  return malformed([...new Set(problems)].join('; '), ids);
}

const malformed = (problem: string, ids: Ids = {}): Parsed => ({ kind: 'malformed', problem, ids });

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function idsOf({ tenantId, operationId, type }: Record<string, unknown>): Ids {
  const valid = (value: unknown) =>
    typeof value === 'string' && idPattern.test(value) && !looksLikeCardNumber(value) ? value : undefined;
  return {
    ...(valid(tenantId) === undefined ? {} : { tenantId: valid(tenantId) }),
    ...(valid(operationId) === undefined ? {} : { operationId: valid(operationId) }),
    ...(type === 'charge' || type === 'refund' ? { type } : {}),
  };
}

/** Senders that put the job inside an envelope of their own: the remedy is theirs, so say it. */
function wrapperOf(json: Record<string, unknown>): string | undefined {
  if (json.Type === 'Notification' && 'Message' in json) {
    return 'the body is an SNS notification around the job; turn on raw message delivery for the subscription';
  }
  if ('detail-type' in json && 'detail' in json) {
    return 'the body is an EventBridge event around the job; set the input path of the rule to $.detail';
  }
  return undefined;
}

function problemOf(issue: z.core.$ZodIssue, { type, input }: Record<string, unknown>): string {
  const path = issue.path.join('.');
  if (path === 'input' && issue.code === 'invalid_type') return `input ${must('an object')({ input })}`;
  if (issue.code === 'invalid_union') return `type ${must('"charge" or "refund"')({ input: type })}`;
  if (issue.code !== 'unrecognized_keys') return `${path} ${issue.message}`;
  const schema = type === 'refund' ? refundInput : chargeInput;
  const allowed = Object.keys(schema.shape).join(', ');
  return `${path} has unknown fields (${issue.keys.map(describe).join(', ')}); allowed are ${allowed}`;
}

/** Not of the copy: version 1 recorded, sent again and digested an input as it came. */
export const oldestForm = ({ type, input }: { readonly type: string; readonly input: object }) => ({
  version: 1,
  type,
  input,
});
