import { CreateTableCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { CreateQueueCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { table } from '../lambdas/adapters/table';
import { type Limits, visibilityTimeoutSeconds } from '../lambdas/operation/limits';

export const tableName = 'charge-once-operations';
export const queueName = 'charge-once-jobs';
export const deadLetterQueueName = 'charge-once-jobs-dead-letters';

const daySeconds = 24 * 3600;

export interface Queues {
  readonly queueUrl: string;
  readonly queueArn: string;
  readonly deadLetterQueueUrl: string;
  readonly deadLetterQueueArn: string;
}

/** The operations table, as the deployed stack has it; dynalite knows no time to live. */
export async function createTable(dynamodb: DynamoDBClient): Promise<void> {
  const command = new CreateTableCommand({
    TableName: tableName,
    BillingMode: 'PAY_PER_REQUEST',
    AttributeDefinitions: [
      { AttributeName: table.partitionKey, AttributeType: 'S' },
      { AttributeName: table.attentionPartitionKey, AttributeType: 'N' },
      { AttributeName: table.attentionSortKey, AttributeType: 'N' },
    ],
    KeySchema: [{ AttributeName: table.partitionKey, KeyType: 'HASH' }],
    GlobalSecondaryIndexes: [
      {
        IndexName: table.attentionIndex,
        KeySchema: [
          { AttributeName: table.attentionPartitionKey, KeyType: 'HASH' },
          { AttributeName: table.attentionSortKey, KeyType: 'RANGE' },
        ],
        Projection: { ProjectionType: 'INCLUDE', NonKeyAttributes: [...table.attentionAttributes] },
      },
    ],
  });
  await dynamodb.send(command);
}

/** The job queue and its dead-letter queue, as the deployed stack has them. */
export async function createQueues(sqs: SQSClient, region: string, limits: Limits): Promise<Queues> {
  const arnOf = (name: string) => `arn:aws:sqs:${region}:000000000000:${name}`;
  const create = async (name: string, attributes: Record<string, string>): Promise<string> => {
    const { QueueUrl: url } = await sqs.send(
      new CreateQueueCommand({ QueueName: name, Attributes: attributes }),
    );
    if (url === undefined) throw new Error(`SQS gave no URL for ${name}.`);
    return url;
  };
  const deadLetterQueueArn = arnOf(deadLetterQueueName);
  const deadLetterQueueUrl = await create(deadLetterQueueName, {
    MessageRetentionPeriod: String(14 * daySeconds),
  });
  const queueUrl = await create(queueName, {
    MessageRetentionPeriod: String(4 * daySeconds),
    VisibilityTimeout: String(visibilityTimeoutSeconds(limits)),
    RedrivePolicy: JSON.stringify({
      deadLetterTargetArn: deadLetterQueueArn,
      maxReceiveCount: limits.maxReceiveCount,
    }),
  });
  return { queueUrl, queueArn: arnOf(queueName), deadLetterQueueUrl, deadLetterQueueArn };
}
