import type { MessageV1 } from '../../lambdas/operation/message-v1';

export type Charge = MessageV1 & { readonly type: 'charge' };

/** A job as other services send it; `pm_A` succeeds at the stand-in. */
export function job(operationId: string, amountMinor = 5000): Charge {
  const input = {
    invoiceId: operationId.slice(1),
    amountMinor,
    currency: 'usd',
    customerId: 'cus_A',
    paymentMethodId: 'pm_A',
  };
  return { version: 1, tenantId: 'North', operationId, type: 'charge', input };
}

export const malformedBody = '{"version":1,"tenantId":"North","operationId":';

/** What arrives when a topic's subscription does not deliver raw messages. https://docs.aws.amazon.com/sns/latest/dg/sns-large-payload-raw-message-delivery.html */
export const wrappedBody = JSON.stringify({
  Type: 'Notification',
  MessageId: '22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324',
  TopicArn: 'arn:aws:sns:us-east-1:123456789012:jobs',
  Message: JSON.stringify(job('O-wrapped')),
  Timestamp: '2026-01-01T00:00:00.000Z',
});
