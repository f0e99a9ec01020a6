import { createServer } from 'node:http';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import Stripe from 'stripe';
import { endingInTime, withinTime } from '../../../lambdas/adapters/deadline';
import { StripeHttpClient } from '../../../lambdas/adapters/stripe-http';
import { TableClient } from '../../../lambdas/adapters/table-client';
import { closeServer, listenOnLoopback } from '../../../local/loopback-server';

let requests = 0;
/** Never answers. */
const silent = createServer(() => {
  requests += 1;
});
let port: number;
beforeAll(async () => {
  port = await listenOnLoopback(silent);
});
afterAll(() => closeServer(silent));
beforeEach(() => {
  requests = 0;
});

/** Far longer than a test may take. */
const timeoutMs = 60_000;
const timeMs = 200;

/** The call ends with the invocation's time, and one that begins after it never leaves. */
async function endsInTime(call: () => Promise<unknown>): Promise<void> {
  const startMs = performance.now();
  await withinTime(timeMs, async () => {
    await expect(call()).rejects.toThrow();
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(timeMs - 10);
    expect(performance.now() - startMs).toBeLessThan(10_000);
    const seen = requests;
    expect(seen).toBe(1);
    await expect(call()).rejects.toThrow();
    expect(requests).toBe(seen);
  });
}

test("a call of the table ends with the invocation's time, and none begins after it", async () => {
  const client = new DynamoDBClient({
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    endpoint: `http://127.0.0.1:${port}`,
    requestHandler: { requestTimeout: timeoutMs },
    cacheMiddleware: true,
  });
  const table = new TableClient(endingInTime(client), 'operations');
  await endsInTime(() => table.read(['op#acme#one']));
  client.destroy();
});

test("a call of Stripe ends with the invocation's time, and none begins after it", async () => {
  const stripe = new Stripe('sk_test_key', {
    host: '127.0.0.1',
    port,
    protocol: 'http',
    maxNetworkRetries: 0,
    timeout: timeoutMs,
    httpClient: new StripeHttpClient(),
  });
  await endsInTime(() => stripe.paymentIntents.retrieve('pi_1'));
});
