import fc from 'fast-check';
import { describe as show } from '../../../lambdas/operation/describe';
import { parseMessage } from '../../../lambdas/operation/message';
import { message } from '../fixtures';

const maxBytes = 16_384;
const parse = (value: unknown) =>
  parseMessage(typeof value === 'string' ? value : JSON.stringify(value), maxBytes);
const problemOf = (value: unknown): string => {
  const parsed = parse(value);
  return parsed.kind === 'malformed' ? parsed.problem : parsed.kind;
};
const withInput = (changes: object) => ({ ...message, input: { ...message.input, ...changes } });

const idRule = 'it must be 1 to 64 of the characters A-Z a-z 0-9 . _ : - and start with a letter or digit';
const amountRule = "it must be a whole number from 1 to 99999999, in the currency's minor unit";

test('the job of the contract is read as it is', () => {
  expect(parse(message)).toEqual({ kind: 'message', message });
});

test('the job of version 1 is read as the same job of the current version', () => {
  const { reference: invoiceId, ...input } = message.input;
  const sent = { ...message, version: 1, input: { ...input, invoiceId } };
  expect(parse(sent)).toEqual({ kind: 'message', message });
  expect(parse({ ...sent, input: message.input })).toMatchObject({ kind: 'malformed' });
  expect(parse({ ...sent, version: 2 })).toMatchObject({ kind: 'malformed' });
});

test('unknown fields outside input are ignored', () => {
  expect(parse({ ...message, sentBy: 'billing', trace: { a: [1] } })).toEqual({
    kind: 'message',
    message,
  });
});

test.each([
  ['no JSON', 'not json{', 'the body is not JSON; it must be a JSON object'],
  ['nothing', '', 'the body is not JSON; it must be a JSON object'],
  ['white space', ' \n\t', 'the body is not JSON; it must be a JSON object'],
  ['a byte-order mark', `\uFEFF${JSON.stringify(message)}`, 'the body is not JSON; it must be a JSON object'],
  ['two documents', '{}{}', 'the body is not JSON; it must be a JSON object'],
  ['null', 'null', 'the body is null; it must be a JSON object'],
  ['a number', '42', 'the body is 42; it must be a JSON object'],
  ['a list', '[]', 'the body is a list; it must be a JSON object'],
  ['a text', '"op"', 'the body is "op"; it must be a JSON object'],
  ['true', 'true', 'the body is true; it must be a JSON object'],
])('a body that is %s is malformed, and the problem says what it must be', (_name, body, problem) => {
  expect(parse(body)).toEqual({ kind: 'malformed', problem, ids: {} });
});

test.each([
  ['missing', undefined, 'version is missing; it must be a whole number from 1 to 2'],
  ['null', null, 'version is null; it must be a whole number from 1 to 2'],
  ['text', '1', 'version is "1"; it must be a whole number from 1 to 2'],
  ['zero', 0, 'version is 0; it must be a whole number from 1 to 2'],
  ['negative', -1, 'version is -1; it must be a whole number from 1 to 2'],
  ['a fraction', 1.5, 'version is 1.5; it must be a whole number from 1 to 2'],
])('a version that is %s is malformed', (_name, version, problem) => {
  expect(problemOf({ ...message, version })).toBe(problem);
});

test('a version from the future is told apart from a mistake, whatever else the message holds', () => {
  expect(parse({ version: 3, tenantId: 'acme', operationId: 'op-1', input: 'in a new shape' })).toEqual({
    kind: 'futureVersion',
    version: 3,
    ids: { tenantId: 'acme', operationId: 'op-1' },
  });
});

test.each(['tenantId', 'operationId'])('%s must be an id', (field) => {
  const cases: [value: unknown, got: string][] = [
    [undefined, 'is missing'],
    [null, 'is null'],
    ['', 'is ""'],
    ['  ', 'is "  "'],
    [7, 'is 7'],
    [true, 'is true'],
    [{}, 'is an object'],
    [['x'], 'is a list'],
    ['eu#1', 'is "eu#1"'],
    ['a/b', 'is "a/b"'],
    ['-a', 'is "-a"'],
    ['a b', 'is "a b"'],
    ['é', 'is "é"'],
    ['a\n', 'is "a\\n"'],
    ['a'.repeat(65), `is "${'a'.repeat(65)}"`],
    ['a'.repeat(300), 'is text of 300 characters'],
  ];
  for (const [value, got] of cases) {
    expect(problemOf({ ...message, [field]: value })).toBe(`${field} ${got}; ${idRule}`);
  }
  expect(problemOf({ ...message, [field]: 'a'.repeat(64) })).toBe('message');
  expect(problemOf({ ...message, [field]: '0.a_B:9-' })).toBe('message');
});

