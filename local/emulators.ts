import { join } from 'node:path';
import * as z from 'zod/mini';
import { endChild, forkTypeScript, isAlive, moveChildClock } from './child';
import type { Clock } from './clock';

const ready = z.object({ kind: z.literal('ready'), dynamodbPort: z.number(), sqsPort: z.number() });
const deadLettered = z.object({
  kind: z.literal('deadLettered'),
  message: z.object({
    messageId: z.string(),
    body: z.string(),
    sourceArn: z.string(),
    deadLetterArn: z.string(),
  }),
});

/** A message that the redrive policy moved to its dead-letter queue. */
export type DeadLettered = Readonly<z.infer<typeof deadLettered>['message']>;

export interface Emulators {
  /** dynalite, on 127.0.0.1. */
  readonly dynamodbPort: number;
  /** fauxqs with our layer, on 127.0.0.1. */
  readonly sqsPort: number;
  /** Ends the process and waits for it. Rejects with what it last said if it had ended by itself before. */
  stop(): Promise<void>;
}

/**
 * Starts DynamoDB and SQS emulators in a process of their own, which follows the clock and ends with this
 * one.
 */
export async function startEmulators(
  clock: Clock,
  onDeadLettered: (message: DeadLettered) => void = () => {},
): Promise<Emulators> {
  const lastLines: string[] = [];
  const child = forkTypeScript(join(__dirname, 'emulators-process.mts'), {}, (line) => {
    lastLines.push(line);
    if (lastLines.length > 20) lastLines.shift();
  });
  const died = () => new Error(['The emulators ended by themselves.', ...lastLines].join('\n'));

  const started = Promise.withResolvers<z.infer<typeof ready>>();
  child.once('close', () => started.reject(died()));
  child.on('message', (message) => {
    const event = z.union([ready, deadLettered]).safeParse(message);
    if (!event.success) return;
    if (event.data.kind === 'ready') started.resolve(event.data);
    else onDeadLettered(event.data.message);
  });
  const { dynamodbPort, sqsPort } = await started.promise;

  const unfollow = clock.follow((offsetMs) => moveChildClock(child, offsetMs));
  if (clock.offsetMs() > 0) await moveChildClock(child, clock.offsetMs());
  return {
    dynamodbPort,
    sqsPort,
    async stop() {
      unfollow();
      if (!isAlive(child)) throw died();
      await endChild(child);
    },
  };
}
