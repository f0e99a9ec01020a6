import { readOperation } from '../../lambdas/adapters/operation-item';
import { limitsFrom } from '../../lambdas/operation/limits';
import type { Operation } from '../../lambdas/operation/operation';
import { laptopLimits } from '../../local/stack';
import { runDrill } from './drill';
import { drills } from './drills';
import { type Evidence, isKept, judge, percentile } from './judge';
import { reportPage } from './report';
import type { SentJob } from './sent-jobs';
import { documentOf, table } from './text';

const startMs = 1_800_000_000_000;

const sent = (changes: Partial<SentJob> = {}): SentJob => ({
  key: 'North/O1',
  tenantId: 'North',
  operationId: 'O1',
  amountMinor: 1250,
  phase: 'pressure',
  isMeasured: true,
  sentAtMs: startMs,
  doneAtMs: startMs + 100,
  ...changes,
});

/** A record as the table holds it. */
function record(operationId: string, state: string): Operation {
  const operation = readOperation({
    pk: `op#North#${operationId}`,
    version: 1,
    type: 'charge',
    state,
    inputDigest: 'digest',
    input: {
      invoiceId: '1',
      amountMinor: 1250,
      currency: 'usd',
      customerId: 'cus_A',
      paymentMethodId: 'pm_A',
    },
    attemptCount: 1,
    attemptLimit: 5,
    redriveCount: 0,
    providerKey: 'key',
    providerParamsVersion: 1,
    acceptedBy: 'queue',
    deadlineAtMs: startMs,
    createdAtMs: startMs,
    updatedAtMs: startMs,
  });
  if (!operation) throw new Error('The table would hold no such record.');
  return operation;
}

/** One job that was charged once and is back to baseline: nothing to find. */
const well: Evidence = {
  limits: limitsFrom(laptopLimits),
  startedAtMs: startMs,
  pressureFromMs: startMs,
  pressureToMs: startMs + 10_000,
  endedAtMs: startMs + 12_000,
  jobs: [sent({ phase: 'calm', operationId: 'O0', key: 'North/O0' }), sent()],
  records: new Map([
    ['North/O0', record('O0', 'succeeded')],
    ['North/O1', record('O1', 'succeeded')],
  ]),
  effects: [
    { operation: 'North/O0', amountMinor: 1250 },
    { operation: 'North/O1', amountMinor: 1250 },
  ],
  calls: ['O0', 'O1'].map((id) => ({
    operation: `North/${id}`,
    startedAtMs: startMs,
    endedAtMs: startMs + 50,
  })),
  probes: 0,
  deadLetters: [],
  poison: [],
  parked: new Set(),
  samples: [],
  baselineAtMs: startMs + 11_000,
  left: {
    messages: 0,
    busyWorkers: 0,
    providerCalls: 0,
    openOperations: 0,
    livePlaces: 0,
    connections: 0,
    temporaryFiles: 0,
  },
  areOthersBarred: true,
  found: [],
  standInFound: undefined,
};

const brokenBy = (changes: Partial<Evidence>): string[] =>
  judge({ ...well, ...changes })
    .checks.filter((check) => !isKept(check))
    .map(({ guarantee }) => guarantee);

const call = (operationId: string, atMs = 0, tenantId = 'North') => ({
  operation: `${tenantId}/${operationId}`,
  startedAtMs: startMs + atMs,
  endedAtMs: startMs + atMs + 50,
});

