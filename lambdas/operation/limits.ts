import * as z from 'zod/mini';

const outside = (allowed: string) => (issue: { input?: unknown }) =>
  `is ${JSON.stringify(issue.input)}; it must be ${allowed}`;

const wholeNumber = (min: number, max: number) => {
  const error = outside(`a whole number from ${min} to ${max}`);
  // One check and not three: there are thirty of these, made at each cold start.
  const isAllowed = (value: number) => Number.isSafeInteger(value) && value >= min && value <= max;
  return z.number({ error }).check(z.refine(isAllowed, { error }));
};

const ratio = (min: number, max: number) => {
  const error = outside(`a number from ${min} to ${max}`);
  return z.number({ error }).check(z.gte(min, { error }), z.lte(max, { error }));
};

/**
 * Every limit of the service, with its unit in its name, its default and its range. The deployed stack, the
 * laptop stack and the handlers share this one table; `lib/settings.ts` adds what only a deployment has.
 */
const limitsSchema = z.object({
  /** Provider calls of one tenant in flight at once. At most 50, because each write of the tenant's item costs its size. 0 switches off every bound of running and waiting, also a tenant's own. */
  tenantMaxRunning: z._default(wholeNumber(0, 50), 2),
  /** Accepted operations of one tenant that may wait beside the running ones. */
  tenantMaxWaiting: z._default(wholeNumber(0, 100), 5),
  /** Messages in the queue above which the API answers 503; approximate, as SQS counts. */
  queueMaxDepth: z._default(wholeNumber(1, 10_000_000), 10_000),
  /** Concurrent worker invocations. https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html */
  maxConcurrency: z._default(wholeNumber(2, 1000), 10),
  /** Messages handed to one invocation. Above ten, SQS wants a batching window. */
  batchSize: z._default(wholeNumber(1, 10), 5),
  /** Seconds that the event source may wait to fill a batch. */
  batchWindowSeconds: z._default(wholeNumber(0, 300), 0),
  /** Provider calls in flight at once. Stripe allows 100 requests a second live and 25 in a sandbox: https://docs.stripe.com/rate-limits */
  providerMaxInFlight: z._default(wholeNumber(1, 10_000), 50),
  /** The worker function's timeout. https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html */
  workerTimeoutSeconds: z._default(wholeNumber(1, 900), 30),
  /** Added to a lease beyond the worker's last possible moment: more than twice the clock skew between workers. */
  leaseMarginSeconds: z._default(wholeNumber(1, 900), 30),
  /** Deliveries of one message before SQS moves it to the dead-letter queue. Throttled deliveries count too; above the fifth, from which on a wait is kept in the table. */
  maxReceiveCount: z._default(wholeNumber(6, 1000), 8),
  /** Attempts of one operation before it is parked. An attempt is a provider call that may have had an effect. */
  maxAttempts: z._default(wholeNumber(1, 100), 5),
  /** The base of the exponential back-off with full jitter. With 2, all five attempts are gone within 30 s. */
  retryBaseSeconds: z._default(wholeNumber(1, 900), 10),
  /** The longest back-off. */
  retryCapSeconds: z._default(wholeNumber(1, 3600), 300),
  /** Retries that the whole service may make in a window, in percent of its first attempts there. */
  retryBudgetPercent: z._default(wholeNumber(0, 100), 10),
  /** Retries of the whole service allowed in each window whatever the percentage says, so that a quiet service recovers too. */
  retryBudgetFloor: z._default(wholeNumber(0, 10_000), 10),
  /** The length of the retry budget's window. */
  retryBudgetWindowSeconds: z._default(wholeNumber(1, 3600), 60),
  /** The share of failed calls in a window that opens the breaker. */
  breakerFailureRatio: z._default(ratio(0.01, 1), 0.5),
  /** Calls in the window below which that share says nothing. */
  breakerMinCalls: z._default(wholeNumber(1, 10_000), 20),
  /** How long the breaker stays open before it lets one probe through. */
  breakerOpenSeconds: z._default(wholeNumber(1, 3600), 30),
  /** Shards of the provider's record, each with its share of the floor, and its own percentage and breaker: each batch writes one of them once, and a shard takes about 1000 writes a second. */
  providerShards: z._default(wholeNumber(1, 100), 1),
  /** The longest that one provider call may take. */
  providerTimeoutSeconds: z._default(wholeNumber(1, 80), 10),
  /** No provider POST later than this, less the length of a lease, after an effect became possible: Stripe may forget a key once it is 24 h old. https://docs.stripe.com/api/idempotent_requests */
  providerWindowHours: z._default(wholeNumber(1, 23), 23),
  /** No request is assumed to land later than this after its attempt's lease ended. */
  quietHours: z._default(wholeNumber(1, 23), 1),
  /** An operation that was never attempted within this time of its creation fails. */
  deadlineHours: z._default(wholeNumber(1, 336), 12),
  /** The largest message body in UTF-8 bytes. SQS's own limit is 1 048 576. */
  maxMessageBytes: z._default(wholeNumber(1024, 1_048_576), 16_384),
  /** Provider calls of one tenant in one UTC day; no limit when absent. */
  tenantDailyCalls: z.optional(wholeNumber(1, Number.MAX_SAFE_INTEGER)),
  /** Provider calls of the whole service in one UTC day; no limit when absent. */
  providerDailyCalls: z.optional(wholeNumber(1, Number.MAX_SAFE_INTEGER)),
  /** How long a terminal record is kept. Longer than a message can live: queue, dead-letter queue and a redrive into both. */
  recordRetentionDays: z._default(wholeNumber(45, 3650), 90),
  /** Whether a refund may be sent straight to the queue: whoever may send a message then may refund for every tenant. */
  allowDirectRefunds: z._default(z.boolean({ error: outside('true or false') }), false),
  /** Whether a charge's customer must carry the tenant's id in its Stripe metadata (`tenantId`): where tenants themselves call the API. */
  customerTenantCheck: z._default(z.boolean({ error: outside('true or false') }), false),
  /** Partitions of the attention index. */
  openShards: z._default(wholeNumber(1, 1000), 8),
});

