import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { PutSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import {
  GetQueueAttributesCommand,
  PurgeQueueCommand,
  ReceiveMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { DynamoDBDocumentClient, ScanCommand, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import { operationFromItem } from '../../lambdas/adapters/operation-item';
import { table } from '../../lambdas/adapters/table';
import type { Operation, OperationId } from '../../lambdas/operation/operation';
import { sendJob } from '../../local/jobs';
import type { Outputs } from './cdk';
import { DeployedApi } from './deployed-api';
import { LambdaApi, type Mapping } from './lambda-api';
import type { Surroundings } from './surroundings';

/** The deployed stack as its users see it: by its outputs. */
export class Deployed {
  readonly sqs: SQSClient;
  readonly dynamodb: DynamoDBClient;
  readonly lambda: LambdaApi;
  readonly api: DeployedApi;
  readonly #documents: DynamoDBDocumentClient;
  readonly #secrets: SecretsManagerClient;
  readonly #deadLetters = new Map<string, string>();

  constructor(
    readonly outputs: Outputs,
    endpoint: string,
    surroundings: Surroundings,
  ) {
    this.api = new DeployedApi(outputs.ApiUrl, endpoint, surroundings);
    const { account, region } = surroundings;
    const config = { endpoint, region, credentials: { accessKeyId: account, secretAccessKey: 'e2e' } };
    this.sqs = new SQSClient(config);
    this.dynamodb = new DynamoDBClient(config);
    this.#documents = DynamoDBDocumentClient.from(this.dynamodb);
    this.#secrets = new SecretsManagerClient(config);
    this.lambda = new LambdaApi(endpoint, surroundings);
  }

  async send(body: string | object): Promise<void> {
    await sendJob(this.sqs, this.outputs.QueueUrl, body);
  }

  /** Does what the command of the output does: `aws` may not be installed here. */
  async setStripeKey(key: string): Promise<void> {
    const command = this.outputs.SetStripeKeyCommand;
    const pattern =
      /^aws secretsmanager put-secret-value --region \S+ --secret-id (\S+) --secret-string "\$STRIPE_API_KEY"$/;
    const secretId = pattern.exec(command)?.[1];
    if (secretId === undefined)
      throw new Error(`the output is ${command}; it must be one command of the AWS CLI`);
    await this.#secrets.send(new PutSecretValueCommand({ SecretId: secretId, SecretString: key }));
  }

  /** Every operation's record. The tenants' and the provider's are not among them. */
  async records(): Promise<Operation[]> {
    const { Items = [] } = await this.#documents.send(
      new ScanCommand({ TableName: this.outputs.TableName, ConsistentRead: true }),
    );
    return Items.filter((item) => String(item[table.partitionKey]).startsWith('op#'))
      .map(operationFromItem)
      .sort((a, b) => a.operationId.localeCompare(b.operationId));
  }

  /** Lets the time of an operation that waits in the table be over. */
  async makeDue({ tenantId, operationId }: OperationId): Promise<void> {
    await this.#documents.send(
      new UpdateCommand({
        TableName: this.outputs.TableName,
        Key: { [table.partitionKey]: `op#${tenantId}#${operationId}` },
        UpdateExpression: 'SET #due = :past',
        ConditionExpression: 'attribute_exists(#due)',
        ExpressionAttributeNames: { '#due': table.attentionSortKey },
        ExpressionAttributeValues: { ':past': 1 },
      }),
    );
  }

  /** Loses every message of the queue. */
  async loseMessages(): Promise<void> {
    await this.sqs.send(new PurgeQueueCommand({ QueueUrl: this.outputs.QueueUrl }));
  }

  async attributes(queueUrl: string): Promise<Readonly<Record<string, string>>> {
    const { Attributes = {} } = await this.sqs.send(
      new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ['All'] }),
    );
    return Attributes;
  }

  async arnOf(queueUrl: string): Promise<string> {
    const { QueueArn } = await this.attributes(queueUrl);
    if (QueueArn === undefined) throw new Error(`${queueUrl} has no ARN`);
    return QueueArn;
  }

  async mapping(): Promise<Mapping> {
    return this.lambda.mappingOf(await this.arnOf(this.outputs.QueueUrl));
  }

  /** Messages in the queue, whether they are visible, in flight or delayed. */
  async depth(queueUrl = this.outputs.QueueUrl): Promise<number> {
    const attributes = await this.attributes(queueUrl);
    return ['', 'NotVisible', 'Delayed']
      .map((kind) => Number(attributes[`ApproximateNumberOfMessages${kind}`] ?? 0))
      .reduce((sum, count) => sum + count);
  }

  /** The bodies in the dead-letter queue: all that were ever seen there. They stay. */
  async deadLetters(): Promise<readonly string[]> {
    const { Messages = [] } = await this.sqs.send(
      new ReceiveMessageCommand({
        QueueUrl: this.outputs.DeadLetterQueueUrl,
        MaxNumberOfMessages: 10,
        VisibilityTimeout: 0,
      }),
    );
    for (const { MessageId = '', Body = '' } of Messages) this.#deadLetters.set(MessageId, Body);
    return [...this.#deadLetters.values()];
  }
}
