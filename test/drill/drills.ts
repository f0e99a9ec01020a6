import { setTimeout as sleep } from 'node:timers/promises';
import { cancelledClients, fullQueue } from './api-clients';
import type { Drill, Scene } from './drill';
import { count } from './judge';
import type { SendJob } from './sent-jobs';

/** Every drill, in the order in which they run. */
export const drills: readonly Drill[] = [
  {
    name: 'expensive-job',
    title: 'Expensive job',
    what: "One tenant sends jobs whose call takes 2.5 s at the provider; the others' calls take 50 ms.",
    limits: { workerTimeoutSeconds: 6, providerTimeoutSeconds: 3 },
    providerLatencyMs: 50,
    areOthersBarred: true,
    press: expensiveJob,
  },
  {
    name: 'duplicate-storm',
    title: 'Duplicate storm',
    what: '200 jobs of ten tenants are sent five times each, one copy soon after the other, within 25 s.',
    providerLatencyMs: 50,
    areOthersBarred: true,
    press: duplicateStorm,
  },
  {
    name: 'full-queue',
    title: 'Full queue',
    what: 'Delivery stops. One tenant fills its places through the API and the queue fills to its bound; then delivery starts again.',
    limits: { queueMaxDepth: 250 },
    providerLatencyMs: 50,
    api: true,
    othersPerSecond: 2,
    areOthersBarred: false,
    press: fullQueue,
  },
  {
    name: 'stalled-provider',
    title: 'Stalled provider',
    what: 'For 15 s no call is answered: half of them have charged before they hang, half never do.',
    providerLatencyMs: 50,
    areOthersBarred: false,
    press: stalledProvider,
  },
  {
    name: 'stalled-tenant',
    title: "One tenant's stall",
    what: "For 15 s the calls of one tenant hang until the worker gives them up; the others' are answered.",
    providerLatencyMs: 50,
    areOthersBarred: true,
    press: stalledTenant,
  },
  {
    name: 'outage',
    title: '60 s outage',
    what: 'For 60 s the provider answers 503, resets connections, or charges and loses its answer, in turns, while jobs keep coming.',
    providerLatencyMs: 50,
    othersPerSecond: 2,
    areOthersBarred: false,
    press: outage,
  },
  {
    name: 'cancelled-client',
    title: 'Cancelled client',
    what: 'Clients of the API send and drop the connection, then cancel, ask and send again, with dropped connections too.',
    providerLatencyMs: 150,
    api: true,
    areOthersBarred: false,
    press: cancelledClients,
  },
  {
    name: 'noisy-neighbour',
    title: 'Noisy neighbour',
    what: 'One tenant sends 60 jobs at once and then 8 a second for 10 s, straight to the queue.',
    providerLatencyMs: 50,
    areOthersBarred: true,
    press: noisyNeighbour,
  },
  {
    name: 'poison',
    title: 'Poison in every batch',
    what: 'For 12 s every batch has a message that no worker can run: not JSON, too large, invalid, or other inputs under a known id.',
    providerLatencyMs: 50,
    areOthersBarred: true,
    press: poison,
  },
  {
    name: 'worker-killed',
    title: 'Worker killed every second',
    what: 'For 20 s a worker process is killed (SIGKILL) each second, a busy one where there is one, while jobs flow.',
    providerLatencyMs: 150,
    othersPerSecond: 3,
    areOthersBarred: false,
    press: workerKilled,
  },
];

/** Tenants that a drill's own jobs are spread over. */
const many = (tenants: number, index: number): string => `Tenant-${index % tenants}`;

/** Without end for a drill. */
const always = { times: 1_000_000 };

async function expensiveJob({ jobs, provider, count: of, lasting }: Scene) {
  const heavy = Array.from({ length: of(12) }, () => jobs.body({ tenantId: 'Heavy' }));
  for (const { operationId } of heavy)
    provider.fault(
      { kind: 'stall', ms: 2500, effect: 'none' },
      { operationId: `Heavy/${operationId}`, ...always },
    );
  await jobs.send(...heavy);
  await sleep(lasting(15));
  provider.clearFaults();
  return [];
}

async function duplicateStorm({ jobs, count: of, lasting }: Scene) {
  const bodies = Array.from({ length: of(200) }, (_, index) => jobs.body({ tenantId: many(10, index) }));
  for (const body of bodies) jobs.accepted(body);
  const copies = mixed(bodies.map((body) => JSON.stringify(body)));
  const pauseMs = lasting(25) / Math.ceil(copies.length / 10);
  for (let from = 0; from < copies.length; from += 10) {
    await jobs.put(copies.slice(from, from + 10));
    await sleep(pauseMs);
  }
  return [];
}

/** Five of each, among those of the seven before and after: some meet their twin while it runs, some after its end. */
function mixed(texts: readonly string[]): string[] {
  const copies = 5;
  return texts
    .flatMap((text, index) =>
      Array.from({ length: copies }, (_, copy) => ({
        text,
        place: index * copies + ((copy * 11 + index * 7) % 40),
      })),
    )
    .sort((one, other) => one.place - other.place)
    .map(({ text }) => text);
}