export type Limits = Readonly<z.infer<typeof limitsSchema>>;
export type LimitOverrides = Readonly<z.input<typeof limitsSchema>>;

/** Thrown when a limit is not what it may be. The message names each limit, what was got and what is allowed. */
export class LimitsError extends Error {
  override readonly name = 'LimitsError';
  constructor(readonly violations: readonly string[]) {
    super(`Invalid settings:\n${violations.map((violation) => `  - ${violation}`).join('\n')}`);
  }
}

/**
 * The defaults with `overrides` applied. Names that are no limit are left out (see `unknownLimits`).
 * @throws LimitsError listing every value outside its range
 */
export function limitsFrom(overrides: unknown = {}): Limits {
  const parsed = limitsSchema.safeParse(overrides);
  if (parsed.success) return parsed.data;
  throw new LimitsError(
    parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'settings'} ${message}`),
  );
}

/** The names in `overrides` that are no limit. A deployment refuses them; a running handler says so and goes on, so that a newer setting never stops an older worker. */
export function unknownLimits(overrides: object): string[] {
  return Object.keys(overrides).filter((name) => !Object.hasOwn(limitsSchema.shape, name));
}

/** The queue's visibility timeout: six function timeouts and the batching window. https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html */
export function visibilityTimeoutSeconds(limits: Limits): number {
  return 6 * limits.workerTimeoutSeconds + limits.batchWindowSeconds;
}

/** The longest that a claim holds its operation. */
export const leaseMs = ({ workerTimeoutSeconds, leaseMarginSeconds }: Limits): number =>
  (workerTimeoutSeconds + leaseMarginSeconds) * 1000;

/** What is kept of the worker's time for settling after the provider call: a quarter of it, at most 2 s. */
export function settleReserveMs(limits: Limits): number {
  return Math.min(2000, limits.workerTimeoutSeconds * 250);
}

/** The longest that one provider call may take: the setting, cut so that look, claim and settle fit around it. */
export function providerTimeoutMs(limits: Limits): number {
  const room = limits.workerTimeoutSeconds * 1000 - 2 * settleReserveMs(limits);
  return Math.min(limits.providerTimeoutSeconds * 1000, room);
}

/** The rules between limits that a deployment must keep, each violation with both names, both values and the rule. */
export function limitConflicts(limits: Limits): string[] {
  const inFlight = limits.maxConcurrency * limits.batchSize;
  const leaseSeconds = limits.workerTimeoutSeconds + limits.leaseMarginSeconds;
  const visibilitySeconds = visibilityTimeoutSeconds(limits);
  const rules: readonly [holds: boolean, rule: string][] = [
    [
      inFlight <= limits.providerMaxInFlight,
      `maxConcurrency ${limits.maxConcurrency} x batchSize ${limits.batchSize} is ${inFlight} provider calls at once; providerMaxInFlight ${limits.providerMaxInFlight} allows fewer`,
    ],
    [
      limits.providerTimeoutSeconds * 1000 === providerTimeoutMs(limits),
      `providerTimeoutSeconds ${limits.providerTimeoutSeconds} leaves no time to claim and settle within workerTimeoutSeconds ${limits.workerTimeoutSeconds}; it may be at most ${providerTimeoutMs(limits) / 1000}`,
    ],
    [
      leaseSeconds < visibilitySeconds,
      `workerTimeoutSeconds ${limits.workerTimeoutSeconds} + leaseMarginSeconds ${limits.leaseMarginSeconds} is a lease of ${leaseSeconds} s; it must be below the visibility timeout of ${visibilitySeconds} s (6 x workerTimeoutSeconds + batchWindowSeconds ${limits.batchWindowSeconds})`,
    ],
    [
      limits.retryBaseSeconds <= limits.retryCapSeconds,
      `retryBaseSeconds ${limits.retryBaseSeconds} must be at most retryCapSeconds ${limits.retryCapSeconds}`,
    ],
    [
      limits.retryBudgetFloor === 0 || limits.providerShards <= limits.retryBudgetFloor,
      `providerShards ${limits.providerShards} leaves each shard less than one retry of retryBudgetFloor ${limits.retryBudgetFloor}; it may be at most as many`,
    ],
    [
      limits.providerWindowHours + limits.quietHours <= 24,
      `providerWindowHours ${limits.providerWindowHours} + quietHours ${limits.quietHours} must be at most 24, the age at which Stripe may forget a key`,
    ],
  ];
  return rules.filter(([holds]) => !holds).map(([, rule]) => rule);
}
