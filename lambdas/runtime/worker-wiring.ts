import { DynamoDbProviderSwitch } from '../adapters/dynamodb-provider-switch';
import { DynamoDbServiceCalls } from '../adapters/dynamodb-service-calls';
import { MessageVisibility } from '../adapters/sqs-visibility';
import type { AttemptPorts } from '../operation/attempt';
import type { ProviderSwitch } from '../operation/ports';
import { type Variables, workerEnvironment } from './env';
import { createProvider } from './provider-wiring';
import type { Telemetry } from './telemetry';
import { createService, newClaimId } from './wiring';

/** What a worker process keeps between invocations: clients and settings, no state of any operation. */
export interface Worker {
  readonly ports: Omit<AttemptPorts, 'telemetry' | 'gate'>;
  readonly providerSwitch: ProviderSwitch;
  readonly visibility: MessageVisibility;
  readonly telemetry: Telemetry;
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
