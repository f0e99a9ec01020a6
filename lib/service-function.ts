import { join } from 'node:path';
import { type Duration, RemovalPolicy } from 'aws-cdk-lib';
import { PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { type Alias, Architecture, Runtime } from 'aws-cdk-lib/aws-lambda';
import { NodejsFunction, OutputFormat } from 'aws-cdk-lib/aws-lambda-nodejs';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import type { Settings } from './settings';

const projectRoot = join(__dirname, '..');

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
};

export interface ServiceFunctionProps {
  /** The file of `lambdas/` that exports `handler`, without its extension. */
  readonly entry: string;
  readonly description: string;
  readonly settings: Settings;
  readonly timeout: Duration;
  /** Every variable that the handler reads. */
  readonly environment: Readonly<Record<string, string>>;
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

  constructor(scope: Construct, id: string, props: ServiceFunctionProps) {
    super(scope, id);
    const { settings } = props;
    this.logGroup = new LogGroup(this, 'LogGroup', {
      retention: settings.logRetentionDays,
      removalPolicy: settings.production ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY,
    });
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
      bundling: { ...bundling, format: OutputFormat.CJS },
      awsSdkConnectionReuse: false,
      environment: { ...props.environment, NODE_OPTIONS: '--enable-source-maps' },
      ...(props.reservedConcurrency !== undefined && {
        reservedConcurrentExecutions: props.reservedConcurrency,
      }),
    });
    this.alias = this.function.addAlias('live');
  }

  /** Lets the function do `actions` on exactly `resources`. */
  allow(actions: readonly string[], resources: readonly string[]): void {
    this.role.addToPolicy(new PolicyStatement({ actions: [...actions], resources: [...resources] }));
  }
}
