import { ChangeMessageVisibilityCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { inTime } from './deadline';

/** SQS's longest visibility timeout, which counts from the receive, less a minute. https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html */
const maxSeconds = 43_200 - 60;

/** Decides when a message that is reported as failed comes back. */
export class MessageVisibility {
  constructor(
    private readonly client: SQSClient,
    private readonly queueUrl: string,
  ) {}

  /** @param delaySeconds 0 to 43 200; 0 brings the message back at once, and past the receive limit to the dead-letter queue */
  async comesBackIn(receiptHandle: string, delaySeconds: number): Promise<void> {
    const VisibilityTimeout = Math.min(delaySeconds, maxSeconds);
    await this.client.send(
      new ChangeMessageVisibilityCommand({
        QueueUrl: this.queueUrl,
        ReceiptHandle: receiptHandle,
        VisibilityTimeout,
      }),
      inTime(),
    );
  }
}
