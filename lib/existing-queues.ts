import type { IKey } from 'aws-cdk-lib/aws-kms';
import { CfnQueue, type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import { visibilityTimeoutSeconds } from '../lambdas/operation/limits';
import type { Settings } from './settings';
import type { QueuePair } from './work-queue';

export interface ExistingQueues {
  /** A standard queue. One that CDK does not create here must have the visibility timeout and the redrive policy that the settings ask for: only its own template can show them. */
  readonly queue: IQueue;
  /**
   * The dead-letter queue that its redrive policy names.
   * @default - taken from `queue`, which then must be created in this app
   */
  readonly deadLetterQueue?: IQueue;
}

/**
 * The queues of another stack, checked as far as they can be seen from here.
 * @param encryptionKey their KMS key, for an import that does not carry it
 * @throws Error when they would lose or misdirect messages, with the property to change
 */
export function adoptQueues(given: ExistingQueues, settings: Settings, encryptionKey?: IKey): QueuePair {
  const { queue } = given;
  const redrive = queue instanceof Queue ? queue.deadLetterQueue : undefined;
  const deadLetterQueue = given.deadLetterQueue ?? redrive?.queue;
  const problems = queueProblems(queue, settings);
  if (deadLetterQueue === undefined)
    problems.push('deadLetterQueue is missing; give the queue that its redrive policy names');
  if (redrive !== undefined && redrive.queue.queueArn !== deadLetterQueue?.queueArn)
    problems.push(
      `deadLetterQueue is ${deadLetterQueue?.node.path}; its redrive policy names ${redrive.queue.node.path}`,
    );
  if (deadLetterQueue?.fifo) problems.push('deadLetterQueue is a FIFO queue; it must be a standard queue');
  if (problems.length > 0 || deadLetterQueue === undefined)
    throw new Error(
      `${queue.node.path} cannot be the work queue:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`,
    );

  const [queueKey, deadLetterKey] = [queue, deadLetterQueue].map(
    (each) => each.encryptionMasterKey ?? encryptionKey,
  );
  return { queue, deadLetterQueue, queueKey, deadLetterKey };
}

function queueProblems(queue: IQueue, settings: Settings): string[] {
  const problems: string[] = [];
  if (queue.fifo)
    problems.push(
      'queue is a FIFO queue; it must be a standard queue, because a FIFO group waits behind one failed job, and order is kept by the records',
    );
  if (!(queue instanceof Queue)) return problems;

  const required = visibilityTimeoutSeconds(settings);
  const cfnQueue = queue.node.defaultChild;
  const visibility = cfnQueue instanceof CfnQueue ? (cfnQueue.visibilityTimeout ?? 30) : required;
  if (visibility < required)
    problems.push(
      `visibilityTimeout is ${visibility} s; it must be at least ${required} s (6 x workerTimeoutSeconds ${settings.workerTimeoutSeconds} + batchWindowSeconds ${settings.batchWindowSeconds})`,
    );
  const receives = queue.deadLetterQueue?.maxReceiveCount;
  if (receives !== settings.maxReceiveCount)
    problems.push(
      `its redrive policy has ${receives === undefined ? 'no maxReceiveCount' : `maxReceiveCount ${receives}`}; it must be the setting maxReceiveCount ${settings.maxReceiveCount}`,
    );
  return problems;
}
