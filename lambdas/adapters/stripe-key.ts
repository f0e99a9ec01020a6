import { GetSecretValueCommand, type SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { inTime } from './deadline';

/** Where the Stripe API key comes from. Undefined while nobody has set it: then work waits, and nothing is parked. */
export interface ApiKey {
  current(): Promise<string | undefined>;
  /** Asks the source again: after a rotation the cached key is refused. */
  reread(): Promise<string | undefined>;
}

/** A secret or restricted key. Anything else is the placeholder that the stack was created with. https://docs.stripe.com/keys */
const apiKeyIn = (value: string): string | undefined =>
  /^(sk|rk)_[A-Za-z0-9_]+$/.test(value.trim()) ? value.trim() : undefined;

/** A key from the environment, on a laptop. */
export function fixedKey(value: string): ApiKey {
  const key = async () => apiKeyIn(value);
  return { current: key, reread: key };
}

/** A key from Secrets Manager, read once per process, and again when asked or while it is the placeholder. */
export function secretKey(
  client: SecretsManagerClient,
  secretId: string,
  onUnreadable: (error: unknown) => void,
): ApiKey {
  let cached: string | undefined;
  let reading: Promise<string | undefined> | undefined;
  const read = async (): Promise<string | undefined> => {
    try {
      const { SecretString } = await client.send(new GetSecretValueCommand({ SecretId: secretId }), inTime());
      cached = apiKeyIn(SecretString ?? '');
    } catch (error) {
      // Work waits for the key, and a key that was read before stays good.
      onUnreadable(error);
    }
    return cached;
  };
  // A batch of refused calls asks once.
  const reread = (): Promise<string | undefined> => {
    reading ??= read().finally(() => {
      reading = undefined;
    });
    return reading;
  };
  return { current: async () => cached ?? reread(), reread };
}