test.each(['reference', 'customerId', 'paymentMethodId'])('input.%s must be an id', (field) => {
  for (const value of ['', '[x]', 'café', 'cafe\u0301', 'a'.repeat(501), '😀', 'a#b', null, 7]) {
    expect(problemOf(withInput({ [field]: value }))).toMatch(
      new RegExp(`^input\\.${field} is .*; it must be 1 to 64`),
    );
  }
  expect(problemOf(withInput({ [field]: undefined }))).toBe(`input.${field} is missing; ${idRule}`);
});

test.each([
  ['1998.9999999999998', 'a long run of digits (not shown)'],
  ['7840.000000000001', 'a long run of digits (not shown)'],
  ['1000.4', '1000.4'],
  ['"1999"', '"1999"'],
  ['"19.99"', '"19.99"'],
  ['-0', '-0'],
  ['-5', '-5'],
  ['0', '0'],
  ['1e21', '1e+21'],
  ['1e999', 'Infinity'],
  ['9007199254740993', 'a long run of digits (not shown)'],
  ['100000000', '100000000'],
  ['null', 'null'],
  ['true', 'true'],
  ['[1999]', 'a list'],
  ['{"value":1999}', 'an object'],
])('amountMinor %s is refused by name', (text, got) => {
  const body = JSON.stringify(message).replace('1999', text);
  expect(problemOf(body).startsWith(`input.amountMinor is ${got}; ${amountRule}`)).toBe(true);
});

test.each(['1999.0', '1.999e3', '1999', '19990e-1'])('amountMinor %s is 1999', (text) => {
  expect(parse(JSON.stringify(message).replace('1999', text))).toEqual({ kind: 'message', message });
});

test.each([1, 99_999_999])('amountMinor %d is within the range', (amountMinor) => {
  expect(problemOf(withInput({ amountMinor }))).toBe('message');
});

test('the currency is lower-cased before anything looks at it, and must be three ASCII letters', () => {
  expect(parse(withInput({ currency: 'USD' }))).toEqual({ kind: 'message', message });
  for (const currency of ['', 'us', 'usdt', 'u$d', 'us\u212A', 'ﬀa', ' usd', 840, null, undefined]) {
    expect(problemOf(withInput({ currency }))).toMatch(
      /^input\.currency .*; it must be a three-letter ISO 4217 code$/,
    );
  }
});

test('a currency with a coarser unit refuses finer amounts', () => {
  expect(problemOf(withInput({ currency: 'KWD', amountMinor: 1999 }))).toBe(
    'input.amountMinor is 1999; in kwd it must be a multiple of 10',
  );
  expect(problemOf(withInput({ currency: 'isk', amountMinor: 1950 }))).toBe(
    'input.amountMinor is 1950; in isk it must be a multiple of 100',
  );
  expect(problemOf(withInput({ currency: 'kwd', amountMinor: 1990 }))).toBe('message');
});

test('a type that is none is named', () => {
  expect(problemOf({ ...message, type: 'Charge' })).toBe('type is "Charge"; it must be "charge" or "refund"');
  expect(problemOf({ ...message, type: undefined })).toBe('type is missing; it must be "charge" or "refund"');
});

test('unknown fields in input are refused by name', () => {
  expect(problemOf(withInput({ memo: 'x' }))).toBe(
    'input has unknown fields ("memo"); allowed are reference, amountMinor, currency, customerId, paymentMethodId, description',
  );
  const polluted = JSON.stringify(message).replace(
    '"reference"',
    '"__proto__":{"amountMinor":1},"reference"',
  );
  expect(problemOf(polluted)).toMatch(/^input has unknown fields \("__proto__"\)/);
});

test.each([[undefined], [null], ['x'], [[]], [7]])('an input that is %j is malformed', (input) => {
  expect(problemOf({ ...message, input })).toMatch(/^input /);
});

const lineRule = 'it must be one line of 1 to 200 characters, with no white space around it';

test.each([
  ['empty', ''],
  ['white space', ' '],
  ['too long by one', 'x'.repeat(201)],
  ['of two lines', 'a\nb'],
  ['of two lines by a separator', 'a\u2028b'],
  ['with a tab', 'a\tb'],
  ['with a control character', 'a\u0000b'],
  ['with white space before it', ' a'],
  ['with white space after it', 'a\u00a0'],
  ['with half a surrogate pair', 'a\ud83d'],
])('a description that is %s is refused, and not shown', (_name, description) => {
  expect(problemOf(withInput({ description }))).toBe(
    `input.description is text that is not allowed; ${lineRule}`,
  );
});

test.each([
  [null, 'null'],
  [7, '7'],
  [['x'], 'a list'],
])('a description that is %j is refused', (description, got) => {
  expect(problemOf(withInput({ description }))).toBe(`input.description is ${got}; ${lineRule}`);
});

test.each(['4242424242424242', 'Card 4242 4242 4242 4242 of Ann', 'pm_4242424242424242'])(
  'a description that holds the card number in %j is refused, and not shown',
  (description) => {
    expect(problemOf(withInput({ description }))).toBe(
      'input.description holds what looks like a card number (not shown)',
    );
  },
);

