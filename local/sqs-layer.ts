import { AsyncLocalStorage } from 'node:async_hooks';
import type { ServerResponse } from 'node:http';
import type { buildApp } from 'fauxqs';
import { FairOrder } from './sqs-fair-queue';
import { MoveTasks, SqsRefusal } from './sqs-move-tasks';

export type SqsStore = NonNullable<NonNullable<Parameters<typeof buildApp>[0]>['stores']>['sqsStore'];
export type SqsQueue = ReturnType<SqsStore['createQueue']>;
type Message = SqsQueue['messages'][number];
type Body = Readonly<Record<string, unknown>>;

/** What the layer uses of the Fastify app that fauxqs builds; fauxqs's own type for it is `any` here. */
export interface SqsApp {
  addHook(
    name: 'preHandler',
    hook: (request: SqsRequest, reply: SqsReply, done: () => void) => unknown,
  ): unknown;
  addHook(
    name: 'preSerialization',
    hook: (request: SqsRequest, reply: SqsReply, payload: unknown) => Promise<unknown>,
  ): unknown;
}

interface SqsRequest {
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: unknown;
}

interface SqsReply {
  readonly raw: ServerResponse;
  code(statusCode: number): SqsReply;
  header(name: string, value: string): SqsReply;
  send(payload: object): unknown;
}

export interface DeadLetteredMessage {
  readonly messageId: string;
  readonly body: string;
  readonly sourceArn: string;
  readonly deadLetterArn: string;
}

/**
 * Adds to fauxqs what SQS has and it lacks: message move tasks, `ListDeadLetterSourceQueues`,
 * `MessageGroupId` on standard queues and their fair order, `DeadLetterQueueSourceArn`, counts that know the time, and long polls
 * that end with their client (fauxqs would hand the next message to a client that is gone).
 * @param store the one that `app` was built with, still empty
 */
export function layerSqs(
  app: SqsApp,
  store: SqsStore,
  onDeadLettered: (message: DeadLetteredMessage) => void,
): void {
  const requests = new AsyncLocalStorage<Body>();
  const turns = new Turns();
  const sources = watchQueues(store, requests, onDeadLettered);
  const moveTasks = new MoveTasks(store, (message) => sources.get(message));
  const answers: Readonly<Record<string, (body: Body) => object>> = {
    StartMessageMoveTask: (body) => moveTasks.start(body),
    ListMessageMoveTasks: (body) => moveTasks.list(body),
    CancelMessageMoveTask: (body) => moveTasks.cancel(body),
    ListDeadLetterSourceQueues: (body) => moveTasks.sourceQueues(body),
  };

  app.addHook('preHandler', (request, _reply, done) => requests.run(objectFrom(request.body), done));

  app.addHook('preHandler', async (request, reply) => {
    store.processAllTimers();
    const action = actionOf(request.headers);
    const body = objectFrom(request.body);
    if (action === 'ReceiveMessage') await longPoll(store, turns, request.body, reply.raw);
    const answer = answers[action];
    if (!answer) return undefined;
    reply.header('content-type', 'application/x-amz-json-1.0');
    try {
      return await reply.send(answer(body));
    } catch (error) {
      if (!(error instanceof SqsRefusal)) throw error;
      reply.header('x-amzn-query-error', `${error.code};Sender`);
      return reply
        .code(error.statusCode)
        .send({ __type: `com.amazonaws.sqs#${error.code}`, message: error.message });
    }
  });

  app.addHook('preSerialization', async (request, reply, payload) => {
    if (actionOf(request.headers) === 'ReceiveMessage') {
      turns.end(reply.raw);
      addSourceArns(store, request.body, payload, sources);
    }
    return payload;
  });
}

/** Whether it has what the layer uses of fauxqs's store, which is no public contract. */
export function isSqsStore(value: object): value is SqsStore {
  return 'createQueue' in value && 'getQueueByArn' in value && 'processAllTimers' in value;
}

/**
 * Marks messages as they enter a queue: with their sender's `MessageGroupId`, or with the queue that gave
 * them up. fauxqs calls `enqueue` of the dead-letter queue within `dequeue` of the source.
 */
