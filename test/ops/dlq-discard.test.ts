import { type OpsBench, startOpsBench } from '../support/ops-bench';
import { job } from '../support/worker-bench';

let bench: OpsBench;
beforeAll(async () => {
  bench = await startOpsBench();
});
afterAll(() => bench.stop());

let count = 0;
/** A dead-lettered message of a new operation. */
async function given(attributes?: Readonly<Record<string, unknown>>) {
  count += 1;
  const message = job({ operationId: `D${count}` });
  if (attributes) await bench.record(message, attributes);
  const messageId = await bench.deadLetter(message);
  return { name: `acme/D${count}`, message, messageId };
}
const isLeft = async (message: object) => (await bench.stack.deadLetters()).includes(JSON.stringify(message));
const intervention = async (operationId: string) =>
  (await bench.stack.operation('acme', operationId))?.intervention;

const parked = () => ({
  state: 'parked',
  parkedReason: 'provider_forbidden',
  parkedAtMs: bench.stack.clock.now(),
});
const perhapsCharged = () => ({
  ...parked(),
  parkedReason: 'attempts_exhausted',
  attemptCount: 5,
  effectPossibleSinceMs: bench.stack.clock.now(),
});

describe('dlq discard', () => {
  test('deletes the message that is named and records who did it on the operation', async () => {
    const { name, message } = await given(parked());
    const other = await given();
    const ran = await bench.ops(`dlq discard --operation ${name} --by "Noor B" --json`, 'yes');
    expect(ran.exitCode).toBe(0);
    expect(ran.json).toMatchObject({
      done: true,
      isRecorded: true,
      discarded: { kind: 'PARKED', parkedReason: 'provider_forbidden' },
    });
    expect(ran.questions[0]).toContain(
      '(PARKED, parked: provider_forbidden) from the laptop stack for good?',
    );
    expect(await isLeft(message)).toBe(false);
    expect(await isLeft(other.message)).toBe(true);
    expect(await intervention(message.operationId)).toMatchObject({ action: 'discarded', by: 'Noor B' });
    expect((await bench.ops(`operation show ${name}`)).out).toMatch(/by a person +discarded by Noor B/);
  });

  test('answered with anything but yes does nothing: exit code 1, and the message is shown again', async () => {
    const { name, message } = await given(parked());
    const ran = await bench.ops(`dlq discard --operation ${name}`, 'n');
    expect(ran).toMatchObject({ exitCode: 1, out: '', err: 'Nothing was done.' });
    expect(await isLeft(message)).toBe(true);
    expect(await intervention(message.operationId)).toBeUndefined();
    expect((await bench.json(`dlq show --operation ${name}`)).messages).toHaveLength(1);
  });

  test('without a terminal and without --yes is refused: exit code 1, and nothing is done', async () => {
    const { name, message } = await given();
    const ran = await bench.ops(`dlq discard --operation ${name}`);
    expect(ran.exitCode).toBe(1);
    expect(ran.err).toContain('here is no terminal to ask at: pass --yes');
    expect(await isLeft(message)).toBe(true);
  });

  test('is refused where money may have moved, unless it is forced', async () => {
    const { name, message } = await given(perhapsCharged());
    const refused = await bench.ops(`dlq discard --operation ${name} --yes`);
    expect(refused.exitCode).toBe(1);
    expect(refused.err).toContain(`Money may have moved for ${name}`);
    expect(await isLeft(message)).toBe(true);
    expect(await bench.json(`dlq discard --operation ${name} --yes --force`)).toMatchObject({ done: true });
    expect(await isLeft(message)).toBe(false);
    expect(await intervention(message.operationId)).toMatchObject({ action: 'discarded', by: 'mia' });
  });

  test('of an operation that has ended needs no force: nothing is left to be done', async () => {
    const { name } = await given({ state: 'succeeded', attemptCount: 1, providerRef: 'pi_1' });
    expect(await bench.json(`dlq discard --operation ${name} --yes`)).toMatchObject({ isRecorded: true });
  });

  test('of a message without a record has nothing to record', async () => {
    const messageId = await bench.deadLetter('no JSON');
    expect(await bench.json(`dlq discard --message-id ${messageId} --yes`)).toMatchObject({
      discarded: { kind: 'MALFORMED' },
      isRecorded: false,
    });
  });

  test('of two messages asks which, and does nothing', async () => {
    const { name, message } = await given(parked());
    const second = await bench.deadLetter(message);
    const ran = await bench.ops(`dlq discard --operation ${name} --yes`);
    expect(ran.exitCode).toBe(1);
    expect(ran.err).toContain('There are 2 such messages; name one with --message-id');
    expect(ran.err).toContain(second);
    expect(await bench.json(`dlq discard --message-id ${second} --yes`)).toMatchObject({ done: true });
    expect(await isLeft(message)).toBe(true);
  });

  test('that cannot be recorded discards nothing', async () => {
    const { name, message } = await given(parked());
    const fault = { kind: 'answer', statusCode: 400, error: 'AccessDeniedException' } as const;
    const remove = bench.stack.dynamodbProxy.intercept({ action: 'UpdateItem' }, fault);
    const ran = await bench.ops(`dlq discard --operation ${name} --yes`);
    remove();
    expect(ran.exitCode).toBe(1);
    expect(ran.err).toContain('The function operate failed');
    expect(await isLeft(message)).toBe(true);
  });

  test('that cannot be deleted says so, and that the record says otherwise', async () => {
    const { name, message } = await given(parked());
    const fault = { kind: 'answer', statusCode: 400, error: 'AccessDenied' } as const;
    const remove = bench.stack.sqsProxy.intercept({ action: 'DeleteMessage' }, fault);
    const ran = await bench.ops(`dlq discard --operation ${name} --yes`);
    remove();
    expect(ran.exitCode).toBe(1);
    expect(ran.err).toContain('The message could not be discarded: AWS denied it');
    expect(ran.err).toContain('The record says that it was: run the command again.');
    expect(await isLeft(message)).toBe(true);
  });

  test('after a question that waited too long does nothing: somebody else may have the message now', async () => {
    const { name, message } = await given(parked());
    const ran = await bench.ops(`dlq discard --operation ${name}`, async () => {
      await bench.stack.clock.advance(61_000);
      return 'y';
    });
    expect(ran.exitCode).toBe(1);
    expect(ran.err).toContain('because the question waited too long');
    expect(await isLeft(message)).toBe(true);
    expect(await intervention(message.operationId)).toBeUndefined();
  });
});
