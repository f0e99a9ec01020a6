import { type ApiBench, chargeOf, startApiBench } from './api-bench';

let api: ApiBench;
beforeAll(async () => {
  api = await startApiBench();
});
afterAll(() => api.stop());

const urn = (name: string) => `urn:charge-once:problem:${name}`;
const cardNumber = '4242424242424242';

/** Refused with a problem of this type, before anything of AWS is called. @returns the problem's detail */
async function refused(
  problem: string,
  status: number,
  request: () => ReturnType<ApiBench['request']>,
): Promise<string> {
  api.stack.dynamodbProxy.resetCounts();
  api.stack.sqsProxy.resetCounts();
  const { body, headers, ...answer } = await request();
  expect({ status: answer.status, type: body.type }).toEqual({ status, type: urn(problem) });
  expect(headers['content-type']).toBe('application/problem+json');
  expect(body).toMatchObject({
    status,
    title: expect.any(String),
    instance: expect.stringContaining('request-'),
  });
  expect(api.stack.dynamodbProxy.counts()).toEqual({});
  expect(api.stack.sqsProxy.counts()).toEqual({});
  return String(body.detail);
}

const putting = (body: unknown, more: object = {}) => api.charge(chargeOf(), { body, ...more });
const withInput = (input: object) => ({ ...chargeOf().input, ...input });

describe('an id in the path', () => {
  test.each([
    ['.'],
    ['..'],
    ['%23'],
    ['%2E%2E'],
    ['x'.repeat(65)],
    ['%C3%A9'],
    ['%00'],
    ['%0A'],
    ['a%0A'],
    ['%20'],
    ['a b'],
    ['%FE'.replace('%FE', '%25FE')],
    ['a%253Ab'],
    ['-a'],
    ['😀'],
    ['a%3Fb'],
    ['a%23b'],
  ])('%s is refused as the id of an operation and of a tenant, on every route', async (id) => {
    const body = chargeOf().input;
    const paths = [
      ['PUT', `/tenants/acme/charges/${id}`],
      ['PUT', `/tenants/${id}/refunds/op-1`],
      ['GET', `/tenants/acme/operations/${id}`],
      ['POST', `/tenants/${id}/operations/op-1/cancel`],
    ] as const;
    for (const [method, path] of paths) {
      const detail = await refused('invalid-id', 400, () =>
        api.request(method, path, method === 'PUT' ? { body } : {}),
      );
      expect(detail).toMatch(/^(tenantId|operationId) is .+; it must be 1 to 64 of the characters/);
    }
  });

  test('with an escaped "/" is another path: there is no such route', async () => {
    await refused('route-not-found', 404, () =>
      api.request('PUT', '/tenants/acme/charges/a%2Fb', { body: chargeOf().input }),
    );
  });

  test('that looks like a card number is refused, not shown and not logged', async () => {
    api.logs();
    const detail = await refused('card-number', 400, () =>
      api.request('GET', `/tenants/acme/operations/${cardNumber}`),
    );
    expect(detail).not.toContain('4242');
    expect(JSON.stringify(api.logs())).not.toContain('4242');
  });
});

describe('a route', () => {
  test('that is not there answers 404, and another method 405 with those that are', async () => {
    await refused('route-not-found', 404, () => api.request('GET', '/tenants/acme'));
    const answer = await api.request('DELETE', '/tenants/acme/operations/op-1');
    expect(answer).toMatchObject({
      status: 405,
      headers: { allow: 'GET' },
      body: { type: urn('method-not-allowed') },
    });
  });
});

