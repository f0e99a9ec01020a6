import { AwsSolutionsChecks } from 'cdk-nag';
import fc from 'fast-check';
import { invokable } from '../../lib/api-policies';
import { OperationsApi } from '../../lib/operations-api';
import { foreignStack, operationsStack } from '../support/stack-factory';
import { grants } from './template-graph';

const { template } = operationsStack();

/** IAM's comparison: `*` is any text, `?` one character, and everything else itself. */
function matches(pattern: string, request: string): boolean {
  const text = pattern
    .replace(/[^\w*?]/g, '\\$&')
    .replaceAll('?', '.')
    .replaceAll('*', '.*');
  return new RegExp(`^${text}$`, 's').test(request);
}

const allowedBy = (policy: readonly string[], request: string) =>
  policy.some((pattern) => matches(pattern, request));

const { charge, refund, status, cancel } = invokable;
const charger = [charge, status];
const refunder = [refund, status];
const operator = [status, cancel];

test.each([
  ['PoliciesCharge', charger],
  ['PoliciesRefund', refunder],
  ['PoliciesOperator', operator],
])('%s names its methods and paths of this API and its one stage', (policy, paths) => {
  const found = grants(template, 'AWS::IAM::ManagedPolicy', policy)
    .filter(({ action }) => action === 'execute-api:Invoke')
    .map(({ resource }) => JSON.parse(resource)['Fn::Join'][1]);
  const [api] = Object.keys(template.findResources('AWS::ApiGatewayV2::Api'));
  for (const parts of found) expect(parts).toContainEqual({ Ref: api });
  expect(found.map((parts) => parts.at(-1)).sort()).toEqual(paths.map((path) => `/$default/${path}`).sort());
});

test('each policy lets its routes through, whatever the ids', () => {
  expect(allowedBy(charger, 'PUT/tenants/North/charges/O:7')).toBe(true);
  expect(allowedBy(charger, 'GET/tenants/North/operations/O7')).toBe(true);
  expect(allowedBy(refunder, 'PUT/tenants/North/refunds/R7')).toBe(true);
  expect(allowedBy(operator, 'POST/tenants/North/operations/O7/cancel')).toBe(true);
});

test('only an operator may cancel, and an operator may neither charge nor refund', () => {
  const cancelling = 'POST/tenants/North/operations/O7/cancel';
  expect(allowedBy(charger, cancelling)).toBe(false);
  expect(allowedBy(refunder, cancelling)).toBe(false);
  expect(allowedBy(operator, 'PUT/tenants/North/charges/O7')).toBe(false);
  expect(allowedBy(operator, 'PUT/tenants/North/refunds/O7')).toBe(false);
});

describe('a charger never reaches the refunds, nor a refunder the charges', () => {
  /** What a handler takes for an id; words of the routes among them more often than chance would have it. */
  const id = fc.oneof(
    fc.constantFrom('charges', 'refunds', 'tenants', 'operations', 'cancel', 'PUT', 'GET'),
    fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/),
  );
  /** What may stand around a path that a gateway still takes for the same. */
  const around = fc.record({ before: fc.constantFrom('/', '//', '///'), after: fc.constantFrom('', '/') });

  test('by no id, and by no slash around the path', () => {
    fc.assert(
      fc.property(id, id, around, (tenantId, operationId, { before, after }) => {
        const path = (words: string) => `PUT${before}tenants/${tenantId}/${words}/${operationId}${after}`;
        expect(allowedBy(charger, path('refunds'))).toBe(false);
        expect(allowedBy(refunder, path('charges'))).toBe(false);
      }),
    );
  });

  test('also where the operation is called charges and the path ends in a slash', () => {
    const request = 'PUT/tenants/North/refunds/charges/';
    expect(matches('PUT/tenants/*/charges/*', request)).toBe(true);
    expect(matches(charge, request)).toBe(false);
  });

  test('what an id with a slash in it could reach is refused by the handlers, and matched by no route', () => {
    const decoded = 'PUT/tenants/North/charges/O7/refunds/R7';
    expect(matches(charge, decoded)).toBe(true);
    expect('North/charges/O7').not.toMatch(/^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/);
  });
});

test("one tenant's id in place of the first star leaves that tenant only", () => {
  const north = charge.replace('*', 'North');
  expect(matches(north, 'PUT/tenants/North/charges/O7')).toBe(true);
  expect(matches(north, 'PUT/tenants/South/charges/O7')).toBe(false);
});

test('cdk-nag is told why also where the account and the region are known', () => {
  const { stack, chargeOnce } = foreignStack();
  new OperationsApi(stack, 'Api', { chargeOnce });
  expect(new AwsSolutionsChecks().validateScope(stack).violations).toEqual([]);
});
