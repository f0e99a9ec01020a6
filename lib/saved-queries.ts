import { type ILogGroup, QueryDefinition, QueryString } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import type { ChargeOnce } from './charge-once';
import type { OperationsApi } from './operations-api';

export interface SavedQueriesProps {
  readonly chargeOnce: ChargeOnce;
  readonly operationsApi: OperationsApi | undefined;
}

/** The log lines that tell of a wait: kept by the queue, in the table, or in the table by the settle of an attempt. */
export const isDeferral =
  'message in ["message deferred", "wait kept in the table"] or (message = "operation queued" and ispresent(dueAt))';

const told = ['@timestamp', 'message', 'from', 'to', 'attempt', 'outcome', 'reason', 'errorCode'];

/** The questions that an operator asks of the logs, in the console of CloudWatch Logs Insights. */
export class SavedQueries extends Construct {
  constructor(scope: Construct, id: string, { chargeOnce, operationsApi }: SavedQueriesProps) {
    super(scope, id);
    const logGroups = logGroupsOf(chargeOnce, operationsApi);
    const save = (name: string, title: string, query: QueryString) =>
      new QueryDefinition(this, name, {
        queryDefinitionName: `${this.node.path}/${title}`,
        queryString: query,
        logGroups: [...logGroups],
      });

    save(
      'OneOperation',
      "One operation's life",
      new QueryString({
        fields: [
          ...told,
          'parkedReason',
          'problem',
          'found',
          'dueAt',
          'providerRef',
          'by',
          'messageId',
          'receiveCount',
          'requestId',
        ],
        filterStatements: ['tenantId = "TENANT" and operationId = "OPERATION"'],
        sort: '@timestamp asc',
        limit: 1000,
      }),
    );
    save(
      'FailuresByCode',
      'Failures by code',
      new QueryString({
        fields: ['type', 'coalesce(errorCode, parkedReason) as code'],
        filterStatements: ['to in ["failed", "parked"]'],
        statsStatements: ['count(*) as operations by type, code'],
        sort: 'operations desc',
      }),
    );
    save(
      'DeferralsByTenant',
      'Deferrals by tenant',
      new QueryString({
        filterStatements: [isDeferral],
        statsStatements: ['count(*) as deferrals by tenantId, reason'],
        sort: 'deferrals desc',
        limit: 100,
      }),
    );
    save(
      'DeadLettered',
      'Dead-lettered messages',
      new QueryString({
        fields: [
          '@timestamp',
          'tenantId',
          'operationId',
          'type',
          'reason',
          'problem',
          'messageId',
          'requestId',
        ],
        filterStatements: ['message like /^message dead-lettered/'],
        sort: '@timestamp desc',
        limit: 100,
      }),
    );
  }
}

/** Of all functions that tell of operations. */
function logGroupsOf(
  { worker, reconciler, operator }: ChargeOnce,
  api: OperationsApi | undefined,
): readonly ILogGroup[] {
  const functions = [worker.service, reconciler.service, operator.service];
  if (api) functions.push(api.accept, api.cancel, api.getOperation);
  return functions.map(({ logGroup }) => logGroup);
}
