/** A value as an error may show it: short, and never a run of digits that could be a card number. */
export function describe(value: unknown): string {
  if (value === undefined) return 'missing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object' && value !== null) return 'an object';
  if (typeof value === 'number') return Object.is(value, -0) ? '-0' : hideCardNumber(String(value));
  if (typeof value !== 'string') return String(value);
  if (value.length > 80) return `text of ${value.length} characters`;
  return hideCardNumber(JSON.stringify(value));
}

/** Twelve or more digits, perhaps grouped by spaces or dashes, as on a payment card. */
const cardNumber = /\d(?:[ -]?\d){11,}/;

function hideCardNumber(text: string): string {
  return cardNumber.test(text) ? 'a long run of digits (not shown)' : text;
}