test('a description may have 200 characters of any script, and one spelling is kept of those that look alike', () => {
  for (const description of ['x', '😀'.repeat(200), 'Zoë’s roof: 50 %, <b>']) {
    expect(parse(withInput({ description }))).toEqual({
      kind: 'message',
      message: withInput({ description }),
    });
  }
  expect(parse(withInput({ description: 'cafe\u0301' }))).toEqual(
    parse(withInput({ description: 'caf\u00e9' })),
  );
});

test('every problem of a message is told at once', () => {
  const problem = problemOf({ ...withInput({ amountMinor: 0, currency: 'x' }), operationId: '' });
  expect(problem.split('; it must be').length).toBe(4);
});

test('the size limit counts UTF-8 bytes, holds to the byte, and comes before the JSON', () => {
  const body = JSON.stringify({ ...message, note: 'é' });
  const bytes = Buffer.byteLength(body);
  expect(bytes).toBe(body.length + 1);
  expect(parseMessage(body, bytes).kind).toBe('message');
  expect(parseMessage(body, bytes - 1)).toEqual({
    kind: 'malformed',
    problem: `the body has ${bytes} bytes; at most ${bytes - 1} are allowed`,
    ids: {},
  });
  expect(problemOf('{'.repeat(maxBytes + 1))).toMatch(/^the body has 16385 bytes/);
});

test('a deep or huge body neither throws nor takes long', () => {
  const depth = 8_000;
  expect(problemOf('['.repeat(depth) + ']'.repeat(depth))).toBe(
    'the body is a list; it must be a JSON object',
  );
  expect(problemOf(JSON.stringify(message).replace('1999', '['.repeat(depth) + ']'.repeat(depth)))).toMatch(
    /^input.amountMinor is a list/,
  );
});

test('the sender of a wrapped job is told what to change', () => {
  expect(problemOf({ Type: 'Notification', Message: JSON.stringify(message) })).toMatch(
    /raw message delivery/,
  );
  expect(problemOf({ 'detail-type': 'job', detail: message })).toMatch(/\$\.detail/);
});

test('ids are kept for the log line only where they are valid', () => {
  expect(parse({ ...withInput({ amountMinor: 0 }), operationId: 'a b' })).toMatchObject({
    ids: { tenantId: 'acme' },
  });
  expect(parse({ ...message, tenantId: 7, operationId: 'op-1' })).toEqual({
    kind: 'malformed',
    problem: expect.any(String),
    ids: { operationId: 'op-1', type: 'charge' },
  });
});

test.each([
  '4242424242424242',
  '4242 4242 4242 4242',
  '4242-4242-4242-4242',
  ' 4242424242424242',
  'card 378282246310005 of Ann',
  '6011 0009 9013 9424 !',
  '4242.4242.4242.4242',
  '4242_4242_4242_4242',
  '4242  4242  4242  4242',
])('what looks like the card number %j is never shown', (card) => {
  const places = [
    card,
    { ...message, version: card },
    { ...message, type: card },
    { ...message, tenantId: `${card} ` },
    withInput({ customerId: `${card} ` }),
    withInput({ paymentMethodId: `#${card}` }),
    withInput({ currency: card }),
    withInput({ amountMinor: card }),
    withInput({ amountMinor: 4242424242424242 }),
    withInput({ [card]: 1 }),
  ];
  for (const place of places) {
    const problem = problemOf(typeof place === 'string' ? JSON.stringify(place) : place);
    expect(problem.replaceAll(/\D/g, '')).not.toMatch(/4242|3782|6011/);
    expect(problem).toContain('not shown');
  }
});

test('a problem stays short whatever is sent', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(show(value).length).toBeLessThanOrEqual(200);
    }),
  );
  expect(show('x'.repeat(81))).toBe('text of 81 characters');
});

test('parsing never throws, and what it accepts is what was sent', () => {
  const anyField = fc.oneof(fc.jsonValue(), fc.constant(undefined));
  fc.assert(
    fc.property(
      fc.record({ tenantId: anyField, operationId: anyField, type: anyField, input: anyField }),
      (changes) => {
        const parsed = parse(JSON.stringify({ ...message, ...changes }));
        expect(['message', 'malformed']).toContain(parsed.kind);
      },
    ),
  );
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (body) => void parseMessage(body, maxBytes)));
});

test.each(['4242424242424242', '4242.4242.4242.4242', '378282246310005'])(
  'the card number %s is no id, and is not shown',
  (card) => {
    const jobs = [
      { ...message, operationId: card },
      { ...message, tenantId: card },
      withInput({ customerId: card }),
    ];
    for (const job of jobs) expect(problemOf(job)).toMatch(/looks like a card number \(not shown\)/);
  },
);

test('a long number that is no card number is an id', () => {
  for (const operationId of ['1795994732165', '20261129123456', '1234567890123456789', '4242424242424241']) {
    expect(parse({ ...message, operationId }).kind).toBe('message');
  }
});
