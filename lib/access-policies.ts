import { Stack, Validations } from 'aws-cdk-lib';
import { ManagedPolicy, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { Construct } from 'constructs';
import { table as names } from '../lambdas/adapters/table';
import type { TableReference } from './operation-table';
import type { ServiceFunction } from './service-function';
import type { QueuePair } from './work-queue';

const keyActions = ['kms:GenerateDataKey', 'kms:Decrypt'];

export interface AccessPoliciesProps {
  /** What of a `ChargeOnce` people work with. */
  readonly chargeOnce: {
    readonly queues: QueuePair;
    readonly table: TableReference;
    readonly reconciler: { readonly service: ServiceFunction };
    readonly operator: { readonly service: ServiceFunction };
  };
}

/** Ready-made policies for the two kinds of people and services beside the worker. */
export class AccessPolicies extends Construct {
  /** For a service that enqueues jobs. Whoever has it may charge for every tenant. */
  readonly producer: ManagedPolicy;
  /** For a person who looks at both queues and the records, redrives or discards dead letters, and settles, retries, pauses and resumes. */
  readonly operator: ManagedPolicy;

  constructor(scope: Construct, id: string, { chargeOnce }: AccessPoliciesProps) {
    super(scope, id);
    const { queues } = chargeOnce;
    const { queue } = queues;

    this.producer = new ManagedPolicy(this, 'Producer', {
      description: 'Sends jobs to the charge-once queue: may charge for every tenant',
      statements: [
        ...allow(['sqs:SendMessage', 'sqs:GetQueueUrl', 'sqs:GetQueueAttributes'], [queue.queueArn]),
        ...allow(keyActions, arnsOf(queues.queueKey)),
      ],
    });

    this.operator = new ManagedPolicy(this, 'Operator', {
      description: 'Inspects the charge-once queues and records, redrives and discards dead letters',
      statements: operatorStatements({ chargeOnce }),
    });
    acknowledgeOperator(this.operator);
  }
}

/** What a person needs who looks at the queues and records, and redrives or discards dead letters. */
export function operatorStatements({ chargeOnce }: AccessPoliciesProps): PolicyStatement[] {
  const { queues, table, reconciler, operator } = chargeOnce;
  const { queue, deadLetterQueue } = queues;
  return [
    ...allow(['sqs:ListQueues'], ['*']),
    ...allow(
      ['sqs:GetQueueUrl', 'sqs:GetQueueAttributes', 'sqs:ListQueueTags', 'sqs:ListDeadLetterSourceQueues'],
      [queue.queueArn, deadLetterQueue.queueArn],
    ),
    // Receiving from the work queue itself would use up a job's deliveries: an operator cannot.
    ...allow(
      [
        'sqs:ReceiveMessage',
        'sqs:DeleteMessage',
        'sqs:ChangeMessageVisibility',
        'sqs:StartMessageMoveTask',
        'sqs:ListMessageMoveTasks',
        'sqs:CancelMessageMoveTask',
      ],
      [deadLetterQueue.queueArn],
    ),
    // A move task sends as the person who started it. https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html
    ...allow(['sqs:SendMessage'], [queue.queueArn]),
    ...allow(keyActions, arnsOf(queues.queueKey, queues.deadLetterKey)),
    ...allow(
      ['dynamodb:DescribeTable', 'dynamodb:GetItem', 'dynamodb:BatchGetItem', 'dynamodb:Query'],
      [table.tableArn, `${table.tableArn}/index/${names.attentionIndex}`],
    ),
    ...allow(['kms:Decrypt'], arnsOf(table.encryptionKey)),
    ...allow(
      ['lambda:InvokeFunction'],
      [reconciler, operator].map(({ service }) => service.alias.functionArn),
    ),
    // The operator's commands find all of it by the stack's outputs.
    ...allow(['cloudformation:DescribeStacks'], [stackArnOf(operator.service)]),
  ];
}

/** Of a policy with the operator's statements. */
export function acknowledgeOperator(policy: ManagedPolicy): void {
  Validations.of(policy).acknowledge(
    {
      id: 'AwsSolutions-IAM5[Resource::*]',
      reason: 'sqs:ListQueues, which the SQS console opens with, takes no resource; it shows names only.',
    },
    {
      id: `AwsSolutions-IAM5[Resource::${asFound(Stack.of(policy).resolve(stackArnOf(policy)))}]`,
      reason: 'A stack that is asked for by its name is authorized without its id; the name is exact.',
    },
  );
}

const stackArnOf = (scope: Construct): string =>
  Stack.of(scope).formatArn({
    service: 'cloudformation',
    resource: 'stack',
    resourceName: `${Stack.of(scope).stackName}/*`,
  });

/** A resolved ARN as cdk-nag's findings write it. */
export function asFound(value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.map(asFound).join('');
  if (typeof value !== 'object' || value === null) return '';
  return 'Ref' in value ? `<${value.Ref}>` : Object.values(value).map(asFound).join('');
}

function allow(actions: string[], resources: string[]): PolicyStatement[] {
  return resources.length > 0 ? [new PolicyStatement({ actions, resources })] : [];
}

function arnsOf(...keys: (IKey | undefined)[]): string[] {
  return [...new Set(keys.flatMap((key) => (key ? [key.keyArn] : [])))];
}
