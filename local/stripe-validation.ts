import { type Answer, invalid } from './stripe-answers';
import { type Params, textsBelow } from './stripe-params';

/** https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts, smallest units; the rest: 50. */
const MINIMUM_MINOR: ReadonlyMap<string, number> = new Map([
  ['gbp', 30],
  ['dkk', 250],
  ['hkd', 400],
  ['mxn', 1000],
  ['nok', 300],
  ['sek', 300],
  ['pln', 200],
]);
const DEFAULT_MINIMUM_MINOR = 50;
const MAXIMUM_MINOR = 99_999_999;

/** An integer of 1 to 99 999 999 in the currency's smallest unit (yen are yen), not below the minimum charge. */
export function amountProblem(amount: string | undefined, currency = ''): Answer | undefined {
  if (amount === undefined) return required('amount');
  const problem = integerProblem('amount', amount, 1);
  if (problem) return problem;
  if (Number(amount) > MAXIMUM_MINOR)
    return invalid('The amount is too large.', 'amount', 'amount_too_large');
  const minimum = MINIMUM_MINOR.get(currency.toLowerCase()) ?? DEFAULT_MINIMUM_MINOR;
  if (Number(amount) < minimum) {
    return invalid('The amount is below the minimum charge amount.', 'amount', 'amount_too_small');
  }
  return undefined;
}

/** Three letters, in any case. */
export function currencyProblem(currency: string | undefined): Answer | undefined {
  if (currency === undefined) return required('currency');
  return /^[a-z]{3}$/i.test(currency) ? undefined : invalid(`Invalid currency: ${currency}.`, 'currency');
}

/** At most 50 names of 40 characters with values of 500, https://docs.stripe.com/api/metadata. */
export function metadataProblem(params: Params): Answer | undefined {
  const entries = Object.entries(textsBelow(params, 'metadata'));
  if (entries.length > 50) return invalid('Metadata can hold up to 50 keys.', 'metadata');
  const tooLong = entries.find(([name, value]) => name.length > 40 || value.length > 500);
  if (!tooLong) return undefined;
  return invalid('Metadata names hold up to 40 characters, values up to 500.', `metadata[${tooLong[0]}]`);
}

/** The first parameter that an endpoint does not know: Stripe refuses it rather than ignore a typing mistake. */
export function unknownParam(params: Params, known: ReadonlySet<string>): Answer | undefined {
  const name = Object.keys(params).find((param) => !known.has(param));
  return name === undefined
    ? undefined
    : invalid(`Received unknown parameter: ${name}`, name, 'parameter_unknown');
}

/** A decimal integer, not below `minimum`. */
export function integerProblem(param: string, value: string, minimum: number): Answer | undefined {
  if (!/^-?\d+$/.test(value)) return invalid(`Invalid integer: ${value}`, param, 'parameter_invalid_integer');
  if (Number(value) >= minimum) return undefined;
  return invalid(`The value must be at least ${minimum}.`, param, 'parameter_invalid_integer');
}

/** 400 for a parameter that is not there. */
export function required(param: string): Answer {
  return invalid(`Missing required param: ${param}.`, param, 'parameter_missing');
}
