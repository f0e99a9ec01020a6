/** A price of so much for a unit, lower above each amount a month. */
export interface Price {
  readonly what: string;
  readonly unit: string;
  /** From the first unit on; each tier ends at `upTo` units a month. US dollars for `per` units. */
  readonly tiers: readonly { readonly upTo?: number; readonly usd: number }[];
  readonly per: number;
  readonly source: string;
}

/** When the prices were last looked up. */
export const pricesOf = '2026-06';

const million = 1e6;
const billion = 1e9;
const dynamodb = 'https://aws.amazon.com/dynamodb/pricing/on-demand/';
const lambda = 'https://aws.amazon.com/lambda/pricing/';
const cloudwatch = 'https://aws.amazon.com/cloudwatch/pricing/';

/** List prices of us-east-1 without any free tier. */
export const prices = {
  write: {
    what: 'DynamoDB write',
    unit: 'million request units',
    tiers: [{ usd: 0.625 }],
    per: million,
    source: dynamodb,
  },
  read: {
    what: 'DynamoDB read',
    unit: 'million request units',
    tiers: [{ usd: 0.125 }],
    per: million,
    source: dynamodb,
  },
  storage: { what: 'DynamoDB storage', unit: 'GB-month', tiers: [{ usd: 0.25 }], per: 1, source: dynamodb },
  backup: {
    what: 'DynamoDB point-in-time recovery',
    unit: 'GB-month',
    tiers: [{ usd: 0.2 }],
    per: 1,
    source: dynamodb,
  },
  provisionedWrite: {
    what: 'DynamoDB write, provisioned',
    unit: 'unit-hour',
    tiers: [{ usd: 0.00065 }],
    per: 1,
    source: 'https://aws.amazon.com/dynamodb/pricing/provisioned/',
  },
  compute: {
    what: 'Lambda on arm64',
    unit: 'million GB-seconds',
    tiers: [{ upTo: 7.5 * billion, usd: 13.3334 }, { upTo: 18.75 * billion, usd: 12.0001 }, { usd: 10.6667 }],
    per: million,
    source: lambda,
  },
  invocation: {
    what: 'Lambda requests',
    unit: 'million',
    tiers: [{ usd: 0.2 }],
    per: million,
    source: lambda,
  },
  queue: {
    what: 'SQS standard requests',
    unit: 'million',
    tiers: [{ upTo: 100 * billion, usd: 0.4 }, { upTo: 200 * billion, usd: 0.3 }, { usd: 0.24 }],
    per: million,
    source: 'https://aws.amazon.com/sqs/pricing/',
  },
  fairQueue: {
    what: 'SQS fair queues, on top',
    unit: 'million',
    tiers: [{ usd: 0.1 }],
    per: million,
    source: 'https://aws.amazon.com/sqs/pricing/',
  },
  request: {
    what: 'API Gateway HTTP API',
    unit: 'million requests',
    tiers: [{ upTo: 300 * million, usd: 1 }, { usd: 0.9 }],
    per: million,
    source: 'https://aws.amazon.com/api-gateway/pricing/',
  },
  logs: {
    what: 'CloudWatch logs of Lambda',
    unit: 'GB',
    tiers: [
      { upTo: 10_000, usd: 0.5 },
      { upTo: 30_000, usd: 0.25 },
      { upTo: 50_000, usd: 0.1 },
      { usd: 0.05 },
    ],
    per: 1,
    source: cloudwatch,
  },
  logStorage: {
    what: 'CloudWatch log storage',
    unit: 'GB-month, compressed',
    tiers: [{ usd: 0.03 }],
    per: 1,
    source: cloudwatch,
  },
  metric: {
    what: 'CloudWatch custom metric',
    unit: 'month',
    tiers: [{ usd: 0.3 }],
    per: 1,
    source: cloudwatch,
  },
  alarm: { what: 'CloudWatch alarm', unit: 'month', tiers: [{ usd: 0.1 }], per: 1, source: cloudwatch },
  dashboard: { what: 'CloudWatch dashboard', unit: 'month', tiers: [{ usd: 3 }], per: 1, source: cloudwatch },
  secret: {
    what: 'Secrets Manager secret',
    unit: 'month',
    tiers: [{ usd: 0.4 }],
    per: 1,
    source: 'https://aws.amazon.com/secrets-manager/pricing/',
  },
} as const satisfies Readonly<Record<string, Price>>;

/** What a quantity a month costs, in US dollars, tier by tier. */
export function costOf({ tiers, per }: Price, quantity: number): number {
  let [from, usd] = [0, 0];
  for (const tier of tiers) {
    const to = Math.min(quantity, tier.upTo ?? Number.POSITIVE_INFINITY);
    if (to <= from) break;
    usd += ((to - from) * tier.usd) / per;
    from = to;
  }
  return usd;
}
