import type { StripeStandIn } from '../../local/stripe-stand-in';
import { type OpsBench, startOpsBench } from '../support/ops-bench';
import { job } from '../support/worker-bench';

const hourMs = 3_600_000;

let bench: OpsBench;
let stripe: StripeStandIn;
beforeAll(async () => {
  bench = await startOpsBench();
  if (!bench.stack.stripe) throw new Error('There is no stand-in.');
  stripe = bench.stack.stripe;
});
afterAll(() => bench.stop());

const stateOf = async (operationId: string) => (await bench.stack.operation('acme', operationId))?.state;
const intents = (operationId: string) =>
  stripe.paymentIntents().filter(({ metadata }) => metadata.operationId === operationId);

/** Five attempts without a known outcome, two hours ago. */
const lost = (changes: object = {}) => {
  const thenMs = bench.stack.clock.now() - 2 * hourMs;
  return {
    state: 'parked',
    parkedReason: 'attempts_exhausted',
    parkedAtMs: thenMs,
    attemptCount: 5,
    effectPossibleSinceMs: thenMs,
    updatedAtMs: thenMs,
    leaseExpiresAtMs: thenMs,
    ...changes,
  };
};

/** An operation that was charged, whose record says that nobody knows. @returns the PaymentIntent */
async function chargedUnknown(operationId: string): Promise<string> {
  await bench.stack.send(job({ operationId }));
  await bench.work();
  const record = await bench.stack.operation('acme', operationId);
  if (record?.state !== 'succeeded') throw new Error(`It is ${String(record?.state)}.`);
  const { result, providerRef, expiresAtSeconds, ...rest } = record;
  await bench.put({ ...rest, ...lost({ parkedAtMs: bench.stack.clock.now() }) });
  return String(providerRef);
}

describe('operation list', () => {
  test('has what no message will bring back, the longest due first, and nothing that has ended', async () => {
    const nowMs = bench.stack.clock.now();
    await bench.record(job({ operationId: 'L1' }), { openShard: 1, dueAtMs: nowMs + hourMs });
    await bench.record(job({ operationId: 'L2' }), { openShard: 5, dueAtMs: nowMs - hourMs, ...lost() });
    await bench.record(job({ operationId: 'L3' }), { state: 'succeeded' });
    await bench.record(job({ operationId: 'L4', tenantId: 'other' }), { openShard: 2, dueAtMs: nowMs });
    const { operations, isComplete } = await bench.json('operation list');
    expect(operations).toMatchObject([
      { operationId: 'L2', state: 'parked', parkedReason: 'attempts_exhausted', moneyMayHaveMoved: true },
      { operationId: 'L4', tenantId: 'other' },
      { operationId: 'L1', state: 'queued', moneyMayHaveMoved: false },
    ]);
    expect(isComplete).toBe(true);
    expect((await bench.ops('operation list')).out).toMatch(
      /acme\/L2 +charge +parked: attempts_exhausted +yes +5 .* since 1 h/,
    );
  });

  test('of a tenant adds what holds one of its places; of a state has no other', async () => {
    await bench.record(job({ operationId: 'L5' }), { acceptedBy: 'api' });
    await bench.put({ pk: 'tenant#acme', running: {}, accepted: { L5: bench.stack.clock.now() } });
    const idsOf = async (options: string) => {
      const { operations } = await bench.json(`operation list ${options}`);
      return Array.isArray(operations) ? operations.map(({ operationId }) => operationId) : [];
    };
    expect(await idsOf('--tenant acme')).toEqual(['L2', 'L1', 'L5']);
    expect(await idsOf('--tenant acme --state parked')).toEqual(['L2']);
    expect(await idsOf('--tenant nobody')).toEqual([]);
  });

  test('says when there may be more, and which records it cannot read', async () => {
    await bench.put({ pk: 'op#acme#L6', state: 'a state of next year', openShard: 0, dueAtMs: 1 });
    expect(await bench.json('operation list --limit 1')).toMatchObject({ count: 1, isComplete: false });
    expect(await bench.json('operation list')).toMatchObject({ unreadable: ['acme/L6'] });
  });

  test.each(['--state lost', '--limit 0', '--limit many', '--tenant a/b'])(
    '%s is called wrongly: exit code 2',
    async (options) => {
      expect(await bench.ops(`operation list ${options}`)).toMatchObject({ exitCode: 2, out: '' });
    },
  );
});

