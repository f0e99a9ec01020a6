import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import Stripe from 'stripe';

// What our worker is measured against: the consumer that most teams would write. Powertools' batch processor is no
// dependency of this project; the loop in `handler` does what it does by default, all records at once and each failure reported.

interface Job {
  readonly tenantId: string;
  readonly operationId: string;
  readonly input: {
    readonly amountMinor: number;
    readonly currency: string;
    readonly customerId: string;
    readonly paymentMethodId: string;
  };
}

const stripe = new Stripe(process.env.STRIPE_API_KEY ?? '');
const persistenceStore = new DynamoDBPersistenceLayer({ tableName: process.env.STOCK_TABLE ?? '' });
const config = new IdempotencyConfig({ eventKeyJmesPath: 'operationId', payloadValidationJmesPath: 'input' });

const charge = makeIdempotent(
  async ({ tenantId, operationId, input }: Job) => {
    const { id, status } = await stripe.paymentIntents.create(
      {
        amount: input.amountMinor,
        currency: input.currency,
        customer: input.customerId,
        payment_method: input.paymentMethodId,
        confirm: true,
        off_session: true,
        metadata: { tenantId, operationId },
      },
      { idempotencyKey: operationId },
    );
    return { id, status };
  },
  { persistenceStore, config },
);

export async function handler(event: SQSEvent, context: Context): Promise<SQSBatchResponse> {
  config.registerLambdaContext(context);
  const results = await Promise.allSettled(event.Records.map(async ({ body }) => charge(JSON.parse(body))));
  const failed = event.Records.filter((_, index) => results[index]?.status === 'rejected');
  return { batchItemFailures: failed.map(({ messageId }) => ({ itemIdentifier: messageId })) };
}
