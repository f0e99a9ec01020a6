import type { SQSRecord } from 'aws-lambda';
import type { LocalStack } from '../../local/stack';
import { RecordedMetrics, type Resource } from './recorded-metrics';

/**
 * What CloudWatch would see of a laptop stack: its own metrics as its processes print them, and those that AWS's services
 * would have, taken from what the laptop's stand-ins for them do.
 */
export class LaptopCloudWatch {
  recorded = new RecordedMetrics();
  #fromMs: number;
  #oldestSentAtMs: number | undefined;
  #running = 0;

  constructor(
    private readonly stack: LocalStack,
    /** Log lines of handlers in the test's own process, since the last call. */
    private readonly logs: () => Record<string, unknown>[],
  ) {
    this.#fromMs = stack.clock.now();
    // The processes of a stack print JSON lines and whatever else.
    stack.onEvent((event) => {
      if (event.type === 'workerLine' && event.line.startsWith('{'))
        this.recorded.line(JSON.parse(event.line));
    });
  }

  /** Forgets what was recorded, and begins in periods of its own for every alarm, which has been looking for a while. */
  async begin(): Promise<void> {
    this.logs();
    await this.stack.clock.advance(3_600_000);
    this.recorded = new RecordedMetrics();
    this.#fromMs = this.stack.clock.now() - 1_800_000;
    this.#oldestSentAtMs = undefined;
  }

  get fromMs(): number {
    return this.#fromMs;
  }

  async send(body: string | object): Promise<void> {
    await this.stack.send(body);
    this.#oldestSentAtMs ??= this.stack.clock.now();
  }

  /** What SQS reports each minute, and what was printed since the last time. */
  async sample(): Promise<void> {
    for (const line of this.logs()) this.recorded.line(line);
    const depth = await this.stack.queueDepth();
    if (depth.total === 0) this.#oldestSentAtMs = undefined;
    const nowMs = this.stack.clock.now();
    const ageSeconds = (nowMs - (this.#oldestSentAtMs ?? nowMs)) / 1000;
    const sqs = (name: string, resource: Resource, value: number) =>
      this.recorded.aws('AWS/SQS', name, resource, value, nowMs);
    sqs('ApproximateNumberOfMessagesVisible', 'queue', depth.visible);
    sqs('ApproximateNumberOfMessagesNotVisible', 'queue', depth.inFlight);
    sqs('ApproximateAgeOfOldestMessage', 'queue', ageSeconds);
    const deadLetters = (await this.stack.deadLetters()).length;
    sqs('ApproximateNumberOfMessagesVisible', 'deadLetterQueue', deadLetters);
  }

  /**
   * One invocation of the worker, as Lambda counts it.
   * @param run invokes it, and says whether it failed
   * @param concurrency what Lambda has for the function: above it an invocation is refused
   */
  async invocation(run: () => Promise<{ readonly failed: boolean }>, concurrency = 1000): Promise<void> {
    const lambda = (name: string, value: number) =>
      this.recorded.aws('AWS/Lambda', name, 'worker', value, this.stack.clock.now());
    if (this.#running >= concurrency) return lambda('Throttles', 1);
    this.#running += 1;
    lambda('Throttles', 0);
    lambda('Invocations', 1);
    const startedAtMs = performance.now();
    try {
      lambda('Errors', (await run()).failed ? 1 : 0);
    } finally {
      this.#running -= 1;
      lambda('Duration', performance.now() - startedAtMs);
    }
  }

  /** An invocation of a real worker process. */
  processInvocation(records: readonly SQSRecord[]): Promise<void> {
    const { workers, limits } = this.stack;
    return this.invocation(async () => {
      const { outcome } = await workers.invoke({ Records: records }, limits.workerTimeoutSeconds * 1000);
      return { failed: outcome !== 'responded' };
    });
  }

  /** An answer of the API, as API Gateway counts it. */
  answered(httpStatus: number): void {
    const failed = httpStatus >= 500 ? 1 : 0;
    this.recorded.aws('AWS/ApiGateway', '5xx', 'api', failed, this.stack.clock.now());
  }
}
