import { setTimeout as sleep } from 'node:timers/promises';
import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import { isTerminal, states } from '../../lambdas/operation/state';
import { parseLogLine } from '../../local/log-line';
import type { LocalStack } from '../../local/stack';

/** `warmUp` is never measured: processes load their code in it. */
export type Phase = 'warmUp' | 'calm' | 'pressure';

/** One operation that the service took on. */
export interface SentJob {
  readonly key: string;
  readonly tenantId: string;
  readonly operationId: string;
  readonly amountMinor: number;
  readonly phase: Phase;
  /** Whether it is another tenant's: its time is compared with calm. */
  readonly isMeasured: boolean;
  readonly sentAtMs: number;
  /** When a worker said that its end is in the table; undefined until then. */
  doneAtMs?: number;
}

/** What a job of a drill looks like on the queue. */
export interface Body {
  readonly version: 1;
  readonly tenantId: string;
  readonly operationId: string;
  readonly type: 'charge';
  readonly input: Readonly<Record<string, string | number>>;
}

export interface SendJob {
  readonly tenantId: string;
  /** @default the next free one */
  readonly operationId?: string;
  /** @default false */
  readonly isMeasured?: boolean;
}

/** The most entries that SQS takes in one `SendMessageBatch`. */
const batchLimit = 10;

/** The tenants that do nothing out of the ordinary: theirs are the times that are compared with calm. */
export const otherTenants = ['North', 'South', 'East', 'West'] as const;

/** Sends the jobs of one drill and remembers what the service has taken on, and when each ended. */
export class SentJobs {
  readonly #jobs = new Map<string, SentJob>();
  readonly #poison: string[] = [];
  readonly #sqs: SQSClient;
  readonly #stopListening: () => void;
  #count = 0;
  #probes = 0;
  readonly #parked = new Set<string>();
  phase: Phase = 'warmUp';

  constructor(private readonly stack: LocalStack) {
    this.#sqs = new SQSClient({
      region: 'us-east-1',
      credentials: { accessKeyId: 'drill', secretAccessKey: 'drill' },
      endpoint: stack.endpoints.sqs,
    });
    this.#stopListening = stack.onEvent((event) => {
      if (event.type === 'workerLine') this.#read(event.line);
    });
  }

  all(): readonly SentJob[] {
    return [...this.#jobs.values()];
  }

  /** Bodies that must end in the dead-letter queue, each once. */
  poison(): readonly string[] {
    return this.#poison;
  }

  /** Calls that the open breaker let through to find out whether the provider is well. */
  probes(): number {
    return this.#probes;
  }

  /** `tenantId/operationId` of those that a worker parked at some time, whatever became of them later. */
  parked(): ReadonlySet<string> {
    return this.#parked;
  }

  /** Waits until all that was sent so far has ended. */
  async ended(): Promise<void> {
    await this.stack.waitFor(() => this.all().every(({ doneAtMs }) => doneAtMs !== undefined), {
      timeoutMs: 60_000,
      what: 'the jobs of a drill to end',
    });
  }

  /** A new job, not sent yet. */
  body({ tenantId, operationId = `job-${++this.#count}` }: SendJob): Body {
    return {
      version: 1,
      tenantId,
      operationId,
      type: 'charge',
      input: inputOf(tenantId, operationId),
    };
  }

  /** The service has taken it on, by the queue or by the API: from now on it must not be lost. */
  accepted({ tenantId, operationId, input }: Body, isMeasured = false): void {
    const key = `${tenantId}/${operationId}`;
    if (this.#jobs.has(key)) return;
    const { phase } = this;
    const amountMinor = Number(input.amountMinor);
    this.#jobs.set(key, {
      key,
      tenantId,
      operationId,
      amountMinor,
      phase,
      isMeasured,
      sentAtMs: Date.now(),
    });
  }

  /** Puts new jobs on the queue in one request of at most ten messages each. */
  async send(...jobs: readonly SendJob[]): Promise<Body[]> {
    const bodies = jobs.map((job) => this.body(job));
    for (const [index, body] of bodies.entries()) this.accepted(body, jobs[index]?.isMeasured);
    await this.put(bodies.map((body) => JSON.stringify(body)));
    return bodies;
  }

  /** Remembers a text as one that no worker can run. */
  isPoison(text: string): string {
    this.#poison.push(text);
    return text;
  }

  /** Puts texts on the queue as they are, in their order. */
  async put(texts: readonly string[]): Promise<void> {
    for (let from = 0; from < texts.length; from += batchLimit) {
      const entries = texts.slice(from, from + batchLimit).map((text, index) => ({
        Id: String(index),
        MessageBody: text,
        MessageGroupId: tenantIn(text),
      }));
      const { Failed: failed = [] } = await this.#sqs.send(
        new SendMessageBatchCommand({ QueueUrl: this.stack.queueUrl, Entries: entries }),
      );
      if (failed.length > 0) throw new Error(`SQS did not take ${failed.length} messages of a drill.`);
    }
  }

  /**
   * Other tenants' jobs, one after the other, until it is ended.
   * @returns a function that ends it and waits for what is on its way
   */
  startOthers(perSecond: number): () => Promise<void> {
    const ended = new AbortController();
    let next = 0;
    const sending = (async () => {
      const startedMs = performance.now();
      while (!ended.signal.aborted) {
        const tenantId = otherTenants[next++ % otherTenants.length] ?? 'North';
        await this.send({ tenantId, isMeasured: true });
        const waitMs = startedMs + (next * 1000) / perSecond - performance.now();
        await sleep(Math.max(0, waitMs), undefined, { signal: ended.signal }).catch(() => {});
      }
    })();
    return async () => {
      ended.abort();
      await sending;
    };
  }

  stop(): void {
    this.#stopListening();
    this.#sqs.destroy();
  }

  #read(line: string): void {
    const parsed = parseLogLine(line);
    if (parsed?.message === 'breaker probed') this.#probes += 1;
    const state = states.find((name) => name === parsed?.to);
    const key = `${parsed?.tenantId}/${parsed?.operationId}`;
    if (state === 'parked') this.#parked.add(key);
    if (!state || !isTerminal(state)) return;
    const job = this.#jobs.get(key);
    if (job) job.doneAtMs ??= Date.now();
  }
}

const inputOf = (tenantId: string, operationId: string) => ({
  invoiceId: operationId,
  amountMinor: 1250,
  currency: 'usd',
  customerId: `cus_${tenantId}`,
  paymentMethodId: 'pm_card_visa',
});

/** Producers group their messages by tenant; what no one can read has no tenant. */
function tenantIn(text: string): string {
  const [, tenantId = 'unknown'] = /"tenantId":"([\w-]+)"/.exec(text) ?? [];
  return tenantId;
}
