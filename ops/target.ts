import { CloudFormationClient, DescribeStacksCommand } from '@aws-sdk/client-cloudformation';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { SQSClient } from '@aws-sdk/client-sqs';
import * as z from 'zod/mini';
import { TableClient } from '../lambdas/adapters/table-client';
import { type Limits, limitsFrom } from '../lambdas/operation/limits';
import { readLaptopFile } from '../local/laptop-file';
import { Failure } from './failure';

/** The deployed or running service that a command works on, with all that the commands need of it. */
export interface Target {
  /** As a person knows it. */
  readonly name: string;
  /** The options that name it again, such as `--stack charge-once-dev`; empty for the laptop. */
  readonly options: string;
  readonly region: string;
  /** Of the laptop's SQS; undefined for AWS's own. */
  readonly sqsEndpoint: string | undefined;
  readonly queueUrl: string;
  readonly deadLetterQueueUrl: string;
  /** Undefined where no API is served. */
  readonly apiUrl: string | undefined;
  /** Names of the functions that change operations; undefined where an older build is deployed. */
  readonly functions: { readonly operate: string | undefined; readonly reconcile: string | undefined };
  readonly limits: Limits;
  readonly sqs: SQSClient;
  readonly lambda: LambdaClient;
  readonly table: TableClient;
  /** The service's time, in milliseconds since the epoch. The laptop's clock may be ahead. */
  now(): number;
  close(): void;
}

export interface TargetOptions {
  /** Name of a deployed stack; the laptop when undefined. */
  readonly stack?: string | undefined;
  /** @default what the AWS SDK finds in the environment and the profile */
  readonly region?: string | undefined;
}

/** An AWS call that hangs is given up: no command waits longer for one answer, in milliseconds. */
const requestHandler = { connectionTimeout: 5_000, requestTimeout: 65_000 };

/** @throws Failure when there is no such stack, or no laptop stack runs */
export function findTarget({ stack, region }: TargetOptions, projectRoot: string): Target | Promise<Target> {
  return stack === undefined ? laptop(projectRoot) : deployed(stack, region);
}

function laptop(projectRoot: string): Target {
  const file = readLaptopFile(projectRoot);
  const remedy = 'Start it with `npm start` in another terminal, or name a deployed stack with --stack NAME.';
  if (!file) throw new Failure(`No laptop stack runs here. ${remedy}`);
  if (!isRunning(file.pid)) {
    throw new Failure(
      `No laptop stack runs here: .laptop.json is left over from process ${file.pid}, which has ended. ${remedy}`,
    );
  }
  const { endpoints, region, queueUrl, deadLetterQueueUrl, functions, clockOffsetMs } = file;
  const config = { region, credentials: { accessKeyId: 'local', secretAccessKey: 'local' }, requestHandler };
  return targetFrom({
    name: 'the laptop stack',
    options: '',
    region,
    sqsEndpoint: endpoints.sqs,
    queueUrl,
    deadLetterQueueUrl,
    apiUrl: endpoints.api,
    functions,
    limits: limitsFrom(file.settings),
    sqs: new SQSClient({ ...config, endpoint: endpoints.sqs }),
    lambda: new LambdaClient({ ...config, endpoint: endpoints.lambda }),
    dynamodb: new DynamoDBClient({ ...config, endpoint: endpoints.dynamodb }),
    tableName: file.tableName,
    now: () => Date.now() + clockOffsetMs,
  });
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // Somebody else's process is there, and may not be signalled.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

const outputsSchema = z.object({
  QueueUrl: z.string(),
  DeadLetterQueueUrl: z.string(),
  TableName: z.string(),
  ApiUrl: z.optional(z.string()),
  OperateFunctionName: z.optional(z.string()),
  ReconcileFunctionName: z.optional(z.string()),
  Settings: z.optional(z.string()),
});

async function deployed(stack: string, region: string | undefined): Promise<Target> {
  const config = { ...(region === undefined ? {} : { region }), requestHandler };
  const outputs = await outputsOf(stack, config);
  const sqs = new SQSClient(config);
  const resolved = await sqs.config.region();
  return targetFrom({
    name: `stack ${stack} (${resolved})`,
    options: `--stack ${stack}${region === undefined ? '' : ` --region ${region}`}`,
    region: resolved,
    sqsEndpoint: undefined,
    queueUrl: outputs.QueueUrl,
    deadLetterQueueUrl: outputs.DeadLetterQueueUrl,
    apiUrl: outputs.ApiUrl,
    functions: { operate: outputs.OperateFunctionName, reconcile: outputs.ReconcileFunctionName },
    limits: limitsFrom(JSON.parse(outputs.Settings ?? '{}')),
    sqs,
    lambda: new LambdaClient(config),
    dynamodb: new DynamoDBClient(config),
    tableName: outputs.TableName,
    now: Date.now,
  });
}

async function outputsOf(stack: string, config: object): Promise<z.infer<typeof outputsSchema>> {
  const cloudFormation = new CloudFormationClient(config);
  try {
    const { Stacks: [found] = [] } = await cloudFormation.send(
      new DescribeStacksCommand({ StackName: stack }),
    );
    const outputs = outputsSchema.safeParse(
      Object.fromEntries(
        (found?.Outputs ?? []).map(({ OutputKey, OutputValue }) => [OutputKey, OutputValue]),
      ),
    );
    if (outputs.success) return outputs.data;
    const missing = outputs.error.issues.map(({ path }) => path.join('.')).join(', ');
    throw new Failure(`Stack ${stack} is no charge-once stack: it has no output ${missing}.`);
  } catch (error) {
    if (error instanceof Error && error.name === 'ValidationError')
      throw new Failure(
        `There is no stack ${stack} in ${await cloudFormation.config.region()}: ${error.message}.`,
      );
    throw error;
  } finally {
    cloudFormation.destroy();
  }
}

interface Parts extends Omit<Target, 'table' | 'close'> {
  readonly dynamodb: DynamoDBClient;
  readonly tableName: string;
}

function targetFrom({ dynamodb, tableName, ...parts }: Parts): Target {
  return {
    ...parts,
    table: new TableClient(dynamodb, tableName),
    close: () => {
      for (const client of [parts.sqs, parts.lambda, dynamodb]) client.destroy();
    },
  };
}
