/**
 * How many of an amount's last digits are the currency's fraction in Stripe's API, where it is not two. Stripe differs
 * from ISO 4217 in a few. https://docs.stripe.com/currencies#zero-decimal
 */
export const fractionDigits: Readonly<Record<string, number>> = {
  ...Object.fromEntries(
    [
      ...['bif', 'clp', 'djf', 'gnf', 'jpy', 'kmf', 'krw', 'mga'],
      ...['pyg', 'rwf', 'vnd', 'vuv', 'xaf', 'xof', 'xpf'],
    ].map((currency) => [currency, 0]),
  ),
  ...Object.fromEntries(['bhd', 'jod', 'kwd', 'omr', 'tnd'].map((currency) => [currency, 3])),
};

/**
 * An amount for people, such as `1,250.00 USD` or `5,000 JPY`.
 * @param amountMinor in the currency's smallest unit as Stripe defines it
 * @param currency in any case; an amount whose currency is not known is shown in minor units
 */
export function formatAmount(amountMinor: number, currency: string | undefined): string {
  if (currency === undefined) return `${amountMinor} minor`;
  const digits = fractionDigits[currency.toLowerCase()] ?? 2;
  const amount = (amountMinor / 10 ** digits).toLocaleString('en-US', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
  return `${amount} ${currency.toUpperCase()}`;
}
