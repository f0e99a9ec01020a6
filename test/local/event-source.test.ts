import { type LocalStack, type LocalStackOptions, type StackEvent, startLocalStack } from '../../local/stack';

let stack: LocalStack;
let events: StackEvent[];

async function start(options: LocalStackOptions = {}): Promise<void> {
  stack = await startLocalStack({
    handler: 'test/support/dummy-handler.ts',
    startEventSource: false,
    maxConcurrency: 2,
    ...options,
  });
  events = [];
  stack.onEvent((event) => events.push(event));
}
afterEach(async () => {
  await stack.stop();
});

/** What the handler printed, as it printed it. */
const printed = (at: string): Record<string, unknown>[] =>
  events
    .filter((event) => event.type === 'workerLine' && event.stream === 'stdout')
    .map((event) => JSON.parse(event.type === 'workerLine' ? event.line : ''))
    .filter((line) => line.at === at);
const begun = (body: string) => printed('begin').filter((line) => line.body === body);
const acknowledged = () =>
  events.flatMap((event) => (event.type === 'acknowledged' ? [event.record.body] : [])).toSorted();
const failed = () =>
  events.flatMap((event) => (event.type === 'failed' ? [event.record.body] : [])).toSorted();
const isEmpty = async () => (await stack.queueDepth()).total === 0;

describe('the event source', () => {
  test('hands over what waits in batches, and deletes what did not fail', async () => {
    await start({ limits: { batchSize: 5 } });
    for (const body of ['a', 'b', 'fail', 'c', 'd', 'e']) await stack.send(body);
    stack.eventSource.start();
    await stack.waitFor(() => acknowledged().length === 5 && failed().length === 1);
    expect(begun('a')).toMatchObject([{ batch: 5, receives: '1' }]);
    expect(failed()).toEqual(['fail']);
    expect(await stack.queueDepth()).toMatchObject({ visible: 0, inFlight: 1 });
    expect(await stack.deadLetters()).toEqual([]);
  });

  test('gives a message its attributes as Lambda does', async () => {
    await start();
    await stack.send({ tenantId: 'North', type: 'charge', operationId: 'O7' });
    const [record] = await stack.eventSource.receive(1);
    expect(record).toEqual({
      messageId: expect.any(String),
      receiptHandle: expect.any(String),
      body: '{"tenantId":"North","type":"charge","operationId":"O7"}',
      attributes: {
        ApproximateReceiveCount: '1',
        ApproximateFirstReceiveTimestamp: expect.stringMatching(/^\d{13}$/),
        SentTimestamp: expect.stringMatching(/^\d{13}$/),
        SenderId: expect.any(String),
        MessageGroupId: 'North',
      },
      messageAttributes: {
        tenantId: { stringValue: 'North', stringListValues: [], binaryListValues: [], dataType: 'String' },
        type: { stringValue: 'charge', stringListValues: [], binaryListValues: [], dataType: 'String' },
      },
      md5OfBody: expect.stringMatching(/^[0-9a-f]{32}$/),
      md5OfMessageAttributes: expect.stringMatching(/^[0-9a-f]{32}$/),
      eventSource: 'aws:sqs',
      eventSourceARN: stack.queueArn,
      awsRegion: 'us-east-1',
    });
  });

  test.each([
    ['throws', 'throw'],
    ['ends its process', 'exit'],
  ])('leaves the whole batch to the visibility timeout when the function %s', async (_, body) => {
    await start();
    await stack.send('good');
    await stack.send(body);
    stack.eventSource.start();
    await stack.waitFor(() => failed().length === 2);
    expect(failed()).toEqual(['good', body].toSorted());
    expect(acknowledged()).toEqual([]);
    await stack.clock.advance(12_001);
    await stack.waitFor(() => begun(body).some(({ receives }) => receives === '2'));
  });

  test('kills a function at its timeout and starts another process for what comes next', async () => {
    await start();
    await stack.send('hang');
    stack.eventSource.start();
    await stack.waitFor(() => failed().length === 1);
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'failed', wholeBatchBecause: 'the function timed out' }),
    );
    expect(stack.workers.counts()).toMatchObject({ started: 1, killed: 1 });
    await stack.send('next');
    await stack.waitFor(() => acknowledged().includes('next'));
    expect(stack.workers.counts()).toMatchObject({ started: 2, killed: 1 });
  });

  test('delivers the message of a killed process again when the clock passes its visibility timeout', async () => {
    await start();
    await stack.send('wait 1500');
    stack.eventSource.start();
    await stack.waitFor(() => begun('wait 1500').length === 1);
    const [pid = 0] = stack.workers.busyPids();
    expect(stack.workers.kill(pid)).toBe(true);
    await stack.waitFor(() => failed().length === 1);
    expect(events).toContainEqual(expect.objectContaining({ type: 'workerExited', pid, signal: 'SIGKILL' }));
    await stack.clock.advance(12_001);
    await stack.waitFor(isEmpty);
    expect(begun('wait 1500').map(({ receives }) => receives)).toEqual(['1', '2']);
    expect(printed('end')).toHaveLength(1);
  });

  test('runs as many invocations at once as it may, and no more', async () => {
    await start({ limits: { batchSize: 1 }, maxConcurrency: 2 });
    await stack.workers.warm(2);
    for (const body of ['wait 400', 'wait 401', 'wait 402']) await stack.send(body);
    let most = 0;
    stack.onEvent(() => {
      most = Math.max(most, printed('begin').length - printed('end').length);
    });
    stack.eventSource.start();
    await stack.waitFor(isEmpty);
    expect(most).toBe(2);
    expect(stack.workers.counts()).toMatchObject({ started: 2, invocations: 3 });
  });

  test('uses a warm process again', async () => {
    await start();
    for (const body of ['a', 'b']) await stack.eventSource.invokeOnce([await received(body)]);
    expect(stack.workers.counts()).toEqual({ started: 1, killed: 0, invocations: 2 });
  });

  test('delivers a record as often as a test wants', async () => {
    await start();
    const record = await received('again');
    const deliveries = [
      stack.eventSource.invokeOnce([record]),
      stack.eventSource.invokeOnce([record, record]),
    ];
    expect((await Promise.all(deliveries)).map(({ result }) => result.outcome)).toEqual([
      'responded',
      'responded',
    ]);
    expect(begun('again')).toHaveLength(3);
  });

  test('goes on when SQS fails for a while', async () => {
    await start();
    const remove = stack.sqsProxy.intercept(
      { action: 'ReceiveMessage' },
      { kind: 'answer', statusCode: 400, error: 'com.amazonaws.sqs#OverLimit' },
    );
    stack.eventSource.start();
    await stack.waitFor(() => events.some(({ type }) => type === 'sqsFailed'));
    remove();
    await stack.send('a');
    await stack.waitFor(() => acknowledged().includes('a'));
  });

  test('stops at once while it waits for messages', async () => {
    await start();
    stack.eventSource.start();
    await stack.waitFor(() => stack.sqsProxy.count('ReceiveMessage') >= 2);
    const begin = performance.now();
    await stack.eventSource.stop();
    expect(performance.now() - begin).toBeLessThan(500);
  });
});

