import { execFileSync } from 'node:child_process';
import { safeBody } from '../../ops/safe-body';
import { type OpsBench, startOpsBench } from '../support/ops-bench';
import { job, refundOf } from '../support/worker-bench';

const card = '4242 4242-4242.4242';

let bench: OpsBench;
beforeAll(async () => {
  bench = await startOpsBench();
});
afterAll(() => bench.stop());

const only = (document: Record<string, unknown>): Record<string, unknown> => {
  const { messages } = document;
  if (!Array.isArray(messages) || messages.length !== 1) throw new Error('There is not exactly one message.');
  return messages[0];
};

/** What the shell would give to `aws sqs send-message`. */
const bodyIn = (command: unknown): string => {
  const stub = `aws() { while [ "$1" != --message-body ]; do shift; done; printf %s "$2"; }\n`;
  return execFileSync('sh', ['-c', stub + String(command)], { encoding: 'utf8' });
};

describe('dlq show', () => {
  test('of a conflict shows what differs from the record, and a ready job under a new id', async () => {
    const first = job({ tenantId: 'North', operationId: 'O7', input: { amountMinor: 5000 } });
    await bench.record(first, { state: 'succeeded', attemptCount: 1, providerRef: 'pi_7' });
    await bench.deadLetter({ ...first, input: { ...first.input, amountMinor: 9000 } });

    const shown = only(await bench.json('dlq show --operation North/O7'));
    expect(shown).toMatchObject({
      kind: 'INPUT_CONFLICT',
      differences: [{ field: 'amountMinor', record: '5000', message: '9000' }],
      record: { state: 'succeeded', providerRef: 'pi_7' },
      corrected: { operationId: 'O7-corrected', toFillIn: [] },
    });
    const { command, warning } = Object(shown.corrected);
    const corrected = { ...first, operationId: 'O7-corrected', input: { ...first.input, amountMinor: 9000 } };
    expect(JSON.parse(bodyIn(command))).toEqual(corrected);
    expect(command).toContain(`--queue-url ${bench.stack.queueUrl}`);
    expect(command).toContain("--message-group-id 'North'");
    expect(warning).toContain('moves money of its own');

    const { out } = await bench.ops('dlq show --operation North/O7');
    expect(out).toContain('amountMinor: the record has 5000, the message 9000');
    expect(out).toContain('npm run ops -- dlq discard --message-id');
    expect(out).not.toContain('dlq redrive');
  });

  test('of a malformed job takes over the fields that are right, and leaves the others to fill in', async () => {
    const { input, ...rest } = job({ tenantId: 'North', operationId: 'O8' });
    const messageId = await bench.deadLetter({
      ...rest,
      input: { ...input, amountMinor: 19.99, customerId: card },
    });
    const shown = only(await bench.json(`dlq show --message-id ${messageId}`));
    expect(shown).toMatchObject({
      kind: 'MALFORMED',
      corrected: { toFillIn: ['amountMinor', 'customerId'] },
    });
    expect(JSON.parse(bodyIn(Object(shown.corrected).command))).toEqual({
      ...rest,
      operationId: 'O8-corrected',
      input: { ...input, amountMinor: '<amountMinor>', customerId: '<customerId>' },
    });
    expect(JSON.stringify(shown)).not.toContain('4242');
  });

  test('of a job of a newer version keeps that version, and what a shell would trip over', async () => {
    const { invoiceId: reference, ...payment } = job().input;
    const input = { reference, ...payment, description: "Ann's order, for $5" };
    const second = { ...job({ tenantId: 'North', operationId: 'O10' }), version: 2, input };
    const bodyOf = async (body: object) => {
      const messageId = await bench.deadLetter(body);
      const shown = only(await bench.json(`dlq show --message-id ${messageId}`));
      await bench.json(`dlq discard --message-id ${messageId} --yes`);
      return JSON.parse(bodyIn(Object(shown.corrected).command));
    };
    await bench.record({ ...second, input: { ...input, amountMinor: 1 } });
    expect(await bodyOf(second)).toEqual({ ...second, operationId: 'O10-corrected' });
    expect(await bodyOf({ ...second, input: { ...input, reference: 7 } })).toEqual({
      ...second,
      operationId: 'O10-corrected',
      input: { ...input, reference: '<reference>' },
    });
  });

  test('of a refund past the API gives the request to the API instead', async () => {
    await bench.deadLetter(refundOf({ tenantId: 'North', operationId: 'O7' }, 100, { operationId: 'R1' }));
    const shown = only(await bench.json('dlq show --operation North/R1'));
    expect(shown.kind).toBe('DIRECT_REFUND');
    expect(Object(shown.corrected).command).toContain('/tenants/North/refunds/R1-corrected');
  });

  test('of a parked operation names the ways on, and no job under a new id: that could charge twice', async () => {
    const parked = job({ tenantId: 'North', operationId: 'O9' });
    const nowMs = bench.stack.clock.now();
    await bench.record(parked, {
      state: 'parked',
      parkedReason: 'attempts_exhausted',
      parkedAtMs: nowMs,
      attemptCount: 5,
      effectPossibleSinceMs: nowMs,
    });
    await bench.deadLetter(parked);
    const shown = only(await bench.json('dlq show --operation North/O9'));
    expect(shown).not.toHaveProperty('corrected');
    const commands = Object(shown).next.map(({ command }: { command: string }) => command);
    expect(commands).toEqual([
      'npm run ops -- dlq redrive --operation North/O9',
      'npm run ops -- operation reconcile North/O9',
      'npm run ops -- operation retry North/O9',
      'npm run ops -- operation settle North/O9 --succeeded pi_...',
      'npm run ops -- operation settle North/O9 --absent --evidence "TEXT"',
      'npm run ops -- dlq discard --operation North/O9',
    ]);
  });

  test('of an operation without a message says how many it looked at, exit code 1', async () => {
    const { exitCode, err } = await bench.ops('dlq show --operation North/nobody');
    expect(exitCode).toBe(1);
    expect(err).toContain('no dead-lettered message of operation North/nobody: 4 messages there were seen');
    expect((await bench.json('dlq list')).count).toBe(4);
  });

  test.each(['dlq show', 'dlq show --operation North/O7 --message-id 1', 'dlq show --operation O7'])(
    '%s is called wrongly: exit code 2, and nothing is read',
    async (command) => {
      const before = bench.stack.sqsProxy.count('ReceiveMessage');
      const { exitCode, err, out } = await bench.ops(command);
      expect({ exitCode, out }).toEqual({ exitCode: 2, out: '' });
      expect(err).toContain('--operation');
      expect(bench.stack.sqsProxy.count('ReceiveMessage')).toBe(before);
    },
  );
});

describe('a body that nobody could read', () => {
  test.each([
    ['a card number', 'pay 4242424242424242 now'],
    ['one in groups', 'pay 4242 4242-4242.4242 now'],
    ['one in a list', '{"card":[4242,4242,4242,4242]}'],
    ['full-width digits', 'pay ４２４２４２４２４２４２４２４２ now'],
    ['escaped digits', '"\\u00342424242424242424"'],
    ['digits parted by what nobody sees', 'pay 4242\u200b4242\u200b4242\u200b4242 now'],
  ])('is shown without %s', (_, body) => {
    expect(safeBody(body)).toContain('(digits not shown)');
    expect(safeBody(body)).not.toMatch(/4242|４２４２/);
  });

  test('is shown up to 200 characters, on one line, and moves no cursor', () => {
    expect(safeBody('a'.repeat(1000))).toBe(`${'a'.repeat(200)}... (1000 bytes)`);
    expect(safeBody('a\n\tb\u001b[2Jc')).toBe('a b·[2Jc');
  });
});
