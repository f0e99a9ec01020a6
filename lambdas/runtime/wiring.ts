import { randomBytes } from 'node:crypto';
import { DynamoDBClient, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { SQSClient } from '@aws-sdk/client-sqs';
import toFastProperties from 'to-fast-properties';
import { endingInTime } from '../adapters/deadline';
import { DynamoDbStore } from '../adapters/dynamodb-store';
import { DynamoDbTenants } from '../adapters/dynamodb-tenants';
import { Sha256 } from '../adapters/sha256';
import { SqsJobQueue } from '../adapters/sqs-job-queue';
import { paramsVersionOf } from '../adapters/stripe-params';
import { TableClient } from '../adapters/table-client';
import type { AcceptPorts } from '../operation/accept';
import { type Limits, limitConflicts, settleReserveMs, unknownLimits } from '../operation/limits';
import { type ServiceEnvironment, serviceEnvironment, type Variables } from './env';
import { Telemetry } from './telemetry';

/** What an API function keeps: everything that accept, status and cancel need. */
export interface Api {
  readonly ports: Omit<AcceptPorts, 'telemetry'>;
  readonly telemetry: Telemetry;
  /** The claim of a JWT that names the caller's tenant. */
  readonly tenantClaim: string;
}

/** @throws EnvironmentError when a variable is missing or wrong */
export function createApi(variables: Variables): Api {
  const environment = serviceEnvironment(variables);
  const { store, tenants, clock, telemetry, sqs } = createService(environment, variables);
  const { limits, providerKeyPrefix, queueUrl } = environment;
  const queue = new SqsJobQueue(sqs, queueUrl, clock);
  const ports = {
    store,
    tenants,
    due: store,
    queue,
    clock,
    newClaimId,
    limits,
    providerKeyPrefix,
    paramsVersionOf,
  };
  return { ports, telemetry, tenantClaim: environment.tenantClaim };
}

/** What all functions share. The clients are made once per process. */
export function createService(environment: ServiceEnvironment, variables: Variables) {
  const { limits, stage, operationsTable } = environment;
  const telemetry = new Telemetry({
    service: environment.providerKeyPrefix,
    stage,
    maxReceiveCount: limits.maxReceiveCount,
    functionVersion: variables.AWS_LAMBDA_FUNCTION_VERSION,
  });
  warnOf(environment, telemetry);
  const defaults = clientDefaults(limits);
  const client = endingInTime(tableClient(defaults));
  const { requestHandler } = client.config;
  const unrepeated = tableClient({ ...defaults, requestHandler, maxAttempts: 1 });
  const table = new TableClient(client, operationsTable);
  return {
    table,
    /** Over the same connections, for what must not be sent twice. */
    unrepeated: new TableClient(unrepeated, operationsTable),
    store: new DynamoDbStore(table, limits),
    tenants: new DynamoDbTenants(table, limits),
    clock: () => Date.now(),
    telemetry,
    sqs: sqsClient(variables, limits),
  };
}

/** 96 random bits in 16 characters. */
export const newClaimId = (): string => randomBytes(12).toString('base64url');

/** A wrong combination is refused at synth; a process that meets one anyway says so and stays safe by construction. */
function warnOf({ limits, settings }: ServiceEnvironment, telemetry: Telemetry): void {
  const unknown = unknownLimits(settings);
  if (unknown.length > 0) telemetry.warn('SETTINGS has names that this build does not know', { unknown });
  const conflicts = limitConflicts(limits);
  if (conflicts.length > 0) telemetry.warn('SETTINGS contradict each other', { conflicts });
}

/**
 * A call whose answer is lost is given up and repeated while there is time to settle: each of three tries has half
 * of the settle reserve, and on a laptop a little more, because a busy one is slow. https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
 */
export const clientDefaults = (limits: Limits) => {
  const timeoutMs = Math.max(600, Math.min(1000, settleReserveMs(limits) / 2));
  return {
    maxAttempts: 3,
    requestHandler: { connectionTimeout: timeoutMs, requestTimeout: timeoutMs, throwOnRequestTimeout: true },
  };
};

/**
 * A third of an update's processor time in the SDK is what is the same each time: the chain of its middleware, and an endpoint of the
 * account, which is looked up with the credentials. The endpoint of the region is one for all. docs/decisions/0015 has the rest.
 */
const tableDefaults = { cacheMiddleware: true, accountIdEndpointMode: 'disabled', sha256: Sha256 } as const;

/** A client of the table without what it would only say of itself: a twentieth of a message's processor time. */
export function tableClient(config: DynamoDBClientConfig): DynamoDBClient {
  const client = new DynamoDBClient({ ...config, ...tableDefaults });
  // The SDK copies its configuration three times for each request.
  toFastProperties(client.config);
  for (const name of ['getUserAgentMiddleware', 'recursionDetectionMiddleware', 'loggerMiddleware'])
    client.middlewareStack.remove(name);
  return client;
}

/** With an endpoint from the environment the queue's URL is only a name; the SDK would otherwise send to the URL's host. */
function sqsClient(variables: Variables, limits: Limits): SQSClient {
  const endpoint = variables.AWS_ENDPOINT_URL_SQS || variables.AWS_ENDPOINT_URL;
  return new SQSClient({ ...clientDefaults(limits), ...(endpoint ? { endpoint } : {}) });
}
