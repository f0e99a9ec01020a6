import { InvalidArgumentError } from 'commander';
import { holdsCardNumber } from '../lambdas/operation/describe';
import { idPattern } from '../lambdas/operation/message-fields';
import type { OperationId } from '../lambdas/operation/operation';

// What a person may type: each of these takes the text and gives its value, or says what it must be.

/** `TENANT/ID` */
export function operationName(text: string): OperationId {
  const [tenantId = '', operationId = '', ...more] = text.split('/');
  if (idPattern.test(tenantId) && idPattern.test(operationId) && more.length === 0)
    return { tenantId, operationId };
  throw new InvalidArgumentError('It must be TENANT/ID, such as North/O7.');
}

export function tenantName(text: string): string {
  if (idPattern.test(text)) return text;
  throw new InvalidArgumentError(
    'It must be 1 to 64 of the characters A-Z a-z 0-9 . _ : - and start with a letter or digit.',
  );
}

/** @returns a parser of whole numbers from `min` to `max` */
export const wholeNumber =
  (min: number, max: number) =>
  (text: string): number => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };

/** A PaymentIntent or a Refund. */
export function reference(text: string): string {
  if (/^(pi|re|pyr)_[A-Za-z0-9_]{1,100}$/.test(text)) return text;
  throw new InvalidArgumentError('It must be a PaymentIntent (pi_...) or a Refund (re_...).');
}

/** @returns a parser of a text of `min` to `max` characters that holds no card number */
export const words =
  (min: number, max: number) =>
  (text: string): string => {
    const trimmed = text.trim();
    if (trimmed.length < min || trimmed.length > max)
      throw new InvalidArgumentError(`It must have ${min} to ${max} characters.`);
    if (holdsCardNumber(trimmed))
      throw new InvalidArgumentError('It looks as if it had a card number in it: leave that out.');
    return trimmed;
  };

/** @returns milliseconds since the epoch */
export function utcTime(text: string): number {
  const ms = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?Z$/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(ms))
    throw new InvalidArgumentError('It must be ISO 8601 in UTC, such as 2030-01-31T12:00:00Z.');
  return ms;
}