async function stalledProvider({ jobs, provider, lasting }: Scene) {
  for (let index = 0; index < 500; index++)
    provider.fault(
      { kind: 'stall', ms: 60_000, effect: index % 2 === 0 ? 'done' : 'none' },
      { method: 'POST' },
    );
  await sendSteadily(jobs, lasting(15), 4, (index) => [{ tenantId: many(10, index) }]);
  provider.clearFaults();
  return [];
}

async function stalledTenant({ jobs, provider, count: of, lasting }: Scene) {
  const slow = Array.from({ length: of(8) }, () => jobs.body({ tenantId: 'Slow' }));
  for (const [index, { operationId }] of slow.entries())
    provider.fault(
      { kind: 'stall', ms: 60_000, effect: index % 2 === 0 ? 'done' : 'none' },
      { operationId: `Slow/${operationId}`, ...always },
    );
  await jobs.send(...slow);
  await sleep(lasting(15));
  provider.clearFaults();
  return [];
}

async function outage({ jobs, provider, lasting }: Scene) {
  const faults = [
    { kind: 'answer', status: 503 },
    { kind: 'reset', effect: 'none' },
    { kind: 'reset', effect: 'done' },
  ] as const;
  for (let index = 0; index < 900; index++) provider.fault(faults[index % faults.length] ?? faults[0]);
  await sendSteadily(jobs, lasting(60), 2, (index) => [{ tenantId: many(10, index) }]);
  provider.clearFaults();
  return [];
}

async function noisyNeighbour({ jobs, count: of, lasting }: Scene) {
  await jobs.send(...Array.from({ length: of(60) }, () => ({ tenantId: 'Noisy' })));
  await sendSteadily(jobs, lasting(10), 8, () => [{ tenantId: 'Noisy' }]);
  return [];
}

async function poison({ stack, jobs, lasting }: Scene) {
  const [known] = await jobs.send({ tenantId: 'Known' });
  let batches = 0;
  let poisoned = 0;
  const bad = new Set<string>();
  const stopCounting = stack.onEvent((event) => {
    if (event.type !== 'received') return;
    batches += 1;
    if (event.records.some(({ body }) => bad.has(body))) poisoned += 1;
  });
  await sendEvery(lasting(12), 400, async (index) => {
    const good = Array.from({ length: 4 }, (_, place) =>
      jobs.body({ tenantId: many(12, index * 4 + place), isMeasured: true }),
    );
    for (const body of good) jobs.accepted(body, true);
    const text = jobs.isPoison(poisonOf(index, known));
    bad.add(text);
    const texts = good.map((body) => JSON.stringify(body));
    // One request, so that one batch gets all five.
    await jobs.put([...texts.slice(0, 2), text, ...texts.slice(2)]);
  });
  stopCounting();
  return [
    {
      guarantee: 'drill',
      rule: 'share of the batches that had no poison',
      got: batches === 0 ? 100 : (100 * (batches - poisoned)) / batches,
      allowed: 50,
      unit: '%',
    },
  ];
}

/** Messages that no worker can run, each with an index that makes it one of its own. */
function poisonOf(index: number, known: object | undefined): string {
  const invalid = { version: 1, tenantId: 'Bad', operationId: `bad-${index}`, type: 'charge' };
  const kinds = [
    () => `{ not JSON ${index}`,
    () => JSON.stringify({ ...invalid, input: { amountMinor: '12.50' } }),
    () => JSON.stringify({ ...invalid, input: {}, padding: 'x'.repeat(20_000) }),
    () => JSON.stringify([index]),
    () => JSON.stringify({ ...known, input: { ...Object(known).input, amountMinor: 9000 + index } }),
  ];
  return (kinds[index % kinds.length] ?? kinds[0])?.() ?? '';
}

async function workerKilled({ stack, jobs, lasting }: Scene) {
  let kills = 0;
  const killing = sendEvery(lasting(20), 1000, async () => {
    const [pid] = [...stack.workers.busyPids(), ...stack.workers.pids()];
    if (pid !== undefined && stack.workers.kill(pid, 'SIGKILL')) kills += 1;
  });
  await Promise.all([
    killing,
    sendSteadily(jobs, lasting(20), 4, (index) => [{ tenantId: many(10, index) }]),
  ]);
  return [count('drill', 'kills that never happened', kills > 0 ? [] : ['no worker was there to be killed'])];
}

const sendSteadily = (
  jobs: Scene['jobs'],
  forMs: number,
  perSecond: number,
  next: (index: number) => readonly SendJob[],
): Promise<void> =>
  sendEvery(forMs, 1000 / perSecond, async (index) => {
    await jobs.send(...next(index));
  });

/** Does something again and again for some time, at a steady pace. */
async function sendEvery(
  forMs: number,
  everyMs: number,
  act: (index: number) => Promise<void>,
): Promise<void> {
  const startedMs = performance.now();
  for (let index = 0; performance.now() - startedMs < forMs; index++) {
    await act(index);
    await sleep(Math.max(0, startedMs + (index + 1) * everyMs - performance.now()));
  }
}
