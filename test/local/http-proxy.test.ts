import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect } from 'node:net';
import { type HttpProxy, startHttpProxy, type Verdict } from '../../local/http-proxy';
import { waitFor } from '../../local/wait-for';

let upstream: Server;
let proxy: HttpProxy;
let received: { path: string | undefined; host: string | undefined; body: string }[];

beforeEach(async () => {
  received = [];
  upstream = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      received.push({ path: request.url, host: request.headers.host, body });
      response.writeHead(200, { 'x-answered': 'yes' }).end(`{"took":${body || 'null'}}`);
    });
  });
  upstream.listen(0, '127.0.0.1');
  await once(upstream, 'listening');
  const address = upstream.address();
  proxy = await startHttpProxy(typeof address === 'object' && address !== null ? address.port : 0);
});

afterEach(async () => {
  await proxy.stop();
  upstream.closeAllConnections();
  upstream.close();
});

function call(action: string, body: unknown = {}, path = '/', signal?: AbortSignal): Promise<Response> {
  return fetch(`${proxy.url}${path}`, {
    method: 'POST',
    headers: { 'x-amz-target': `DynamoDB_20120810.${action}`, 'content-type': 'application/x-amz-json-1.0' },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  });
}

describe('without faults, a call', () => {
  test('reaches the emulator with its host and body, and its answer comes back', async () => {
    const response = await call('PutItem', { a: 'ü' });
    expect(response.status).toBe(200);
    expect(response.headers.get('x-answered')).toBe('yes');
    expect(await response.json()).toEqual({ took: { a: 'ü' } });
    expect(received).toEqual([{ path: '/', host: new URL(proxy.url).host, body: '{"a":"ü"}' }]);
  });

  test('to a queue URL reaches the emulator at its root', async () => {
    await call('SendMessage', {}, '/000000000000/charge-once-jobs');
    expect(received.map(({ path }) => path)).toEqual(['/']);
  });

  test('is counted by its action until the counts are reset', async () => {
    await Promise.all([call('GetItem'), call('GetItem'), call('PutItem')]);
    expect(proxy.counts()).toEqual({ GetItem: 2, PutItem: 1 });
    proxy.resetCounts();
    expect(proxy.count('GetItem')).toBe(0);
  });

  test('that resets in mid-body never reaches the emulator', async () => {
    const socket = connect(Number(new URL(proxy.url).port), '127.0.0.1');
    socket.on('error', () => {});
    socket.write(
      'POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: D.PutItem\r\ncontent-length: 100\r\n\r\n{"half":',
    );
    await once(socket, 'connect');
    socket.resetAndDestroy();
    expect((await call('GetItem')).status).toBe(200);
    expect(received).toHaveLength(1);
  });
});

describe('a fault', () => {
  test('happens only to the calls that it matches, and only so many times', async () => {
    proxy.intercept(
      { action: 'UpdateItem', where: (body) => JSON.stringify(body).includes('O7'), times: 1 },
      { kind: 'answer', statusCode: 400, error: 'ThrottlingException' },
    );
    expect((await call('UpdateItem', { id: 'O8' })).status).toBe(200);
    expect((await call('PutItem', { id: 'O7' })).status).toBe(200);
    const refused = await call('UpdateItem', { id: 'O7' });
    expect(refused.status).toBe(400);
    expect(await refused.json()).toMatchObject({ __type: 'ThrottlingException' });
    expect((await call('UpdateItem', { id: 'O7' })).status).toBe(200);
  });

  test('happens to all calls until it is removed', async () => {
    const remove = proxy.intercept({}, { kind: 'answer', statusCode: 500, error: 'InternalServerError' });
    expect((await call('GetItem')).status).toBe(500);
    expect((await call('PutItem')).status).toBe(500);
    remove();
    expect((await call('GetItem')).status).toBe(200);
  });

  test('loseRequest resets the client and forwards nothing', async () => {
    proxy.intercept({ times: 1 }, { kind: 'loseRequest' });
    await expect(call('PutItem')).rejects.toThrow();
    expect(received).toEqual([]);
  });

  test('loseAnswer resets the client after the emulator acted', async () => {
    proxy.intercept({ times: 1 }, { kind: 'loseAnswer' });
    await expect(call('PutItem')).rejects.toThrow();
    expect(received).toHaveLength(1);
  });

  test('lateRequest resets the client at once and forwards later', async () => {
    proxy.intercept({ times: 1 }, { kind: 'lateRequest', ms: 100 });
    await expect(call('PutItem')).rejects.toThrow();
    expect(received).toEqual([]);
    await waitFor(() => received.length === 1);
  });

  test('delay forwards later, and not when the client has left meanwhile', async () => {
    proxy.intercept({}, { kind: 'delay', ms: 60 });
    const start = performance.now();
    await call('GetItem');
    expect(performance.now() - start).toBeGreaterThanOrEqual(55);
    await expect(call('PutItem', {}, '/', AbortSignal.timeout(20))).rejects.toThrow();
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(received).toHaveLength(1);
  });

  test('stall neither forwards nor answers', async () => {
    proxy.intercept({ times: 1 }, { kind: 'stall' });
    await expect(call('PutItem', {}, '/', AbortSignal.timeout(100))).rejects.toThrow('timeout');
    expect(received).toEqual([]);
  });

  test('hook runs before the call is forwarded and after it was answered, and may drop it then', async () => {
    const seen: string[] = [];
    const remove = proxy.intercept(
      {},
      {
        kind: 'hook',
        before: ({ action }) => {
          seen.push(`before ${action} ${received.length}`);
          return 'continue';
        },
        after: async (_, answer): Promise<Verdict> => {
          seen.push(`after ${answer.statusCode} ${received.length}`);
          return 'drop';
        },
      },
    );
    await expect(call('PutItem')).rejects.toThrow();
    remove();
    proxy.intercept({}, { kind: 'hook', before: () => 'drop' });
    await expect(call('PutItem')).rejects.toThrow();
    expect(seen).toEqual(['before PutItem 0', 'after 200 1']);
    expect(received).toHaveLength(1);
  });
});
