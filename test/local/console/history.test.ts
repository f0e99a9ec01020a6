import type { SQSRecord } from 'aws-lambda';
import { createClock } from '../../../local/clock';
import { recordHistory } from '../../../local/console/history';
import { Listeners } from '../../../local/listeners';
import type { StackEvent } from '../../../local/stack';

/** A history of events that a test makes up. */
function start() {
  const events = new Listeners<StackEvent>();
  const history = recordHistory({ clock: createClock(), onEvent: (listener) => events.add(listener) });
  return { history, emit: (event: StackEvent) => events.emit(event) };
}

const body = (operationId: string) => JSON.stringify({ version: 1, tenantId: 'North', operationId });
const log = (fields: object): StackEvent => ({
  type: 'workerLine',
  pid: 1,
  stream: 'stdout',
  line: JSON.stringify({ level: 'INFO', ...fields }),
});
const record = (operationId: string): SQSRecord => ({
  messageId: operationId,
  receiptHandle: '',
  body: body(operationId),
  attributes: {
    ApproximateReceiveCount: '2',
    SentTimestamp: '',
    SenderId: '',
    ApproximateFirstReceiveTimestamp: '',
  },
  messageAttributes: {},
  md5OfBody: '',
  eventSource: '',
  eventSourceARN: '',
  awsRegion: '',
});

test('a worker that is killed is told at each operation that it had in hand', () => {
  const { history, emit } = start();
  emit({ type: 'invoked', requestId: 'r', pid: 7, records: [record('O1'), record('O2')] });
  emit({ type: 'workerExited', requestId: 'r', pid: 7, signal: 'SIGKILL' });
  for (const key of ['North/O1', 'North/O2'])
    expect(history.of(key).map(({ text }) => text)).toEqual([
      'delivery 2 to worker 7',
      'worker 7 was killed (SIGKILL)',
    ]);
  expect(history.of('North/O3')).toEqual([]);
});

test('a state change is told with its states, attempt and time, and not by its metric', () => {
  const { history, emit } = start();
  const at = '2026-11-30T10:00:00.123Z';
  const ids = { tenantId: 'North', operationId: 'O1', timestamp: at };
  emit(log({ message: 'operation running', ...ids, from: 'queued', to: 'running', attempt: 2 }));
  emit(log({ _aws: {}, Succeeded: 1 }));
  expect(history.activity()).toEqual([
    {
      atMs: Date.parse(at),
      kind: 'state',
      operation: 'North/O1',
      from: 'queued',
      to: 'running',
      text: 'attempt 2',
      isBad: false,
    },
  ]);
});

test('a run of the reconciler is told only when something went wrong in it', () => {
  const { history, emit } = start();
  emit(log({ message: 'due operations', failed: 0 }));
  emit(log({ message: 'open operations' }));
  emit(log({ message: 'due operations could not be brought on', failed: 1, level: 'WARN' }));
  expect(history.activity()).toMatchObject([{ text: 'due operations could not be brought on', isBad: true }]);
});

test('why a message was refused is kept by its id', () => {
  const { history, emit } = start();
  emit(log({ message: 'message rejected', messageId: 'm1', reason: 'malformed', problem: 'no JSON' }));
  emit(log({ message: 'message deferred', messageId: 'm2', reason: 'live_lease' }));
  expect(history.whyOf('m1')).toBe('no JSON');
  expect(history.whyOf('m2')).toBeUndefined();
});

test('what is kept is bounded: the latest lines, and the operations that were last heard of', () => {
  const { history, emit } = start();
  for (let index = 0; index < 3000; index++)
    emit({ type: 'deadLettered', messageId: 'm', body: body(`O${index}`), sourceArn: '', deadLetterArn: '' });
  for (let index = 0; index < 3000; index++) history.note(`note ${index}`, 'North/O2999');
  expect(history.activity()).toHaveLength(300);
  expect(history.activity().at(-1)?.text).toBe('note 2999');
  expect(history.of('North/O2999')).toHaveLength(200);
  expect(history.of('North/O2500')).toHaveLength(1);
  expect(history.of('North/O1')).toEqual([]);
});
