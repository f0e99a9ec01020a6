import * as z from 'zod/mini';
import type { LocalStack, StackEvent } from './stack';

/** The worker's log lines that tell of an operation or a message. */
const logLine = z.object({
  message: z.string(),
  level: z.string(),
  tenantId: z.optional(z.string()),
  operationId: z.optional(z.string()),
  from: z.optional(z.string()),
  to: z.optional(z.string()),
  attempt: z.optional(z.number()),
  outcome: z.optional(z.string()),
  reason: z.optional(z.string()),
  problem: z.optional(z.string()),
  delaySeconds: z.optional(z.number()),
  receiveCount: z.optional(z.number()),
  providerRef: z.optional(z.string()),
  parkedReason: z.optional(z.string()),
  errorCode: z.optional(z.string()),
  errorMessage: z.optional(z.string()),
});

/**
 * Shows what happens to each operation, a line per change, as it happens.
 * @returns a function that ends it
 */
export function showLive(stack: LocalStack, print: (line: string) => void): () => void {
  return stack.onEvent((event) => {
    const line = lineOf(event);
    if (line !== undefined) print(`${new Date(stack.clock.now()).toISOString().slice(11, 19)}  ${line}`);
  });
}

function lineOf(event: StackEvent): string | undefined {
  switch (event.type) {
    case 'workerLine':
      return workerLineOf(event.line);
    case 'workerExited':
      return `worker ${event.pid} ended (${event.signal ?? `exit ${event.exitCode}`})`;
    case 'deadLettered':
      return `message ${event.messageId} is in the dead-letter queue`;
    case 'sqsFailed':
      return `SQS ${event.action} failed: ${event.error}`;
    case 'clockMoved':
      return `the clock is ${Math.round(event.offsetMs / 1000)} s ahead`;
    case 'received':
    case 'invoked':
    case 'acknowledged':
    case 'failed':
      return undefined;
  }
}

function workerLineOf(line: string): string | undefined {
  const parsed = logLine.safeParse(jsonOf(line));
  // Metrics are JSON too, and no log lines; what is neither is something that the worker's author wants to see.
  if (!parsed.success) return line.includes('"_aws"') ? undefined : line;
  const { message, tenantId, operationId, from, to, ...details } = parsed.data;
  const id = operationId === undefined ? '' : `${tenantId}/${operationId}  `;
  const what = to === undefined ? message : `${from} -> ${to}`;
  return `${id}${what}${detailsOf(details)}`;
}

function detailsOf(details: Readonly<Record<string, unknown>>): string {
  const shown = Object.entries(details).filter(([name, value]) => value !== undefined && name !== 'level');
  return shown.map(([name, value]) => `  ${name}=${value}`).join('');
}

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