describe('the handler', () => {
  test('sees the stack clock as Date.now, the real time as new Date, and its real remaining time', async () => {
    await start();
    await stack.clock.advance(24 * 3600_000);
    await stack.eventSource.invokeOnce([await received('a')]);
    await stack.waitFor(() => printed('end').length === 1);
    const [end] = printed('end');
    expect(Math.abs(Number(end?.nowMs) - stack.clock.now())).toBeLessThan(5000);
    expect(Math.abs(Date.parse(String(end?.date)) - Date.now())).toBeLessThan(5000);
    const [begin] = printed('begin');
    expect(Number(begin?.remainingMs)).toBeGreaterThan(1500);
    expect(Number(begin?.remainingMs)).toBeLessThanOrEqual(2000);
  });

  test('that cannot be loaded fails its invocation and says why', async () => {
    await start({ handler: 'test/support/no-such-handler.ts' });
    const { result, verdict } = await stack.eventSource.invokeOnce([await received('a')]);
    expect(result).toMatchObject({
      outcome: 'died',
      exitCode: 1,
      output: expect.stringContaining('no-such-handler.ts'),
    });
    expect([...verdict.failedIds]).toHaveLength(1);
  });
});

async function received(body: string) {
  await stack.send(body);
  const [record] = await stack.eventSource.receive(1, 1);
  if (!record) throw new Error('The queue gave no message.');
  return record;
}
