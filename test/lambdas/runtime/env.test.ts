import { EnvironmentError, workerEnvironment } from '../../../lambdas/runtime/env';

const variables = {
  OPERATIONS_TABLE: 'operations',
  QUEUE_URL: 'https://sqs.eu-north-1.amazonaws.com/1/jobs',
  STAGE: 'prod',
  STRIPE_API_KEY_SECRET_ID: 'stripe',
  AWS_REGION: 'eu-north-1',
};

test('what is not set has a default that keeps two stacks apart', () => {
  expect(workerEnvironment(variables)).toMatchObject({
    stage: 'prod',
    providerKeyPrefix: 'charge-once-prod-eu-north-1',
    stripeKey: { secretId: 'stripe' },
    stripeApiBase: undefined,
    limits: { maxAttempts: 5 },
  });
});

test.each(['OPERATIONS_TABLE', 'QUEUE_URL', 'STRIPE_API_KEY_SECRET_ID'])(
  '%s missing or empty is named',
  (name) => {
    for (const value of [undefined, '']) {
      expect(() => workerEnvironment({ ...variables, [name]: value })).toThrow(EnvironmentError);
      expect(() => workerEnvironment({ ...variables, [name]: value })).toThrow(`${name} is missing`);
    }
  },
);

test.each([
  ['SETTINGS', '{', 'SETTINGS must be a JSON object'],
  ['SETTINGS', 'null', 'SETTINGS must be a JSON object'],
  ['SETTINGS', '[]', 'SETTINGS must be a JSON object'],
  ['SETTINGS', '{"maxAttempts":0}', 'SETTINGS: maxAttempts is 0; it must be a whole number from 1 to 100'],
  ['PROVIDER_KEY_PREFIX', 'a b', 'PROVIDER_KEY_PREFIX is "a b"'],
  ['PROVIDER_KEY_PREFIX', 'a'.repeat(101), 'PROVIDER_KEY_PREFIX is'],
  ['PROVIDER_KEY_PREFIX', 'é', 'PROVIDER_KEY_PREFIX is'],
  ['STRIPE_API_BASE', 'not a url', 'STRIPE_API_BASE is "not a url"'],
  ['STRIPE_API_BASE', 'http://example.com', 'it must be an https URL, or http to loopback'],
  ['STRIPE_API_BASE', 'http://localhost.example.com', 'it must be an https URL, or http to loopback'],
  ['STRIPE_API_BASE', 'http://127.0.0.1@example.com', 'it must be an https URL, or http to loopback'],
  ['STRIPE_API_BASE', 'ftp://127.0.0.1', 'it must be an https URL, or http to loopback'],
  ['STRIPE_API_BASE', 'file:///etc/passwd', 'it must be an https URL, or http to loopback'],
])('%s %j is refused with what is allowed', (name, value, problem) => {
  expect(() => workerEnvironment({ ...variables, [name]: value })).toThrow(problem);
});

test.each(['http://127.0.0.1:12111', 'http://localhost:1', 'http://[::1]:1', 'https://api.example.com'])(
  'STRIPE_API_BASE %s is allowed',
  (base) => {
    expect(workerEnvironment({ ...variables, STRIPE_API_BASE: base }).stripeApiBase?.href).toBe(
      new URL(base).href,
    );
  },
);

test('the secret wins over a key in the environment, and a problem never shows a key', () => {
  const both = { ...variables, STRIPE_API_KEY: 'sk_test_of_the_laptop' };
  expect(workerEnvironment(both).stripeKey).toEqual({ secretId: 'stripe' });
  expect(() => workerEnvironment({ ...both, SETTINGS: '{' })).toThrow(/^((?!sk_test).)*$/s);
});

test('everything that is wrong is told at once', () => {
  expect(() => workerEnvironment({})).toThrow(
    'Invalid environment: OPERATIONS_TABLE is missing; QUEUE_URL is missing; STRIPE_API_KEY_SECRET_ID is missing (on a laptop: STRIPE_API_KEY)',
  );
});

test('settings of a newer build do not stop an older worker', () => {
  expect(workerEnvironment({ ...variables, SETTINGS: '{"newLimit":1}' })).toMatchObject({
    settings: { newLimit: 1 },
    limits: { maxAttempts: 5 },
  });
});
