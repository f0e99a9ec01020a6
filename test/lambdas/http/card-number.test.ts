import { randomUUID } from 'node:crypto';
import { cardNumberIn } from '../../../lambdas/http/card-number';
import { holdsCardNumber } from '../../../lambdas/operation/describe';

test.each([
  '4242424242424242',
  '4242 4242 4242 4242',
  '3782 822463 10005',
  'pm_5555555555554444',
  'x \u200b4242\u200b424242424242',
])('%s holds a card number', (text) => expect(holdsCardNumber(text)).toBe(true));

test.each([
  '4242424242424241',
  '1768435200000',
  '2026-01-15T12:00:00.000Z',
  'inv-20260115-000123',
  '42424242424242424242',
])('%s holds none', (text) => expect(holdsCardNumber(text)).toBe(false));

test('ids that programs make hold none: a hundred thousand UUIDs, with and without their dashes', () => {
  const ids = Array.from({ length: 100_000 }, () => randomUUID());
  expect(ids.filter(holdsCardNumber)).toEqual([]);
  expect(ids.map((id) => id.replaceAll('-', '')).filter(holdsCardNumber)).toEqual([]);
});

test('a JSON value is searched however deep it nests, names too', () => {
  const deep = JSON.parse(`{"a":${'['.repeat(100_000)}"4242424242424242"${']'.repeat(100_000)}}`);
  expect(cardNumberIn(deep)).toBe('a');
  expect(cardNumberIn({ a: { '4242424242424242': 1 } })).toBe('a');
  expect(cardNumberIn({ '4242424242424242': 1 })).toBe('');
  expect(cardNumberIn({ a: ['x', 1, null, true, {}] })).toBeUndefined();
});
