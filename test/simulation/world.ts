import { createHash } from 'node:crypto';
import type { Context } from 'aws-lambda';
import type { ConditionalUpdate, Updated } from '../../lambdas/adapters/table-client';
import { bringOn } from '../../lambdas/operation/bring-on';
import { type Disposition, durableFromDelivery } from '../../lambdas/operation/delivery';
import { type Limits, limitsFrom, visibilityTimeoutSeconds } from '../../lambdas/operation/limits';
import type { Operation, OperationId } from '../../lambdas/operation/operation';
import type { Finding } from '../../lambdas/operation/outcome';
import { keyOf } from '../../lambdas/operation/ports';
import { isTerminal } from '../../lambdas/operation/state';
import { work } from '../../lambdas/work';
import { InvalidExpression, type Item } from '../support/expression';
import { GuaranteeBroken, Guarantees } from './guarantees';
import { beginMs, digestIn, idOf, keyIn } from './jobs';
import type { Mutant } from './mutants';
import { People } from './people';
import type { Ambush, Fault, Moment, Plan, Port, ProviderFault, Situation, Switch } from './plan';
import { type Build, Process, type ServicePorts } from './process';
import { ProviderTwin } from './provider-twin';
import { type QueuedMessage, QueueTwin } from './queue-twin';
import { TableTwin } from './table-twin';
import { VirtualTime } from './virtual-time';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
/** How long it may take after the last event from outside until nothing happens any more. */
const calmMs = 12 * dayMs;
/** More is no rest: once nothing comes from outside any more, and before that, where a pause may hold many for days. */
const mostSteps = { calm: 60_000, all: 1_000_000 };

export interface Run {
  /** The guarantee that broke, and how. */
  readonly violation: string | undefined;
  /** SHA-256 of everything that happened. */
  readonly hash: string;
  readonly trace: readonly string[];
  readonly reached: ReadonlyMap<Switch | Situation, number>;
  readonly operations: number;
  readonly steps: number;
}

/** Told of every update of the table, and of its answer. */
export type Observer = (partitionKey: string, update: ConditionalUpdate, answer: Updated) => void;

/** Runs one plan from its first event until nothing happens any more. */
export async function runPlan(plan: Plan, mutant?: Mutant, observer?: Observer): Promise<Run> {
  const world = new World(plan, mutant, observer);
  await world.run();
  return world.result();
}

/** Everything outside the code under test, and the code under test on it, in virtual time. */
export class World {
  readonly time: VirtualTime;
  readonly table = new TableTwin();
  readonly queue: QueueTwin;
  readonly provider: ProviderTwin;
  readonly guarantees: Guarantees;
  readonly limits: Limits;
  readonly random: () => number;
  readonly #on: ReadonlySet<Switch>;
  readonly #people = new People(this);
  readonly #calls = new Map<Port, number>();
  readonly #moments = new Map<Moment, number>();
  readonly #reached = new Map<Switch | Situation, number>();
  readonly #trace: string[] = [];
  readonly #tenants = new Set<string>();
  readonly #builds: Build[] = [{ providerKeyPrefix: 'prod', paramsVersion: 1 }];
  #violation: string | undefined;
  #isCalm = false;
  #latencies = 0;
  #skews = 0;
  #ids = 0;
  #processes = 0;
  #running = 0;
  #steps = 0;
  #stepsUntilCalm = 0;
  #tickAtMs: number | undefined;
  #idleTicks = 0;
  #outage: { readonly untilMs: number; readonly fault: Fault } | undefined;

