import { RemovalPolicy } from 'aws-cdk-lib';
import {
  AttributeType,
  BillingMode,
  type ITable,
  ProjectionType,
  Table,
  TableEncryption,
} from 'aws-cdk-lib/aws-dynamodb';
import { Construct } from 'constructs';
import { table as names } from '../lambdas/adapters/table';
import type { Settings } from './settings';

/** What the other constructs need of the table; every `ITable` has it. */
export type TableReference = Pick<ITable, 'tableName' | 'tableArn' | 'encryptionKey'>;

export interface OperationTableProps {
  readonly settings: Settings;
}

/**
 * The one table: operations, tenants and the provider. Whatever the stage, it survives the stack, because
 * without its records a message that is still somewhere would charge again.
 */
export class OperationTable extends Construct {
  readonly table: Table;

  constructor(scope: Construct, id: string, { settings }: OperationTableProps) {
    super(scope, id);
    this.table = new Table(this, 'Table', {
      partitionKey: { name: names.partitionKey, type: AttributeType.STRING },
      billingMode: BillingMode.PAY_PER_REQUEST,
      timeToLiveAttribute: names.ttlAttribute,
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
      // A key that CDK makes for a table rotates each year, and outlives the stack as the table does.
      ...(settings.customerManagedKey && { encryption: TableEncryption.CUSTOMER_MANAGED }),
      deletionProtection: true,
      removalPolicy: RemovalPolicy.RETAIN,
    });
    this.table.addGlobalSecondaryIndex({
      indexName: names.attentionIndex,
      partitionKey: { name: names.attentionPartitionKey, type: AttributeType.NUMBER },
      sortKey: { name: names.attentionSortKey, type: AttributeType.NUMBER },
      projectionType: ProjectionType.INCLUDE,
      nonKeyAttributes: [...names.attentionAttributes],
    });
  }
}
