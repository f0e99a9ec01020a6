import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { job, record, startWorkerBench, type WorkerBench } from '../support/worker-bench';
import { evidenceOf } from './fixtures';

/** The key that Stripe takes now; any other is a 401. */
let goodKey = '';
/** What the secret holds. */
let secret = '';
let secretReads = 0;
let refusals = 0;

let bench: WorkerBench;
let stripe: Server;
let secrets: Server;
beforeAll(async () => {
  // The times of a deployment: a busy machine is not what is looked at.
  bench = await startWorkerBench({
    limits: { workerTimeoutSeconds: 30, providerTimeoutSeconds: 10, leaseMarginSeconds: 30 },
  });
  stripe = await serve((incoming, answer) => {
    if (incoming.headers.authorization === `Bearer ${goodKey}`) return void forward(incoming, answer);
    refusals += 1;
    answer.writeHead(401, { 'content-type': 'application/json' });
    answer.end('{"error":{"type":"invalid_request_error","message":"Expired API Key provided."}}');
  });
  secrets = await serve((incoming, answer) => {
    incoming.resume();
    secretReads += 1;
    answer.writeHead(200, { 'content-type': 'application/x-amz-json-1.1' });
    answer.end(JSON.stringify({ SecretString: secret }));
  });
});
afterAll(async () => {
  for (const server of [stripe, secrets]) {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  }
  await bench.stop();
});

/** A worker that has charged with `key` and goes on running. */
async function workerWith(key: string): Promise<void> {
  goodKey = key;
  secret = key;
  bench.restart({
    STRIPE_API_KEY: undefined,
    STRIPE_API_KEY_SECRET_ID: 'stripe',
    STRIPE_API_BASE: urlOf(stripe),
    AWS_ENDPOINT_URL_SECRETS_MANAGER: urlOf(secrets),
  });
  const first = job();
  expect(await bench.deliver([record(first)])).toEqual([]);
  expect(await evidenceOf(bench, first)).toMatchObject({ charges: 1, record: { state: 'succeeded' } });
  secretReads = 0;
  refusals = 0;
}

test('a key that was rolled is read again by the worker that runs: no deploy, no deferral, no attempt lost', async () => {
  await workerWith('rk_test_old');
  secret = 'rk_test_new';
  goodKey = 'rk_test_new';
  const batch = [job(), job(), job()];
  expect(await bench.deliver(batch.map((of) => record(of)))).toEqual([]);
  for (const of of batch) {
    const { charges, record: settled } = await evidenceOf(bench, of);
    expect({ charges, ...settled }).toMatchObject({ charges: 1, state: 'succeeded', attemptCount: 1 });
  }
  // Once for each refusal at most; and the old key is not tried again.
  expect(refusals).toBeGreaterThanOrEqual(1);
  expect(refusals).toBeLessThanOrEqual(3);
  expect(secretReads).toBeGreaterThanOrEqual(1);
  expect(secretReads).toBeLessThanOrEqual(3);
  const ofTheBatch = { secretReads, refusals };
  expect(await bench.deliver([record(job())])).toEqual([]);
  expect({ secretReads, refusals }).toEqual(ofTheBatch);
});

test('a key that Stripe refuses before the secret has the new one: the job waits, and runs once it has', async () => {
  await workerWith('rk_test_first');
  goodKey = 'rk_test_second';
  const of = job();
  const delivery = record(of);
  expect(await bench.deliver([delivery])).toEqual([delivery.messageId]);
  expect(await evidenceOf(bench, of)).toMatchObject({
    charges: 0,
    record: { state: 'queued', attemptCount: 0 },
  });
  secret = 'rk_test_second';
  // A refused key opens the breaker for a while; then one call is let through to see.
  await bench.stack.clock.advance(bench.stack.limits.breakerOpenSeconds * 1000 + 1);
  expect(await bench.deliver([record(of, { receiveCount: 2 })])).toEqual([]);
  const { charges, record: settled } = await evidenceOf(bench, of);
  expect({ charges, ...settled }).toMatchObject({ charges: 1, state: 'succeeded', attemptCount: 1 });
});

async function serve(answer: (incoming: IncomingMessage, outgoing: ServerResponse) => void): Promise<Server> {
  const server = createServer(answer);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

function urlOf(server: Server): string {
  const address = server.address();
  return `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
}

/** On to the stand-in. */
function forward(incoming: IncomingMessage, answer: ServerResponse): void {
  const { method, headers, url } = incoming;
  const onward = request(`${bench.stripe.url}${url}`, { method, headers }, (answered) => {
    answer.writeHead(answered.statusCode ?? 502, answered.headers);
    answered.pipe(answer);
  });
  incoming.pipe(onward);
}
