import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod/mini';
import type { Scene } from './drill';
import { type Check, count } from './judge';
import type { Body } from './sent-jobs';

interface Answer {
  readonly status: number;
  readonly retryAfterSeconds: number | undefined;
  /** Of an answer that tells of an operation. */
  readonly state: string | undefined;
  readonly isDone: boolean;
}

const told = z.object({
  state: z.optional(z.string()),
  done: z.optional(z.boolean()),
  operation: z.optional(z.object({ state: z.string() })),
});

/** One request of a client of the API. @returns undefined when the client dropped the connection before the answer */
async function ask(
  { stack }: Scene,
  method: string,
  path: string,
  { body, dropAfterMs }: { readonly body?: object; readonly dropAfterMs?: number } = {},
): Promise<Answer | undefined> {
  try {
    const response = await fetch(`${stack.endpoints.api}${path}`, {
      method,
      ...(dropAfterMs === undefined ? {} : { signal: AbortSignal.timeout(dropAfterMs) }),
      ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    const { state, done = false } = told.parse(await response.json());
    const after = response.headers.get('retry-after');
    const retryAfterSeconds = after === null ? undefined : Number(after);
    return { status: response.status, retryAfterSeconds, state, isDone: done };
  } catch (error) {
    if (dropAfterMs !== undefined) return undefined;
    throw error;
  }
}

/** Takes a job on. One that is answered with 202 or 200 must not be lost. */
async function put(scene: Scene, job: Body, dropAfterMs?: number): Promise<Answer | undefined> {
  const { tenantId, operationId, input } = job;
  const path = `/tenants/${tenantId}/charges/${operationId}`;
  const answer = await ask(scene, 'PUT', path, {
    body: input,
    ...(dropAfterMs === undefined ? {} : { dropAfterMs }),
  });
  if (answer?.status === 202 || answer?.status === 200) scene.jobs.accepted(job);
  return answer;
}

const operationPath = ({ tenantId, operationId }: Body) => `/tenants/${tenantId}/operations/${operationId}`;
const nameOf = ({ tenantId, operationId }: Body, answer: Answer | undefined) =>
  `${tenantId}/${operationId}: ${answer?.status ?? 'no answer'}`;

/** Fills one tenant's places and then the service's queue, and lets both drain. */
export async function fullQueue(scene: Scene): Promise<readonly Check[]> {
  const { stack, jobs, count: of } = scene;
  const { tenantMaxRunning, tenantMaxWaiting, queueMaxDepth } = stack.limits;
  await stack.eventSource.stop();

  const flood = Array.from({ length: of(30) }, () => jobs.body({ tenantId: 'Full' }));
  const flooded = await Promise.all(flood.map((job) => put(scene, job)));
  const others = ['North', 'South', 'East'].map((tenantId) => jobs.body({ tenantId }));
  const otherAnswers = await Promise.all(others.map((job) => put(scene, job)));

  const backlog = Array.from({ length: Math.round(queueMaxDepth * 1.2) }, (_, index) => ({
    tenantId: `Backlog-${index % 40}`,
  }));
  await jobs.send(...backlog);
  // The API knows the queue's depth as it was up to 5 s ago.
  await sleep(5500);
  const late = jobs.body({ tenantId: 'Late' });
  const whileFull = await put(scene, late);
  const [known = late] = flood.filter((_, index) => flooded[index]?.status === 202);
  const knownWhileFull = await put(scene, known);

  stack.eventSource.start();
  const onceDrained = await untilAccepted(scene, late);
  const isTold = (answer: Answer | undefined, status: number) =>
    answer?.status === status && (answer.retryAfterSeconds ?? 0) > 0;
  const named = (
    list: readonly Body[],
    answers: readonly (Answer | undefined)[],
    isWell: (a?: Answer) => boolean,
  ) =>
    list.filter((_, index) => !isWell(answers[index])).map((job) => nameOf(job, answers[list.indexOf(job)]));
  return [
    {
      guarantee: 'G7',
      rule: 'operations of one tenant that are taken on and unfinished',
      got: flooded.filter((answer) => answer?.status === 202).length,
      allowed: tenantMaxRunning + tenantMaxWaiting,
    },
    count(
      'G7',
      "answers beyond a tenant's places that are not 429 with Retry-After",
      named(flood, flooded, (answer) => answer?.status === 202 || isTold(answer, 429)),
    ),
    count(
      'G7',
      "other tenants' jobs that are refused because of it",
      named(others, otherAnswers, (answer) => answer?.status === 202),
    ),
    count(
      'API',
      'answers of a full queue that are not 503 with Retry-After',
      isTold(whileFull, 503) ? [] : [nameOf(late, whileFull)],
    ),
    count(
      'API',
      'known operations that a full queue does not answer with 200',
      knownWhileFull?.status === 200 ? [] : [nameOf(known, knownWhileFull)],
    ),
    count(
      'API',
      'jobs that are refused once the queue has drained',
      onceDrained?.status === 202 ? [] : [nameOf(late, onceDrained)],
    ),
  ];
}

/** Asks again as long as the API says when to, for half a minute at most. */
async function untilAccepted(scene: Scene, job: Body): Promise<Answer | undefined> {
  const untilMs = performance.now() + 30_000;
  for (;;) {
    const answer = await put(scene, job);
    const isTaken = answer?.status === 202 || answer?.status === 200;
    if (isTaken || performance.now() >= untilMs) return answer;
    await sleep(500);
  }
}

/** What the API told the client of one operation. */
interface Told {
  readonly job: Body;
  readonly wasCancelled: boolean;
  readonly last: Answer | undefined;
  /** Connections that the client dropped. */
  readonly drops: number;
}

/** Clients that hang up at any moment, and find out afterwards. */
export async function cancelledClients(scene: Scene): Promise<readonly Check[]> {
  const { stack, jobs, provider, count: of } = scene;
  const clients = Array.from({ length: of(40) }, (_, index) => index);
  const all: Told[] = [];
  const lanes = Array.from({ length: 4 }, async () => {
    for (let index = clients.shift(); index !== undefined; index = clients.shift())
      all.push(await oneClient(scene, jobs.body({ tenantId: `Client-${index % 10}` }), index));
  });
  await Promise.all(lanes);
  const charged = new Set(
    provider.ledger().map(({ metadata }) => `${metadata.tenantId}/${metadata.operationId}`),
  );
  const keyOf = ({ job }: Told) => `${job.tenantId}/${job.operationId}`;
  const states = new Map<Told, unknown>();
  for (const one of all)
    states.set(one, (await stack.operation(one.job.tenantId, one.job.operationId))?.state);
  return [
    count(
      'G9',
      'operations that the API called cancelled and that were charged, or are not cancelled in the table',
      all
        .filter((one) => one.wasCancelled && (charged.has(keyOf(one)) || states.get(one) !== 'cancelled'))
        .map(keyOf),
    ),
    count(
      'G2',
      'clients that were never told an end',
      all.filter(({ last }) => last?.isDone !== true).map(({ job, last }) => nameOf(job, last)),
    ),
    count(
      'API',
      'ends that the API tells otherwise than the table',
      all.filter((one) => one.last?.state !== states.get(one)).map(keyOf),
    ),
    count(
      'drill',
      'kinds of ends that never happened: a dropped connection, a cancel that was granted, a charge',
      [
        ...(all.some(({ drops }) => drops > 0) ? [] : ['no connection was dropped']),
        ...(all.some(({ wasCancelled }) => wasCancelled) ? [] : ['no cancel was granted']),
        ...(all.some(({ last }) => last?.state === 'succeeded') ? [] : ['nothing was charged']),
      ],
    ),
  ];
}

async function oneClient(scene: Scene, job: Body, index: number): Promise<Told> {
  let drops = 0;
  const counted = (answer: Answer | undefined) => {
    if (!answer) drops += 1;
    return answer;
  };
  // The moments differ from client to client, and are the same in each run.
  counted(await put(scene, job, 1 + ((index * 7) % 40)));
  let wasCancelled = false;
  if (index % 2 === 0) {
    await sleep((index * 13) % 120);
    const cancel = (dropAfterMs?: number) =>
      ask(scene, 'POST', `${operationPath(job)}/cancel`, {
        ...(dropAfterMs === undefined ? {} : { dropAfterMs }),
      });
    if (index % 4 === 0) counted(await cancel(1 + ((index * 3) % 20)));
    wasCancelled = (await cancel())?.status === 200;
  }
  counted(await put(scene, job, 5 + ((index * 11) % 30)));
  // The last one waits for its answer: from then on the operation is the service's.
  await untilAccepted(scene, job);
  const last = await untilDone(scene, job);
  return { job, wasCancelled, last, drops };
}

async function untilDone(scene: Scene, job: Body): Promise<Answer | undefined> {
  const untilMs = performance.now() + 30_000;
  for (;;) {
    const answer = await ask(scene, 'GET', operationPath(job));
    if (answer?.isDone === true || performance.now() >= untilMs) return answer;
    await sleep(200);
  }
}