describe('a body', () => {
  const malformed: [what: string, body: unknown, problem: RegExp][] = [
    ['is missing', undefined, /body is missing/],
    ['is empty', '', /body is missing/],
    ['is not JSON', '{"amountMinor":', /not JSON/],
    ['is a list', [], /a list/],
    ['is a text', '"x"', /"x"/],
    ['is null', 'null', /null/],
    [
      'has an unknown field',
      withInput({ note: 'x' }),
      /"note" is no field of a charge of version 1; its fields are invoiceId/,
    ],
    ['has the fields of the envelope', withInput({ tenantId: 'acme' }), /"tenantId" is no field/],
    ['has a field named __proto__', '{"__proto__":{},"amountMinor":1}', /"__proto__" is no field/],
    ['lacks a field', { ...withInput({}), customerId: undefined }, /customerId is missing/],
    [
      'has a text for an amount',
      withInput({ amountMinor: '1999' }),
      /amountMinor is "1999"; it must be a whole/,
    ],
    ['has a fraction for an amount', withInput({ amountMinor: 19.99 }), /amountMinor is 19.99/],
    ['has no amount', withInput({ amountMinor: 0 }), /amountMinor is 0/],
    ['has a negative amount', withInput({ amountMinor: -1 }), /amountMinor is -1/],
    ['has an amount above the maximum', withInput({ amountMinor: 100_000_000 }), /1 to 99999999/],
    ['has null for an id', withInput({ customerId: null }), /customerId is null/],
    ['has an unknown currency form', withInput({ currency: 'dollars' }), /currency is "dollars"/],
    ['has an amount that the currency does not have', withInput({ currency: 'isk' }), /multiple of 100/],
    ['has a deadline that is no time', withInput({ deadlineAt: 'tomorrow' }), /deadlineAt is "tomorrow"/],
    ['has a deadline with an offset', withInput({ deadlineAt: '2030-01-31T12:00:00+01:00' }), /in UTC/],
  ];
  test.each(malformed)('that %s is refused with what is wrong', async (_, body, problem) => {
    expect(await refused('invalid-body', 400, () => putting(body))).toMatch(problem);
  });

  test('names each wrong field, ten at most', async () => {
    const { body } = await putting(withInput({ amountMinor: '5', currency: 7, note: 'x' }));
    expect(body.errors).toEqual(
      expect.arrayContaining([
        { field: 'amountMinor', detail: expect.stringContaining('is "5"') },
        { field: 'currency', detail: expect.stringContaining('is 7') },
        { field: '"note"', detail: expect.stringContaining('is no field') },
      ]),
    );
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`field${index}`, index]));
    const answer = await putting(withInput(many));
    expect(answer.body.errors).toHaveLength(10);
    expect(answer.body.detail).toMatch(/; and 490 more\.$/);
  });

  test('of a refund is checked as one', async () => {
    const detail = await refused('invalid-body', 400, () =>
      api.request('PUT', '/tenants/acme/refunds/r1', {
        body: { amountMinor: 1, reason: 'mood', currency: 'usd' },
      }),
    );
    expect(detail).toMatch(/chargeOperationId is missing/);
    expect(detail).toMatch(/reason is "mood"; it must be one of duplicate/);
    expect(detail).toMatch(/"currency" is no field of a refund/);
  });

  test.each([
    ['U+FFFF', '\uffff'],
    ['U+FFFE', '\ufffe'],
    ['U+0000', '\u0000'],
    ['a lone surrogate', '\ud800'],
  ])(
    'BL-28 with %s in a value or a name is refused before a place or a record exists',
    async (_, character) => {
      await refused('invalid-body', 400, () => putting(withInput({ invoiceId: `inv${character}` })));
      await refused('invalid-body', 400, () => putting(withInput({ [character]: 1 })));
    },
  );

  test.each([
    ['501 characters', 'i'.repeat(501)],
    ['5000 characters', 'i'.repeat(5000)],
    ['65 characters', 'i'.repeat(65)],
    ['emoji', 'inv-😀'],
    ['brackets', '[x]'],
    ['no characters', ''],
  ])('BL-43 with an invoice of %s is refused, and a long one is not repeated', async (_, invoiceId) => {
    const detail = await refused('invalid-body', 400, () => putting(withInput({ invoiceId })));
    expect(detail).toMatch(/^invoiceId is .+; it must be 1 to 64 of the characters/);
    expect(detail.length).toBeLessThan(250);
  });
});

