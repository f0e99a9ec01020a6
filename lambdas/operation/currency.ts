/**
 * Amounts are in the minor unit that Stripe defines for the currency, which is never converted here: 1999 is
 * 19.99 US dollars and 1999 yen. A few currencies take only multiples of their minor unit.
 * https://docs.stripe.com/currencies#special-cases
 */
const multiples: Readonly<Record<string, number>> = {
  // Three decimals in the API, of which the last must be 0.
  bhd: 10,
  jod: 10,
  kwd: 10,
  omr: 10,
  tnd: 10,
  // Two decimals in the API, both of which must be 0.
  isk: 100,
  ugx: 100,
};

/** The number that an amount in `currency` (lower case) must be a multiple of. 1 for most. */
export function amountMultiple(currency: string): number {
  return multiples[currency] ?? 1;
}
