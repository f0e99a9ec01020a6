import { Duration } from 'aws-cdk-lib';
import { type EventSourceMapping, MetricType } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { type SecretReference, ServiceFunction, type ServiceParts } from './service-function';

export interface WorkerProps {
  readonly parts: ServiceParts;
  /** Holds the Stripe key and nothing else. */
  readonly secret: SecretReference;
}

/** The function that charges, fed by the queue. It cannot send to the queue: Lambda ends such loops. */
export class Worker extends Construct {
  readonly service: ServiceFunction;
  readonly mapping: EventSourceMapping;

  constructor(scope: Construct, id: string, { parts, secret }: WorkerProps) {
    super(scope, id);
    const { settings, queues } = parts;
    this.service = new ServiceFunction(this, 'Service', {
      entry: 'work',
      description: 'Charges and refunds through Stripe, each operation at most once',
      parts,
      timeout: Duration.seconds(settings.workerTimeoutSeconds),
      reservedConcurrency: settings.reservedConcurrency,
      secret,
    });
    this.service.allowRecords({ writes: true });
    this.service.allow(
      ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:ChangeMessageVisibility', 'sqs:GetQueueAttributes'],
      [queues.queue.queueArn],
    );
    if (queues.queueKey) this.service.allow(['kms:Decrypt'], [queues.queueKey.keyArn]);

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
}
