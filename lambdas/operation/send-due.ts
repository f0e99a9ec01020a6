import type { Limits } from './limits';
import type { Operation } from './operation';
import type { Clock, DueOperations, JobQueue } from './ports';

export interface SendDuePorts {
  readonly due: DueOperations;
  readonly queue: JobQueue;
  readonly clock: Clock;
  readonly limits: Limits;
}

export interface SentDue {
  readonly sent: number;
  /** Due, and not to be brought on by a message, or brought on by another run. */
  readonly left: number;
  /** Could not be brought on now; due again later. */
  readonly failed: number;
}

/**
 * Sends the messages of due operations again: those deferred in the table, accepted and never sent, or left running by a
 * worker that died. Each stays in the attention index, due again after its message had its time, so a crash here loses none.
 * @param untilMs when to stop; what is left over is due in the next run
 */
export async function sendDue(ports: SendDuePorts, untilMs: number): Promise<SentDue> {
  const done = { sent: 0, left: 0, failed: 0 };
  for await (const page of ports.due.pages(ports.clock())) {
    const brought = await Promise.allSettled(page.map((operation) => bringOn(ports, operation)));
    for (const one of brought) done[one.status === 'fulfilled' ? one.value : 'failed'] += 1;
    if (ports.clock() >= untilMs) break;
  }
  return done;
}

async function bringOn(
  { due, queue, clock, limits }: SendDuePorts,
  operation: Operation,
): Promise<'sent' | 'left'> {
  const nowMs = clock();
  const needsMessage = operation.state === 'queued' || operation.state === 'running';
  const nextMs = nowMs + (needsMessage ? messageTimeMs(limits) : hourMs);
  // First the next due time, then the message: a crash in between costs a wait, not an operation.
  if (!(await due.postpone(operation, nextMs))) return 'left';
  if (!needsMessage) return 'left';
  await queue.send(operation);
  return 'sent';
}

const hourMs = 3_600_000;

/** As long as a message may be deferred by its visibility: after the fifth delivery its operation is in the table again. */
const messageTimeMs = (limits: Limits): number => 5 * limits.retryCapSeconds * 1000;