describe('operation show', () => {
  test('shows the record and what may be done next', async () => {
    await bench.record(job({ operationId: 'S1' }), lost());
    const shown = await bench.json('operation show acme/S1');
    expect(shown).toMatchObject({
      moneyMayHaveMoved: true,
      operation: { tenantId: 'acme', operationId: 'S1', state: 'parked', attemptCount: 5 },
      next: [
        { command: 'npm run ops -- operation reconcile acme/S1' },
        { command: 'npm run ops -- operation retry acme/S1' },
        { command: 'npm run ops -- operation settle acme/S1 --succeeded pi_...' },
        { command: 'npm run ops -- operation settle acme/S1 --absent --evidence "TEXT"' },
      ],
    });
    const { out } = await bench.ops('operation show acme/S1');
    expect(out).toMatch(/money may have moved +yes/);
    expect(out).toMatch(/parked +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \(2 h ago\)/);
  });

  test('advises no retry under a key that Stripe only repeats itself under', async () => {
    await bench.record(job({ operationId: 'S2' }), lost({ parkedReason: 'provider_key_spent' }));
    expect((await bench.ops('operation show acme/S2')).out).not.toContain('operation retry');
  });

  test('of an unknown one says since when a direct message is known: exit code 1', async () => {
    const { exitCode, err } = await bench.ops('operation show acme/nobody');
    expect(exitCode).toBe(1);
    expect(err).toContain('There is no record of operation acme/nobody');
  });

  test('of a record of a newer build says so: exit code 1', async () => {
    await bench.put({ pk: 'op#acme#S3', state: 'a state of next year' });
    expect(await bench.ops('operation show acme/S3')).toMatchObject({
      exitCode: 1,
      err: expect.stringContaining('newer build'),
    });
  });

  test.each(['operation show', 'operation show O7', 'operation show a/b/c'])(
    '%s is called wrongly: exit code 2',
    async (command) => {
      expect(await bench.ops(command)).toMatchObject({ exitCode: 2, out: '' });
    },
  );
});

describe('operation reconcile', () => {
  test('settles what Stripe knows', async () => {
    const reference = await chargedUnknown('R1');
    expect(await bench.json('operation reconcile acme/R1')).toMatchObject({
      done: true,
      said: 'acme/R1 is succeeded.',
      operation: { state: 'succeeded', providerRef: reference },
    });
  });

  test('of an operation that has ended is refused: exit code 1', async () => {
    const { exitCode, out } = await bench.ops('operation reconcile acme/R1');
    expect(exitCode).toBe(1);
    expect(out).toContain('It is succeeded already');
  });
});

describe('operation settle', () => {
  test('--succeeded records the PaymentIntent, after Stripe confirmed it, and who said so', async () => {
    const reference = await chargedUnknown('T1');
    const ran = await bench.ops(`operation settle acme/T1 --succeeded ${reference} --by noor`, 'y');
    expect(ran.exitCode).toBe(0);
    expect(ran.questions).toEqual([
      `Record that operation acme/T1 of the laptop stack succeeded as ${reference}? [y/N] `,
    ]);
    expect(await bench.stack.operation('acme', 'T1')).toMatchObject({
      state: 'succeeded',
      providerRef: reference,
      intervention: { action: 'settled', by: 'noor' },
    });
  });

  test('--succeeded with the charge of another operation is refused: exit code 1', async () => {
    const [reference] = intents('T1').map(({ id }) => id);
    await bench.record(job({ operationId: 'T2' }), lost());
    const { exitCode, out } = await bench.ops(`operation settle acme/T2 --succeeded ${reference} --yes`);
    expect(exitCode).toBe(1);
    expect(out).toContain('belongs to another operation');
    expect(await stateOf('T2')).toBe('parked');
  });

  test('--absent lets it run again under a new key, and keeps the evidence', async () => {
    await bench.record(job({ operationId: 'T3' }), lost({ parkedReason: 'provider_key_spent' }));
    const evidence = 'no PaymentIntent in the dashboard on Nov 29';
    const settled = await bench.json(`operation settle acme/T3 --absent --evidence "${evidence}" --yes`);
    expect(settled).toMatchObject({
      done: true,
      operation: { state: 'queued', intervention: { action: 'proven_absent', by: 'mia', evidence } },
    });
    await bench.work();
    expect(await bench.stack.operation('acme', 'T3')).toMatchObject({
      state: 'succeeded',
      providerKey: 'local/acme/T3/charge/1',
    });
  });

  test('--absent of what Stripe has is refused: exit code 1', async () => {
    await chargedUnknown('T4');
    const { exitCode, out } = await bench.ops(
      'operation settle acme/T4 --absent --evidence "nothing to be seen" --yes',
    );
    expect(exitCode).toBe(1);
    expect(out).toContain('Stripe has pi_');
    expect(intents('T4')).toHaveLength(1);
  });

  test.each([
    '',
    '--absent',
    '--succeeded pi_1 --absent --evidence "nothing to be seen"',
    '--succeeded ch_1',
    '--absent --evidence short',
    `--absent --evidence ${'e'.repeat(121)}`,
    '--absent --evidence "card 4242 4242 4242 4242"',
  ])('with %j is called wrongly: exit code 2, and nothing is asked or done', async (options) => {
    const ran = await bench.ops(`operation settle acme/T2 ${options}`, 'y');
    expect(ran).toMatchObject({ exitCode: 2, out: '', questions: [] });
    expect(await stateOf('T2')).toBe('parked');
  });
});

