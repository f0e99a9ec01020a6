import { DynamoDbProviderSwitch } from '../../lambdas/adapters/dynamodb-provider-switch';
import { DynamoDbServiceCalls } from '../../lambdas/adapters/dynamodb-service-calls';
import { DynamoDbStore } from '../../lambdas/adapters/dynamodb-store';
import { DynamoDbTenants } from '../../lambdas/adapters/dynamodb-tenants';
import type { ConditionalUpdate, Table, Updated } from '../../lambdas/adapters/table-client';
import type { AcceptPorts } from '../../lambdas/operation/accept';
import type { BringOnPorts } from '../../lambdas/operation/bring-on';
import type { Disposition } from '../../lambdas/operation/delivery';
import type { Ids } from '../../lambdas/operation/message';
import { messageOf, type Operation, type OperationId } from '../../lambdas/operation/operation';
import type { Finding, Outcome } from '../../lambdas/operation/outcome';
import {
  type Calls,
  type ClaimRequest,
  type DeferRequest,
  keyOf,
  type OperationTelemetry,
  type ParkRequest,
  type Provider,
  type ProviderSwitch,
  type SettleRequest,
  type SlotRequest,
  type UnclaimedRequest,
} from '../../lambdas/operation/ports';
import { tokensPerRetry } from '../../lambdas/operation/provider-state';
import type { Source } from '../../lambdas/runtime/telemetry';
import type { Worker, WorkerTelemetry } from '../../lambdas/runtime/worker-wiring';
import type { Item } from '../support/expression';
import type { Ambush, Fault, Moment, Port } from './plan';
import type { Landing } from './provider-twin';
import type { World } from './world';

const hourMs = 3_600_000;
/** As the SDK's clients are set up: so long for one try, and so many tries. */
const tryMs = 1000;
const maxTries = 3;

/** The version of the code that a process runs. */
export interface Build {
  readonly providerKeyPrefix: string;
  readonly paramsVersion: number;
}

/** What an API function, the operator and the reconciler have together. */
export type ServicePorts = AcceptPorts & BringOnPorts;

/**
 * One invocation of a function, and its way to everything outside. Each call can be lost, late, refused or the last thing
 * that the process does: what a dead process waited for never comes, and what it had sent still arrives.
 */
export class Process {
  readonly claimIds = new Set<string>();
  readonly settling = new Map<string, SettleRequest>();
  /** What became of the messages, by id, as it was told. */
  readonly disposed = new Map<string, Disposition>();
  /** Changes of state whose answer arrived, and that were not told yet: G11. */
  readonly untold = new Set<string>();
  readonly startedMs: number;
  /** Of a worker: when the newest message of each operation that it got was sent. */
  readonly newest = new Map<string, number>();
  /** Of a worker: the digest of what the last message of each operation asks for. */
  readonly asked = new Map<string, string>();
  /** What its report of calls may add to the provider's tokens. */
  credit: Pick<Calls, 'earned' | 'unspent' | 'takenInWindowMs'> | undefined;
  /** Tokens that its writes took, by window. */
  readonly debits: { readonly windowStartMs: number; tokens: number }[] = [];
  isDead = false;
  isOver = false;
  #last: Fault | undefined;
  readonly #waiting = new Set<(error: Error) => void>();

  constructor(
    readonly name: string,
    readonly world: World,
    readonly skewMs: number,
    readonly build: Build,
    /** In the world's time. */
    readonly endsAtMs: number,
  ) {
    this.startedMs = world.time.nowMs();
  }

  readonly clock = (): number => this.world.time.nowMs() + this.skewMs;

  /** The rest of the code never runs. */
  kill(): void {
    if (this.isDead || this.isOver) return;
    this.isDead = true;
    this.world.say(`${this.name} dies`);
  }

