import { table as names } from '../../lambdas/adapters/table';
import { operationsStack } from '../support/stack-factory';

const { template } = operationsStack();

test('BL-37: the TTL attribute is the one that the store writes', () => {
  template.hasResourceProperties('AWS::DynamoDB::Table', {
    TimeToLiveSpecification: { AttributeName: names.ttlAttribute, Enabled: true },
  });
});

test('the attention index has the keys that its readers query, and beside them only what the census counts', () => {
  template.hasResourceProperties('AWS::DynamoDB::Table', {
    KeySchema: [{ AttributeName: names.partitionKey, KeyType: 'HASH' }],
    GlobalSecondaryIndexes: [
      {
        IndexName: names.attentionIndex,
        KeySchema: [
          { AttributeName: names.attentionPartitionKey, KeyType: 'HASH' },
          { AttributeName: names.attentionSortKey, KeyType: 'RANGE' },
        ],
        Projection: { ProjectionType: 'INCLUDE', NonKeyAttributes: names.attentionAttributes },
      },
    ],
  });
});

test('the table is on demand and can be restored to any second', () => {
  template.hasResourceProperties('AWS::DynamoDB::Table', {
    BillingMode: 'PAY_PER_REQUEST',
    PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true },
  });
});

test.each([false, true])('the table outlives its stack (production: %s)', (production) => {
  operationsStack({ production }).template.hasResource('AWS::DynamoDB::Table', {
    DeletionPolicy: 'Retain',
    UpdateReplacePolicy: 'Retain',
    Properties: { DeletionProtectionEnabled: true },
  });
});

test('with customerManagedKey the table has a rotated key of its own, which outlives the stack as it does', () => {
  const { template: keyed } = operationsStack({ customerManagedKey: true });
  const [key] = Object.keys(keyed.findResources('AWS::KMS::Key')).filter((id) =>
    id.includes('OperationTable'),
  );
  keyed.hasResourceProperties('AWS::DynamoDB::Table', {
    SSESpecification: { SSEEnabled: true, SSEType: 'KMS', KMSMasterKeyId: { 'Fn::GetAtt': [key, 'Arn'] } },
  });
  expect(keyed.findResources('AWS::KMS::Key')[key ?? '']).toMatchObject({
    DeletionPolicy: 'Retain',
    UpdateReplacePolicy: 'Retain',
    Properties: { EnableKeyRotation: true },
  });
});
