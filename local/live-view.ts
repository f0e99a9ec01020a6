import { isMetric, isRoutine, parseLogLine } from './log-line';
import type { LocalStack, StackEvent } from './stack';

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
  const parsed = parseLogLine(line);
  // What is neither a log line nor a metric is something that the worker's author wants to see.
  if (!parsed) return isMetric(line) ? undefined : line;
  if (isRoutine(parsed)) return undefined;
  const { timestamp: _, messageId: _message, message, tenantId, operationId, from, to, ...details } = parsed;
  const id = operationId === undefined ? '' : `${tenantId}/${operationId}  `;
  const what = to === undefined ? message : `${from} -> ${to}`;
  return `${id}${what}${detailsOf(details)}`;
}

function detailsOf(details: Readonly<Record<string, unknown>>): string {
  const shown = Object.entries(details).filter(([name, value]) => value !== undefined && name !== 'level');
  return shown.map(([name, value]) => `  ${name}=${value}`).join('');
}
