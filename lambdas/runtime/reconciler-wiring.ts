import { DynamoDbOpen } from '../adapters/dynamodb-open';
import { DynamoDbProviderSwitch } from '../adapters/dynamodb-provider-switch';
import { SqsJobQueue } from '../adapters/sqs-job-queue';
import type { BringOnPorts } from '../operation/bring-on';
import type { CensusPorts } from '../operation/census';
import type { OperatePorts } from '../operation/operate';
import { type Variables, workerEnvironment } from './env';
import { createProvider } from './provider-wiring';
import type { Telemetry } from './telemetry';
import { createService } from './wiring';

/** @throws EnvironmentError when a variable is missing or wrong, so that the function never starts */
export function createReconciler(variables: Variables): {
  readonly ports: (requestId: string) => BringOnPorts;
  readonly census: CensusPorts;
  readonly telemetry: Telemetry;
} {
  const { portsOf, census, telemetry } = create(variables);
  return { ports: portsOf, census, telemetry };
}

/** @throws EnvironmentError when a variable is missing or wrong, so that the function never starts */
export function createOperator(variables: Variables): {
  readonly ports: (requestId: string) => OperatePorts;
  readonly telemetry: Telemetry;
} {
  const { portsOf, telemetry } = create(variables);
  return { ports: portsOf, telemetry };
}

function create(variables: Variables) {
  const environment = workerEnvironment(variables);
  const { limits, queueUrl } = environment;
  const { table, unrepeated, store, tenants, clock, telemetry, sqs } = createService(environment, variables);
  const ports = {
    store,
    tenants,
    due: store,
    queue: new SqsJobQueue(sqs, queueUrl, clock),
    provider: createProvider(environment, clock, telemetry),
    providerSwitch: new DynamoDbProviderSwitch(table, unrepeated, limits),
    providerTelemetry: telemetry,
    clock,
    random: Math.random,
    limits,
    providerKeyPrefix: environment.providerKeyPrefix,
  };
  return {
    portsOf: (requestId: string) => ({ ...ports, telemetry: telemetry.of({ requestId }) }),
    census: { open: new DynamoDbOpen(table, limits.openShards), provider: ports.providerSwitch, clock },
    telemetry,
  };
}
