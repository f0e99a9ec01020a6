import { App, CfnParameter, Lazy, Stack } from 'aws-cdk-lib';
import { limitsFrom } from '../../lambdas/operation/limits';
import { handlerSettings, settingsFrom } from '../../lib/settings';
import { tokens } from '../support/stack-factory';

test('without overrides every setting has its default', () => {
  expect(settingsFrom()).toEqual({
    ...limitsFrom(),
    stage: 'dev',
    production: false,
    queueRetentionDays: 4,
    deadLetterRetentionDays: 14,
    logRetentionDays: 90,
    customerManagedKey: false,
    monitoring: true,
    runbookUrl: 'docs/runbook.md',
    alarmInFlightMessages: 80_000,
    alarmSettlingHours: 24,
    gradualDeployment: 'none',
    apiRequestsPerSecond: 100,
    apiBurstRequests: 200,
  });
});

test('checked settings pass the check again unchanged', () => {
  const settings = settingsFrom({
    stage: 'live',
    production: true,
    maxConcurrency: 5,
    reservedConcurrency: 5,
  });
  expect(settingsFrom(settings)).toEqual(settings);
});

test('handlers are given the limits that differ from the defaults, and nothing else', () => {
  const settings = settingsFrom({ stage: 'live', maxConcurrency: 5, tenantDailyCalls: 100, batchSize: 5 });
  expect(JSON.parse(handlerSettings(settings))).toEqual({ maxConcurrency: 5, tenantDailyCalls: 100 });
});

const maxConcurrencyRange = 'it must be a whole number from 2 to 1000';

test.each([
  ['BL-45: maximum concurrency 1', { maxConcurrency: 1 }, `maxConcurrency is 1; ${maxConcurrencyRange}`],
  ['BL-45: maximum concurrency 0', { maxConcurrency: 0 }, `maxConcurrency is 0; ${maxConcurrencyRange}`],
  [
    'BL-45: maximum concurrency 1001',
    { maxConcurrency: 1001 },
    `maxConcurrency is 1001; ${maxConcurrencyRange}`,
  ],
  [
    'BL-45: maximum concurrency 2.5',
    { maxConcurrency: 2.5 },
    `maxConcurrency is 2.5; ${maxConcurrencyRange}`,
  ],
  ['BL-45: a string for a number', { maxConcurrency: '5' }, `maxConcurrency is "5"; ${maxConcurrencyRange}`],
  ['BL-45: batch size 11', { batchSize: 11 }, 'batchSize is 11; it must be a whole number from 1 to 10'],
  [
    'BL-45: one receive',
    { maxReceiveCount: 1 },
    'maxReceiveCount is 1; it must be a whole number from 6 to 1000',
  ],
  [
    'BL-45: reserved concurrency below maximum concurrency',
    { maxConcurrency: 10, reservedConcurrency: 5 },
    'reservedConcurrency 5 must be at least maxConcurrency 10',
  ],
  [
    'more provider calls at once than the provider may see',
    { maxConcurrency: 20 },
    'maxConcurrency 20 x batchSize 5 is 100 provider calls at once; providerMaxInFlight 50 allows fewer',
  ],
  [
    'a lease that outlasts the visibility timeout',
    { leaseMarginSeconds: 150 },
    'a lease of 180 s; it must be below the visibility timeout of 180 s',
  ],
  [
    'BL-29: retention so long that a dead letter is about to expire',
    { queueRetentionDays: 7 },
    'queueRetentionDays 7 + 0.03 days of maxReceiveCount 8 deliveries must leave 7 of deadLetterRetentionDays 14',
  ],
  [
    'BL-29: a dead-letter queue that forgets early',
    { deadLetterRetentionDays: 4 },
    'must leave 7 of deadLetterRetentionDays 4',
  ],
  [
    'BL-29: messages that expire before they are dead letters',
    { queueRetentionDays: 1, maxReceiveCount: 300 },
    'maxReceiveCount 300 deliveries of up to 300 s take 1.04 days',
  ],
  [
    'records that go before their messages',
    { recordRetentionDays: 45, queueRetentionDays: 14 },
    'recordRetentionDays 45 must be at least 57',
  ],
  [
    'records kept for less than any deployment needs',
    { recordRetentionDays: 20 },
    'recordRetentionDays is 20; it must be a whole number from 45 to 3650',
  ],
  ['a name that is no setting', { maxConcurency: 5 }, 'maxConcurency is no setting'],
  [
    'a stage that is no stack name',
    { stage: 'My Stage' },
    'stage is "My Stage"; it must be up to 31 characters',
  ],
  ['a mail address that is none', { alarmEmail: 'ops' }, 'alarmEmail is "ops"; it must be an e-mail address'],
  ['production that is no boolean', { production: 'yes' }, 'production is "yes"; it must be true or false'],
  [
    'a log retention that CloudWatch lacks',
    { logRetentionDays: 100 },
    'logRetentionDays is 100; it must be one of 1, 3, 5',
  ],
  [
    'a way of deploying that CodeDeploy lacks',
    { gradualDeployment: 'canary' },
    'gradualDeployment is "canary"; it must be one of none, canary10Percent5Minutes',
  ],
  ['a prefix with a slash', { providerKeyPrefix: 'a/b' }, 'providerKeyPrefix is "a/b"; it must be up to 100'],
  [
    'plain http to another machine',
    { stripeApiBase: 'http://stripe.test' },
    'stripeApiBase is "http://stripe.test"; it must be an https URL, or an http URL of this machine',
  ],
  [
    'another Stripe in production',
    { stripeApiBase: 'https://stripe.test', production: true },
    'stripeApiBase https://stripe.test must be absent when production is true',
  ],
  ['no object', 'maxConcurrency=5', 'settings is "maxConcurrency=5"; it must be an object'],
])('%s is refused with the setting, its value and what is allowed', (_, overrides, message) => {
  expect(() => settingsFrom(overrides)).toThrow(message);
});

