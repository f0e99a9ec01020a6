import { join } from 'node:path';
import { type Duration, RemovalPolicy, Validations } from 'aws-cdk-lib';
import { PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { type Alias, Architecture, Runtime, Tracing } from 'aws-cdk-lib/aws-lambda';
import { NodejsFunction, OutputFormat } from 'aws-cdk-lib/aws-lambda-nodejs';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import { Construct } from 'constructs';
import { table as names } from '../lambdas/adapters/table';
import { GradualDeployment } from './gradual-deployment';
import type { TableReference } from './operation-table';
import { handlerSettings, type Settings } from './settings';
import type { QueuePair } from './work-queue';

const projectRoot = join(__dirname, '..');

/** What stands in a bundle in place of a package, from the project's root. */
export const replaced = { '@aws-sdk/credential-provider-node': './lambdas/runtime/credentials.ts' };

/** How every handler is bundled. CommonJS loads faster than ESM here: docs/benchmarks.md. */
export const bundling = {
  // The runtime's own AWS SDK is older than ours and changes without a deploy: everything goes inside.
  externalModules: [],
  // The ES modules of a package first: only they let esbuild leave out what nobody uses.
  mainFields: ['module', 'main'],
  target: 'node24',
  minify: true,
  sourceMap: true,
  sourcesContent: false,
  esbuildArgs: { '--alias': Object.entries(replaced).map(([name, file]) => `${name}=${file}`) },
};

/** With a table's own key DynamoDB reads and writes as the caller. https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html#dynamodb-kms-authz */
const readingKeyActions = ['kms:Decrypt', 'kms:DescribeKey'];
const writingKeyActions = [
  'kms:Encrypt',
  'kms:GenerateDataKey',
  'kms:GenerateDataKeyWithoutPlaintext',
  'kms:ReEncryptFrom',
  'kms:ReEncryptTo',
];

/** What every function works on and is told about. A `ChargeOnce` is one. */
export interface ServiceParts {
  readonly settings: Settings;
  readonly queues: QueuePair;
  readonly table: TableReference;
  /**
   * Starts every provider key of this service, and of no other on the same Stripe account. The key is stored when
   * an operation is accepted or first claimed, so all functions are told the same.
   */
  readonly providerKeyPrefix: string;
}

/** What is needed of the secret; every `ISecret` has it. */
export type SecretReference = Pick<ISecret, 'secretArn' | 'encryptionKey'> & {
  readonly secretFullArn?: string | undefined;
};

export interface ServiceFunctionProps {
  /** The file of `lambdas/` that exports `handler`, without its extension. */
  readonly entry: string;
  readonly description: string;
  readonly parts: ServiceParts;
  readonly timeout: Duration;
  /**
   * Holds the Stripe key and nothing else, for a function that calls Stripe.
   * @default - the function may not read it
   */
  readonly secret?: SecretReference;
  /**
   * What the handler reads beside that.
   * @default - nothing
   */
  readonly environment?: Readonly<Record<string, string>>;
  /**
   * Concurrency taken from the account's for this function alone.
   * @default - none
   */
  readonly reservedConcurrency?: number | undefined;
}

/** One bundled handler behind the alias `live`, with its own log group and a role that may do nothing else. */
export class ServiceFunction extends Construct {
  readonly function: NodejsFunction;
  /** What event sources invoke: a version that is published whole, and rolled back by moving the alias. */
  readonly alias: Alias;
  readonly role: Role;
  readonly logGroup: LogGroup;
  /** None where a new version takes over at once. */
  readonly deployment: GradualDeployment | undefined;
  private readonly parts: ServiceParts;

  constructor(scope: Construct, id: string, props: ServiceFunctionProps) {
    super(scope, id);
    this.parts = props.parts;
    this.logGroup = logGroup(this, 'LogGroup', props.parts.settings);
    this.role = new Role(this, 'Role', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
    // The managed basic execution role would let the function write to every log group of the account.
    this.allow(['logs:CreateLogStream', 'logs:PutLogEvents'], [this.logGroup.logGroupArn]);

    this.function = new NodejsFunction(this, 'Function', {
      description: props.description,
      entry: join(projectRoot, 'lambdas', `${props.entry}.ts`),
      projectRoot,
      depsLockFilePath: join(projectRoot, 'package-lock.json'),
      runtime: Runtime.NODEJS_24_X,
      architecture: Architecture.ARM_64,
      memorySize: 512,
      timeout: props.timeout,
      role: this.role,
      logGroup: this.logGroup,
      tracing: Tracing.ACTIVE,
      bundling: { ...bundling, format: OutputFormat.CJS },
      awsSdkConnectionReuse: false,
      environment: {
        ...sharedEnvironment(props.parts),
        ...(props.secret && stripeEnvironment(props.parts, props.secret)),
        ...props.environment,
        NODE_OPTIONS: '--enable-source-maps',
      },
      ...(props.reservedConcurrency !== undefined && {
        reservedConcurrentExecutions: props.reservedConcurrency,
      }),
    });
    this.alias = this.function.addAlias('live');
    Validations.of(this.role).acknowledge({
      id: 'AwsSolutions-IAM5[Resource::*]',
      reason: 'xray:PutTraceSegments and xray:PutTelemetryRecords take no resource.',
    });
    const { alias, logGroup: log } = this;
    const { gradualDeployment: shift, runbookUrl } = props.parts.settings;
    this.deployment =
      shift === 'none'
        ? undefined
        : new GradualDeployment(this, 'Deployment', { alias, logGroup: log, shift, runbookUrl });
    if (props.secret) this.allowSecret(props.secret);
  }

  private allowSecret({ secretArn, secretFullArn, encryptionKey }: SecretReference): void {
    // An imported secret's ARN may lack the six characters that Secrets Manager adds to every name.
    this.allow(['secretsmanager:GetSecretValue'], [secretFullArn ?? `${secretArn}-??????`]);
    if (encryptionKey) this.allow(['kms:Decrypt'], [encryptionKey.keyArn]);
  }

  /** Lets the function do `actions` on exactly `resources`. */
  allow(actions: readonly string[], resources: readonly string[]): void {
    this.role.addToPolicy(new PolicyStatement({ actions: [...actions], resources: [...resources] }));
  }

  /** Lets the function look records up, and change single ones under a condition when it `writes`. */
  allowRecords({ writes }: { readonly writes: boolean }): void {
    const { tableArn, encryptionKey } = this.parts.table;
    // An update that was refused without saying why is followed by a GetItem.
    const writing = writes ? ['dynamodb:GetItem', 'dynamodb:UpdateItem'] : [];
    this.allow(['dynamodb:BatchGetItem', ...writing], [tableArn]);
    if (encryptionKey)
      this.allow([...readingKeyActions, ...(writes ? writingKeyActions : [])], [encryptionKey.keyArn]);
  }

  /** Lets the function find the operations that are due, whatever the number of records. */
  allowDueOperations(): void {
    this.allow(['dynamodb:Query'], [`${this.parts.table.tableArn}/index/${names.attentionIndex}`]);
  }

  /** Lets the function send jobs. Never the worker: Lambda ends a chain of a queue and a function that sends to it. https://docs.aws.amazon.com/lambda/latest/dg/invocation-recursion.html */
  allowSending(): void {
    const { queue, queueKey } = this.parts.queues;
    this.allow(['sqs:SendMessage'], [queue.queueArn]);
    // https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
    if (queueKey) this.allow(['kms:GenerateDataKey', 'kms:Decrypt'], [queueKey.keyArn]);
  }
}

/** A log group with retention, which goes with its stack unless that is production. */
export function logGroup(scope: Construct, id: string, settings: Settings): LogGroup {
  return new LogGroup(scope, id, {
    retention: settings.logRetentionDays,
    removalPolicy: settings.production ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY,
  });
}

const stripeEnvironment = ({ settings }: ServiceParts, { secretArn }: SecretReference) => ({
  STRIPE_API_KEY_SECRET_ID: secretArn,
  ...(settings.stripeApiBase !== undefined && { STRIPE_API_BASE: settings.stripeApiBase }),
});

function sharedEnvironment({ settings, queues, table, providerKeyPrefix }: ServiceParts) {
  return {
    OPERATIONS_TABLE: table.tableName,
    QUEUE_URL: queues.queue.queueUrl,
    SETTINGS: handlerSettings(settings),
    STAGE: settings.stage,
    PROVIDER_KEY_PREFIX: providerKeyPrefix,
  };
}
