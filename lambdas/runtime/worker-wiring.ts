import { DynamoDbProviderSwitch } from '../adapters/dynamodb-provider-switch';
import { DynamoDbServiceCalls } from '../adapters/dynamodb-service-calls';
import { MessageVisibility } from '../adapters/sqs-visibility';
import type { AttemptPorts } from '../operation/attempt';
import type { OperationTelemetry, ProviderSwitch } from '../operation/ports';
import { type Variables, workerEnvironment } from './env';
import { createProvider } from './provider-wiring';
import type { Source, Telemetry } from './telemetry';
import { createService, newClaimId } from './wiring';

/** What a worker process keeps between invocations: clients and settings, no state of any operation. */
export interface Worker {
  readonly ports: Omit<AttemptPorts, 'telemetry' | 'gate'>;
  readonly providerSwitch: ProviderSwitch;
  readonly visibility: Pick<MessageVisibility, 'comesBackIn'>;
  readonly telemetry: WorkerTelemetry;
}

/** What a worker tells of its batches and deliveries. */
export interface WorkerTelemetry extends Pick<Telemetry, Exclude<keyof Telemetry, 'of'>> {
  of(source: Source): OperationTelemetry & Pick<ReturnType<Telemetry['of']>, 'disposed'>;
}

/** @throws EnvironmentError when a variable is missing or wrong, so that the function never starts */
export function createWorker(variables: Variables): Worker {
  const environment = workerEnvironment(variables);
  const { limits } = environment;
  const { table, unrepeated, store, tenants, clock, telemetry, sqs } = createService(environment, variables);
  return {
    ports: {
      store,
      tenants,
      serviceCalls: new DynamoDbServiceCalls(table, limits.providerDailyCalls),
      provider: createProvider(environment, clock, telemetry),
      clock,
      newClaimId,
      random: Math.random,
      limits,
      providerKeyPrefix: environment.providerKeyPrefix,
    },
    providerSwitch: new DynamoDbProviderSwitch(table, unrepeated, limits),
    visibility: new MessageVisibility(sqs, environment.queueUrl),
    telemetry,
  };
}
