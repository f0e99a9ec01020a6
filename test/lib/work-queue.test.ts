import { Match } from 'aws-cdk-lib/assertions';
import { operationsStack } from '../support/stack-factory';

const { template } = operationsStack();
const dayInSeconds = 86_400;
const isWorkQueue = { RedrivePolicy: Match.anyValue() };
const isDeadLetterQueue = { RedriveAllowPolicy: Match.anyValue() };

test.each([
  [30, 0, 180],
  [120, 0, 720],
  [300, 60, 1860],
])(
  'BL-45: with a timeout of %i s and a window of %i s a message is hidden for %i s',
  (workerTimeoutSeconds, batchWindowSeconds, VisibilityTimeout) => {
    operationsStack({ workerTimeoutSeconds, batchWindowSeconds }).template.hasResourceProperties(
      'AWS::SQS::Queue',
      { ...isWorkQueue, VisibilityTimeout },
    );
  },
);

test('a message moves to the dead-letter queue after maxReceiveCount deliveries', () => {
  const [deadLetterQueue] = Object.keys(
    template.findResources('AWS::SQS::Queue', { Properties: isDeadLetterQueue }),
  );
  template.hasResourceProperties('AWS::SQS::Queue', {
    RedrivePolicy: { deadLetterTargetArn: { 'Fn::GetAtt': [deadLetterQueue, 'Arn'] }, maxReceiveCount: 8 },
  });
});

test('only this queue may use the dead-letter queue', () => {
  const [queue = {}] = Object.values(template.findResources('AWS::SQS::Queue', { Properties: isWorkQueue }));
  const [, [prefix, stackUuid]] = queue.Properties.QueueName['Fn::Join'];
  template.hasResourceProperties('AWS::SQS::Queue', {
    RedriveAllowPolicy: {
      redrivePermission: 'byQueue',
      sourceQueueArns: [
        {
          'Fn::Join': [
            '',
            [
              'arn:',
              { Ref: 'AWS::Partition' },
              ':sqs:',
              { Ref: 'AWS::Region' },
              ':',
              { Ref: 'AWS::AccountId' },
              `:${prefix}`,
              stackUuid,
            ],
          ],
        },
      ],
    },
  });
});

test('BL-29: dead letters are kept for 14 days, longer than the queue and the way there together', () => {
  template.hasResourceProperties('AWS::SQS::Queue', {
    ...isDeadLetterQueue,
    MessageRetentionPeriod: 14 * dayInSeconds,
  });
  template.hasResourceProperties('AWS::SQS::Queue', {
    ...isWorkQueue,
    MessageRetentionPeriod: 4 * dayInSeconds,
  });
});

test('both queues are encrypted by SQS and refuse plain connections', () => {
  template.allResourcesProperties('AWS::SQS::Queue', { SqsManagedSseEnabled: true });
  template.resourceCountIs('AWS::SQS::QueuePolicy', 2);
  template.allResourcesProperties('AWS::SQS::QueuePolicy', {
    PolicyDocument: {
      Statement: [
        Match.objectLike({
          Effect: 'Deny',
          Action: 'sqs:*',
          Principal: { AWS: '*' },
          Condition: { Bool: { 'aws:SecureTransport': 'false' } },
        }),
      ],
    },
  });
});

test('with customerManagedKey both queues share one rotated key', () => {
  const withKey = operationsStack({ customerManagedKey: true }).template;
  const [key, ...others] = Object.keys(
    withKey.findResources('AWS::KMS::Key', { Properties: { EnableKeyRotation: true } }),
  ).filter((id) => id.includes('WorkQueue'));
  expect(others).toEqual([]);
  withKey.allResourcesProperties('AWS::SQS::Queue', { KmsMasterKeyId: { 'Fn::GetAtt': [key, 'Arn'] } });
});

test('in production the queues and their key outlive the stack', () => {
  const production = operationsStack({ production: true, customerManagedKey: true }).template;
  production.allResources('AWS::SQS::Queue', { DeletionPolicy: 'Retain', UpdateReplacePolicy: 'Retain' });
  // What the alarm topic's key encrypts is gone as soon as it is delivered.
  const keys = Object.entries(production.findResources('AWS::KMS::Key')).filter(
    ([id]) => !id.startsWith('MonitoringAlarmTopic'),
  );
  expect(keys.map(([, { DeletionPolicy }]) => DeletionPolicy)).toEqual(['Retain', 'Retain']);
});
