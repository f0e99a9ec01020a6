/** A value as an error may show it: short, and never so many digits that they could be a card number. */
export function describe(value: unknown): string {
  if (value === undefined) return 'missing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object' && value !== null) return 'an object';
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : hideDigits(String(value));
  if (typeof value !== 'string') return String(value);
  if (value.length > 80) return `text of ${value.length} characters`;
  return hideDigits(JSON.stringify(value));
}

/** Twelve or more digits of any script, whatever stands between them. */
function hideDigits(text: string): string {
  const digits = text.match(/\p{Nd}/gu)?.length ?? 0;
  return digits >= 12 ? 'a long run of digits (not shown)' : text;
}

/**
 * Whether a text has the form of a payment card's number: the length and first digits of a brand, and a valid check
 * digit (ISO/IEC 7812), whatever separators stand between the digits.
 */
export function looksLikeCardNumber(text: string): boolean {
  // Most ids have a letter, and are no such number at once.
  if (!/^[\d\s._:-]+$/.test(text)) return false;
  const digits = text.replace(/[\s._:-]/g, '');
  if (!/^(4\d{12}(\d{3})?|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|(6011|65\d\d|35\d\d)\d{12})$/.test(digits))
    return false;
  const sum = [...digits].reverse().reduce((total, digit, index) => {
    const doubled = Number(digit) * (index % 2 === 0 ? 1 : 2);
    return total + (doubled > 9 ? doubled - 9 : doubled);
  }, 0);
  return sum % 10 === 0;
}

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
