import { looksLikeCardNumber } from '../operation/describe';

/**
 * Whether a text holds a card number: is one, whatever stands between its digits, or has one in it as a run of
 * digits or in the groups that cards show. A UUID or a time stamp has no such groups.
 */
export function holdsCardNumber(text: string): boolean {
  const plain = text.normalize('NFKC').replace(/\p{Cf}/gu, '');
  if (looksLikeCardNumber(plain)) return true;
  return (plain.match(digitRuns) ?? []).some(looksLikeCardNumber);
}

/** Digits that no digit or letter touches, as they do in hexadecimal ids: 4-4-4-4 and 4-6-5 with a separator each, or 13 to 16 together. */
const digitRuns =
  /(?<![\p{L}\d])(?:\d{4}[\s._:-]\d{4}[\s._:-]\d{4}[\s._:-]\d{4}|\d{4}[\s._:-]\d{6}[\s._:-]\d{5}|\d{13,16})(?![\p{L}\d])/gu;

/**
 * Where a parsed JSON value holds a card number in a text, a number or a name, however deep.
 * @returns the name of the top-level field, or `''` when it has none that can be shown; undefined when there is none
 */
export function cardNumberIn(json: unknown): string | undefined {
  // A list and no recursion: a body may nest deeper than the stack.
  const left = [{ value: json, field: '' }];
  for (let next = left.pop(); next; next = left.pop()) {
    const { value, field } = next;
    if (typeof value === 'string' || typeof value === 'number') {
      if (holdsCardNumber(String(value))) return field;
    } else if (typeof value === 'object' && value !== null) {
      for (const [name, member] of Object.entries(value)) {
        if (!Array.isArray(value) && holdsCardNumber(name)) return field;
        left.push({ value: member, field: value === json ? shown(name) : field });
      }
    }
  }
  return undefined;
}

const shown = (name: string): string => (/^[A-Za-z]{1,40}$/.test(name) ? name : '');
