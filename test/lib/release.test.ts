import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Frozen, freeze, lossesBy } from '../support/frozen-release';

// Each comparison is a run of the CDK CLI.
jest.setTimeout(120_000);

const fixtures = join(__dirname, '..', 'fixtures');
const releases = readdirSync(fixtures)
  .filter((name) => name.startsWith('release-'))
  .flatMap((name): [string, Frozen][] => {
    const frozen: Frozen[] = JSON.parse(readFileSync(join(fixtures, name), 'utf8'));
    return frozen.map((each) => [`${name.replace('.json', '')} with ${JSON.stringify(each.settings)}`, each]);
  });

test.each(releases)(
  'an update from %s replaces and removes no table, queue, secret, key or API',
  (_, frozen) => {
    expect(Object.keys(frozen.template.Resources)).not.toHaveLength(0);
    expect(lossesBy(frozen.settings, frozen)).toEqual({});
  },
);

test('nor does an update to other settings', () => {
  const others = {
    production: true,
    customerManagedKey: true,
    gradualDeployment: 'canary10Percent5Minutes',
    queueRetentionDays: 3,
    workerTimeoutSeconds: 40,
  } as const;
  expect(lossesBy(others, freeze({}))).toEqual({});
});

test('the comparison sees a table with another key, a queue with another name, and a resource that moved', () => {
  const { settings, template } = freeze({});
  const before = JSON.stringify(template)
    .replace('"AttributeName":"pk","KeyType"', '"AttributeName":"id","KeyType"')
    .replace('"QueueName":', '"FifoQueue":true,"QueueName":')
    .replace('"ChargeOnceStripeApiKeyBBC5BF7D":', '"ApiKey":');
  const losses = lossesBy(settings, { settings, template: JSON.parse(before) });
  expect(losses).toEqual({
    ChargeOnceOperationTableF6F07486: 'replace',
    ChargeOnceWorkQueue05790925: 'replace',
    ApiKey: 'destroy',
  });
});