describe('operation retry', () => {
  test('sends its message again', async () => {
    await bench.record(job({ operationId: 'Y1' }), lost());
    const ran = await bench.ops('operation retry acme/Y1', 'y');
    expect(ran).toMatchObject({ exitCode: 0, out: 'Its message is on the queue: acme/Y1 runs again.' });
    await bench.work();
    expect(await stateOf('Y1')).toBe('succeeded');
  });

  test('under a spent key is refused with what to do instead: exit code 1', async () => {
    await bench.record(job({ operationId: 'Y2' }), lost({ parkedReason: 'provider_key_spent' }));
    const { exitCode, json } = await bench.ops('operation retry acme/Y2 --yes --json');
    expect(exitCode).toBe(1);
    expect(json).toMatchObject({ done: false, said: expect.stringContaining('prove that it has no effect') });
  });
});

describe('operation cancel', () => {
  test('cancels what had no effect, and names who did it', async () => {
    await bench.record(job({ operationId: 'C1' }));
    expect(await bench.json('operation cancel acme/C1 --yes')).toMatchObject({
      done: true,
      operation: { state: 'cancelled', intervention: { action: 'cancelled', by: 'mia' } },
    });
  });

  test('of what may have had one is refused: exit code 1', async () => {
    await bench.record(job({ operationId: 'C2' }), lost());
    const { exitCode, out } = await bench.ops('operation cancel acme/C2 --yes');
    expect(exitCode).toBe(1);
    expect(out).toContain('It may have had an effect.');
    expect(await stateOf('C2')).toBe('parked');
  });
});

test.each(['settle acme/A1 --succeeded pi_1', 'retry acme/A1', 'cancel acme/A1'])(
  'operation %s asks first: any answer but yes, or nobody to ask, is exit code 1 and nothing is done',
  async (command) => {
    await bench.record(job({ operationId: 'A1' }));
    const before = await bench.stack.operation('acme', 'A1');
    const no = await bench.ops(`operation ${command}`, '');
    expect(no).toMatchObject({ exitCode: 1, out: '', err: 'Nothing was done.' });
    expect(no.questions).toHaveLength(1);
    const nobody = await bench.ops(`operation ${command}`);
    expect(nobody.exitCode).toBe(1);
    expect(nobody.err).toContain('here is no terminal to ask at: pass --yes');
    expect(await bench.stack.operation('acme', 'A1')).toEqual(before);
    expect((await bench.stack.queueDepth()).total).toBe(0);
  },
);

describe('a function that fails', () => {
  test('is said to have failed, and where to look: exit code 1', async () => {
    await bench.put({ pk: 'op#acme#F1', state: 'a state of next year' });
    const { exitCode, err } = await bench.ops('operation retry acme/F1 --yes');
    expect(exitCode).toBe(1);
    expect(err).toContain('The function operate failed: The record of operation F1 was written by a newer');
  });
});