  /** The invocation is over: what it still waits for is aborted. */
  end(): void {
    this.isOver = true;
    for (const reject of [...this.#waiting]) reject(new Error('The time of the invocation is over'));
  }

  /** Somebody may come in between what it saw and what it does about it, while it stalls or dies. */
  async meets(moment: Moment, id?: OperationId): Promise<void> {
    const ambush = this.world.ambush(this, moment, id);
    if (!ambush || this.isDead || this.isOver) return;
    if (ambush.dies && moment !== 'post' && moment !== 'find') {
      this.#last = lastOf(ambush);
      return;
    }
    await this.sleep(ambush.holdMs);
    if (this.isOver) throw new Error('The time of the invocation is over');
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.world.time.after(ms, () => !this.isDead && resolve()));
  }

  /** One request to AWS, with the SDK's tries. */
  async aws<T>(port: Port, apply: () => T, tries = maxTries, mostLateMs = 120_000): Promise<T> {
    for (let count = 1; ; count++) {
      try {
        return await this.#try(port, apply, mostLateMs);
      } catch (error) {
        if (this.isOver || count >= tries || !(error instanceof TryAgain)) throw error;
        await this.sleep(50 * count);
      }
    }
  }

  #try<T>(port: Port, apply: () => T, mostLateMs: number): Promise<T> {
    const { world } = this;
    if (this.isDead) return never();
    if (this.isOver) return Promise.reject(new Error('The time of the invocation is over'));
    const fault = this.#last ?? world.fault(port);
    // Together they are shorter than a try.
    const there = Math.ceil(world.latency() / 2);
    const back = Math.ceil(world.latency() / 2);
    return new Promise((resolve, reject) => {
      const settle = (how: () => void) => {
        if (this.isDead || !this.#waiting.delete(reject)) return;
        how();
      };
      this.#waiting.add(reject);
      const arrive = (afterMs: number, then: (answer: () => void) => void) =>
        world.time.after(afterMs, () => {
          if (world.isStopped()) return;
          try {
            const value = world.guard(apply);
            then(() => settle(() => resolve(value)));
          } catch (error) {
            then(() => settle(() => reject(error)));
          }
        });
      const inTime = () => world.time.after(tryMs, () => settle(() => reject(new TryAgain('timed out'))));
      switch (fault?.kind) {
        case undefined:
          arrive(there, (answer) => world.time.after(back, answer));
          return inTime();
        case 'crashBefore':
          return this.kill();
        case 'crashInFlight':
          arrive(there + Math.max(0, fault.amount * 2 - 1) * mostLateMs, () => {});
          return this.kill();
        case 'crashAfter':
          return arrive(there, () => this.kill());
        case 'throttle':
          return world.time.after(there + back, () => settle(() => reject(new TryAgain('throttled'))));
        case 'loseAnswer':
          arrive(there, () => {});
          return inTime();
        case 'late':
          arrive(there + fault.amount * mostLateMs, (answer) => answer());
          return inTime();
        default:
          return inTime();
      }
    });
  }

  /** A call of the provider that asks for money. */
  post(operation: Operation, timeoutMs: number): Promise<Outcome> {
    const { world } = this;
    if (this.isDead || this.isOver) return never();
    const fault = world.fault('post') ?? world.outage();
    const post = world.guard(() => world.guarantees.posted(operation, timeoutMs));
    world.say(`${this.name} posts ${keyOf(operation)} ${operation.providerKey} ${fault?.kind ?? ''}`);
    const there = world.latency();
    const back = world.latency();
    const isSlow = fault?.kind === 'slow';
    const workMs = isSlow ? fault.amount * 60_000 : world.latency() * 2;
    return new Promise((resolve) => {
      let isAnswered = false;
      const answer = (outcome: Outcome) => {
        if (this.isDead || this.isOver || isAnswered) return;
        isAnswered = true;
        world.say(`${this.name} hears ${keyOf(operation)} ${JSON.stringify(outcome)}`);
        world.guard(() => world.guarantees.answered(post, outcome));
        resolve(outcome);
      };
      const land = (afterMs: number, landing: Landing, then: (outcome: Outcome) => void) =>
        world.time.after(afterMs, () => {
          if (world.time.nowMs() > post.waitsUntilMs) world.reached('landedLate');
          world.provider.land(operation, workMs, landing, (outcome) => {
            post.isInFlight = false;
            then(outcome);
          });
        });
      const nothing = (outcome: Outcome) => {
        post.isInFlight = false;
        world.time.after(there + back, () => answer(outcome));
      };
      // We assume that no request lands later than the quiet time after its attempt's lease.
      const quietMs =
        (operation.leaseExpiresAtMs ?? 0) - this.skewMs + world.limits.quietHours * hourMs - 30_000;
      const amount = fault?.amount ?? 0;
      const lateMs = Math.max(there, amount * (quietMs - workMs - world.time.nowMs()));
      world.time.after(timeoutMs, () => answer({ kind: 'unknown', reason: 'timeout', keySpent: false }));
      switch (fault?.kind) {
        case 'crashBefore':
          post.isInFlight = false;
          return this.kill();
        case 'crashInFlight':
          land(amount < 0.5 ? there : lateMs, 'well', () => {});
          return this.kill();
        case 'crashAfter':
          return land(there, 'well', () => this.kill());
        case 'refused':
          return nothing({ kind: 'notSent', reason: 'connection_refused' });
        case 'rateLimited':
          return nothing({ kind: 'notSent', reason: 'rate_limited' });
        case 'unauthorized':
          return nothing({ kind: 'notSent', reason: 'unauthorized' });
        case 'forbidden':
          return nothing({ kind: 'forbidden', error: { code: 'forbidden', message: 'Not this customer.' } });
        case 'resetBefore':
          return nothing(connectionLost);
        case 'resetAfter':
          land(there, 'well', () => {});
          return world.time.after(there + back, () => answer(connectionLost));
        case 'stall':
          if (amount < 0.15) post.isInFlight = false;
          else land(lateMs, 'well', () => {});
          return;
        case 'invalid':
        case 'savedErrorBefore':
        case 'savedErrorAfter':
          return land(there, fault.kind, (outcome) => world.time.after(back, () => answer(outcome)));
        case 'unsavedError':
          if (amount < 0.5) return nothing({ kind: 'unknown', reason: 'status_503', keySpent: false });
          return land(there, 'unsavedErrorAfter', (outcome) => world.time.after(back, () => answer(outcome)));
        default:
          return land(there, 'well', (outcome) => world.time.after(back, () => answer(outcome)));
      }
    });
  }

  find(operation: Operation, timeoutMs: number): Promise<Finding> {
    const { world } = this;
    if (this.isDead || this.isOver) return never();
    const kind = (world.fault('find') ?? world.outage())?.kind;
    const there = world.latency();
    const back = world.latency();
    return new Promise((resolve) => {
      const answer = (afterMs: number, find: () => Finding) =>
        world.time.after(afterMs, () => {
          const finding = find();
          world.time.after(back, () => {
            if (this.isDead || this.isOver) return;
            world.say(`${this.name} finds ${keyOf(operation)} ${JSON.stringify(finding)}`);
            resolve(finding);
          });
        });
      switch (kind) {
        case undefined:
          return answer(there, () => world.find(operation));
        case 'crashBefore':
        case 'crashInFlight':
          return this.kill();
        case 'crashAfter':
          return world.time.after(there, () => this.kill());
        case 'forbidden':
          return answer(there, () => ({ kind: 'unknown', reason: 'forbidden' }));
        case 'savedErrorBefore':
          return answer(there, () => ({ kind: 'unknown', reason: 'unreadable_list' }));
        default:
          return answer(kind === 'stall' ? timeoutMs : there, () => ({
            kind: 'unavailable',
            reason: kind ?? 'unknown',
          }));
      }
    });
  }

  /** The table as this process sees it. */
  table(tries = maxTries): Table {
    const { world } = this;
    const process = this;
    return {
      read: async (keys: readonly string[]) => {
        const items = await this.aws(
          'read',
          () => world.table.read(keys).map((item) => ({ ...item })),
          tries,
        );
        return (
          world.mutant?.read?.(items, { keys, reader: this.name, nowMs: this.clock(), asked: this.asked }) ??
          items
        );
      },
      update: (partitionKey: string, update: ConditionalUpdate) => this.#update(partitionKey, update, tries),
      async *due(openShard: number, dueAtMs: number) {
        const items = await process.aws('read', () => world.table.shard(openShard, dueAtMs));
        if (items.length > 0) yield items.map(({ pk }) => String(pk));
      },
      async *shard(openShard: number) {
        yield (await process.aws('read', () => world.table.shard(openShard))).map((item) => ({ ...item }));
      },
    };
  }

  async #update(partitionKey: string, update: ConditionalUpdate, tries: number): Promise<Updated> {
    const { world } = this;
    const isOperation = partitionKey.startsWith('op#');
    const port = isOperation
      ? 'operationWrite'
      : partitionKey.startsWith('tenant#')
        ? 'tenantWrite'
        : 'providerWrite';
    const patched = world.mutant?.update?.(update, partitionKey) ?? update;
    // An admission without its record for a minute is taken for one that a crash left.
    const mostLateMs = update.assign?.acceptedBy === 'api' ? 20_000 : 120_000;
    let before: Item | undefined;
    const answer = await this.aws(
      port,
      () => {
        before = world.table.item(partitionKey);
        const updated = world.table.update(partitionKey, patched);
        world.observer?.(partitionKey, patched, updated);
        if (updated.applied) world.written(this, partitionKey, before, updated.item ?? {});
        return updated;
      },
      tries,
      mostLateMs,
    );
    const { applied, item } = answer;
    if (isOperation && applied && before?.state !== item?.state)
      this.untold.add(`${partitionKey.slice('op#'.length)} ${item?.state}`);
    return { applied, item: item && !(applied && update.returns === 'nothing') ? { ...item } : undefined };
  }