  constructor(
    readonly plan: Plan,
    readonly mutant: Mutant | undefined,
    readonly observer: Observer | undefined,
  ) {
    const { tenantDailyCalls, providerDailyCalls, ...limits } = plan.limits;
    this.limits = limitsFrom({
      ...limits,
      // Each is a read of every run of the reconciler.
      openShards: 2,
      // A refund of a charge that never ends asks every few minutes until then.
      deadlineHours: 3,
      ...(tenantDailyCalls === null ? {} : { tenantDailyCalls }),
      ...(providerDailyCalls === null ? {} : { providerDailyCalls }),
    });
    this.#on = new Set(plan.on);
    this.random = randomFrom(plan.seed);
    this.time = new VirtualTime(beginMs);
    this.provider = new ProviderTwin(this.time, {
      landed: (operation, what) => this.say(`provider: ${keyOf(operation)} lands, ${what}`),
      reached: (situation) => this.reached(situation),
    });
    this.guarantees = new Guarantees(this.limits, this.provider, () => this.time.nowMs());
    this.queue = new QueueTwin(this.time, {
      visibilityTimeoutMs: visibilityTimeoutSeconds(this.limits) * 1000,
      maxReceiveCount: this.limits.maxReceiveCount,
      onVisible: (atMs) => this.time.at(atMs + this.latency(), () => this.#poll()),
      onDeadLettered: ({ messageId }) => {
        this.reached('deadLettered');
        this.say(`queue: ${messageId} is dead-lettered`);
      },
      onRedriven: ({ messageId }, afterMs) => {
        if (afterMs >= hourMs) this.reached('redrivenLate');
        this.say(`queue: ${messageId} is redriven`);
      },
    });
  }

  // What happens, in what order.

  async run(): Promise<void> {
    const beganMs = this.time.nowMs();
    let lastMs = beganMs;
    for (const [index, planned] of this.plan.operations.entries()) {
      const atMs = this.time.nowMs() + planned.atMs;
      this.#tenants.add(idOf(this.plan, index).tenantId);
      this.time.at(atMs, () => this.#people.begin(index, planned));
      lastMs = Math.max(lastMs, atMs);
    }
    let atMs = this.time.nowMs();
    for (const action of this.plan.actions) {
      if (!this.#on.has(action.kind)) continue;
      // As long as messages live.
      atMs += atMs + action.afterMs < beganMs + 20 * dayMs ? action.afterMs : 0;
      this.time.at(atMs, () => this.#people.act(action));
      lastMs = Math.max(lastMs, atMs);
    }
    await this.#runUntil(lastMs + hourMs);
    if (this.isStopped()) return;
    this.#isCalm = true;
    this.#stepsUntilCalm = this.#steps;
    this.#outage = undefined;
    this.say('calm');
    if (this.#on.has('pause') || this.#on.has('ambush')) this.#people.resume();
    await this.#toRest();
    if (this.#leavesToPerson()) {
      this.reached('redrivenByHand');
      this.queue.redrive();
      await this.#toRest();
    }
    this.#judgeEnd();
    if (this.isStopped()) return;
    this.#people.probe(this.#tenants);
    await this.#toRest();
    this.#judgeEnd();
  }

  /**
   * Where workers die or reach nothing from a message's fifth delivery on, it is a dead letter while its record says that
   * it runs or waits: a person, whom the alarm of the dead-letter queue calls, redrives it.
   */
  #leavesToPerson(): boolean {
    if (this.isStopped()) return false;
    const open = [...this.guarantees.records()].filter(
      ([key, { state }]) => (state === 'running' || state === 'queued') && this.#isDeadLettered(key),
    );
    for (const [key] of open) {
      const letters = this.queue.deadLetters.filter(({ body }) => keyIn(body) === key);
      const fifthAtMs = Math.max(
        ...letters.map(({ receivedAtMs }) => receivedAtMs[durableFromDelivery - 1] ?? 0),
      );
      this.#tryToGuard(() => this.guarantees.judgeDeadLetter(key, fifthAtMs));
    }
    return open.length > 0;
  }

  #judgeEnd(): void {
    if (this.isStopped()) return;
    this.#tryToGuard(() => {
      const deadLetters = this.queue.deadLetters.map(({ body }) => keyIn(body));
      const left = this.queue.messages().map(({ body }) => keyIn(body));
      const tenants = [...this.#tenants]
        .map((id) => this.table.item(`tenant#${id}`))
        .filter((item) => !!item);
      this.guarantees.judgeEnd(left, deadLetters, tenants);
    });
  }

  result(): Run {
    return {
      violation: this.#violation,
      hash: createHash('sha256').update(this.#trace.join('\n')).digest('hex'),
      trace: this.#trace,
      reached: this.#reached,
      operations: [...this.guarantees.records()].length,
      steps: this.#steps,
    };
  }

  /** Until that time, or a guarantee breaks. */
  async #runUntil(untilMs: number): Promise<void> {
    let isOver = false;
    this.time.at(untilMs, () => {
      isOver = true;
    });
    while (!isOver && !this.isStopped()) await this.#step();
  }

  /** Until everything has ended, or is with a person. */
  async #toRest(): Promise<void> {
    const untilMs = this.time.nowMs() + calmMs;
    while (!this.isStopped() && this.time.nowMs() < untilMs && !this.#isAtRest())
      if (!(await this.#step())) return;
  }

  #isAtRest(): boolean {
    if (this.#running > 0 || this.queue.messages().length > 0) return false;
    for (const [key, record] of this.guarantees.records()) {
      if (isTerminal(record.state)) continue;
      if (this.provider.effectsOf(key).length > 0) return false;
      // A parked one is asked about after the quiet hour, and then seldom.
      if (record.state !== 'parked' || this.time.nowMs() - record.updatedAtMs < 8 * hourMs) return false;
    }
    for (const key of this.guarantees.promised)
      if (!this.guarantees.record(key)) return this.#isDeadLettered(key);
    return true;
  }

  #isDeadLettered(key: string): boolean {
    return this.queue.deadLetters.some(({ body }) => keyIn(body) === key);
  }

  async #step(): Promise<boolean> {
    this.#steps += 1;
    const most = this.#isCalm ? this.#stepsUntilCalm + mostSteps.calm : mostSteps.all;
    if (this.#steps > most) this.break(`G12 it never rests: ${this.#steps} steps`);
    const isStepped = await this.time.step();
    this.#tryToGuard(() => this.guarantees.judge());
    this.#planTick();
    return isStepped;
  }

  // What goes wrong.

  isStopped(): boolean {
    return this.#violation !== undefined;
  }

  /** Nothing comes from outside any more. */
  isOver(): boolean {
    return this.#isCalm || this.isStopped();
  }

  /** Runs what may find that a guarantee broke, which ends the run. */
  guard<T>(judge: () => T): T {
    try {
      return judge();
    } catch (error) {
      if (error instanceof GuaranteeBroken) this.break(error.message);
      if (error instanceof InvalidExpression)
        this.break(`G12 the table refuses a write that can never succeed: ${error.message}`);
      throw error;
    }
  }

  /** A guarantee does not hold: the run ends. */
  break(violation: string): void {
    if (this.#violation !== undefined) return;
    this.#violation = violation;
    this.say(`BROKEN: ${violation}`);
  }

  /** The fault that is planned for this call of a port. */
  fault(port: Port): Fault | undefined {
    const nth = this.#calls.get(port) ?? 0;
    this.#calls.set(port, nth + 1);
    if (this.#isCalm) return undefined;
    const fault = this.plan.faults.find(
      (one) => one.port === port && one.nth <= nth && nth < one.nth + one.times && this.#on.has(one.kind),
    );
    if (fault) {
      this.reached(fault.kind);
      this.say(`fault: ${fault.kind} at ${port} ${nth}`);
    }
    return fault;
  }

  /** Who comes in between what a process saw and what it does about it. */
  ambush({ name }: Process, moment: Moment, id: OperationId | undefined): Ambush | undefined {
    const nth = this.#moments.get(moment) ?? 0;
    this.#moments.set(moment, nth + 1);
    if (this.#isCalm || !this.#on.has('ambush')) return undefined;
    const ambush = this.plan.ambushes.find((one) => one.moment === moment && one.nth === nth);
    if (!ambush) return undefined;
    this.reached('ambush');
    this.say(
      `ambush: ${name} at ${moment} ${nth} ${ambush.dies ? 'dies' : 'stalls'} ${ambush.holdMs}, ${ambush.kind}`,
    );
    this.time.after(ambush.afterMs, () => {
      if (!this.isOver()) this.#people.ambush(ambush, id);
    });
    return ambush;
  }

  /** What a call meets while the provider is away. */
  outage(): Fault | undefined {
    return this.#outage && this.time.nowMs() < this.#outage.untilMs ? this.#outage.fault : undefined;
  }

  beginOutage(kind: ProviderFault, forMs: number, amount: number): void {
    const fault = { kind, port: 'post', nth: 0, times: 1, amount } as const;
    this.#outage = { untilMs: this.time.nowMs() + forMs, fault };
  }

  /** From now on processes run a build with another key prefix and other parameters. */
  deploy(): void {
    const count = this.#builds.length;
    this.#builds.push({ providerKeyPrefix: `prod${count}`, paramsVersion: 1 + count });
  }

  reached(what: Switch | Situation): void {
    this.#reached.set(what, (this.#reached.get(what) ?? 0) + 1);
  }

  say(line: string): void {
    this.#trace.push(`${this.time.nowMs()} ${line}`);
  }

  latency(): number {
    const { latencies } = this.plan;
    return latencies[this.#latencies++ % latencies.length] ?? 1;
  }

  newId(): string {
    this.#ids += 1;
    return `c${this.#ids}`;
  }

  written(writer: Process, partitionKey: string, before: Item | undefined, after: Item): void {
    if (partitionKey.startsWith('provider#')) this.guarantees.providerWritten(writer, before, after);
    if (partitionKey.startsWith('tenant#'))
      this.guarantees.tenantWritten(writer, partitionKey, before, after);
    if (!partitionKey.startsWith('op#')) return;
    const { state, claimId, attemptCount, parkedReason } = after;
    this.say(
      `${writer.name} writes ${partitionKey} ${before?.state ?? 'new'} -> ${state} ${claimId} attempts ${attemptCount} ${parkedReason ?? ''}${after.effectPossibleSinceMs === undefined ? '' : ' possible'}${after.dueAtMs === undefined ? '' : ` due ${after.dueAtMs}`}`,
    );
    if (before?.state === 'running' && state === 'running' && before.claimId !== claimId)
      this.reached('leaseLapsed');
    if (state === 'parked' && before?.state !== 'parked') this.reached('parked');
    if (before && after.absentProvenAtMs !== before.absentProvenAtMs) this.reached('absenceProven');
    const ends = (state === 'succeeded' || state === 'failed') && before?.state !== state;
    if (ends && writer.name.startsWith('R')) this.reached('settledByReconciler');
    this.guarantees.written(writer, partitionKey, before, after);
    if (!before && after.acceptedBy === 'api') {
      const [, tenantId = ''] = partitionKey.split('#');
      this.guarantees.admitted(tenantId);
    }
  }

  disposed({ kind, reason }: Disposition): void {
    if (reason === 'replay') this.reached('replayed');
    if (reason === 'retry_budget') this.reached('budgetRefused');
    if (kind === 'defer' && reason.startsWith('tenant_')) this.reached('tenantFull');
  }

  /** What the provider lists of an operation, or what a planted bug makes of it. */
  find(operation: Operation): Finding {
    return this.mutant?.find?.(this, operation) ?? this.provider.find(operation);
  }

  // The code under test.

  #process(kind: string, timeoutMs: number): Process {
    this.#processes += 1;
    const { skews } = this.plan;
    const skewMs = skews[this.#skews++ % skews.length] ?? 0;
    if (skewMs !== 0) this.reached('skew');
    const build = this.#builds.at(-1) ?? { providerKeyPrefix: 'prod', paramsVersion: 1 };
    const process = new Process(
      `${kind}${this.#processes}`,
      this,
      skewMs,
      build,
      this.time.nowMs() + timeoutMs,
    );
    this.#running += 1;
    this.time.after(timeoutMs, () => {
      process.kill();
      this.#running -= 1;
    });
    return process;
  }

  /** Runs a function's code, which ends by itself, or dies. */
  #invoke<T>(process: Process, run: () => Promise<T>, then: (value: T) => void): void {
    run().then(
      (value) => {
        if (process.isDead || this.isStopped()) return;
        process.end();
        this.#judgeTold(process);
        then(value);
      },
      (error: unknown) => {
        if (process.isDead || this.isStopped()) return;
        process.end();
        this.say(`${process.name} throws ${error instanceof Error ? error.message : String(error)}`);
      },
    );
  }

  #judgeTold({ name, untold }: Process): void {
    const [first] = untold;
    if (first !== undefined) this.break(`G11 ${name} changed ${first}, and told nobody`);
  }

  #poll(): void {
    if (this.isStopped()) return;
    const fault = this.fault('receive');
    const order = (messages: QueuedMessage[]) =>
      fault?.kind === 'reorder'
        ? messages.toSorted((a, b) => (hashOf(a.messageId) < hashOf(b.messageId) ? -1 : 1))
        : messages;
    const records = this.queue.receive(this.limits.batchSize, order);
    if (records.length === 0) return;
    if (fault?.kind === 'duplicate')
      for (const { messageId } of records) this.queue.showAgain(messageId, fault.amount * 20_000);
    if (this.mutant?.acknowledgesFirst)
      for (const { receiptHandle } of records) this.queue.delete(receiptHandle);
    const timeoutMs = this.limits.workerTimeoutSeconds * 1000;
    const worker = this.#process('W', timeoutMs);
    for (const { body, attributes } of records) {
      const key = keyIn(body);
      worker.asked.set(key, digestIn(body) ?? '');
      worker.newest.set(key, Math.max(worker.newest.get(key) ?? 0, Number(attributes.SentTimestamp)));
    }
    this.say(`${worker.name} gets ${records.map(({ receiptHandle }) => receiptHandle).join(' ')}`);
    const within = async (leftMs: number, run: () => Promise<void>) => {
      await Promise.race([run(), worker.sleep(leftMs)]);
    };
    const context = contextOf(worker.name, () => worker.endsAtMs - this.time.nowMs());
    this.#invoke(
      worker,
      () => work(worker.worker(), { Records: records }, context, within),
      ({ batchItemFailures }) => {
        const failed = new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
        for (const { messageId, receiptHandle, body } of records) {
          const disposition = worker.disposed.get(messageId);
          const isGivenUp = this.mutant?.acknowledgesParked === true && disposition?.kind === 'giveUp';
          const isDone = !failed.has(messageId) || isGivenUp;
          this.#judgeDone(messageId, disposition, isDone);
          if (isDone) this.#acknowledge(receiptHandle, body, worker.startedMs);
        }
      },
    );
  }

  #judgeDone(messageId: string, disposition: Disposition | undefined, isDone: boolean): void {
    if (this.mutant?.acknowledgesParked) return;
    if (isDone !== (disposition?.kind === 'acknowledge'))
      this.break(`G10 ${messageId} is ${isDone ? 'done' : 'failed'}, and it was told: ${disposition?.kind}`);
  }

  /** The event source takes a message off the queue. */
  #acknowledge(receiptHandle: string, body: string, sinceMs: number): void {
    const fault = this.fault('ack');
    this.time.after(this.latency(), () => {
      if (this.isStopped()) return;
      this.#tryToGuard(() => this.guarantees.acknowledged(keyIn(body), digestIn(body), sinceMs));
      if (fault === undefined || fault.kind === 'loseAnswer') this.queue.delete(receiptHandle);
    });
  }

  /** Where nothing waits for the answer. */
  #tryToGuard(judge: () => void): void {
    try {
      this.guard(judge);
    } catch {
      // It is kept as the run's violation.
    }
  }

