import { BatchProcessor, EventType, processPartialResponse } from '@aws-lambda-powertools/batch';
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';
import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import Stripe from 'stripe';

// What our worker is measured against: the consumer that most teams would write, of Powertools' batch processor and its
// idempotency with the DynamoDB layer.

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

const processor = new BatchProcessor(EventType.SQS);

export function handler(event: SQSEvent, context: Context): Promise<SQSBatchResponse> {
  config.registerLambdaContext(context);
  return processPartialResponse(event, ({ body }: SQSRecord) => charge(JSON.parse(body)), processor, {
    context,
  });
}
