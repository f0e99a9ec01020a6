import { SecretValue, Stack, Validations } from 'aws-cdk-lib';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { Construct } from 'constructs';
import { AccessPolicies } from './access-policies';
import { adoptQueues, type ExistingQueues } from './existing-queues';
import { OperationTable, type TableReference } from './operation-table';
import { Operator } from './operator';
import { Reconciler } from './reconciler';
import type { SecretReference, ServiceParts } from './service-function';
import { type Settings, type SettingsOverrides, settingsFrom } from './settings';
import { stackNameOf } from './stack-name';
import { type QueuePair, WorkQueue } from './work-queue';
import { Worker } from './worker';

/** What the secret holds until someone sets the Stripe key. The worker defers jobs while it does. */
export const stripeKeyPlaceholder = 'placeholder-set-me';

export interface ChargeOnceProps {
  /**
   * The settings that differ from their defaults.
   * @default - every default of `lambdas/operation/limits.ts` and `lib/settings.ts`, in stage `dev`
   */
  readonly settings?: SettingsOverrides;
  /**
   * A standard queue of your own with its dead-letter queue.
   * @default - both are created
   */
  readonly queues?: ExistingQueues;
  /**
   * A table of your own with the key, index and TTL attribute of `lambdas/adapters/table.ts`.
   * @default - one is created; it survives the stack
   */
  readonly table?: TableReference;
  /**
   * A secret of your own whose whole value is the Stripe key.
   * @default - one is created with a placeholder; `setStripeKeyCommand` sets it
   */
  readonly secret?: SecretReference;
  /**
   * The KMS key of the queues. The key policy of an imported key must let IAM policies of this account grant its use.
   * @default - SQS's own encryption; for queues of your own, the key that they carry
   */
  readonly encryptionKey?: IKey;
}

/** Queue, worker, reconciler, operator's function and table: paid jobs whose retries are safe. Any stack can have one or several. */
export class ChargeOnce extends Construct implements ServiceParts {
  readonly settings: Settings;
  readonly queues: QueuePair;
  readonly table: TableReference;
  readonly providerKeyPrefix: string;
  readonly secret: SecretReference;
  readonly worker: Worker;
  readonly reconciler: Reconciler;
  readonly operator: Operator;
  readonly access: AccessPolicies;
  /** The shell command that puts the variable STRIPE_API_KEY into the secret. */
  readonly setStripeKeyCommand: string;

  /** @throws Error listing every setting, or every property of a given queue, that would not be safe */
  constructor(scope: Construct, id: string, props: ChargeOnceProps = {}) {
    super(scope, id);
    this.settings = settingsFrom(props.settings);
    const { settings } = this;
    this.queues = props.queues
      ? adoptQueues(props.queues, settings, props.encryptionKey)
      : new WorkQueue(this, 'WorkQueue', {
          settings,
          ...(props.encryptionKey && { encryptionKey: props.encryptionKey }),
        });
    this.table = props.table ?? new OperationTable(this, 'OperationTable', { settings }).table;
    this.secret = props.secret ?? stripeKeySecret(this);
    this.providerKeyPrefix = settings.providerKeyPrefix ?? defaultKeyPrefix(this);
    this.worker = new Worker(this, 'Worker', { parts: this, secret: this.secret });
    this.reconciler = new Reconciler(this, 'Reconciler', { parts: this, secret: this.secret });
    this.operator = new Operator(this, 'Operator', { parts: this, secret: this.secret });
    this.access = new AccessPolicies(this, 'Access', { chargeOnce: this });
    this.setStripeKeyCommand = `aws secretsmanager put-secret-value --region ${Stack.of(this).region} --secret-id ${this.secret.secretArn} --secret-string "$STRIPE_API_KEY"`;
  }
}

function stripeKeySecret(scope: Construct): Secret {
  const secret = new Secret(scope, 'StripeApiKey', {
    description: 'The Stripe API key that the charge-once worker charges with',
    // CloudFormation writes a value only when this text changes, so a deploy never undoes the real key.
    secretStringValue: SecretValue.unsafePlainText(stripeKeyPlaceholder),
  });
  Validations.of(secret).acknowledge({
    id: 'AwsSolutions-SMG4',
    reason:
      "A function that makes Stripe keys would need one that may do more than the worker's: a person rolls it in the Stripe dashboard.",
  });
  return secret;
}

/** Stack and region, and the construct's place: two in one stack that shared keys would take each other's charges for their own. */
function defaultKeyPrefix(scope: Construct): string {
  return `${stackNameOf(scope, 60)}-${Stack.of(scope).region}-${scope.node.addr.slice(-8)}`;
}
