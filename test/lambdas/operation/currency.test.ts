import { amountMultiple } from '../../../lambdas/operation/currency';

test.each([
  ['usd', 1],
  ['eur', 1],
  ['jpy', 1],
  ['krw', 1],
  ['clp', 1],
  ['bhd', 10],
  ['jod', 10],
  ['kwd', 10],
  ['omr', 10],
  ['tnd', 10],
  ['isk', 100],
  ['ugx', 100],
])('an amount in %s is a multiple of %d', (currency, multiple) => {
  expect(amountMultiple(currency)).toBe(multiple);
});
