import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { canonicalJson, digestOf } from '../../../lambdas/operation/digest';
import { parseMessage } from '../../../lambdas/operation/message';
import { message } from '../fixtures';

/** The same value with the keys of every object in another order. */
function reordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reordered);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, member]) => [key, reordered(member)]),
  );
}

const json = fc
  .jsonValue({ noUnicodeString: false })
  .filter((value) => !JSON.stringify(value).includes('"__proto__"'));

test('key order and white space never matter', () => {
  fc.assert(
    fc.property(json, fc.constantFrom(0, 1, 4, '\t'), (value, space) => {
      const resent: unknown = JSON.parse(JSON.stringify(reordered(value), null, space));
      expect(canonicalJson(resent)).toBe(canonicalJson(value));
    }),
  );
});

test('canonical JSON is JSON of the same value, so two values never share a text', () => {
  fc.assert(
    fc.property(json, (value) => {
      expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
});

test('the order of a list always matters', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.integer(), { minLength: 2 }), (list) => {
      expect(canonicalJson({ list: list.toReversed() })).not.toBe(canonicalJson({ list }));
    }),
  );
});

test('objects inside lists are ordered too, by code unit and not by locale', () => {
  expect(canonicalJson({ lines: [{ b: 2, a: 1 }] })).toBe('{"lines":[{"a":1,"b":2}]}');
  expect(canonicalJson({ ä: 1, z: 2, Z: 3, a: 4, 10: 5, 9: 6 })).toBe(
    '{"10":5,"9":6,"Z":3,"a":4,"z":2,"ä":1}',
  );
});

test('the digest of the base job is pinned: a build that computes another one would refuse every redelivery', () => {
  expect(digestOf(message)).toBe('0bdf9ff83ed8817c705daa0c05b6ac2fecac974265cb7faea0a267cb78a97811');
});

test('it is taken of the oldest form, so that a new version changes no digest that a record holds', () => {
  const { tenantId, operationId, type } = message;
  const input = {
    invoiceId: 'inv-77',
    amountMinor: 1999,
    currency: 'usd',
    customerId: 'cus_A',
    paymentMethodId: 'pm_A',
  };
  const text = canonicalJson({ tenantId, operationId, type, input });
  expect(digestOf(message)).toBe(createHash('sha256').update(text).digest('hex'));
});

test('each material input changes the digest', () => {
  const refund = { tenantId: 'acme', operationId: 'op-1001', type: 'refund' } as const;
  const variants = [
    message,
    { ...message, tenantId: 'zeta' },
    { ...message, operationId: 'op-1002' },
    ...Object.entries({
      reference: 'x',
      amountMinor: 2000,
      currency: 'eur',
      customerId: 'x',
      paymentMethodId: 'x',
      description: 'x',
    }).map(([field, value]) => ({ ...message, input: { ...message.input, [field]: value } })),
    { ...refund, input: { chargeOperationId: 'op-1', amountMinor: 1999 } },
    { ...refund, input: { chargeOperationId: 'op-1', amountMinor: 1999, reason: 'duplicate' } },
  ] satisfies Parameters<typeof digestOf>[0][];
  expect(new Set(variants.map(digestOf)).size).toBe(variants.length);
});

test('what is not material does not: version and fields outside input', () => {
  const parsed = parseMessage(
    JSON.stringify({ ...message, deadlineAt: '2030-01-01T00:00:00Z', note: 1 }),
    16_384,
  );
  expect(parsed.kind === 'message' && digestOf(parsed.message)).toBe(digestOf(message));
});
