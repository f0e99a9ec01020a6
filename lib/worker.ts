import { Duration } from 'aws-cdk-lib';
import { type EventSourceMapping, MetricType } from 'aws-cdk-lib/aws-lambda';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import { Construct } from 'constructs';
import type { TableReference } from './operation-table';
import { ServiceFunction } from './service-function';
import { handlerSettings, type Settings } from './settings';
import type { QueuePair } from './work-queue';

/** What is needed of the secret; every `ISecret` has it. */
export type SecretReference = Pick<ISecret, 'secretArn' | 'encryptionKey'> & {
  readonly secretFullArn?: string | undefined;
};

export interface WorkerProps {
  readonly settings: Settings;
  readonly queues: QueuePair;
  readonly table: TableReference;
  /** Holds the Stripe key and nothing else. */
  readonly secret: SecretReference;
  /** Starts every provider key of this worker, and of no other on the same Stripe account. */
  readonly providerKeyPrefix: string;
}

/** The function that charges, fed by the queue. It cannot send to the queue: Lambda ends such loops. */
export class Worker extends Construct {
  readonly service: ServiceFunction;
  readonly mapping: EventSourceMapping;

  constructor(scope: Construct, id: string, props: WorkerProps) {
    super(scope, id);
    const { settings, queues, table, secret } = props;
    this.service = new ServiceFunction(this, 'Service', {
      entry: 'work',
      description: 'Charges and refunds through Stripe, each operation at most once',
      settings,
      timeout: Duration.seconds(settings.workerTimeoutSeconds),
      reservedConcurrency: settings.reservedConcurrency,
      environment: {
        OPERATIONS_TABLE: table.tableName,
        QUEUE_URL: queues.queue.queueUrl,
        SETTINGS: handlerSettings(settings),
        STAGE: settings.stage,
        PROVIDER_KEY_PREFIX: props.providerKeyPrefix,
        STRIPE_API_KEY_SECRET_ID: secret.secretArn,
        ...(settings.stripeApiBase !== undefined && { STRIPE_API_BASE: settings.stripeApiBase }),
      },
    });
    this.allowWhatItDoes(props);

    this.mapping = this.service.alias.addEventSourceMapping('Queue', {
      eventSourceArn: queues.queue.queueArn,
      batchSize: settings.batchSize,
      ...(settings.batchWindowSeconds > 0 && {
        maxBatchingWindow: Duration.seconds(settings.batchWindowSeconds),
      }),
      maxConcurrency: settings.maxConcurrency,
      reportBatchItemFailures: true,
      metricsConfig: { metrics: [MetricType.EVENT_COUNT] },
    });
  }

  private allowWhatItDoes({ queues, table, secret }: WorkerProps): void {
    const { service } = this;
    service.allow(['dynamodb:BatchGetItem', 'dynamodb:GetItem', 'dynamodb:UpdateItem'], [table.tableArn]);
    service.allow(
      ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:ChangeMessageVisibility', 'sqs:GetQueueAttributes'],
      [queues.queue.queueArn],
    );
    // An imported secret's ARN may lack the six characters that Secrets Manager adds to every name.
    const secretArn = secret.secretFullArn ?? `${secret.secretArn}-??????`;
    service.allow(['secretsmanager:GetSecretValue'], [secretArn]);

    const keys = [queues.queueKey, secret.encryptionKey].flatMap((key) => (key ? [key.keyArn] : []));
    if (keys.length > 0) service.allow(['kms:Decrypt'], keys);
    // Through a table's own key DynamoDB encrypts as the caller. https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html
    table.encryptionKey?.grantEncryptDecrypt(service.role);
  }
}
