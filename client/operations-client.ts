import { setTimeout as sleep } from 'node:timers/promises';
import { SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import * as z from 'zod/mini';
import type { ChargeInput, RefundInput, SentMessage } from '../lambdas/operation/message';
import type { ChargeInputV1, MessageV1 } from '../lambdas/operation/message-v1';
import { states } from '../lambdas/operation/state';
import { ApiError } from './api-error';

export interface OperationsClientOptions {
  /** The stack's output `ApiUrl`. */
  readonly apiUrl: string;
  /**
   * Sends one request, signed as the API asks: `signedFetch()` of `client/signed-fetch.ts` for IAM.
   * @default the global `fetch`, for an API that nobody signs in to (the laptop stack)
   */
  readonly fetch?: typeof fetch;
  /**
   * For `enqueue`: the client and the stack's output `QueueUrl`.
   * @default none: `enqueue` throws
   */
  readonly queue?: { readonly sqs: SQSClient; readonly queueUrl: string };
}

/** A job for the queue; without a version it is one of version 1. */
export type Job = Exclude<SentMessage, MessageV1> | UnversionedJob<MessageV1>;
type UnversionedJob<Sent> = Sent extends MessageV1
  ? Omit<Sent, 'version'> & Partial<Pick<Sent, 'version'>>
  : never;

export interface AcceptOptions {
  /** An operation never attempted by then fails. ISO 8601 in UTC. @default 12 hours from now */
  readonly deadlineAt?: string;
}

const operationSchema = z.object({
  tenantId: z.string(),
  operationId: z.string(),
  type: z.enum(['charge', 'refund']),
  state: z.enum(states),
  /** Whether it has ended: then it has exactly one of `result` and `error`. */
  done: z.boolean(),
  /** Whether money has moved, or may have. */
  effectPossible: z.boolean(),
  attempts: z.number(),
  result: z.optional(
    z.object({
      providerRef: z.optional(z.string()),
      amountMinor: z.optional(z.number()),
      currency: z.optional(z.string()),
      chargeId: z.optional(z.string()),
    }),
  ),
  error: z.optional(z.object({ code: z.string(), message: z.string(), declineCode: z.optional(z.string()) })),
  parkedReason: z.optional(z.string()),
  createdAt: z.string(),
  updatedAt: z.string(),
});

/** An operation as the API tells it; amounts in the currency's smallest unit, times in ISO 8601. */
export type OperationStatus = Readonly<z.infer<typeof operationSchema>>;

export interface Accepted {
  /** False when the API knew the operation already, with the same inputs. */
  readonly isNew: boolean;
  readonly operation: OperationStatus;
}

/** API Gateway gives up after 30 s, and our functions well before. */
const requestTimeoutMs = 30_000;

/** How often a request whose answer was lost is sent again: accepting under one's own id is idempotent. */
const sendings = 3;

/**
 * For services that charge and refund. Every method may be called again with the same ids at any time.
 * @throws ApiError with the API's problem document, from every method that calls it
 */
export class OperationsClient {
  constructor(private readonly options: OperationsClientOptions) {}

  /** Accepts a charge. Resolves once it is durable and on its way, not once it is made. */
  charge(
    tenantId: string,
    operationId: string,
    input: ChargeInput | ChargeInputV1,
    options: AcceptOptions = {},
  ): Promise<Accepted> {
    // Version 1 goes without saying, to an API of any age.
    const version = 'reference' in input ? { version: 2 } : {};
    return this.#accept(pathOf(tenantId, 'charges', operationId), { ...version, ...input, ...options });
  }

  /** Accepts a refund of a charge that has succeeded, or of a part of it. */
  refund(
    tenantId: string,
    operationId: string,
    input: RefundInput,
    options: AcceptOptions = {},
  ): Promise<Accepted> {
    return this.#accept(pathOf(tenantId, 'refunds', operationId), { ...input, ...options });
  }

  /** @returns undefined when the operation is not known */
  async get(tenantId: string, operationId: string): Promise<OperationStatus | undefined> {
    const response = await this.#send('GET', pathOf(tenantId, 'operations', operationId));
    if (response.ok) return operationSchema.parse(await response.json());
    const error = await ApiError.from(response);
    // Any other 404 is not the API's own: a wrong address, say.
    if (error.type === 'urn:charge-once:problem:operation-not-found') return undefined;
    throw error;
  }

  /**
   * Asks until the operation has ended.
   * @param timeoutMs how long to ask; then it rejects
   * @throws Error when the operation is not known, or has not ended in time
   */
  async waitUntilDone(
    tenantId: string,
    operationId: string,
    {
      timeoutMs = 60_000,
      intervalMs = 500,
    }: { readonly timeoutMs?: number; readonly intervalMs?: number } = {},
  ): Promise<OperationStatus> {
    const until = performance.now() + timeoutMs;
    for (;;) {
      const operation = await this.get(tenantId, operationId);
      if (!operation) throw new Error(`Operation ${operationId} of tenant ${tenantId} is not known.`);
      if (operation.done) return operation;
      if (performance.now() >= until) {
        throw new Error(
          `Operation ${operationId} of tenant ${tenantId} is still ${operation.state} after ${timeoutMs} ms.`,
        );
      }
      await sleep(intervalMs);
    }
  }

  /** Cancels an operation that has no effect and can have none. @throws ApiError 409 with what to do instead, where it may have one */
  async cancel(tenantId: string, operationId: string): Promise<OperationStatus> {
    const response = await this.#send('POST', `${pathOf(tenantId, 'operations', operationId)}/cancel`);
    return operationSchema.parse(await jsonOf(response));
  }

  /** Sends a job straight to the queue: no bounds on what waits, and no answer but that it is on the queue. @returns the message's id */
  async enqueue(job: Job): Promise<string> {
    const { queue } = this.options;
    if (!queue) throw new Error('enqueue needs the option queue: the SQS client and the URL of the queue.');
    const { MessageId } = await queue.sqs.send(
      new SendMessageCommand({
        QueueUrl: queue.queueUrl,
        MessageGroupId: job.tenantId,
        MessageBody: JSON.stringify({ version: 1, ...job }),
        MessageAttributes: {
          tenantId: { DataType: 'String', StringValue: job.tenantId },
          type: { DataType: 'String', StringValue: job.type },
        },
      }),
    );
    return MessageId ?? '';
  }

  async #accept(path: string, body: object): Promise<Accepted> {
    const response = await this.#send('PUT', path, JSON.stringify(body));
    return { isNew: response.status === 202, operation: operationSchema.parse(await jsonOf(response)) };
  }

  async #send(method: string, path: string, body?: string): Promise<Response> {
    const url = `${this.options.apiUrl.replace(/\/$/, '')}${path}`;
    const content = body === undefined ? {} : { body, headers: { 'content-type': 'application/json' } };
    for (let sending = 1; ; sending++) {
      const signal = AbortSignal.timeout(requestTimeoutMs);
      try {
        return await (this.options.fetch ?? fetch)(url, { method, ...content, signal });
      } catch (error) {
        if (sending === sendings) throw error;
        await sleep(100 * 2 ** sending * Math.random());
      }
    }
  }
}

const pathOf = (tenantId: string, kind: 'charges' | 'refunds' | 'operations', operationId: string): string =>
  `/tenants/${encodeURIComponent(tenantId)}/${kind}/${encodeURIComponent(operationId)}`;

async function jsonOf(response: Response): Promise<unknown> {
  if (response.ok) return response.json();
  throw await ApiError.from(response);
}
