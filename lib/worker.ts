import { Duration } from 'aws-cdk-lib';
import { type EventSourceMapping, MetricType } from 'aws-cdk-lib/aws-lambda';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import { Construct } from 'constructs';
import { ServiceFunction, type ServiceParts } from './service-function';

/** What is needed of the secret; every `ISecret` has it. */
export type SecretReference = Pick<ISecret, 'secretArn' | 'encryptionKey'> & {
  readonly secretFullArn?: string | undefined;
};

export interface WorkerProps {
  readonly parts: ServiceParts;
  /** Holds the Stripe key and nothing else. */
  readonly secret: SecretReference;
}

/** The function that charges, fed by the queue. It cannot send to the queue: Lambda ends such loops. */
export class Worker extends Construct {
  readonly service: ServiceFunction;
  readonly mapping: EventSourceMapping;

  constructor(scope: Construct, id: string, props: WorkerProps) {
    super(scope, id);
    const { parts, secret } = props;
    const { settings, queues } = parts;
    this.service = new ServiceFunction(this, 'Service', {
      entry: 'work',
      description: 'Charges and refunds through Stripe, each operation at most once',
      parts,
      timeout: Duration.seconds(settings.workerTimeoutSeconds),
      reservedConcurrency: settings.reservedConcurrency,
      environment: {
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

  private allowWhatItDoes({ parts, secret }: WorkerProps): void {
    const { service } = this;
    const { queue, queueKey } = parts.queues;
    service.allowRecords({ writes: true });
    service.allow(
      ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:ChangeMessageVisibility', 'sqs:GetQueueAttributes'],
      [queue.queueArn],
    );
    // An imported secret's ARN may lack the six characters that Secrets Manager adds to every name.
    const secretArn = secret.secretFullArn ?? `${secret.secretArn}-??????`;
    service.allow(['secretsmanager:GetSecretValue'], [secretArn]);

    const keys = [queueKey, secret.encryptionKey].flatMap((key) => (key ? [key.keyArn] : []));
    if (keys.length > 0) service.allow(['kms:Decrypt'], keys);
  }
}
