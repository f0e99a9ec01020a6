import { formatAmount } from '../../../local/console/money';

test.each([
  [5000, 'usd', '50.00 USD'],
  [1, 'eur', '0.01 EUR'],
  [99_999_999, 'usd', '999,999.99 USD'],
  // Zero-decimal, also where ISO 4217 says otherwise (mga).
  [5000, 'jpy', '5,000 JPY'],
  [5000, 'mga', '5,000 MGA'],
  // Three decimals.
  [12_340, 'kwd', '12.340 KWD'],
  // Two decimals in Stripe's API, though people use none.
  [120_000, 'isk', '1,200.00 ISK'],
  [120_000, 'ugx', '1,200.00 UGX'],
  [5000, 'USD', '50.00 USD'],
])('%i of %s is shown as %s', (amountMinor, currency, shown) => {
  expect(formatAmount(amountMinor, currency)).toBe(shown);
});

test('an amount whose currency is not known is not guessed', () => {
  expect(formatAmount(5000, undefined)).toBe('5000 minor');
});
