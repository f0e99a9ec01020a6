/** What stands for a text that must not be logged. */
export const notShown = '(not shown)';

/** Keys and ids of Stripe, by their prefixes. Its ids of payments and refunds are what a person looks up, and stay. https://docs.stripe.com/keys */
const stripeTokens =
  /\b(?:(?:sk|rk|pk|ek|whsec|cus|pm)_\w+|(?:card|src|tok|ba|seti|in)_(?=\w*[A-Z\d])\w{8,})/g;
const secretKeys = /\b(?:sk|rk|ek|whsec)_\w+/;
/** Card numbers have 12 to 19 digits, with anything between them. */
const longDigits = /\d(?:[ ._:-]?\d){11,}/g;
/** What a problem or an error quotes, also when it was cut off before the quotation ended. */
const quotations = /"(?:[^"\\]|\\.)*(?:"|$)/g;
/** `amountMinor is 1.5; it must be ...` */
const numbers = /\bis -?\d[\d.e+-]*(?=;)/g;

/** Words of others about a body or an answer, without what they quote of it, and without keys, ids and long numbers. */
export function redacted(text: string): string {
  return text
    .replace(quotations, notShown)
    .replace(stripeTokens, notShown)
    .replace(numbers, `is a number ${notShown}`)
    .replace(longDigits, notShown);
}

/** An id as it is; not one in whose place a secret key was put. */
export const idShown = (id: string | undefined): string | undefined =>
  id !== undefined && secretKeys.test(id) ? notShown : id;

/** A code that the provider gave, which becomes a metric's dimension; `other` for what is no code. */
export function codeShown(code: string): string {
  if (usualCodes.has(code)) return code;
  if (!/^[A-Za-z][\w:.-]{0,63}$/.test(code) || redacted(code) !== code) return 'other';
  if (usualCodes.size < 100) usualCodes.add(code);
  return code;
}

/** Each message has several, and most are the same. */
const usualCodes = new Set<string>();

/** A payment's or a refund's id at the provider. */
export const referenceShown = (reference: string | undefined): string | undefined =>
  reference === undefined || /^(?:pi|py|pyr|re|ch)_[A-Za-z0-9]+$/.test(reference) ? reference : notShown;

/** An error's name, message and place. The parts of a stack that repeat the message are left out. */
export function failureShown(error: unknown) {
  if (!(error instanceof Error)) return { errorName: typeof error };
  // A parser quotes what it could not parse.
  const errorMessage = error instanceof SyntaxError ? notShown : redacted(error.message);
  const frames = error.stack?.split('\n').filter((line) => /^\s+at /.test(line));
  return { errorName: error.name, errorMessage, stack: frames?.join('\n') };
}
