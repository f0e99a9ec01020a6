import { isDeepStrictEqual } from 'node:util';
import {
  DescribeContinuousBackupsCommand,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  UpdateContinuousBackupsCommand,
  UpdateTableCommand,
  UpdateTimeToLiveCommand,
} from '@aws-sdk/client-dynamodb';
import { type QueueAttributeName, SetQueueAttributesCommand } from '@aws-sdk/client-sqs';
import * as z from 'zod/mini';
import type { Template } from './cdk';
import type { Deployed } from './deployed';

/** One property that the template gives to a resource, and how the emulator is asked for it and told it. */
interface Promised {
  readonly what: string;
  readonly said: unknown;
  readonly had: () => Promise<unknown>;
  readonly set: () => Promise<unknown>;
}

/**
 * Emulators drop some properties of a template without a word: each is set through the API, so that the run shows
 * what AWS would do, and printed. What the API does not take either is left to the assertions on the template in
 * `test/lib`. MiniStack 1.5.33 drops the table's time to live and point-in-time recovery and a function's reserved
 * concurrency (which this stage does not ask for), and knows no metrics of event source mappings.
 * @throws Error when the template itself does not say it
 */
export async function closeTemplateGaps(deployed: Deployed, template: Template): Promise<void> {
  for (const { what, said, had, set } of await promisedBy(deployed, template)) {
    if (said === undefined) throw new Error(`the template says nothing about ${what}`);
    const before = await had();
    if (isDeepStrictEqual(before, said)) continue;
    const problem = await set().then(
      () => undefined,
      (error: unknown) => error,
    );
    const after = await had();
    console.log(
      isDeepStrictEqual(after, said)
        ? `   set through the API: ${what} to ${JSON.stringify(said)}, as the template says; the emulator had ${JSON.stringify(before)}`
        : `   not in this emulator: ${what}, ${JSON.stringify(said)} in the template${problem ? ` (${problem})` : ''}`,
    );
  }
}

async function promisedBy(deployed: Deployed, template: Template): Promise<Promised[]> {
  const { QueueUrl: queueUrl, DeadLetterQueueUrl: deadLetterQueueUrl } = deployed.outputs;
  const [queueArn, deadLetterQueueArn] = await Promise.all(
    [queueUrl, deadLetterQueueUrl].map((url) => deployed.arnOf(url)),
  );
  const queues = resourcesOf(template, 'AWS::SQS::Queue');
  const queue = queues.find(({ RedrivePolicy }) => RedrivePolicy !== undefined) ?? {};
  const deadLetterQueue = queues.find(({ RedriveAllowPolicy }) => RedriveAllowPolicy !== undefined) ?? {};
  const { maxReceiveCount } = objectIn(queue.RedrivePolicy);
  const { redrivePermission } = objectIn(deadLetterQueue.RedriveAllowPolicy);
  const attribute = (url: string, name: QueueAttributeName, said: unknown): Promised => ({
    what: `${name} of ${url === queueUrl ? 'the queue' : 'the dead-letter queue'}`,
    said,
    had: async () => jsonIn((await deployed.attributes(url))[name]),
    set: () =>
      deployed.sqs.send(
        new SetQueueAttributesCommand({
          QueueUrl: url,
          Attributes: { [name]: typeof said === 'object' ? JSON.stringify(said) : String(said) },
        }),
      ),
  });
  return [
    attribute(queueUrl, 'VisibilityTimeout', queue.VisibilityTimeout),
    attribute(queueUrl, 'MessageRetentionPeriod', queue.MessageRetentionPeriod),
    attribute(
      queueUrl,
      'RedrivePolicy',
      maxReceiveCount && { deadLetterTargetArn: deadLetterQueueArn, maxReceiveCount },
    ),
    attribute(deadLetterQueueUrl, 'MessageRetentionPeriod', deadLetterQueue.MessageRetentionPeriod),
    attribute(
      deadLetterQueueUrl,
      'RedriveAllowPolicy',
      redrivePermission && { redrivePermission, sourceQueueArns: [queueArn] },
    ),
    ...tablePromises(deployed, template),
    ...mappingPromises(deployed, template),
  ];
}

function tablePromises({ dynamodb, outputs }: Deployed, template: Template): Promised[] {
  const TableName = outputs.TableName;
  const [table = {}] = resourcesOf(template, 'AWS::DynamoDB::Table');
  const { AttributeName, Enabled } = objectIn(table.TimeToLiveSpecification);
  const { PointInTimeRecoveryEnabled } = objectIn(table.PointInTimeRecoverySpecification);
  return [
    {
      what: "the table's time to live",
      said: Enabled === true ? AttributeName : undefined,
      had: async () => {
        const { TimeToLiveDescription } = await dynamodb.send(new DescribeTimeToLiveCommand({ TableName }));
        return TimeToLiveDescription?.AttributeName;
      },
      set: () =>
        dynamodb.send(
          new UpdateTimeToLiveCommand({
            TableName,
            TimeToLiveSpecification: { AttributeName: String(AttributeName), Enabled: true },
          }),
        ),
    },
    {
      what: "the table's point-in-time recovery",
      said: PointInTimeRecoveryEnabled === true ? 'ENABLED' : undefined,
      had: async () => {
        const { ContinuousBackupsDescription } = await dynamodb.send(
          new DescribeContinuousBackupsCommand({ TableName }),
        );
        return ContinuousBackupsDescription?.PointInTimeRecoveryDescription?.PointInTimeRecoveryStatus;
      },
      set: () =>
        dynamodb.send(
          new UpdateContinuousBackupsCommand({
            TableName,
            PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true },
          }),
        ),
    },
    {
      what: "the table's deletion protection",
      said: table.DeletionProtectionEnabled,
      had: async () => {
        const { Table } = await dynamodb.send(new DescribeTableCommand({ TableName }));
        return Table?.DeletionProtectionEnabled;
      },
      set: () => dynamodb.send(new UpdateTableCommand({ TableName, DeletionProtectionEnabled: true })),
    },
  ];
}

function mappingPromises(deployed: Deployed, template: Template): Promised[] {
  const [mapping = {}] = resourcesOf(template, 'AWS::Lambda::EventSourceMapping');
  return ['BatchSize', 'FunctionResponseTypes', 'ScalingConfig', 'MetricsConfig'].map((name) => ({
    what: `${name} of the event source mapping`,
    said: mapping[name],
    had: async () => (await deployed.mapping())[name],
    set: async () =>
      deployed.lambda.updateMapping((await deployed.mapping()).UUID, { [name]: mapping[name] }),
  }));
}

function resourcesOf(template: Template, type: string): Readonly<Record<string, unknown>>[] {
  return Object.values(template.Resources)
    .filter(({ Type }) => Type === type)
    .map(({ Properties = {} }) => Properties);
}

function objectIn(value: unknown): Readonly<Record<string, unknown>> {
  return z.record(z.string(), z.unknown()).safeParse(value).data ?? {};
}

/** Queue attributes are strings on the wire; numbers and policies are compared as what they are. */
function jsonIn(value: string | undefined): unknown {
  return value === undefined ? undefined : JSON.parse(value);
}
