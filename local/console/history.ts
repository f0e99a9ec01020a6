import type { SQSRecord } from 'aws-lambda';
import { messageFrom } from '../../lambdas/operation/message';
import { isMetric, isRoutine, type LogLine, parseLogLine } from '../log-line';
import type { LocalStack, StackEvent } from '../stack';
import type { Line } from './document';

/** How much is remembered: enough for a page, and bounded whatever runs through the stack. */
const most = { operations: 1000, linesOfOperation: 200, lines: 300, messages: 2000, invocations: 200 };

/** What happened on a stack since the history began. */
export interface History {
  /** The latest of everything, oldest first. */
  activity(): readonly Line[];
  /** Of one operation, oldest first. @param key `tenantId/operationId` */
  of(key: string): readonly Line[];
  /** Why the worker would not run a message, as it last said. */
  whyOf(messageId: string): string | undefined;
  /** Adds what a person did. */
  note(text: string, operation?: string): void;
  /** Called after each change. */
  onChange(listener: () => void): void;
}

/** A line before it has its time, which is now unless it says so. */
type Draft = Omit<Line, 'atMs'> & { readonly atMs?: number };

/** Follows a stack from now on. It ends with the stack. */
export function recordHistory(stack: Pick<LocalStack, 'clock' | 'onEvent'>): History {
  const all: Line[] = [];
  const byOperation = new Map<string, Line[]>();
  const reasons = new Map<string, string>();
  const invocations = new Map<string, readonly SQSRecord[]>();
  const listeners: (() => void)[] = [];
  let offsetMs = stack.clock.offsetMs();

  const add = (draft: Draft): void => {
    const line = { ...draft, atMs: draft.atMs ?? stack.clock.now() };
    pushBounded(all, line, most.lines);
    if (line.operation === undefined) return;
    const own = byOperation.get(line.operation) ?? [];
    pushBounded(own, line, most.linesOfOperation);
    setBounded(byOperation, line.operation, own, most.operations);
  };

  const linesOf = (event: StackEvent): Draft[] => {
    switch (event.type) {
      case 'received':
        return [];
      case 'invoked':
        setBounded(invocations, event.requestId, event.records, most.invocations);
        return event.records.map(({ body, attributes }) => ({
          ...about(body),
          kind: 'message',
          text: `delivery ${attributes.ApproximateReceiveCount} to worker ${event.pid}`,
        }));
      case 'acknowledged':
        return [{ ...about(event.record.body), kind: 'message', text: 'message acknowledged' }];
      case 'failed': {
        // Of a message that the worker named as failed, its own line says why.
        if (event.wholeBatchBecause === undefined) return [];
        const text = `message comes back later: ${event.wholeBatchBecause.split(':')[0]}`;
        return [{ ...about(event.record.body), kind: 'message', text, isBad: true }];
      }
      case 'sqsFailed':
        return [{ kind: 'message', text: `SQS ${event.action} failed: ${event.error}`, isBad: true }];
      case 'deadLettered': {
        const text = 'message moved to the dead-letter queue';
        return [{ ...about(event.body), kind: 'message', text, isBad: true }];
      }
      case 'workerExited': {
        const how = event.signal ? `was killed (${event.signal})` : `ended (${event.exitCode})`;
        const line = { kind: 'worker', text: `worker ${event.pid} ${how}`, isBad: true } as const;
        const held = invocations.get(event.requestId ?? '') ?? [];
        const operations = new Set(held.map(({ body }) => operationIn(body)));
        if (operations.size === 0) return [line];
        return [...operations].map((operation) => (operation === undefined ? line : { ...line, operation }));
      }
      case 'clockMoved': {
        const movedSeconds = Math.round((event.offsetMs - offsetMs) / 1000);
        offsetMs = event.offsetMs;
        return [{ kind: 'you', text: `the clock moved by ${movedSeconds} s` }];
      }
      case 'workerLine': {
        const log = parseLogLine(event.line);
        if (log) return isRoutine(log) ? [] : [lineOf(log, stack.clock.offsetMs())];
        return isMetric(event.line) ? [] : [{ kind: 'worker', text: event.line.slice(0, 300), isBad: true }];
      }
    }
  };
  const keepReason = (event: StackEvent): void => {
    const log = event.type === 'workerLine' ? parseLogLine(event.line) : undefined;
    const why = log?.problem ?? log?.reason;
    if (log?.messageId === undefined || why === undefined) return;
    if (/rejected|given up|dead-lettered/.test(log.message))
      setBounded(reasons, log.messageId, why, most.messages);
  };
  const changed = (): void => {
    for (const listener of listeners) listener();
  };
  stack.onEvent((event) => {
    keepReason(event);
    for (const line of linesOf(event)) add(line);
    changed();
  });

  return {
    activity: () => [...all],
    of: (key) => [...(byOperation.get(key) ?? [])],
    whyOf: (messageId) => reasons.get(messageId),
    note(text, operation) {
      add({ kind: 'you', text, ...(operation !== undefined && { operation }) });
      changed();
    },
    onChange: (listener) => void listeners.push(listener),
  };
}

