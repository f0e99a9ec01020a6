import { once } from 'node:events';
import { createServer } from 'node:http';
import { SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { fixedKey, secretKey } from '../../../lambdas/adapters/stripe-key';

/** A secret whose value can be set; undefined: it cannot be read. */
async function secretStore(first: string | undefined) {
  let value = first;
  let reads = 0;
  const server = createServer((request, response) => {
    request.resume();
    reads += 1;
    response.writeHead(value === undefined ? 400 : 200, { 'content-type': 'application/x-amz-json-1.1' });
    response.end(
      JSON.stringify(value === undefined ? { __type: 'AccessDeniedException' } : { SecretString: value }),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const client = new SecretsManagerClient({
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    endpoint: `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`,
  });
  const unreadable: unknown[] = [];
  return {
    key: secretKey(client, 'stripe', (error) => unreadable.push(error)),
    unreadable,
    reads: () => reads,
    set: (next: string | undefined) => {
      value = next;
    },
    async stop() {
      client.destroy();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

test('a secret is read once, also by a batch that asks at the same time', async () => {
  const store = await secretStore(' sk_test_1\n');
  expect(await Promise.all([store.key.current(), store.key.current()])).toEqual(['sk_test_1', 'sk_test_1']);
  expect(await store.key.current()).toBe('sk_test_1');
  expect(store.reads()).toBe(1);
  await store.stop();
});

test('a rotated secret is seen when it is asked for again, once for a whole batch', async () => {
  const store = await secretStore('sk_test_1');
  await store.key.current();
  store.set('rk_live_2');
  expect(await Promise.all([store.key.reread(), store.key.reread()])).toEqual(['rk_live_2', 'rk_live_2']);
  expect(await store.key.current()).toBe('rk_live_2');
  expect(store.reads()).toBe(2);
  await store.stop();
});

test('a placeholder is no key, and is asked for again until somebody sets one', async () => {
  const store = await secretStore('{"set":"me"}');
  expect(await store.key.current()).toBeUndefined();
  store.set('sk_test_1');
  expect(await store.key.current()).toBe('sk_test_1');
  await store.stop();
});

test('a secret that cannot be read is said, and a key that was read before stays good', async () => {
  const store = await secretStore(undefined);
  expect(await store.key.current()).toBeUndefined();
  expect(store.unreadable).toHaveLength(1);
  store.set('sk_test_1');
  await store.key.current();
  store.set(undefined);
  expect(await store.key.reread()).toBe('sk_test_1');
  expect(store.unreadable).toHaveLength(2);
  await store.stop();
});

test.each([
  ['sk_test_1', 'sk_test_1'],
  ['rk_live_1', 'rk_live_1'],
  ['pk_live_1', undefined],
  ['', undefined],
])('a key %j from the environment is %s', async (value, key) => {
  expect(await fixedKey(value).current()).toBe(key);
  expect(await fixedKey(value).reread()).toBe(key);
});
