import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';

/**
 * A handler that charges nothing and does what each body says: `fail`, `throw`, `exit`, `wait <ms>`, `hang`,
 * `spin`, `now`, or anything else, which succeeds. It prints one line of JSON for each message as it begins
 * and ends, and appends it to the file `JOURNAL` when that is set.
 */
export async function handler(event: SQSEvent, context: Context): Promise<SQSBatchResponse> {
  const batchItemFailures: SQSBatchResponse['batchItemFailures'] = [];
  for (const { messageId, body, attributes } of event.Records) {
    const about = {
      body,
      messageId,
      requestId: context.awsRequestId,
      receives: attributes.ApproximateReceiveCount,
    };
    report({
      at: 'begin',
      ...about,
      batch: event.Records.length,
      remainingMs: context.getRemainingTimeInMillis(),
    });
    const [command, argument] = body.split(' ');
    if (command === 'fail') batchItemFailures.push({ itemIdentifier: messageId });
    if (command === 'throw') throw new Error('as told');
    if (command === 'exit') process.exit(7);
    if (command === 'wait') await sleep(Number(argument));
    if (command === 'hang') await new Promise(() => setInterval(() => {}, 1000));
    report({ at: 'end', ...about, nowMs: Date.now(), date: new Date().toISOString() });
  }
  return { batchItemFailures };
}

function report(line: object): void {
  const text = JSON.stringify(line);
  console.log(text);
  if (process.env.JOURNAL) appendFileSync(process.env.JOURNAL, `${text}\n`);
}
