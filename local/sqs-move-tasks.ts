import { randomUUID } from 'node:crypto';
import * as z from 'zod/mini';
import type { SqsQueue, SqsStore } from './sqs-layer';

type Message = SqsQueue['messages'][number];

interface MoveTask {
  readonly id: string;
  readonly source: SqsQueue;
  readonly destinationArn?: string;
  readonly messagesPerSecond?: number;
  readonly startedAtMs: number;
  /**
   * The messages in the dead-letter queue when the task began: one that fails again meanwhile is not moved
   * twice.
   */
  readonly toMove: Set<Message>;
  readonly totalToMove: number;
  moved: number;
  state: 'RUNNING' | 'COMPLETED' | 'CANCELLED' | 'FAILED';
  failureReason?: string;
}

/** How often a task with a rate looks whether the next message is due, in milliseconds. */
const tickMs = 20;
/** SQS lists at most the ten latest tasks of a queue. */
const keptTasks = 10;

const arn = z.string().check(z.minLength(1));
const startInput = z.object({
  SourceArn: arn,
  DestinationArn: z.optional(arn),
  MaxNumberOfMessagesPerSecond: z.optional(z.int().check(z.gte(1), z.lte(500))),
});
const listInput = z.object({
  SourceArn: arn,
  MaxResults: z._default(z.int().check(z.gte(1), z.lte(10)), 1),
});
const cancelInput = z.object({ TaskHandle: z.string() });
const handleContent = z.object({ taskId: z.string(), sourceArn: z.string() });
const queueInput = z.object({ QueueUrl: z.string() });
const redrivePolicy = z.object({ deadLetterTargetArn: z.string() });

/** An error answer of SQS. Its code is what SDKs call the error's name. */
export class SqsRefusal extends Error {
  override readonly name = 'SqsRefusal';
  constructor(
    readonly code: string,
    message: string,
    readonly statusCode = 400,
  ) {
    super(message);
  }
}

/**
 * SQS's dead-letter queue redrive. A moved message is a new one: new id, new sent timestamp, no receives.
 * Without a destination each goes back to the queue that gave it up; one that never was in such a queue
 * fails the task, as on AWS.
 * https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_StartMessageMoveTask.html
 */
export class MoveTasks {
  readonly #tasks: MoveTask[] = [];

  /** @param sourceArnOf the queue whose redrive policy moved this message; undefined when none did */
  constructor(
    private readonly store: SqsStore,
    private readonly sourceArnOf: (message: Message) => string | undefined,
  ) {}