describe('the size of a body', () => {
  /** 16 384 bytes are allowed. */
  const maxBytes = 16_384;
  const sized = (bytes: number) => {
    const body = JSON.stringify(chargeOf().input);
    return body + ' '.repeat(bytes - Buffer.byteLength(body));
  };

  test('may be the limit and not a byte more', async () => {
    expect((await putting(sized(maxBytes))).status).toBe(202);
    expect(await refused('body-too-large', 413, () => putting(sized(maxBytes + 1)))).toBe(
      'The body has 16385 bytes; at most 16384 are allowed.',
    );
  });

  test('is counted in bytes, not in characters, and before anything is parsed', async () => {
    await refused('body-too-large', 413, () => putting(`{"memo":"${'😀'.repeat(5000)}`));
    await refused('body-too-large', 413, () => putting('é'.repeat(8193)));
  });

  test('is that of the decoded body where API Gateway encodes it', async () => {
    const encoded = (body: string) => Buffer.from(body).toString('base64');
    const more = { isBase64Encoded: true };
    expect((await putting(encoded(sized(maxBytes)), more)).status).toBe(202);
    await refused('body-too-large', 413, () => putting(encoded(sized(maxBytes + 1)), more));
  });

  test('a body that is not UTF-8 is refused', async () => {
    const body = Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]).toString('base64');
    const detail = await refused('invalid-body', 400, () => putting(body, { isBase64Encoded: true }));
    expect(detail).toMatch(/not JSON in UTF-8/);
  });

  test('a body that nests deeper than a stack is refused', async () => {
    const body = `{"a":${'['.repeat(8000)}${']'.repeat(8000)}}`;
    await refused('invalid-body', 400, () => putting(body));
  });
});

describe('the type of a body', () => {
  test.each([
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON;charset="UTF-8"',
    'application/vnd.shop+json',
  ])('may be %s', async (contentType) => {
    const answer = await putting(chargeOf().input, { headers: { 'content-type': contentType } });
    expect(answer.status).toBe(202);
  });

  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/json; charset=latin1',
    'application/jsonp',
    '',
  ])('may not be %j', async (contentType) => {
    const detail = await refused('unsupported-media-type', 415, () =>
      putting(chargeOf().input, { headers: { 'content-type': contentType } }),
    );
    expect(detail).toContain('it must be application/json');
  });

  test('may not be compressed', async () => {
    await refused('unsupported-media-type', 415, () =>
      putting(chargeOf().input, { headers: { 'content-encoding': 'gzip' } }),
    );
  });
});

describe('what looks like a card number', () => {
  const hidden: [where: string, body: unknown][] = [
    ['a known field', withInput({ paymentMethodId: cardNumber })],
    ['an identifier', withInput({ paymentMethodId: `pm_${cardNumber}` })],
    ['an unknown field', withInput({ card: '4242 4242 4242 4242' })],
    ['a sentence', withInput({ note: 'card 4242-4242-4242-4242 exp 12/30 cvc 123' })],
    ['a nested field', withInput({ card: { list: [{ number: '378282246310005' }] } })],
    ['a number', withInput({ card: 4242424242424242 })],
    ['the name of a field', withInput({ [cardNumber]: true })],
    ['full-width digits', withInput({ card: '４２４２４２４２４２４２４２４２' })],
    ['a body that is no object', `["${cardNumber}"]`],
    ['a body that is a number', cardNumber],
    ['an escaped text', `{"card":"\\u0034242424242424242"}`],
  ];
  test.each(hidden)('in %s is refused, not shown and not logged', async (_, body) => {
    api.logs();
    const answer = await putting(body);
    expect(answer).toMatchObject({ status: 400, body: { type: urn('card-number') } });
    const said = answer.text + JSON.stringify(api.logs());
    expect(said.replace(/[^\d４２]/g, '')).not.toMatch(/4242424242|378282246|４２４２/);
  });

  test('is not shown either where the body is not JSON', async () => {
    api.logs();
    const answer = await putting(`{"card":"${cardNumber}"`);
    expect(answer.status).toBe(400);
    expect(answer.text + JSON.stringify(api.logs())).not.toContain('4242');
  });

  test('in a field whose name is shown is named', async () => {
    expect((await putting(withInput({ card: cardNumber }))).body.detail).toMatch(
      /^card holds what looks like/,
    );
  });
});
