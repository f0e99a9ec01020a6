import {
  codeShown,
  failureShown,
  idShown,
  notShown,
  redacted,
  referenceShown,
} from '../../../lambdas/runtime/redact';

test.each([
  ['a secret key', 'Invalid API Key provided: sk_test_51AbCdEf', 'Invalid API Key provided: (not shown)'],
  ['a restricted key', 'rk_live_1 may not do this', '(not shown) may not do this'],
  ['a customer and a payment method', 'no cus_A or pm_card_visa here', 'no (not shown) or (not shown) here'],
  ['a card number in groups', 'card 4242 4242-4242.4242 declined', 'card (not shown) declined'],
  ['what is quoted', 'customerId is "a b"; it must be an id', 'customerId is (not shown); it must be an id'],
  ['a quotation with quotes in it', 'is "a\\"b"; c', 'is (not shown); c'],
  ['a quotation that was cut off', 'the body is "abc', 'the body is (not shown)'],
  [
    'a number of a body',
    'amountMinor is -1.5; it must be',
    'amountMinor is a number (not shown); it must be',
  ],
])('%s is not shown', (_what, text, shown) => {
  expect(redacted(text)).toBe(shown);
});

test.each([
  'the body has 17000 bytes; at most 16384 are allowed',
  'operation O7 of tenant North is bound to other inputs; send changed inputs under a new operationId',
  'Requests to this API are throttled: 1000 of 1000',
])('"%s" is shown as it is', (text) => {
  expect(redacted(text)).toBe(text);
});

test.each([
  ['card_declined', 'card_declined'],
  ['notSent:rate_limited', 'notSent:rate_limited'],
  ['idempotency_key_in_use', 'idempotency_key_in_use'],
  ['status_503', 'status_503'],
  ['sk_test_51AbCdEf', 'other'],
  ['pm_card_visa', 'other'],
  ['4242424242424242', 'other'],
  ['No such customer', 'other'],
  [`a${'b'.repeat(64)}`, 'other'],
])('the code %s becomes the dimension %s', (code, shown) => {
  expect(codeShown(code)).toBe(shown);
});

test('an id stays, and a secret key in its place does not', () => {
  expect(['O7', 'op-4f1c', 'order:2026.11', undefined].map(idShown)).toEqual([
    'O7',
    'op-4f1c',
    'order:2026.11',
    undefined,
  ]);
  expect(idShown('sk_test_51AbCdEf')).toBe(notShown);
  expect(idShown('job-rk_live_51AbCdEf')).toBe(notShown);
});

test('the id of a payment or a refund stays, and nothing else in its place', () => {
  expect(['pi_3Abc', 're_3Abc', 'pyr_1', undefined].map(referenceShown)).toEqual([
    'pi_3Abc',
    're_3Abc',
    'pyr_1',
    undefined,
  ]);
  expect(['cus_A', 'sk_test_1', 'pi_3Abc_secret_x', '4242424242424242'].map(referenceShown)).toEqual(
    Array(4).fill(notShown),
  );
});

test('an error is its name, its message without what it quotes, and its place without the message', () => {
  const shown = failureShown(new TypeError('Invalid "pm_secret" of cus_A'));
  expect(shown).toMatchObject({ errorName: 'TypeError', errorMessage: 'Invalid (not shown) of (not shown)' });
  expect(shown.stack).toMatch(/^ +at /);
  expect(shown.stack).not.toContain('Invalid');
});

test('a parser quotes what it could not parse: of that the name and the place are enough', () => {
  const parse = () => JSON.parse('{"paymentMethodId":pm_secret}');
  try {
    parse();
    throw new Error('that was JSON');
  } catch (error) {
    expect(failureShown(error)).toMatchObject({ errorName: 'SyntaxError', errorMessage: notShown });
    expect(JSON.stringify(failureShown(error))).not.toContain('secret');
  }
});

test('what is thrown and is no error is not shown', () => {
  expect(failureShown('sk_test_1')).toEqual({ errorName: 'string' });
});