/** @param offsetMs how far the stack's clock is ahead of the real one */
function lineOf(log: LogLine, offsetMs: number): Draft {
  // The handlers log by their real clock, which is nearer to what happened than the arrival of the line.
  const realMs = Date.parse(log.timestamp ?? '');
  return {
    ...(Number.isNaN(realMs) ? {} : { atMs: realMs + offsetMs }),
    kind: log.to === undefined ? 'message' : 'state',
    ...(log.operationId !== undefined && { operation: `${log.tenantId}/${log.operationId}` }),
    ...(log.to !== undefined && { to: log.to, from: log.from ?? 'new' }),
    text: textOf(log),
    isBad: log.level === 'WARN' || log.level === 'ERROR',
  };
}

/** What a state change or another log line says beside its ids and states. */
function textOf({ message, to, attempt, outcome, ...log }: LogLine): string {
  const details = [
    to === undefined ? message : undefined,
    to === 'running' ? `attempt ${attempt}` : undefined,
    outcome === to ? undefined : outcome,
    log.found,
    log.parkedReason,
    log.errorCode,
    log.problem ?? log.reason,
    log.delaySeconds === undefined ? undefined : `back in ${log.delaySeconds} s`,
    log.errorMessage,
    log.by === undefined ? undefined : `by ${log.by}`,
    log.note,
    to === undefined ? undefined : log.providerRef,
  ];
  return details.filter((detail) => detail !== undefined).join(' · ');
}

/** The operation that a message's body names; nothing when it cannot be read. */
function about(body: string): { readonly operation?: string } {
  const key = operationIn(body);
  return key === undefined ? {} : { operation: key };
}

/** `tenantId/operationId` of a message; undefined when it cannot be read. */
export function operationIn(body: string): string | undefined {
  const parsed = readMessage(body);
  if (parsed === undefined) return undefined;
  const { tenantId, operationId } = parsed.kind === 'message' ? parsed.message : parsed.ids;
  return tenantId === undefined || operationId === undefined ? undefined : `${tenantId}/${operationId}`;
}

/** A body as the worker reads it; undefined when it is no JSON object. */
export function readMessage(body: string): ReturnType<typeof messageFrom> | undefined {
  try {
    const json: unknown = JSON.parse(body);
    return typeof json === 'object' && json !== null ? messageFrom({ ...json }) : undefined;
  } catch {
    return undefined;
  }
}

function pushBounded<T>(list: T[], item: T, length: number): void {
  list.push(item);
  if (list.length > length) list.shift();
}

/** The entry that was written longest ago makes room. */
function setBounded<K, V>(map: Map<K, V>, key: K, value: V, size: number): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > size && oldest !== undefined) map.delete(oldest);
}
