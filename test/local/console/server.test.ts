import { once } from 'node:events';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, request } from 'node:http';
import { join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, PutCommand } from '@aws-sdk/lib-dynamodb';
import { type History, recordHistory } from '../../../local/console/history';
import { type Console, startConsole } from '../../../local/console/server';
import { type LocalStack, startLocalStack } from '../../../local/stack';

let stack: LocalStack;
let history: History;
let page: Console;
let busyWith: string | undefined;
beforeAll(async () => {
  stack = await startLocalStack({ handler: 'test/support/dummy-handler.ts', startEventSource: false });
  history = recordHistory(stack);
  page = await startConsole(stack, history, { port: 0, busyWith: () => busyWith });
});
afterAll(async () => {
  await page.stop();
  await stack.stop();
});

function table({ endpoints }: LocalStack) {
  const client = new DynamoDBClient({
    region: 'us-east-1',
    endpoint: endpoints.dynamodb,
    credentials: { accessKeyId: 'x', secretAccessKey: 'x' },
  });
  return { dynamodb: DynamoDBDocumentClient.from(client), stop: () => client.destroy() };
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** One request with the headers as given; `fetch` would set the host and the origin itself. */
async function ask(
  method: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  body = '',
): Promise<Answer> {
  const { port } = new URL(page.url);
  const sent = request({ host: '127.0.0.1', port, method, path, headers });
  sent.end(body);
  const [response] = await once(sent, 'response');
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(Buffer.from(chunk));
  const { statusCode, headers: answered } = response;
  return { status: statusCode, headers: answered, body: Buffer.concat(chunks).toString() };
}

const act = (action: unknown, headers: Readonly<Record<string, string>> = {}) =>
  ask(
    'POST',
    '/actions',
    { 'content-type': 'application/json', origin: page.url, ...headers },
    typeof action === 'string' ? action : JSON.stringify(action),
  );

test('the page is served to who calls it by its own name and port, and to nobody else', async () => {
  const { port } = new URL(page.url);
  for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, `LOCALHOST:${port}`])
    expect(await ask('GET', '/', { host })).toMatchObject({ status: 200 });
  for (const host of ['evil.example', `evil.example:${port}`, '127.0.0.1', `127.0.0.1:${port}.evil.example`])
    for (const path of ['/', '/document.json', '/events', '/actions'])
      expect(await ask('GET', path, { host })).toMatchObject({ status: 403 });
});

test('only the page itself may act: another origin, or none, does nothing', async () => {
  await stack.workers.warm(1);
  const { port } = new URL(page.url);
  const origins = [
    'http://evil.example',
    'null',
    `http://localhost:${port}`,
    `https://127.0.0.1:${port}`,
    'http://127.0.0.1:1',
  ];
  for (const origin of origins)
    expect(await act({ action: 'killWorkers' }, { origin })).toMatchObject({ status: 403 });
  const without = await ask('POST', '/actions', { 'content-type': 'application/json' }, '{}');
  expect(without).toMatchObject({ status: 403, body: expect.stringContaining('Origin') });
  expect(stack.workers.counts().killed).toBe(0);

  expect(await act({ action: 'killWorkers' })).toMatchObject({
    status: 200,
    body: '{"ok":true,"said":"1 worker process killed."}',
  });
  expect(stack.workers.counts().killed).toBe(1);
  const byName = { host: `localhost:${port}`, origin: `http://localhost:${port}` };
  expect(await act({ action: 'disarmCrash' }, byName)).toMatchObject({ status: 200 });
});

test('every answer forbids what is not the page’s own, and that others embed or read it', async () => {
  const answers = [await ask('GET', '/'), await ask('GET', '/document.json'), await ask('GET', '/nothing')];
  for (const { headers } of answers) {
    const policy = String(headers['content-security-policy']).split('; ');
    expect(policy).toEqual(
      expect.arrayContaining(["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"]),
    );
    expect(policy.join()).not.toContain('unsafe');
    expect(headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'cross-origin-resource-policy': 'same-origin',
      'referrer-policy': 'no-referrer',
    });
    expect(headers['access-control-allow-origin']).toBeUndefined();
  }
});

const pageFolder = join(__dirname, '../../../local/console/page');
const assets = readdirSync(pageFolder).filter((name) => name !== 'tsconfig.json');