  #telemetry(source: Source = { requestId: this.name }): ReturnType<WorkerTelemetry['of']> {
    const told = (operation: Operation) => this.untold.delete(`${keyOf(operation)} ${operation.state}`);
    return {
      attempted: () => {},
      reconciled: () => {},
      escalated: () => this.world.reached('escalated'),
      intervened: () => {},
      changed: (operation) => {
        this.world.say(`${this.name} tells ${keyOf(operation)} is ${operation.state}`);
        told(operation);
      },
      contradicted: () => {},
      tolerated: (what, id) => this.world.say(`${this.name} tolerates: ${what} ${keyOf(id)}`),
      kept: (operation) => {
        this.world.reached('keptInTable');
        told(operation);
      },
      disposed: (disposition: Disposition, _ids: Ids) => {
        this.world.say(`${this.name} ${source.messageId} ${disposition.kind} ${disposition.reason}`);
        this.world.disposed(disposition);
        if (source.messageId !== undefined) this.disposed.set(source.messageId, disposition);
      },
    };
  }

  #provider(): Provider {
    const { mutant } = this.world;
    const sent = (operation: Operation) => mutant?.sent?.(operation) ?? operation;
    const post = async (operation: Operation, timeoutMs: number) => {
      await this.meets('post', operation);
      const outcome = await this.post(sent(operation), timeoutMs);
      return mutant?.outcome?.(outcome) ?? outcome;
    };
    return {
      charge: post,
      refund: post,
      find: async (operation, timeoutMs) => {
        const finding = await this.find(operation, timeoutMs);
        await this.meets('find', operation);
        return finding;
      },
      inspect: async (operation, providerRef) => {
        await this.sleep(this.world.latency());
        const effect = this.world.provider.effects.find(({ id }) => id === providerRef);
        if (!effect) return { finding: { kind: 'unknown', reason: 'resource_missing' }, owner: 'unmarked' };
        const isOwn = effect.key === keyOf(operation);
        const { amountMinor } = effect;
        const outcome =
          effect.state === 'succeeded'
            ? ({ kind: 'succeeded', providerRef, result: { amountMinor, currency: 'usd' } } as const)
            : ({ kind: 'accepted', providerRef } as const);
        return { finding: { kind: 'found', outcome }, owner: isOwn ? 'this' : 'another' };
      },
      effects: async () => ({ kind: 'page', read: 0, effects: [] }),
      check: async () => [],
      paramsVersionOf: () => this.build.paramsVersion,
    };
  }

  #providerSwitch(): ProviderSwitch {
    const inner = new DynamoDbProviderSwitch(this.table(), this.table(1), this.world.limits);
    const { guarantees } = this.world;
    return {
      takeRetries: async (shard, seen, wanted, nowMs) => {
        await this.meets('budget');
        const taken = await inner.takeRetries(shard, seen, wanted, nowMs);
        this.world.guard(() => guarantees.granted(this, shard, taken.windowStartMs, taken.granted));
        return taken;
      },
      takeProbe: async (seen, nowMs, untilMs) => {
        await this.meets('probe');
        const isTaken = await inner.takeProbe(seen, nowMs, untilMs);
        if (isTaken) {
          this.world.guard(() => guarantees.probed(seen.shard, untilMs));
          this.world.reached('probed');
        }
        return isTaken;
      },
      report: async (shard: number, seen, calls: Calls, nowMs: number) => {
        await this.meets('count');
        this.credit = calls;
        // What is given back may be taken again, also where the answer to it is lost.
        guarantees.returned(shard, calls.takenInWindowMs, calls.unspent / tokensPerRetry);
        return inner.report(shard, seen, calls, nowMs);
      },
      open: async (shard, breaker) => {
        await this.meets('open');
        this.world.reached('breakerOpened');
        return inner.open(shard, breaker);
      },
      close: async (shard, untilMs) => {
        await this.meets('probeEnd');
        guarantees.probeEnded(shard, untilMs);
        return inner.close(shard, untilMs);
      },
      probeLater: async (shard, untilMs, probeAtMs, reason) => {
        await this.meets('probeEnd');
        guarantees.probeEnded(shard, untilMs);
        return inner.probeLater(shard, untilMs, probeAtMs, reason);
      },
      states: () => inner.states(),
      pause: (breaker) => inner.pause(breaker),
      resume: () => inner.resume(),
    };
  }

  readonly #newClaimId = (): string => {
    const claimId = this.world.newId();
    this.claimIds.add(claimId);
    return claimId;
  };

  #common() {
    const { world, build } = this;
    const { random } = world;
    const limits = { ...world.limits, ...world.mutant?.limits };
    const store = new WatchedStore(this.table(), limits, this);
    const tenants = new WatchedTenants(this.table(), limits, this);
    const { providerKeyPrefix } = build;
    const { clock } = this;
    const newClaimId = this.#newClaimId;
    return {
      store,
      tenants,
      limits,
      provider: this.#provider(),
      clock,
      newClaimId,
      random,
      providerKeyPrefix,
    };
  }

  worker(): Worker {
    const { world } = this;
    const ports = {
      ...this.#common(),
      serviceCalls: new DynamoDbServiceCalls(this.table(), world.limits.providerDailyCalls),
    };
    const visibility = {
      comesBackIn: (receiptHandle: string, seconds: number) =>
        this.aws('visibility', () => world.queue.changeVisibility(receiptHandle, seconds)),
    };
    const telemetry: WorkerTelemetry = {
      of: (source) => this.#telemetry(source),
      flush: () => {},
      delivered: () => {},
      refused: () => {},
      replayed: () => {},
      provider: () => {},
      breaker: () => {},
      ran: () => {},
      census: () => {},
      info: () => {},
      warn: (message) => world.say(`${this.name} warns: ${message}`),
      failed: (message, error, source) =>
        world.say(
          `${this.name} fails: ${message} ${source?.messageId ?? ''} ${error instanceof Error ? error.message : error}`,
        ),
    };
    const worker = { ports, providerSwitch: this.#providerSwitch(), visibility, telemetry };
    return world.mutant?.worker?.(worker) ?? worker;
  }

  service(): ServicePorts {
    const { world } = this;
    const common = this.#common();
    return {
      ...common,
      due: common.store,
      queue: {
        send: (operation) =>
          this.aws('send', () => {
            world.say(`${this.name} sends ${keyOf(operation)}`);
            world.queue.send(JSON.stringify(messageOf(operation)));
          }),
        depth: () => this.aws('read', () => world.queue.messages().length),
      },
      providerSwitch: this.#providerSwitch(),
      providerTelemetry: { provider: () => {}, breaker: () => {} },
      paramsVersionOf: () => this.build.paramsVersion,
      telemetry: this.#telemetry() satisfies OperationTelemetry,
    };
  }
}

