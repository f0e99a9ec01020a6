import { Aws, Duration, Fn, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { type IQueue, Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { visibilityTimeoutSeconds } from '../lambdas/operation/limits';
import type { Settings } from './settings';
import { stackNameOf } from './stack-name';

/** The queue that jobs are sent to, and the one that SQS moves given-up messages to. */
export interface QueuePair {
  readonly queue: IQueue;
  readonly deadLetterQueue: IQueue;
  /** The KMS key of each; none with SQS's own encryption. */
  readonly queueKey?: IKey | undefined;
  readonly deadLetterKey?: IKey | undefined;
}

export interface WorkQueueProps {
  readonly settings: Settings;
  /**
   * The KMS key of both queues.
   * @default - SQS's own encryption, or a new key when the setting customerManagedKey is true
   */
  readonly encryptionKey?: IKey;
}

/** A standard queue with its dead-letter queue, wired so that the console's redrive to source works. */
export class WorkQueue extends Construct implements QueuePair {
  readonly queue: Queue;
  readonly deadLetterQueue: Queue;
  readonly queueKey: IKey | undefined;
  readonly deadLetterKey: IKey | undefined;

  constructor(scope: Construct, id: string, { settings, encryptionKey }: WorkQueueProps) {
    super(scope, id);
    const removalPolicy = settings.production ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY;
    const newKey = () => new Key(this, 'Key', { enableKeyRotation: true, removalPolicy });
    const key = encryptionKey ?? (settings.customerManagedKey ? newKey() : undefined);
    const encryption = key
      ? { encryption: QueueEncryption.KMS, encryptionMasterKey: key }
      : { encryption: QueueEncryption.SQS_MANAGED };

    const queueName = generatedQueueName(this);
    this.deadLetterQueue = new Queue(this, 'DeadLetterQueue', {
      ...encryption,
      enforceSSL: true,
      retentionPeriod: Duration.days(settings.deadLetterRetentionDays),
      redriveAllowPolicy: { sourceQueues: [queueNamed(this, queueName)] },
      removalPolicy,
    });
    this.queue = new Queue(this, 'Queue', {
      ...encryption,
      queueName,
      enforceSSL: true,
      retentionPeriod: Duration.days(settings.queueRetentionDays),
      visibilityTimeout: Duration.seconds(visibilityTimeoutSeconds(settings)),
      deadLetterQueue: { queue: this.deadLetterQueue, maxReceiveCount: settings.maxReceiveCount },
      removalPolicy,
    });
    this.queueKey = key;
    this.deadLetterKey = key;
  }
}

/**
 * The queue names its dead-letter queue, which names the queue that it allows: a cycle, unless one of the two
 * ARNs is written out. So the name is written out as CloudFormation would have made it, unique for ever by the
 * stack's own id, so that nothing ever collides with it, and within SQS's 80 characters.
 */
function generatedQueueName(scope: Construct): string {
  const path = scope.node.addr.slice(-8);
  const stackUuid = Fn.select(2, Fn.split('/', Aws.STACK_ID));
  return `${stackNameOf(scope, 24)}-WorkQueue-${path}-${stackUuid}`;
}

function queueNamed(scope: Construct, queueName: string): IQueue {
  const queueArn = Stack.of(scope).formatArn({ service: 'sqs', resource: queueName });
  return Queue.fromQueueArn(scope, 'AllowedSource', queueArn);
}
