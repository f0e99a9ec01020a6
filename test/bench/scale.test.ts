import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import { table } from '../../lambdas/adapters/table';
import { limitsFrom } from '../../lambdas/operation/limits';
import { type LocalStack, startLocalStack } from '../../local/stack';
import counts from './scale/counts.json';
import { countEach, fullBatch } from './scale/measure';
import { MeteredBench } from './scale/metered-bench';
import { limits, planOf, sizes } from './scale/model';
import { costOf, prices } from './scale/prices';
import { itemBytes, TableMeter } from './scale/table-meter';
import { withTables } from './scale/tables';

const page = readFileSync(join(__dirname, '..', '..', 'docs', 'scale.md'), 'utf8');

test('the tables of docs/scale.md are what `npm run scale` makes of the counts', () => {
  expect(withTables(page, counts)).toBe(page);
});

test('other counts make other tables', () => {
  const { direct } = counts.paths;
  const doubled = { ...counts.paths, direct: { ...direct, writeUnits: 2 * direct.writeUnits } };
  expect(withTables(page, { ...counts, paths: doubled })).not.toBe(page);
});

test('the counts are those of the code as it is: `npm run scale -- --measure` takes them again', async () => {
  const bench = await MeteredBench.start(fullBatch);
  try {
    for (const [path, now] of Object.entries(await countEach(bench, 3))) {
      const { cpuMs: _cpu, logBytes: _log, ...calls } = now;
      expect({ path, ...counts.paths[path as keyof typeof counts.paths] }).toMatchObject({ path, ...calls });
    }
  } finally {
    await bench.stop();
  }
}, 120_000);

test('a quantity is charged tier by tier', () => {
  expect(costOf(prices.logs, 60_000)).toBe(10_000 * 0.5 + 20_000 * 0.25 + 20_000 * 0.1 + 10_000 * 0.05);
  expect(costOf(prices.logs, 10_000)).toBe(5000);
  expect(costOf(prices.write, 2_000_000)).toBe(1.25);
  expect(costOf(prices.write, 0)).toBe(0);
});

describe.each(sizes)('the plan for $title', (size) => {
  const plan = planOf(counts, size);

  test('fills no shard of the index or of the provider item more than half', () => {
    for (const [writes, shards] of [
      [plan.indexWritesPerSecond, plan.openShards],
      [plan.providerWritesPerSecond, plan.providerShards],
    ] as const)
      expect(writes / plan.stacks / shards).toBeLessThanOrEqual(limits.partitionWrites / 2);
  });

  test('stays within what one stack can be set to', () => {
    expect(plan.workers / plan.stacks).toBeLessThanOrEqual(1000);
    expect(plan.inFlight / plan.stacks).toBeLessThanOrEqual(limits.inFlight);
    expect(() => limitsFrom({ openShards: plan.openShards })).not.toThrow();
    expect(plan.providerShards).toBeLessThanOrEqual(100);
  });
});

describe('the meter', () => {
  let stack: LocalStack;
  let meter: TableMeter;
  let documents: DynamoDBDocumentClient;
  beforeAll(async () => {
    stack = await startLocalStack({ startEventSource: false });
    meter = new TableMeter(stack.dynamodbProxy);
    documents = DynamoDBDocumentClient.from(
      new DynamoDBClient({
        region: 'us-east-1',
        credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
        endpoint: stack.endpoints.dynamodb,
      }),
    );
  });
  afterAll(async () => {
    documents.destroy();
    await stack.stop();
  });

  const update = (pk: string, expression: string, values: Record<string, unknown>, condition?: string) =>
    documents.send(
      new UpdateCommand({
        TableName: stack.tableName,
        Key: { [table.partitionKey]: pk },
        UpdateExpression: expression,
        ExpressionAttributeValues: values,
        ReturnValues: 'ALL_NEW',
        ...(condition && { ConditionExpression: condition }),
      }),
    );
  const place = `SET ${table.attentionPartitionKey} = :shard, ${table.attentionSortKey} = :due`;

  test.each([
    ['that is not in the index', 'SET amount = :one', { ':one': 1 }, 0],
    ['that comes into the index', place, { ':shard': 1, ':due': 10 }, 1],
    ['that stays where it is', `SET amount = :two`, { ':two': 2 }, 0],
    ['that moves in the index', place, { ':shard': 1, ':due': 20 }, 2],
    ['that leaves it', `REMOVE ${table.attentionPartitionKey} SET amount = :three`, { ':three': 3 }, 1],
  ])(
    'counts one write of an item %s, and what the index takes',
    async (_, expression, values, indexWrites) => {
      meter.take();
      await update('op#a#1', expression, values);
      expect(meter.take()).toMatchObject({ writes: { op: 1 }, indexWrites });
    },
  );

  test('counts a write by the larger of both sizes, and a refused one all the same', async () => {
    await update('tenant#a', 'SET note = :text', { ':text': 'x'.repeat(1500) });
    expect(meter.take()).toMatchObject({ writes: { tenant: 2 } });
    await update('tenant#a', 'SET note = :text', { ':text': '' });
    expect(meter.take()).toMatchObject({ writes: { tenant: 2 } });
    await expect(
      update('tenant#a', 'SET note = :text', { ':text': 'y' }, 'attribute_exists(nothingLikeIt)'),
    ).rejects.toThrow('conditional');
    expect(meter.take()).toMatchObject({ writes: { tenant: 1 } });
  });

  test('knows what DynamoDB takes for each kind of value', () => {
    expect(itemBytes({ pk: { S: 'abc' } })).toBe(2 + 3);
    expect(itemBytes({ n: { N: '1764466800000' } })).toBe(1 + 8);
    expect(itemBytes({ é: { BOOL: true } })).toBe(2 + 1);
    expect(itemBytes({ m: { M: { a: { S: 'b' } } } })).toBe(1 + 3 + 1 + (1 + 1));
    expect(itemBytes({ l: { L: [{ S: 'b' }, { NULL: true }] } })).toBe(1 + 3 + 2 + 2);
  });
});
