import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import fc from 'fast-check';
import { type ConditionalUpdate, TableClient, type Updated } from '../../lambdas/adapters/table-client';
import { type LocalStack, startLocalStack } from '../../local/stack';
import { planOf } from './plan';
import { TableTwin } from './table-twin';
import { runPlan } from './world';

// The table of the simulation answers as DynamoDB does: the same updates, one after the other, on both.

let stack: LocalStack;
let client: DynamoDBClient;
let table: TableClient;
beforeAll(async () => {
  stack = await startLocalStack({ startEventSource: false });
  client = new DynamoDBClient({
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    endpoint: stack.endpoints.dynamodb,
    maxAttempts: 3,
  });
  table = new TableClient(client, stack.tableName);
});
afterAll(async () => {
  client.destroy();
  await stack.stop();
});

interface Step {
  readonly partitionKey: string;
  readonly update: ConditionalUpdate;
  readonly answer: Updated;
}

/** Everything that the code under test writes in one seed, with the twin's answers. */
async function historyOf(seed: number): Promise<Step[]> {
  const steps: Step[] = [];
  await runPlan(planOf(seed), undefined, (partitionKey, update, answer) => {
    steps.push({ partitionKey, update, answer });
  });
  return steps;
}

/** A partition key of a seed's own. */
const keyOf = (seed: number, partitionKey: string) => partitionKey.replace('#', `#s${seed}-`);

const withoutKey = ({ applied, item }: Updated) => {
  const { pk: _, ...attributes } = item ?? {};
  return { applied, attributes };
};

const seeds = Array.from({ length: 30 }, (_, index) => 101 + index);

test.each(seeds)('every write of seed %i is answered alike', async (seed) => {
  const history = await historyOf(seed);
  expect(history.length).toBeGreaterThan(0);
  const items = new Map<string, unknown>();
  for (const { partitionKey, update, answer } of history.slice(0, 400)) {
    const key = keyOf(seed, partitionKey);
    // The history's answers have the item also where nobody needed it.
    const { returns: _, ...compared } = update;
    const real = await table.update(key, compared);
    expect({ update, ...withoutKey(real) }).toEqual({ update, ...withoutKey(answer) });
    if (answer.item) items.set(key, { ...answer.item, pk: key });
  }
  const read = await table.read([...items.keys(), keyOf(seed, 'op#never#heard')]);
  expect(new Map(read.map((item) => [String(item.pk), item]))).toEqual(items);
});

test('the attention index lists what is due, oldest first', async () => {
  const twin = new TableTwin();
  const entries = fc.array(
    fc.record({ shard: fc.nat(1), dueAtMs: fc.option(fc.nat(20), { nil: undefined }) }),
    { minLength: 1, maxLength: 30 },
  );
  const [wanted = []] = fc.sample(entries, { seed: 1, numRuns: 1 });
  for (const [index, { shard, dueAtMs }] of wanted.entries()) {
    const update: ConditionalUpdate = {
      condition: 'attribute_not_exists(pk)',
      // Shards that no seed has.
      assign: {
        openShard: 100 + shard,
        ...(dueAtMs === undefined ? { n: 1 } : { dueAtMs: dueAtMs * 1000 + index }),
      },
    };
    twin.update(`due#${index}`, update);
    await table.update(`due#${index}`, update);
  }
  for (const shard of [100, 101]) {
    for (const dueAtMs of [0, 9_999, 1_000_000]) {
      const real: string[] = [];
      for await (const page of table.due(shard, dueAtMs)) real.push(...page);
      expect(real).toEqual(twin.shard(shard, dueAtMs).map(({ pk }) => pk));
    }
  }
});

const path = fc.constantFrom('#a', '#b', '#m.#x', '#m.#y', '#gone', '#gone.#x');
const value = fc.constantFrom(':one', ':two', ':text', ':other');
const operand = fc.oneof(path, fc.constant('size(#m)'), fc.constant('size(#gone)'));
const comparison = fc
  .tuple(operand, fc.constantFrom('=', '<>', '<', '<=', '>', '>='), value)
  .map((parts) => parts.join(' '));
const { condition } = fc.letrec<{ condition: string }>((tie) => ({
  condition: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    comparison,
    path.map((of) => `attribute_exists(${of})`),
    path.map((of) => `attribute_not_exists(${of})`),
    fc
      .tuple(path, fc.uniqueArray(value, { minLength: 1, maxLength: 3 }))
      .map(([of, all]) => `${of} IN (${all.join(', ')})`),
    fc
      .tuple(
        tie('condition'),
        fc.constantFrom('AND', 'OR'),
        tie('condition'),
        fc.constantFrom('AND', 'OR'),
        comparison,
      )
      .map((parts) => `(${parts.join(' ')})`),
    comparison.map((inner) => `NOT ${inner}`),
  ),
}));
const scalar = fc.constantFrom(1, 2, 3, 'text', 'other');
const item = fc.record(
  { a: scalar, b: scalar, m: fc.record({ x: scalar, y: scalar }, { requiredKeys: [] }) },
  { requiredKeys: [] },
);
const values = { one: 1, two: 2, text: 'text', other: 'other' };

test('any condition holds alike on any item', async () => {
  let count = 0;
  await fc.assert(
    fc.asyncProperty(item, condition, async (attributes, text) => {
      count += 1;
      const twin = new TableTwin();
      const key = `any#${count}`;
      const put: ConditionalUpdate = {
        condition: 'attribute_not_exists(pk)',
        assign: { ...attributes, n: 1 },
      };
      const update: ConditionalUpdate = { condition: text, set: ['#n = #n + :one'], values };
      twin.update(key, put);
      await table.update(key, put);
      expect(await table.update(key, update)).toEqual(twin.update(key, update));
    }),
    { seed: 7, numRuns: 250 },
  );
});

test('any change of attributes is made alike', async () => {
  let count = 0;
  const target = fc.uniqueArray(fc.constantFrom('#a', '#b', '#m.#x', '#m.#y'), {
    minLength: 1,
    maxLength: 4,
  });
  const source = fc.oneof(
    value,
    fc.constant('if_not_exists(#a, :one)'),
    fc.constant('if_not_exists(#m.#y, :two)'),
    fc.constant('if_not_exists(#missing, :one) + :two'),
    fc.constant('#n - :one'),
  );
  await fc.assert(
    fc.asyncProperty(
      item,
      target,
      fc.array(source, { minLength: 4, maxLength: 4 }),
      fc.nat(4),
      async (attributes, targets, sources, removed) => {
        count += 1;
        const twin = new TableTwin();
        const key = `change#${count}`;
        const whole = { ...attributes, m: attributes.m ?? {}, n: 1 };
        const put: ConditionalUpdate = { condition: 'attribute_not_exists(pk)', assign: whole };
        const [gone, set] = [targets.slice(0, removed), targets.slice(removed)];
        const update: ConditionalUpdate = {
          condition: '#n = :one',
          assign: { last: 'text' },
          set: set.map((of, index) => `${of} = ${sources[index]}`),
          remove: gone.map((of) => of.slice(1)),
          values,
        };
        twin.update(key, put);
        await table.update(key, put);
        expect(await table.update(key, update)).toEqual(twin.update(key, update));
      },
    ),
    { seed: 8, numRuns: 200 },
  );
});
