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
 * worker that died. A crash at any point leaves them due.
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

async function bringOn(ports: SendDuePorts, operation: Operation): Promise<'sent' | 'left'> {
  const { due, queue, clock } = ports;
  const needsMessage = operation.state === 'queued' || operation.state === 'running';
  const nextMs = clock() + (needsMessage ? minuteMs : hourMs);
  // Of two runs at once, the one that moves the due time sends.
  if (!(await due.postpone(operation, nextMs)) || !needsMessage) return 'left';
  await queue.send(operation);
  await due.postpone({ ...operation, dueAtMs: nextMs }, clock() + sentAgainMs);
  return 'sent';
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/**
 * A message that was sent brings its operation on by itself, so it is due again only in case the message was never
 * delivered: seldom enough that a backlog does not multiply, and well within the queue's retention.
 */
const sentAgainMs = 6 * hourMs;