/** Says which settle a write comes from, so that it can be judged, and where others may come in between. */
class WatchedStore extends DynamoDbStore {
  constructor(
    table: Table,
    limits: World['limits'],
    private readonly process: Process,
  ) {
    super(table, limits);
  }

  override async claim(request: ClaimRequest) {
    await this.process.meets('claim', request.id);
    return super.claim(request);
  }

  override async settle(request: SettleRequest) {
    await this.process.meets('settle', request.operation);
    const { mutant } = this.process.world;
    const patched = mutant?.settle?.(request) ?? request;
    this.process.settling.set(`op#${keyOf(request.operation)}`, request);
    if (!mutant?.swallowsSettle) return super.settle(patched);
    try {
      return await super.settle(patched);
    } catch {
      return { kind: 'written', operation: request.operation } as const;
    }
  }

  override async park(request: ParkRequest) {
    await this.process.meets('park', request.seen);
    return super.park(request);
  }

  override async fail(request: Parameters<DynamoDbStore['fail']>[0]) {
    await this.process.meets('end', request.id);
    return super.fail(request);
  }

  override async cancel(request: UnclaimedRequest) {
    await this.process.meets('end', request.seen);
    return super.cancel(request);
  }

  override async defer(request: DeferRequest) {
    await this.process.meets('defer', request.id);
    return super.defer(request);
  }

  override async reserveRefund(...request: Parameters<DynamoDbStore['reserveRefund']>) {
    await this.process.meets('reserve', request[0]);
    return super.reserveRefund(...request);
  }
}

class WatchedTenants extends DynamoDbTenants {
  constructor(
    table: Table,
    limits: World['limits'],
    private readonly process: Process,
  ) {
    super(table, limits);
  }

  override async takeSlot(request: SlotRequest) {
    await this.process.meets('slot', request.id);
    return super.takeSlot(request);
  }
}

/** The last request of a process that dies, and how late it lands. */
const lastOf = ({ holdMs }: Ambush): Fault => ({
  kind: 'crashInFlight',
  port: 'operationWrite',
  nth: 0,
  times: 1,
  amount: 0.5 + holdMs / 240_000,
});

/** Another try may do better. */
class TryAgain extends Error {}

const never = <T>(): Promise<T> => new Promise(() => {});

const connectionLost: Outcome = { kind: 'unknown', reason: 'connection_lost', keySpent: false };
