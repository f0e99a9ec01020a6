import { holdsCardNumber } from '../operation/describe';

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