describe('the judge of a drill', () => {
  test('finds nothing where all is well', () => {
    expect(brokenBy({})).toEqual([]);
  });

  const [first = sent()] = well.jobs;
  const rows: readonly [what: string, broken: string, changes: Partial<Evidence>][] = [
    ['two effects of one operation', 'G1', { effects: [...well.effects, ...well.effects.slice(1)] }],
    ["what the provider's own books show", 'G1', { standInFound: 'North/O1 used 2 idempotency keys' }],
    ['a success without an effect', 'G1', { effects: well.effects.slice(1) }],
    ['an operation without a record', 'G2', { records: new Map([...well.records].slice(1)) }],
    [
      'an operation that never ended',
      'G2',
      { records: new Map([...well.records, ['North/O0', record('O0', 'queued')]]) },
    ],
    [
      'an operation that is parked where nobody sees it',
      'G2',
      { records: new Map([...well.records, ['North/O0', record('O0', 'parked')]]) },
    ],
    [
      'other inputs than the first',
      'G3',
      { effects: well.effects.map((effect) => ({ ...effect, amountMinor: 9000 })) },
    ],
    ['too many calls of one tenant at once', 'G7', { calls: [...well.calls, call('O1')] }],
    [
      'too many calls at once',
      'G7',
      { calls: Array.from({ length: 21 }, (_, index) => call('O1', 0, `T${index}`)) },
    ],
    [
      'more retries than the budget has',
      'G8',
      { calls: Array.from({ length: 13 }, (_, index) => call('O1', index * 100)) },
    ],
    [
      'a cancelled operation with an effect',
      'G9',
      { records: new Map([...well.records, ['North/O0', record('O0', 'cancelled')]]) },
    ],
    [
      'a good message in the dead-letter queue',
      'G10',
      { deadLetters: ['{"tenantId":"North","operationId":"O1"}'] },
    ],
    ['poison that is not in the dead-letter queue', 'G11', { poison: ['not JSON'] }],
    ['poison that is there twice', 'G11', { poison: ['bad'], deadLetters: ['bad', 'bad'] }],
    ['a baseline that comes too late', 'G12', { baselineAtMs: startMs + 10_000 + 40_001 }],
    [
      'a baseline that is never reached',
      'G12',
      { baselineAtMs: undefined, left: { ...well.left, temporaryFiles: 3 } },
    ],
    ["another tenant's p99 over its bar", 'p99', { jobs: [first, sent({ doneAtMs: startMs + 1201 })] }],
    [
      'what its own clients found',
      'API',
      { found: [{ guarantee: 'API', rule: 'refused', got: 1, allowed: 0 }] },
    ],
  ];
  test.each(rows)('finds %s', (_what, broken, changes) => {
    expect(brokenBy(changes)).toContain(broken);
  });

  test('accepts a parked operation whose message is in the dead-letter queue, and pays for probes apart', () => {
    const records = new Map([...well.records, ['North/O0', record('O0', 'parked')] as const]);
    const parked = new Set(['North/O0']);
    const effects = well.effects.slice(1);
    const deadLetters = ['{"tenantId":"North","operationId":"O0"}'];
    expect(brokenBy({ records, parked, effects, deadLetters })).toEqual([]);
    const calls = Array.from({ length: 13 }, (_, index) => call('O1', index * 100));
    expect(brokenBy({ calls, probes: 2 })).toEqual([]);
  });

  test('takes percentiles by nearest rank', () => {
    const hundred = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect([50, 99, 100].map((percent) => percentile(hundred, percent))).toEqual([50, 99, 100]);
    expect(percentile([], 99)).toBe(0);
  });
});

test('there is a drill for each kind of pressure, each with a name of its own', () => {
  expect(drills.map(({ name }) => name)).toEqual([
    'expensive-job',
    'duplicate-storm',
    'full-queue',
    'stalled-provider',
    'stalled-tenant',
    'outage',
    'cancelled-client',
    'noisy-neighbour',
    'poison',
    'worker-killed',
  ]);
});

test('a small poison drill runs on real processes, keeps every guarantee, and its report and JSON are whole', async () => {
  const drill = drills.find(({ name }) => name === 'poison');
  if (!drill) throw new Error('There is no such drill.');
  const phases: string[] = [];
  const result = await runDrill(drill, { size: 0.25, onPhase: (phase) => phases.push(phase) });
  expect(phases).toEqual(['starting', 'calm', 'pressure', 'back to baseline']);
  // How fast this machine is today is no matter of a test.
  expect(result.checks.filter((check) => !isKept(check) && check.guarantee !== 'p99')).toEqual([]);
  expect(result.evidence.poison.length).toBeGreaterThan(3);

  const document = JSON.parse(JSON.stringify(documentOf([result])));
  expect(document.drills).toHaveLength(1);
  expect(document.drills[0]).toMatchObject({ name: 'poison', ok: result.ok });
  for (const figure of [
    'operations',
    'effects',
    'deadLetters',
    'providerCalls',
    'maxWorkers',
    'maxConcurrentProviderCalls',
    'maxOpenConnections',
    'calmP50Ms',
    'calmP99Ms',
    'p50Ms',
    'p99Ms',
    'p99AllowedMs',
  ])
    expect({ figure, isMore: document.drills[0][figure] > 0 }).toEqual({ figure, isMore: true });
  // Sampled: so small a drill may be over between two looks.
  for (const figure of ['maxQueueDepth', 'secondsToBaseline'])
    expect(document.drills[0][figure]).toEqual(expect.any(Number));
  expect(document.drills[0].maxTemporaryFiles).toBe(0);

  const page = reportPage([result]);
  expect(page).toContain('id="poison"');
  expect(page).toContain('Poison in every batch');
  expect(page).not.toMatch(/(?:src|href)="(?!#)/);
  const [, data = ''] = /<script type="application\/json" id="drills">(.*?)<\/script>/s.exec(page) ?? [];
  const [plotted] = JSON.parse(data);
  expect(plotted.at.length).toBeGreaterThan(10);
  for (const series of ['workers', 'providerCalls', 'connections', 'queueDepth', 'temporaryFiles'])
    expect(plotted[series]).toHaveLength(plotted.at.length);
  expect(table([result])).toContain('| poison |');
}, 120_000);