test('the page has no script or style of its own text, and asks nobody else for anything', () => {
  const html = readFileSync(join(pageFolder, 'index.html'), 'utf8');
  expect(html).not.toMatch(/<script>|<style|\sstyle=|\son\w+=/);
  for (const name of assets) {
    const text = readFileSync(join(pageFolder, name), 'utf8').replace('http://www.w3.org/2000/svg', '');
    expect(text).not.toMatch(/https?:|\/\/\w+\.\w+|@import url|innerHTML|eval\(/);
  }
});

test('all its files together are less than 150 kB, and all are served', async () => {
  const bytes = assets.map((name) => statSync(join(pageFolder, name)).size);
  expect(bytes.reduce((sum, size) => sum + size, 0)).toBeLessThan(150_000);
  for (const name of assets)
    expect(await ask('GET', name === 'index.html' ? '/' : `/${name}`)).toMatchObject({ status: 200 });
});

test('nothing else of the disk is served, and each path takes its own methods', async () => {
  for (const path of ['/server.ts', '/../server.ts', '/%2e%2e/server.ts', '/page/index.html', '//etc/passwd'])
    expect(await ask('GET', path)).toMatchObject({ status: 404 });
  expect(await ask('GET', '/actions')).toMatchObject({ status: 405, headers: { allow: 'POST' } });
  expect(await ask('HEAD', '/events')).toMatchObject({ status: 405 });
  expect(await ask('POST', '/', { origin: page.url })).toMatchObject({ status: 405 });
  expect(await ask('DELETE', '/document.json', { origin: page.url })).toMatchObject({ status: 405 });
});

test('the document has the breaker and the budget as the provider’s record has them', async () => {
  const document = async () => JSON.parse((await ask('GET', '/document.json')).body);
  const untouched = { windowCalls: 0, windowFailures: 0, retriesLeft: stack.limits.retryBudgetFloor };
  expect((await document()).provider).toMatchObject(untouched);
  const { dynamodb, stop } = table(stack);
  const put = (item: object) =>
    dynamodb.send(new PutCommand({ TableName: stack.tableName, Item: { pk: 'provider#stripe', ...item } }));
  // A worker's clock that is ahead: the window does not end while the test runs.
  const windowStartMs = stack.clock.now() + 60_000;
  const breaker = { breakerReason: 'failures', breakerOpenedAtMs: 5, breakerProbeAtMs: 30_005 };
  await put({ windowStartMs, windowCalls: 20, windowFailures: 11, retryTokens: 250, ...breaker });
  const { provider } = await document();
  expect(provider).toMatchObject({
    breaker: { reason: 'failures', openedAtMs: 5, probeAtMs: 30_005 },
    windowCalls: 20,
    windowFailures: 11,
    retriesLeft: 2,
  });
  // What an earlier window counted is over.
  await put({ windowStartMs: 1, windowCalls: 20, windowFailures: 11, retryTokens: 0 });
  expect((await document()).provider).toMatchObject(untouched);
  stop();
});

test('a body that is no action is refused with what is wrong with it', async () => {
  expect(await act('{"action":')).toMatchObject({ status: 400 });
  expect(await act({ action: 'explode' })).toMatchObject({ status: 400 });
  expect(await act({ action: 'moveClock', seconds: -5 })).toMatchObject({
    status: 400,
    body: expect.stringContaining('seconds'),
  });
  expect(await act({ action: 'moveClock', seconds: 1, more: true })).toMatchObject({ status: 400 });
  expect(await act({ action: 'armCrash', point: 'toString' })).toMatchObject({ status: 400 });
  expect(await act({ action: 'hold' }, { 'content-type': 'text/plain' })).toMatchObject({ status: 415 });
  const large = { action: 'cancel', tenantId: 'x'.repeat(5000), operationId: 'O1' };
  expect(await act(large)).toMatchObject({ status: 413 });
  expect(stack.clock.offsetMs()).toBe(0);
});

test('while the stack is busy nobody acts on it', async () => {
  busyWith = 'the story of O7';
  const { body } = await act({ action: 'moveClock', seconds: 5 });
  busyWith = undefined;
  expect(body).toContain('the story of O7');
  expect(stack.clock.offsetMs()).toBe(0);
});

test('no other address of this machine is listened to', async () => {
  const { port } = new URL(page.url);
  await expect(fetch(`http://127.0.0.2:${port}/`)).rejects.toThrow();
});

test('a port that is asked for and taken is said to be; without one any free port will do', async () => {
  const port = Number(new URL(page.url).port);
  await expect(startConsole(stack, history, { port })).rejects.toThrow(`Port ${port} is taken`);
  const other = createServer();
  const isFree = await new Promise<boolean>((resolve) => {
    other.once('error', () => resolve(false)).listen(4242, '127.0.0.1', () => resolve(true));
  });
  const second = await startConsole(stack, history);
  expect(new URL(second.url).port).not.toBe('4242');
  expect((await fetch(second.url)).status).toBe(200);
  await second.stop();
  if (isFree) other.close();
});

test('the events end with the server, and a document comes at once', async () => {
  const own = await startConsole(stack, history, { port: 0 });
  const response = await fetch(`${own.url}/events`);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  while (reader && !text.includes('data: {')) text += (await reader.read()).value ?? '';
  await own.stop();
  const rest = await reader?.read().catch(() => ({ done: true }));
  expect(rest).toMatchObject({ done: true });
});
