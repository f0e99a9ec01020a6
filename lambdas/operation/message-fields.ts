import * as z from 'zod/mini';
import { amountMultiple } from './currency';
import { describe, holdsCardNumber, looksLikeCardNumber } from './describe';

// The rules that all versions of the message share, frozen as they are: widened, an older worker would reject what a newer
// one takes; narrowed, a newer one would reject what is in flight. Another rule is a field of a new version.

/** Tenant, operation, customer and payment method ids and references: ASCII only, so that one id has one spelling and `#` and `/` cannot occur. */
export const idPattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;

export const must = (rule: string) => (issue: { input?: unknown }) =>
  issue.input === undefined
    ? `is missing; it must be ${rule}`
    : `is ${describe(issue.input)}; it must be ${rule}`;

const cardRule = { error: () => 'looks like a card number (not shown); it must be an identifier' };
const idRule = {
  error: must('1 to 64 of the characters A-Z a-z 0-9 . _ : - and start with a letter or digit'),
};
export const id = z.string(idRule).check(
  z.regex(idPattern, { ...idRule, abort: true }),
  z.refine((value) => !looksLikeCardNumber(value), cardRule),
);

const amountRule = { error: must("a whole number from 1 to 99999999, in the currency's minor unit") };
/** In the currency's smallest unit as Stripe defines it, 1 to 99999999 (Stripe's eight digits). */
export const amountMinor = z.int(amountRule).check(z.gte(1, amountRule), z.lte(99_999_999, amountRule));

const currencyRule = { error: must('a three-letter ISO 4217 code') };
/** ISO 4217, lower-cased before the digest is taken. */
export const currency = z.pipe(
  z.string(currencyRule).check(z.regex(/^[A-Za-z]{3}$/, currencyRule)),
  z.transform((code) => code.toLowerCase()),
);

/** Some currencies have amounts that their smallest unit allows and Stripe refuses. */
export function amountFitsCurrency({
  value,
  issues,
}: z.core.ParsePayload<{ amountMinor: number; currency: string }>): void {
  const multiple = amountMultiple(value.currency);
  if (value.amountMinor % multiple === 0) return;
  const message = `is ${value.amountMinor}; in ${value.currency} it must be a multiple of ${multiple}`;
  issues.push({ code: 'custom', path: ['amountMinor'], input: value.amountMinor, message });
}

const deadlineRule = { error: must('an ISO 8601 time in UTC, such as 2030-01-31T12:00:00Z') };
/** An operation that was never attempted by then fails. Not part of the digest. */
export const deadlineAt = z.optional(z.iso.datetime(deadlineRule));

const line = 'one line of 1 to 200 characters, with no white space around it';
const lineRule = {
  // Free text may name people: it is never shown.
  error: ({ input }: { input?: unknown }) =>
    typeof input === 'string' ? `is text that is not allowed; it must be ${line}` : must(line)({ input }),
};
const noCardRule = { error: () => 'holds what looks like a card number (not shown)' };
/** Half a surrogate pair cannot be sent in UTF-8; a control character is no part of a line. */
const isLine = (value: string): boolean =>
  value.isWellFormed() && value === value.trim() && !/\p{Cc}/u.test(value);
/** Text for people, in Unicode's form C before the digest is taken, so that "é" has one spelling. */
export const lineOfText = z.pipe(
  z.string(lineRule).check(
    z.regex(/^.{1,200}$/u, { ...lineRule, abort: true }),
    z.refine(isLine, { ...lineRule, abort: true }),
    z.refine((value) => !holdsCardNumber(value), noCardRule),
  ),
  z.transform((value) => value.normalize('NFC')),
);
