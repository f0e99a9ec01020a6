import { randomBytes } from 'node:crypto';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { SQSClient } from '@aws-sdk/client-sqs';
import { DynamoDbStore } from '../adapters/dynamodb-store';
import { MessageVisibility } from '../adapters/sqs-visibility';
import { fixedKey, secretKey } from '../adapters/stripe-key';
import { StripeProvider } from '../adapters/stripe-provider';
import type { AttemptPorts } from '../operation/attempt';
import { type Limits, limitConflicts, settleReserveMs, unknownLimits } from '../operation/limits';
import { type WorkerEnvironment, workerEnvironment } from './env';
import { Telemetry } from './telemetry';

/** What a worker process keeps between invocations: clients and settings, no state of any operation. */
export interface Worker {
  readonly ports: Omit<AttemptPorts, 'telemetry'>;
  readonly visibility: MessageVisibility;
  readonly telemetry: Telemetry;
}

/** @throws EnvironmentError when a variable is missing or wrong, so that the function never starts */
export function createWorker(variables: Readonly<Record<string, string | undefined>>): Worker {
  const environment = workerEnvironment(variables);
  const { limits } = environment;
  const telemetry = new Telemetry(environment.stage, limits.maxReceiveCount);
  warnOf(environment, telemetry);
  const clock = () => Date.now();
  const apiKey =
    'secretId' in environment.stripeKey
      ? secretKey(new SecretsManagerClient(clientDefaults(limits)), environment.stripeKey.secretId, (error) =>
          telemetry.failed('the Stripe API key could not be read', error),
        )
      : fixedKey(environment.stripeKey.value);
  const store = new DynamoDbStore(
    new DynamoDBClient(clientDefaults(limits)),
    environment.operationsTable,
    limits,
  );
  return {
    ports: {
      store,
      provider: new StripeProvider(apiKey, clock, environment.stripeApiBase),
      clock,
      newClaimId: () => randomBytes(12).toString('base64url'),
      random: Math.random,
      limits,
      providerKeyPrefix: environment.providerKeyPrefix,
    },
    visibility: new MessageVisibility(sqsClient(variables, limits), environment.queueUrl),
    telemetry,
  };
}

/** A wrong combination is refused at synth; a process that meets one anyway says so and stays safe by construction. */
function warnOf({ limits, settings }: WorkerEnvironment, telemetry: Telemetry): void {
  const unknown = unknownLimits(settings);
  if (unknown.length > 0) telemetry.warn('SETTINGS has names that this build does not know', { unknown });
  const conflicts = limitConflicts(limits);
  if (conflicts.length > 0) telemetry.warn('SETTINGS contradict each other', { conflicts });
}

/**
 * A call whose answer is lost is given up and repeated while there is time to settle: each of three tries has half
 * of the settle reserve at most. https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
 */
const clientDefaults = (limits: Limits) => {
  const timeoutMs = Math.max(250, Math.min(1000, settleReserveMs(limits) / 2));
  return {
    maxAttempts: 3,
    requestHandler: { connectionTimeout: timeoutMs, requestTimeout: timeoutMs, throwOnRequestTimeout: true },
  };
};

/** With an endpoint from the environment the queue's URL is only a name; the SDK would otherwise send to the URL's host. */
function sqsClient(variables: Readonly<Record<string, string | undefined>>, limits: Limits): SQSClient {
  const endpoint = variables.AWS_ENDPOINT_URL_SQS || variables.AWS_ENDPOINT_URL;
  return new SQSClient({ ...clientDefaults(limits), ...(endpoint ? { endpoint } : {}) });
}
