import type { Message } from '@aws-sdk/client-sqs';
import type { SQSMessageAttributes, SQSRecord } from 'aws-lambda';

/** A received message as Lambda hands it to a function. */
export function toRecord(message: Message, queueArn: string): SQSRecord {
  const system: Partial<Record<string, string>> = message.Attributes ?? {};
  return {
    messageId: message.MessageId ?? '',
    receiptHandle: message.ReceiptHandle ?? '',
    body: message.Body ?? '',
    attributes: {
      ApproximateReceiveCount: system.ApproximateReceiveCount ?? '',
      SentTimestamp: system.SentTimestamp ?? '',
      SenderId: system.SenderId ?? '',
      ApproximateFirstReceiveTimestamp: system.ApproximateFirstReceiveTimestamp ?? '',
      ...optional(system, 'AWSTraceHeader'),
      ...optional(system, 'MessageGroupId'),
      ...optional(system, 'DeadLetterQueueSourceArn'),
    },
    messageAttributes: messageAttributesOf(message),
    md5OfBody: message.MD5OfBody ?? '',
    ...(message.MD5OfMessageAttributes !== undefined && {
      md5OfMessageAttributes: message.MD5OfMessageAttributes,
    }),
    eventSource: 'aws:sqs',
    eventSourceARN: queueArn,
    awsRegion: queueArn.split(':')[3] ?? '',
  };
}

function optional(system: Partial<Record<string, string>>, name: string): Record<string, string> {
  const value = system[name];
  return value === undefined ? {} : { [name]: value };
}

function messageAttributesOf(message: Message): SQSMessageAttributes {
  return Object.fromEntries(
    Object.entries(message.MessageAttributes ?? {}).map(([name, value]) => [
      name,
      {
        ...(value.StringValue !== undefined && { stringValue: value.StringValue }),
        ...(value.BinaryValue && { binaryValue: Buffer.from(value.BinaryValue).toString('base64') }),
        stringListValues: [],
        binaryListValues: [],
        dataType: value.DataType ?? '',
      },
    ]),
  );
}