  start(body: unknown): object {
    const input = parse(startInput, body);
    const source = this.#queue(input.SourceArn, 'SourceArn');
    if (this.#sourcesOf(source).length === 0) {
      throw new SqsRefusal(
        'InvalidParameterValue',
        'Source queue must be configured as a Dead Letter Queue.',
      );
    }
    if (input.DestinationArn !== undefined) this.#queue(input.DestinationArn, 'DestinationArn');
    if (this.#tasks.some((task) => task.source === source && task.state === 'RUNNING')) {
      throw new SqsRefusal(
        'InvalidParameterValue',
        'There is already a task running. Only one active task is allowed for a source queue at a given time.',
      );
    }
    const toMove = new Set(source.messages);
    const task: MoveTask = {
      id: randomUUID(),
      source,
      ...(input.DestinationArn !== undefined && { destinationArn: input.DestinationArn }),
      ...(input.MaxNumberOfMessagesPerSecond !== undefined && {
        messagesPerSecond: input.MaxNumberOfMessagesPerSecond,
      }),
      startedAtMs: Date.now(),
      toMove,
      totalToMove: toMove.size,
      moved: 0,
      state: 'RUNNING',
    };
    this.#tasks.unshift(task);
    this.#tasks.splice(100);
    setImmediate(() => this.#proceed(task));
    return { TaskHandle: handleOf(task) };
  }

  list(body: unknown): object {
    const input = parse(listInput, body);
    const source = this.#queue(input.SourceArn, 'SourceArn');
    const tasks = this.#tasks.filter((task) => task.source === source).slice(0, keptTasks);
    return { Results: tasks.slice(0, input.MaxResults).map(describe) };
  }

  cancel(body: unknown): object {
    const { taskId, sourceArn } = handleFrom(parse(cancelInput, body).TaskHandle);
    this.#queue(sourceArn, 'SourceArn');
    const task = this.#tasks.find(({ id }) => id === taskId);
    if (!task) throw new SqsRefusal('ResourceNotFoundException', 'Task does not exist.', 404);
    if (task.state !== 'RUNNING') {
      throw new SqsRefusal(
        'UnsupportedOperation',
        `The task is ${task.state}; only a RUNNING one is cancelled.`,
      );
    }
    task.state = 'CANCELLED';
    return { ApproximateNumberOfMessagesMoved: task.moved };
  }

  /** `ListDeadLetterSourceQueues`: all in one page. */
  sourceQueues(body: unknown): object {
    const queue = this.store.getQueue(parse(queueInput, body).QueueUrl);
    if (!queue) throw new SqsRefusal('QueueDoesNotExist', 'The specified queue does not exist.');
    return { queueUrls: this.#sourcesOf(queue).map(({ url }) => url) };
  }

  #proceed(task: MoveTask): void {
    if (task.state !== 'RUNNING') return;
    task.source.processTimers();
    const elapsedSeconds = (Date.now() - task.startedAtMs) / 1000;
    const due = task.messagesPerSecond === undefined ? Infinity : 1 + elapsedSeconds * task.messagesPerSecond;
    try {
      for (const message of [...task.source.messages]) {
        if (task.moved + 1 > due) break;
        if (task.toMove.has(message)) this.#move(task, message);
      }
    } catch (error) {
      if (!(error instanceof SqsRefusal)) throw error;
      task.state = 'FAILED';
      task.failureReason = error.code;
      return;
    }
    // What a consumer of the dead-letter queue holds or has deleted is not waited for.
    if (task.source.messages.some((message) => task.toMove.has(message))) {
      setTimeout(() => this.#proceed(task), tickMs).unref();
    } else {
      task.state = 'COMPLETED';
    }
  }

  #move(task: MoveTask, message: Message): void {
    const destinationArn = task.destinationArn ?? this.sourceArnOf(message);
    if (destinationArn === undefined) throw new SqsRefusal('CouldNotDetermineMessageSource', '');
    const destination = this.store.getQueueByArn(destinationArn);
    if (!destination) throw new SqsRefusal('AWS.SimpleQueueService.NonExistentQueue', '');
    const { approximateFirstReceiveTimestamp, delayUntil, ...content } = message;
    const asNew = { messageId: randomUUID(), sentTimestamp: Date.now(), approximateReceiveCount: 0 };
    destination.enqueue({ ...content, ...asNew });
    task.source.messages = task.source.messages.filter((other) => other !== message);
    task.toMove.delete(message);
    task.moved += 1;
  }

  #queue(queueArn: string, parameter: string): SqsQueue {
    const queue = this.store.getQueueByArn(queueArn);
    if (queue) return queue;
    const message = `The resource that you specified for the ${parameter} parameter doesn't exist.`;
    throw new SqsRefusal('ResourceNotFoundException', message, 404);
  }

  #sourcesOf(deadLetterQueue: SqsQueue): SqsQueue[] {
    return [...this.store.allQueues()].filter(({ attributes }) => {
      const policy = redrivePolicy.safeParse(jsonFrom(attributes.RedrivePolicy ?? ''));
      return policy.success && policy.data.deadLetterTargetArn === deadLetterQueue.arn;
    });
  }
}

function describe(task: MoveTask): object {
  return {
    ...(task.state === 'RUNNING' && { TaskHandle: handleOf(task) }),
    Status: task.state,
    SourceArn: task.source.arn,
    ...(task.destinationArn !== undefined && { DestinationArn: task.destinationArn }),
    ...(task.messagesPerSecond !== undefined && { MaxNumberOfMessagesPerSecond: task.messagesPerSecond }),
    ApproximateNumberOfMessagesMoved: task.moved,
    ApproximateNumberOfMessagesToMove: task.totalToMove,
    ...(task.failureReason !== undefined && { FailureReason: task.failureReason }),
    StartedTimestamp: task.startedAtMs,
  };
}

function handleOf(task: MoveTask): string {
  return Buffer.from(JSON.stringify({ taskId: task.id, sourceArn: task.source.arn })).toString('base64');
}

function handleFrom(handle: string): z.infer<typeof handleContent> {
  const content = handleContent.safeParse(jsonFrom(Buffer.from(handle, 'base64').toString()));
  if (content.success) return content.data;
  throw new SqsRefusal('InvalidParameterValue', 'Value for parameter TaskHandle is invalid.');
}

function parse<Schema extends z.ZodMiniType>(schema: Schema, body: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new SqsRefusal('InvalidParameterValue', `${issue?.path.join('.')}: ${issue?.message}`);
}

function jsonFrom(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