function watchQueues(
  store: SqsStore,
  requests: AsyncLocalStorage<Body>,
  onDeadLettered: (message: DeadLetteredMessage) => void,
): WeakMap<Message, string> {
  const sources = new WeakMap<Message, string>();
  let givingUp: string | undefined;
  const createQueue = store.createQueue.bind(store);
  store.createQueue = (...args) => {
    const queue = createQueue(...args);
    const enqueue = queue.enqueue.bind(queue);
    const dequeue = queue.dequeue.bind(queue);
    const order = new FairOrder();
    queue.dequeue = (...dequeueArgs) => {
      order.sort(queue);
      givingUp = queue.arn;
      try {
        const taken = dequeue(...dequeueArgs);
        order.count(
          taken.map(
            ({ ReceiptHandle: handle }) => queue.inflightMessages.get(handle)?.message.messageGroupId,
          ),
        );
        return taken;
      } finally {
        givingUp = undefined;
      }
    };
    queue.enqueue = (message) => {
      if (givingUp !== undefined) {
        sources.set(message, givingUp);
        const { messageId, body } = message;
        onDeadLettered({ messageId, body, sourceArn: givingUp, deadLetterArn: queue.arn });
      } else if (!queue.isFifo()) {
        const groupId = message.messageGroupId ?? groupIdIn(requests.getStore(), message);
        if (groupId !== undefined) message.messageGroupId = groupId;
      }
      enqueue(message);
    };
    return queue;
  };
  return sources;
}

/**
 * The group id that `SendMessage` or this message's `SendMessageBatch` entry carries. Each entry is used
 * once.
 */
function groupIdIn(request: Body | undefined, message: Message): string | undefined {
  if (!request) return undefined;
  if (!Array.isArray(request.Entries)) return stringIn(request, 'MessageGroupId');
  const index = request.Entries.findIndex((entry) => objectFrom(entry).MessageBody === message.body);
  if (index === -1) return undefined;
  const [entry] = request.Entries.splice(index, 1, undefined);
  return stringIn(objectFrom(entry), 'MessageGroupId');
}

/**
 * Whose receive it is, for each queue: fauxqs wakes all that wait for a message, and those that come too late
 * should wait on, as on AWS, not answer that there is nothing.
 */
class Turns {
  readonly #held = new Map<SqsQueue, ServerResponse>();

  isTaken(queue: SqsQueue): boolean {
    return this.#held.has(queue);
  }

  take(queue: SqsQueue, response: ServerResponse): void {
    this.#held.set(queue, response);
    response.once('close', () => this.end(response));
  }

  end(response: ServerResponse): void {
    for (const [queue, holder] of this.#held) if (holder === response) this.#held.delete(queue);
  }
}

/** Waits for a message in fauxqs's stead, and no longer than the client does; fauxqs then answers at once. */
async function longPoll(
  store: SqsStore,
  turns: Turns,
  body: unknown,
  response: ServerResponse,
): Promise<void> {
  if (typeof body !== 'object' || body === null) return;
  const request = objectFrom(body);
  const queue = store.getQueue(stringIn(request, 'QueueUrl') ?? '');
  if (!queue || queue.isFifo()) return;
  const seconds = Number(request.WaitTimeSeconds ?? queue.attributes.ReceiveMessageWaitTimeSeconds);
  if (!(seconds > 0 && seconds <= 20)) return;
  const left = Promise.withResolvers<void>();
  response.once('close', left.resolve);
  const until = performance.now() + seconds * 1000;
  const mustWait = () => queue.messages.length === 0 || turns.isTaken(queue);
  while (mustWait() && performance.now() < until && !response.destroyed) {
    await Promise.race([queue.waitForMessages((until - performance.now()) / 1000), left.promise]);
  }
  response.off('close', left.resolve);
  if (!response.destroyed && !mustWait()) turns.take(queue, response);
  // When nobody is there to take a message, fauxqs refuses the request and leaves all where they are.
  Object.assign(body, { WaitTimeSeconds: response.destroyed ? -1 : 0 });
}

function addSourceArns(
  store: SqsStore,
  request: unknown,
  payload: unknown,
  sources: WeakMap<Message, string>,
): void {
  const body = objectFrom(request);
  const wanted = [body.AttributeNames, body.MessageSystemAttributeNames].flat();
  if (!wanted.includes('All') && !wanted.includes('DeadLetterQueueSourceArn')) return;
  const queue = store.getQueue(stringIn(body, 'QueueUrl') ?? '');
  const { Messages: messages } = objectFrom(payload);
  if (!queue || !Array.isArray(messages)) return;
  for (const message of messages) {
    if (typeof message !== 'object' || message === null) continue;
    const taken = queue.inflightMessages.get(stringIn(message, 'ReceiptHandle') ?? '');
    const sourceArn = taken && sources.get(taken.message);
    if (!sourceArn) continue;
    const attributes = { ...objectFrom(message.Attributes), DeadLetterQueueSourceArn: sourceArn };
    Object.assign(message, { Attributes: attributes });
  }
}

function actionOf(headers: Readonly<Record<string, unknown>>): string {
  const target = headers['x-amz-target'];
  return typeof target === 'string' ? target.replace('AmazonSQS.', '') : '';
}

function objectFrom(value: unknown): Body {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

function stringIn(object: Body, name: string): string | undefined {
  const value = object[name];
  return typeof value === 'string' ? value : undefined;
}
