import { DescribeTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { GetQueueAttributesCommand, SQSClient } from '@aws-sdk/client-sqs';
import { DynamoDBDocumentClient, PutCommand, QueryCommand } from '@aws-sdk/lib-dynamodb';
import { type LocalStack, laptopLimits, startLocalStack } from '../../local/stack';

const credentials = { accessKeyId: 'x', secretAccessKey: 'x' };
const handler = 'test/support/dummy-handler.ts';

describe('a laptop stack', () => {
  let stack: LocalStack;
  let dynamodb: DynamoDBClient;
  beforeAll(async () => {
    stack = await startLocalStack({ handler, startEventSource: false });
    dynamodb = new DynamoDBClient({ region: 'us-east-1', endpoint: stack.endpoints.dynamodb, credentials });
  });
  afterAll(async () => {
    dynamodb.destroy();
    await stack.stop();
  });

  test('has the table that the store expects', async () => {
    const { Table: table } = await dynamodb.send(new DescribeTableCommand({ TableName: stack.tableName }));
    expect(table).toMatchObject({
      TableStatus: 'ACTIVE',
      BillingModeSummary: { BillingMode: 'PAY_PER_REQUEST' },
      KeySchema: [{ AttributeName: 'pk', KeyType: 'HASH' }],
      GlobalSecondaryIndexes: [{ IndexName: 'attention', Projection: { ProjectionType: 'INCLUDE' } }],
    });
  });

  test('reads an operation past the proxy, whatever faults that has', async () => {
    const documents = DynamoDBDocumentClient.from(dynamodb);
    const item = { pk: 'op#North#O7', state: 'queued', openShard: 3, dueAtMs: 5 };
    await documents.send(new PutCommand({ TableName: stack.tableName, Item: item }));
    const remove = stack.dynamodbProxy.intercept({}, { kind: 'loseRequest' });
    expect(await stack.operation('North', 'O7')).toEqual(item);
    expect(await stack.operation('North', 'O8')).toBeUndefined();
    remove();
    const due = await documents.send(
      new QueryCommand({
        TableName: stack.tableName,
        IndexName: 'attention',
        KeyConditionExpression: 'openShard = :shard AND dueAtMs <= :now',
        ExpressionAttributeValues: { ':shard': 3, ':now': 10 },
      }),
    );
    expect(due.Items).toEqual([{ pk: 'op#North#O7', state: 'queued', openShard: 3, dueAtMs: 5 }]);
  });

  test('has queues with the limits of a laptop, whose URLs lead through the proxy', async () => {
    expect(stack.queueUrl).toBe(`${stack.endpoints.sqs}/000000000000/charge-once-jobs`);
    expect(stack.deadLetterQueueUrl).toBe(
      `${stack.endpoints.sqs}/000000000000/charge-once-jobs-dead-letters`,
    );
    const sqs = new SQSClient({ region: 'us-east-1', endpoint: stack.endpoints.sqs, credentials });
    const command = new GetQueueAttributesCommand({ QueueUrl: stack.queueUrl, AttributeNames: ['All'] });
    const { Attributes: attributes = {} } = await sqs.send(command);
    sqs.destroy();
    expect(attributes.VisibilityTimeout).toBe('12');
    expect(JSON.parse(attributes.RedrivePolicy ?? '')).toEqual({
      deadLetterTargetArn: stack.deadLetterQueueArn,
      maxReceiveCount: 8,
    });
  });

  test('gives the handler the variables of a deployed one', () => {
    expect(stack.environment).toMatchObject({
      OPERATIONS_TABLE: stack.tableName,
      QUEUE_URL: stack.queueUrl,
      STAGE: 'local',
      STRIPE_API_BASE: stack.endpoints.stripe,
      AWS_REGION: 'us-east-1',
      AWS_ENDPOINT_URL_DYNAMODB: stack.endpoints.dynamodb,
      AWS_ENDPOINT_URL_SQS: stack.endpoints.sqs,
    });
    expect(JSON.parse(stack.environment.SETTINGS ?? '')).toEqual(laptopLimits);
  });

  test('runs other handlers beside the worker, with any event', async () => {
    const pool = stack.handler(handler);
    const event = { Records: [{ messageId: 'm1', body: 'fail', attributes: {} }] };
    expect(await pool.invoke(event, 2000)).toMatchObject({
      outcome: 'responded',
      payload: '{"batchItemFailures":[{"itemIdentifier":"m1"}]}',
    });
    expect(stack.workers.counts().started).toBe(0);
  });

  test('listens on 127.0.0.1 only', () => {
    const served = Object.values(stack.endpoints).filter((url) => url !== undefined);
    expect(served).toHaveLength(3);
    for (const url of served) expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  });
});

describe('stopping a laptop stack', () => {
  test('ends its workers and frees its ports, and may be asked twice', async () => {
    const stack = await startLocalStack({ handler });
    await stack.send('wait 1000');
    await stack.waitFor(() => stack.workers.counts().invocations === 1);
    const [pid = -1] = stack.workers.busyPids();
    expect(() => process.kill(pid, 0)).not.toThrow();
    await Promise.all([stack.stop(), stack.stop()]);
    expect(() => process.kill(pid, 0)).toThrow('ESRCH');
    for (const url of Object.values(stack.endpoints)) await expect(fetch(url ?? '')).rejects.toThrow();
  });

  test('tells what the Stripe stand-in found', async () => {
    const stack = await startLocalStack({ handler, startEventSource: false });
    for (const key of ['one', 'two']) {
      await fetch(`${stack.endpoints.stripe}/v1/payment_intents`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${stack.environment.STRIPE_API_KEY}`,
          'content-type': 'application/x-www-form-urlencoded',
          'idempotency-key': key,
        },
        body: new URLSearchParams({
          amount: '5000',
          currency: 'usd',
          customer: 'cus_A',
          payment_method: 'pm_card_visa',
          confirm: 'true',
          off_session: 'true',
          'metadata[tenantId]': 'North',
          'metadata[operationId]': 'O7',
        }),
      });
    }
    await expect(stack.stop()).rejects.toThrow('North');
  });
});
