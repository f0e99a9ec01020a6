import { setTimeout as sleep } from 'node:timers/promises';
import { DeleteMessageBatchCommand, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { type BatchVerdict, readBatchResponse, wholeBatch } from './batch-response';
import { Listeners } from './listeners';
import { toRecord } from './sqs-record';
import type { InvocationResult, WorkerPool } from './worker-pool';

export interface EventSourceOptions {
  readonly queueUrl: string;
  readonly queueArn: string;
  /** Of the queue, through the proxy. The event source does not destroy it. */
  readonly sqs: SQSClient;
  readonly workers: WorkerPool;
  /** Invocations in parallel. */
  readonly maxConcurrency: number;
  /** Messages of one invocation, 1 to 10. */
  readonly batchSize: number;
  /** How long a batch may wait to be filled. */
  readonly batchWindowSeconds: number;
  /** The function's timeout. */
  readonly timeoutMs: number;
}

/** What an event source tells of its work, in the order in which it happens. */
export type EventSourceEvent =
  | { readonly type: 'received'; readonly records: readonly SQSRecord[] }
  | {
      readonly type: 'invoked';
      readonly requestId: string;
      readonly pid: number;
      readonly records: readonly SQSRecord[];
    }
  | { readonly type: 'acknowledged'; readonly requestId: string; readonly record: SQSRecord }
  | {
      readonly type: 'failed';
      readonly requestId: string;
      readonly record: SQSRecord;
      /** Why the whole batch failed; absent when the function named this message. */
      readonly wholeBatchBecause?: string;
    }
  /** SQS could not be asked; the event source tries again. */
  | { readonly type: 'sqsFailed'; readonly action: 'receive' | 'delete'; readonly error: string };

export interface Delivery {
  readonly result: InvocationResult;
  readonly verdict: BatchVerdict;
}

export interface EventSource {
  /** Begins to poll; does nothing while it polls already. */
  start(): void;
  /** Stops polling at once, and waits for the invocations that run. */
  stop(): Promise<void>;
  /**
   * Hands these records to the function now, whatever the queue has, and acts on the response as always. For
   * duplicates and late deliveries: a record that was delivered before may be delivered again.
   */
  invokeOnce(records: readonly SQSRecord[]): Promise<Delivery>;
  /**
   * Takes up to `max` (1 to 10) messages from the queue without delivering them; waits up to `waitSeconds`
   * for one.
   */
  receive(max: number, waitSeconds?: number): Promise<SQSRecord[]>;
  onEvent(listener: (event: EventSourceEvent) => void): () => void;
}

/** The longest that SQS lets a poll wait. */
const longPollSeconds = 20;
/** Between polls when SQS fails, in milliseconds. */
const pollFailureMs = 200;

/**
 * Does what Lambda's SQS event source mapping with `ReportBatchItemFailures` does: polls, invokes with
 * batches, deletes what did not fail, and leaves what failed to its visibility timeout.
 * https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
 */
export function createEventSource(options: EventSourceOptions): EventSource {
  const { queueUrl, queueArn, sqs, workers } = options;
  const events = new Listeners<EventSourceEvent>();
  let stopPolling = new AbortController();
  let pollers: Promise<void>[] = [];

  const receive = async (max: number, waitSeconds: number, signal?: AbortSignal): Promise<SQSRecord[]> => {
    const command = new ReceiveMessageCommand({
      QueueUrl: queueUrl,
      MaxNumberOfMessages: max,
      WaitTimeSeconds: waitSeconds,
      MessageAttributeNames: ['All'],
      MessageSystemAttributeNames: ['All'],
    });
    const { Messages: messages = [] } = await sqs.send(command, signal && { abortSignal: signal });
    return messages.map((message) => toRecord(message, queueArn));
  };

  const fillBatch = async (signal: AbortSignal): Promise<SQSRecord[]> => {
    const records = await receive(options.batchSize, longPollSeconds, signal);
    const until = performance.now() + options.batchWindowSeconds * 1000;
    while (records.length > 0 && records.length < options.batchSize) {
      const leftSeconds = Math.floor((until - performance.now()) / 1000);
      if (leftSeconds < 1) break;
      const wait = Math.min(leftSeconds, longPollSeconds);
      records.push(...(await receive(options.batchSize - records.length, wait, signal)));
    }
    return records;
  };

  const acknowledge = async (requestId: string, records: readonly SQSRecord[]): Promise<void> => {
    if (records.length === 0) return;
    const command = new DeleteMessageBatchCommand({
      QueueUrl: queueUrl,
      Entries: records.map(({ receiptHandle }, index) => ({
        Id: String(index),
        ReceiptHandle: receiptHandle,
      })),
    });
    try {
      const { Failed: failed = [] } = await sqs.send(command);
      for (const { Id: id, Code: code } of failed) {
        events.emit({
          type: 'sqsFailed',
          action: 'delete',
          error: `${records[Number(id)]?.messageId}: ${code}`,
        });
      }
      const kept = new Set(failed.map(({ Id: id }) => Number(id)));
      for (const [index, record] of records.entries()) {
        if (!kept.has(index)) events.emit({ type: 'acknowledged', requestId, record });
      }
    } catch (error) {
      events.emit({ type: 'sqsFailed', action: 'delete', error: String(error) });
    }
  };

  const deliver = async (records: readonly SQSRecord[]): Promise<Delivery> => {
    const result = await workers.invoke({ Records: records }, options.timeoutMs, (start) =>
      events.emit({ type: 'invoked', ...start, records }),
    );
    const ids = records.map(({ messageId }) => messageId);
    const verdict = verdictOn(result, ids);
    const { requestId } = result;
    for (const record of records) {
      if (!verdict.failedIds.has(record.messageId)) continue;
      const { wholeBatchBecause: because } = verdict;
      events.emit({
        type: 'failed',
        requestId,
        record,
        ...(because !== undefined && { wholeBatchBecause: because }),
      });
    }
    await acknowledge(
      requestId,
      records.filter(({ messageId }) => !verdict.failedIds.has(messageId)),
    );
    return { result, verdict };
  };

  const poll = async (signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      try {
        const records = await fillBatch(signal);
        if (records.length === 0) continue;
        events.emit({ type: 'received', records });
        await deliver(records);
      } catch (error) {
        if (signal.aborted) return;
        events.emit({ type: 'sqsFailed', action: 'receive', error: String(error) });
        await sleep(pollFailureMs, undefined, { signal }).catch(() => {});
      }
    }
  };

  return {
    start() {
      if (pollers.length > 0) return;
      stopPolling = new AbortController();
      pollers = Array.from({ length: options.maxConcurrency }, () => poll(stopPolling.signal));
    },
    async stop() {
      stopPolling.abort();
      await Promise.all(pollers);
      pollers = [];
    },
    invokeOnce: deliver,
    receive: (max, waitSeconds = 0) => receive(max, waitSeconds),
    onEvent: (listener) => events.add(listener),
  };
}

function verdictOn(result: InvocationResult, ids: readonly string[]): BatchVerdict {
  switch (result.outcome) {
    case 'responded':
      return readBatchResponse(result.payload, ids);
    case 'threw':
      return wholeBatch(ids, `the function threw: ${result.error}`);
    case 'timedOut':
      return wholeBatch(ids, 'the function timed out');
    case 'died':
      return wholeBatch(ids, `the process ended (${result.signal ?? result.exitCode}): ${result.output}`);
  }
}
