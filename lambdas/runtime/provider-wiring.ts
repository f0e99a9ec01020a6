import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { fixedKey, secretKey } from '../adapters/stripe-key';
import { StripeProvider } from '../adapters/stripe-provider';
import type { Clock } from '../operation/ports';
import type { WorkerEnvironment } from './env';
import type { Telemetry } from './telemetry';
import { clientDefaults } from './wiring';

/** The way to Stripe of the functions that call it. */
export function createProvider(
  { stripeKey, stripeApiBase, limits }: WorkerEnvironment,
  clock: Clock,
  telemetry: Telemetry,
): StripeProvider {
  const apiKey =
    'secretId' in stripeKey
      ? secretKey(new SecretsManagerClient(clientDefaults(limits)), stripeKey.secretId, (error) =>
          telemetry.failed('the Stripe API key could not be read', error),
        )
      : fixedKey(stripeKey.value);
  return new StripeProvider(apiKey, clock, stripeApiBase, limits.customerTenantCheck);
}