  /** The reconciler runs each minute. Runs that find nothing due are left out: they only read. */
  #planTick(): void {
    const nowMs = this.time.nowMs();
    // What is only asked about again is asked about less and less often, so that weeks pass quickly.
    const widerMs = Math.min(12 * hourMs, minuteMs * 2 ** this.#idleTicks) - minuteMs;
    const dueMs = Math.min(
      Math.max(nowMs, this.table.nextDueMs(['queued', 'running'])),
      Math.max(nowMs, this.table.nextDueMs(['parked', 'settling'])) + widerMs,
    );
    if (!Number.isFinite(dueMs)) return;
    const atMs = Math.ceil((dueMs + 1) / minuteMs) * minuteMs;
    if (this.#tickAtMs !== undefined && this.#tickAtMs <= atMs) return;
    this.#tickAtMs = atMs;
    this.time.at(atMs, () => {
      if (this.#tickAtMs !== atMs || this.isStopped()) return;
      this.#tickAtMs = undefined;
      if (this.table.nextDueMs() > atMs) return;
      const fault = this.fault('tick');
      // What is scheduled is invoked at least once.
      if (fault?.kind === 'duplicate') this.time.after(fault.amount * 2000, () => this.#tick());
      this.#tick();
    });
  }

  #tick(): void {
    if (this.isStopped()) return;
    const reconciler = this.#process('R', minuteMs);
    const ports = reconciler.service();
    this.#invoke(
      reconciler,
      () => bringOn(ports, ports.clock() + minuteMs / 2),
      ({ sent, settled, escalated, left, failed }) => {
        this.#idleTicks = sent + settled + escalated + failed > 0 ? 0 : Math.min(9, this.#idleTicks + 1);
        this.say(`${reconciler.name} sent ${sent} settled ${settled} left ${left} failed ${failed}`);
      },
    );
  }

  /** One invocation of a function of the API, or of an operator's. */
  call<T>(kind: string, run: (ports: ServicePorts) => Promise<T>, then: (value: T) => void = () => {}): void {
    const process = this.#process(kind, 10_000);
    this.#invoke(
      process,
      () => run(process.service()),
      (value) => {
        this.say(`${process.name} answers ${JSON.stringify(value)}`);
        then(value);
      },
    );
  }
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Mulberry32: 32 bits of state are enough for jitter. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const contextOf = (name: string, getRemainingTimeInMillis: () => number): Context => ({
  awsRequestId: name,
  functionName: 'worker',
  functionVersion: '$LATEST',
  invokedFunctionArn: 'arn:aws:lambda:us-east-1:000000000000:function:worker',
  memoryLimitInMB: '512',
  logGroupName: 'worker',
  logStreamName: 'worker',
  callbackWaitsForEmptyEventLoop: false,
  getRemainingTimeInMillis,
  done: () => {},
  fail: () => {},
  succeed: () => {},
});
