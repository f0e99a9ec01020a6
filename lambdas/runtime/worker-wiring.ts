import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { DynamoDbServiceCalls } from '../adapters/dynamodb-service-calls';
import { MessageVisibility } from '../adapters/sqs-visibility';
import { fixedKey, secretKey } from '../adapters/stripe-key';
import { StripeProvider } from '../adapters/stripe-provider';
import type { AttemptPorts } from '../operation/attempt';
import { type Variables, workerEnvironment } from './env';
import type { Telemetry } from './telemetry';
import { clientDefaults, createService, newClaimId } from './wiring';

/** What a worker process keeps between invocations: clients and settings, no state of any operation. */
export interface Worker {
  readonly ports: Omit<AttemptPorts, 'telemetry'>;
  readonly visibility: MessageVisibility;
  readonly telemetry: Telemetry;
}

/** @throws EnvironmentError when a variable is missing or wrong, so that the function never starts */
export function createWorker(variables: Variables): Worker {
  const environment = workerEnvironment(variables);
  const { limits } = environment;
  const { table, store, tenants, clock, telemetry, sqs } = createService(environment, variables);
  const apiKey =
    'secretId' in environment.stripeKey
      ? secretKey(new SecretsManagerClient(clientDefaults(limits)), environment.stripeKey.secretId, (error) =>
          telemetry.failed('the Stripe API key could not be read', error),
        )
      : fixedKey(environment.stripeKey.value);
  return {
    ports: {
      store,
      tenants,
      serviceCalls: new DynamoDbServiceCalls(table, limits.providerDailyCalls),
      provider: new StripeProvider(apiKey, clock, environment.stripeApiBase, limits.customerTenantCheck),
      clock,
      newClaimId,
      random: Math.random,
      limits,
      providerKeyPrefix: environment.providerKeyPrefix,
    },
    visibility: new MessageVisibility(sqs, environment.queueUrl),
    telemetry,
  };
}