test('BL-45: a number that is known only while deploying is refused', () => {
  const stack = new Stack(new App());
  const parameter = new CfnParameter(stack, 'Concurrency', { type: 'Number' }).valueAsNumber;
  expect(() => settingsFrom({ maxConcurrency: parameter })).toThrow('maxConcurrency is a CDK token');
  const lazy = Lazy.number({ produce: () => 5 });
  expect(() => settingsFrom({ reservedConcurrency: lazy })).toThrow('reservedConcurrency is a CDK token');
});

test('an issuer of tokens with its audiences and tenant claim is taken as it is', () => {
  expect(settingsFrom(tokens)).toMatchObject(tokens);
});

test.each([
  [
    'dead letters before the delivery that is kept in the table',
    { maxReceiveCount: 5 },
    'maxReceiveCount is 5; it must be a whole number from 6 to 1000',
  ],
  [
    'no requests',
    { apiRequestsPerSecond: 0 },
    'apiRequestsPerSecond is 0; it must be a whole number from 1 to 100000',
  ],
  [
    'a burst of halves',
    { apiBurstRequests: 1.5 },
    'apiBurstRequests is 1.5; it must be a whole number from 1 to 100000',
  ],
  [
    'an issuer without TLS',
    { ...tokens, jwtIssuer: 'http://login.shop.test' },
    'jwtIssuer is "http://login.shop.test"; it must be an https URL',
  ],
  [
    'no audience in the list',
    { ...tokens, jwtAudiences: [] },
    'jwtAudiences is []; it must be a list of 1 to 50 texts',
  ],
  [
    'an audience that is no text',
    { ...tokens, jwtAudiences: [7] },
    'jwtAudiences is [7]; it must be a list of 1 to 50 texts',
  ],
  [
    'an audience with white space',
    { ...tokens, jwtAudiences: ['a', 'b c'] },
    'jwtAudiences is ["a","b c"]; it must be a list of 1 to 50 texts',
  ],
  [
    'one audience without a list',
    { ...tokens, jwtAudiences: 'shop' },
    'jwtAudiences is "shop"; it must be a list of 1 to 50 texts',
  ],
  [
    'a claim that is no name',
    { ...tokens, jwtTenantClaim: 'a b' },
    'jwtTenantClaim is "a b"; it must be the name of a claim',
  ],
  [
    'an issuer whose tokens could be for anybody',
    { ...tokens, jwtAudiences: undefined },
    'jwtAudiences must be set too, or none of jwtIssuer, jwtAudiences, jwtTenantClaim',
  ],
  ['a claim without an issuer', { jwtTenantClaim: 'tenantId' }, 'jwtIssuer and jwtAudiences must be set too'],
  [
    'tenants that may name the customers of others',
    { ...tokens, customerTenantCheck: false },
    'customerTenantCheck false must be true with jwtIssuer',
  ],
])('of the API: %s is refused with the setting, its value and what is allowed', (_, overrides, message) => {
  expect(() => settingsFrom(overrides)).toThrow(message);
});

test('every violation is reported at once', () => {
  const overrides = {
    maxConcurrency: 1,
    stage: 'X',
    typo: 1,
    leaseMarginSeconds: 200,
    queueRetentionDays: 12,
  };
  expect(() => settingsFrom(overrides)).toThrow(
    /typo is no setting.*\n.*maxConcurrency is 1;.*\n.*stage is "X";.*\n.*leaseMarginSeconds 200.*\n.*queueRetentionDays 12/,
  );
});

test('a rule about a value that is refused anyway is not reported beside it', () => {
  expect(() => settingsFrom({ maxConcurrency: 1001, reservedConcurrency: 5 })).toThrow(
    /^Invalid settings:\n {2}- maxConcurrency is 1001; [^\n]*$/,
  );
});

describe('a Stripe key', () => {
  // Put together here, so that no scanner takes it for a real one.
  const live = ['sk', 'live', 'abc123'].join('_');
  const restricted = ['rk', 'live', 'abc123'].join('_');
  const sandbox = ['sk', 'test', 'abc123'].join('_');

  test.each([live, restricted])(
    'that is live is refused in the environment of a stage that is not production',
    (key) => {
      expect(() => settingsFrom({ stage: 'qa' }, { STRIPE_API_KEY: key })).toThrow(
        'STRIPE_API_KEY in the environment is a live Stripe key; stage qa is not marked production',
      );
    },
  );

  test('that is live is accepted in the environment of a production stage', () => {
    expect(settingsFrom({ production: true }, { STRIPE_API_KEY: live }).production).toBe(true);
  });

  test('of a sandbox is accepted in the environment of any stage', () => {
    expect(settingsFrom({}, { STRIPE_API_KEY: sandbox }).stage).toBe('dev');
  });

  test.each([live, sandbox])('in a setting is refused everywhere, and never printed', (key) => {
    const refuse = () => settingsFrom({ production: true, providerKeyPrefix: key });
    expect(refuse).toThrow('providerKeyPrefix holds a Stripe key');
    expect(refuse).not.toThrow('abc123');
    expect(() => settingsFrom({ providerKeyPrefix: `/${key}` })).not.toThrow('abc123');
  });
});
