import { randomUUID } from 'node:crypto';
import * as z from 'zod/mini';
import { allRoutes, routeKeyOf } from '../../../lambdas/http/routes';
import { limitsFrom } from '../../../lambdas/operation/limits';
import { type ApiServer, startApiServer } from '../../../local/api-server';
import { type LocalStack, startLocalStack } from '../../../local/stack';
import type { StripeStandIn } from '../../../local/stripe-stand-in';
import type { WorkerPool } from '../../../local/worker-pool';
import { job, record } from '../../support/worker-bench';
import { cpuMark } from './metered-handler';
import { TableMeter } from './table-meter';

/** What one operation, or one run of the reconciler, took on one of its ways. */
export interface Counts {
  /** Calls of DynamoDB. */
  readonly tableCalls: number;
  readonly readUnits: number;
  /** Of operations and tenants. */
  readonly writeUnits: number;
  /** Of the provider item. */
  readonly providerWriteUnits: number;
  readonly indexWriteUnits: number;
  /** Calls of SQS that our code makes; those of the event source and of producers come on top. */
  readonly sqsCalls: number;
  readonly stripeCalls: number;
  /** Of the function's own lines, with what CloudWatch adds to each. */
  readonly logBytes: number;
  /** Processor time of the function, in milliseconds. */
  readonly cpuMs: number;
}

const reconciled = z.object({ sent: z.number() });

export type Charge = ReturnType<typeof charge>;

/** A charge of a tenant of its own, with ids as programs make them. */
export function charge() {
  return { ...job(), tenantId: randomUUID(), operationId: randomUUID() };
}

/** What CloudWatch Logs bills for an event beside its bytes. https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/cloudwatch_limits_cwl.html */
const logEventBytes = 26;
const timeoutMs = limitsFrom().workerTimeoutSeconds * 1000;

/** The real handlers in processes of their own on the laptop stack, and everything that they ask for counted. */
export class MeteredBench {
  readonly table: TableMeter;
  readonly stripe: StripeStandIn;
  readonly #worker: WorkerPool;
  readonly #apiPool: WorkerPool;
  readonly #reconciler: WorkerPool;
  #api: ApiServer | undefined;
  #logBytes = 0;
  #cpuMs = 0;
  #metered = 0;
  #stripeCallsBefore = 0;

  static async start(batchSize: number): Promise<MeteredBench> {
    // The limits of a deployment: those of a laptop are short, and a busy machine is not what is measured.
    const limits = { ...limitsFrom(), batchSize };
    const stack = await startLocalStack({ startEventSource: false, limits });
    if (!stack.stripe) throw new Error('The counts are those of the stand-in');
    const bench = new MeteredBench(stack, stack.stripe);
    bench.#api = await startApiServer(bench.#apiPool, allRoutes.map(routeKeyOf), 1, timeoutMs);
    return bench;
  }

  private constructor(
    readonly stack: LocalStack,
    stripe: StripeStandIn,
  ) {
    this.stripe = stripe;
    this.table = new TableMeter(stack.dynamodbProxy);
    const metered = (module: string) =>
      stack.handler('test/bench/scale/metered-handler.ts', { METERED_HANDLER: module });
    this.#worker = metered('lambdas/work.ts');
    this.#apiPool = metered('local/api-handlers.ts');
    this.#reconciler = metered('lambdas/reconcile.ts');
    stack.onEvent((event) => {
      if (event.type !== 'workerLine') return;
      if (event.line.startsWith(cpuMark)) {
        this.#cpuMs += Number(event.line.slice(cpuMark.length)) / 1000;
        this.#metered += 1;
      } else this.#logBytes += Buffer.byteLength(event.line) + logEventBytes;
    });
  }

  /** Messages come to the worker in one batch. @throws Error when one of them is not acknowledged, or is and should not be */
  async deliver(jobs: readonly object[], end: 'acknowledged' | 'deferred' = 'acknowledged'): Promise<void> {
    const records = jobs.map((each) => record(each));
    const invoked = await this.#worker.invoke({ Records: records }, timeoutMs);
    const failed = invoked.outcome === 'responded' ? (invoked.payload ?? '') : invoked.outcome;
    const isFailed = records.map(({ messageId }) => failed.includes(messageId));
    if (isFailed.some((is) => is !== (end === 'deferred')))
      throw new Error(`The batch was not ${end}: ${failed}`);
  }

  /** A request to the API. @throws Error when it is not granted */
  async request(method: 'PUT' | 'GET', path: string, body?: object): Promise<void> {
    const answer = await fetch(`${this.#api?.url}${path}`, {
      method,
      ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  }

  /** @returns the operations that were sent again */
  async reconcile(): Promise<number> {
    // It stops 5 s before its time is up.
    const invoked = await this.#reconciler.invoke({}, 55_000);
    if (invoked.outcome !== 'responded') throw new Error(`The reconciler ${invoked.outcome}`);
    return reconciled.parse(JSON.parse(invoked.payload ?? '')).sent;
  }

  /** What was used since the last time, for each of `operations`. */
  async take(operations: number): Promise<Counts> {
    await this.stack.waitFor(async () => this.#metered === this.#invocations());
    const { calls, read, writes, indexWrites } = this.table.take();
    const sum = (counts: Readonly<Record<string, number>>) =>
      Object.values(counts).reduce((total, count) => total + count, 0);
    const { provider = 0, ...others } = writes;
    const stripeCalls = this.stripe.requests().length;
    const use = {
      tableCalls: sum(calls),
      readUnits: read,
      writeUnits: sum(others),
      providerWriteUnits: provider,
      indexWriteUnits: indexWrites,
      sqsCalls: sum(this.stack.sqsProxy.counts()),
      stripeCalls: stripeCalls - this.#stripeCallsBefore,
      logBytes: this.#logBytes,
      cpuMs: this.#cpuMs,
    };
    this.#stripeCallsBefore = stripeCalls;
    this.#logBytes = 0;
    this.#cpuMs = 0;
    this.stack.sqsProxy.resetCounts();
    const each = (total: number) => Math.round((100 * total) / operations) / 100;
    return {
      tableCalls: each(use.tableCalls),
      readUnits: each(use.readUnits),
      writeUnits: each(use.writeUnits),
      providerWriteUnits: each(use.providerWriteUnits),
      indexWriteUnits: each(use.indexWriteUnits),
      sqsCalls: each(use.sqsCalls),
      stripeCalls: each(use.stripeCalls),
      logBytes: Math.round(use.logBytes / operations),
      cpuMs: each(use.cpuMs),
    };
  }

  async stop(): Promise<void> {
    await this.#api?.stop();
    await this.stack.stop();
  }

  #invocations(): number {
    return [this.#worker, this.#apiPool, this.#reconciler].reduce(
      (sum, pool) => sum + pool.counts().invocations,
      0,
    );
  }
}
