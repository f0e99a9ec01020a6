import { Token } from 'aws-cdk-lib';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import * as z from 'zod/mini';
import {
  type LimitOverrides,
  type Limits,
  LimitsError,
  limitConflicts,
  limitsFrom,
  unknownLimits,
} from '../lambdas/operation/limits';
import { deploymentConflicts, keyViolations, withoutKeys } from './setting-rules';

const allowed = (kind: string) => (issue: { input?: unknown }) =>
  `is ${withoutKeys(JSON.stringify(issue.input))}; it must be ${kind}`;

const text = (pattern: RegExp, kind: string) =>
  z.string({ error: allowed(kind) }).check(z.regex(pattern, { error: allowed(kind) }));

const wholeNumber = (min: number, max: number) => {
  const error = allowed(`a whole number from ${min} to ${max}`);
  return z.int({ error }).check(z.gte(min, { error }), z.lte(max, { error }));
};

/** API Gateway's most. Without `$`, so that a CDK token is refused here too. https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-quotas.html */
const audiences = 'a list of 1 to 50 texts without white space or $';

const isHttps = (value: string) => URL.canParse(value) && new URL(value).protocol === 'https:';

const logRetentions = Object.values(RetentionDays).filter((days) => typeof days === 'number');

/** CodeDeploy's names, except for none. */
const trafficShifts = [
  'none',
  'canary10Percent5Minutes',
  'canary10Percent15Minutes',
  'canary10Percent30Minutes',
  'linear10PercentEvery1Minute',
  'linear10PercentEvery3Minutes',
] as const;

/** What only a deployment has; the limits that handlers read too are in `lambdas/operation/limits.ts`. */
const deploymentSchema = z.object({
  /** Names the stack, so that stages live side by side in one account. */
  stage: z._default(
    text(/^[a-z][a-z0-9-]{0,30}$/, 'up to 31 characters: a small letter, then small letters, digits or -'),
    'dev',
  ),
  /** Real money: live Stripe keys are accepted, and the stack and its queues resist deletion. */
  production: z._default(z.boolean({ error: allowed('true or false') }), false),
  /** Whether the stack has alarms, a dashboard and saved queries. */
  monitoring: z._default(z.boolean({ error: allowed('true or false') }), true),
  /** Where alarms are mailed; nowhere when absent. */
  alarmEmail: z.optional(text(/^[^\s@]+@[^\s@]+\.[^\s@]+$/, 'an e-mail address')),
  /** The Slack channel that alarms are posted to, as its workspace's id and its own; nowhere when absent. The workspace must have been authorized once in the console of Amazon Q Developer in chat applications. https://docs.aws.amazon.com/chatbot/latest/adminguide/slack-setup.html */
  alarmSlack: z.optional(
    text(
      /^T[A-Z0-9]+\/[CG][A-Z0-9]+$/,
      "a Slack workspace's id, a / and a channel's id, such as T0ABC/C0DEF",
    ),
  ),
  /** Where docs/runbook.md can be read: each alarm links to its section there. */
  runbookUrl: z._default(
    text(/^[^\s$#]{1,300}$/, 'a URL or a path without white space, $ or #'),
    'docs/runbook.md',
  ),
  /** Messages in flight that wake a person. SQS hands out no more than 120 000: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html */
  alarmInFlightMessages: z._default(wholeNumber(1, 120_000), 80_000),
  /** How long an operation may be settling before that wakes a person. Cards take seconds; bank debits and refunds days. https://docs.stripe.com/payments/paymentintents/lifecycle */
  alarmSettlingHours: z._default(wholeNumber(1, 720), 24),
  /** Concurrency taken from the account's for the worker alone; none when absent. Lambda keeps 100 unreserved, so a new account's quota of 10 allows none: https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html */
  reservedConcurrency: z.optional(wholeNumber(2, 100_000)),
  /** How long SQS keeps a message that nobody finished. https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html */
  queueRetentionDays: z._default(wholeNumber(1, 14), 4),
  /** How long a dead letter is kept, counted from when it was first sent. */
  deadLetterRetentionDays: z._default(wholeNumber(1, 14), 14),
  /** How long CloudWatch keeps the functions' logs. */
  logRetentionDays: z._default(
    z.int({ error: allowed(`one of ${logRetentions.join(', ')}`) }).check(
      z.refine((days) => RetentionDays[days] !== undefined, {
        error: allowed(`one of ${logRetentions.join(', ')}`),
      }),
    ),
    90,
  ),
  /** How a new version of each function takes over: at once, or step by step and back when it fails. A deploy waits for it. https://docs.aws.amazon.com/codedeploy/latest/userguide/deployment-configurations.html#deployment-configuration-lambda */
  gradualDeployment: z._default(
    z.enum(trafficShifts, { error: allowed(`one of ${trafficShifts.join(', ')}`) }),
    'none',
  ),
  /** Encrypts both queues with a KMS key of this stack, and the table with another, not with SQS's and DynamoDB's own. */
  customerManagedKey: z._default(z.boolean({ error: allowed('true or false') }), false),
  /** Starts every provider key; made from the stack's name, its region and the construct's path when absent. */
  providerKeyPrefix: z.optional(
    text(
      /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/,
      'up to 100 letters, digits, ., _ or -, the first a letter or digit',
    ),
  ),
  /** Requests a second that the API takes on average, the stage's default for its routes; above it API Gateway answers 429, as well as it can. As many as Stripe takes calls: more charges could only wait. https://docs.stripe.com/rate-limits */
  apiRequestsPerSecond: z._default(wholeNumber(1, 100_000), 100),
  /** Requests at once above that average. Enough for ten tenants that fill all their places in the same second and ask once for each. https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-throttling.html */
  apiBurstRequests: z._default(wholeNumber(1, 100_000), 200),
  /** The API takes JSON Web Tokens of this issuer in place of IAM signatures: its URL, exactly as in the tokens' `iss`. IAM when absent. https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-jwt-authorizer.html */
  jwtIssuer: z.optional(
    z.string({ error: allowed('an https URL') }).check(z.refine(isHttps, { error: allowed('an https URL') })),
  ),
  /** The tokens that are meant for this API: one of these is their `aud`, or their `client_id` where they have no `aud`. */
  jwtAudiences: z.optional(z.custom<readonly string[]>(isListOfAudiences, { error: allowed(audiences) })),
  /** The claim that names the token's tenant; it must equal the tenant of the path. */
  jwtTenantClaim: z.optional(
    text(/^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$/, 'the name of a claim, such as custom:tenantId'),
  ),
  /** Another address than Stripe's, for end-to-end tests. */
  stripeApiBase: z.optional(
    z
      .string({ error: allowed('a URL') })
      .check(z.refine(isSafeBaseUrl, { error: allowed('an https URL, or an http URL of this machine') })),
  ),
});

type Deployment = z.infer<typeof deploymentSchema>;

/** Every setting of a deployment, checked: the limits and what only a deployment has. */
export type Settings = Readonly<Limits & Deployment>;
/** The settings that differ from their defaults. Each must be known at synth: CDK tokens are refused. */
export type SettingsOverrides = LimitOverrides & Readonly<z.input<typeof deploymentSchema>>;

/**
 * The defaults with `overrides` applied, checked alone and against each other.
 * @param environment variables of the deploying process; a live Stripe key in them is refused outside production
 * @throws LimitsError listing every violation with the setting, its value and what is allowed
 */
export function settingsFrom(
  overrides: unknown = {},
  environment: Readonly<Record<string, string | undefined>> = {},
): Settings {
  const parsed = z.record(z.string(), z.unknown()).safeParse(overrides);
  if (!parsed.success)
    throw new LimitsError([`settings ${allowed('an object of names and values')({ input: overrides })}`]);
  const given = Object.fromEntries(Object.entries(parsed.data).filter(([, value]) => value !== undefined));

  const { known, tokens, violations: unusable } = separateUnusable(given);
  const outOfRange = [...limitViolations(known), ...deploymentViolations(known)];
  const refused = new Set([...tokens, ...outOfRange.map(firstWord)]);
  const valid = Object.fromEntries(Object.entries(known).filter(([name]) => !refused.has(name)));
  const settings: Settings = { ...limitsFrom(valid), ...deploymentSchema.parse(valid) };

  const violations = [
    ...unusable,
    ...outOfRange,
    ...keyViolations(given, environment, settings),
    // A rule about a value that is refused anyway would be measured on its default.
    ...[...limitConflicts(settings), ...deploymentConflicts(settings)].filter(
      (rule) => !rule.match(/\w+/g)?.some((word) => refused.has(word)),
    ),
  ];
  if (violations.length > 0) throw new LimitsError(violations);
  return settings;
}

/** The limits that differ from their defaults, as the handlers read them from `SETTINGS`. */
export function handlerSettings(settings: Settings): string {
  const defaults = new Map<string, unknown>(Object.entries(limitsFrom()));
  const changed = Object.entries(limitsFrom(settings)).filter(
    ([name, value]) => defaults.get(name) !== value,
  );
  return JSON.stringify(Object.fromEntries(changed));
}

function separateUnusable(given: Readonly<Record<string, unknown>>) {
  const violations: string[] = [];
  const tokens: string[] = [];
  const known: Record<string, unknown> = {};
  const unknown = new Set(
    unknownLimits(given).filter((name) => !Object.hasOwn(deploymentSchema.shape, name)),
  );
  for (const [name, value] of Object.entries(given)) {
    if (unknown.has(name))
      violations.push(`${name} is no setting; lambdas/operation/limits.ts and lib/settings.ts list them`);
    else if (Token.isUnresolved(value)) {
      tokens.push(name);
      violations.push(
        `${name} is a CDK token, known only while deploying; it must be a plain value, checked at synth`,
      );
    } else known[name] = value;
  }
  return { known, tokens, violations };
}

function limitViolations(known: unknown): readonly string[] {
  try {
    limitsFrom(known);
    return [];
  } catch (error) {
    if (error instanceof LimitsError) return error.violations;
    throw error;
  }
}

function deploymentViolations(known: unknown): string[] {
  const parsed = deploymentSchema.safeParse(known);
  return parsed.success ? [] : parsed.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`);
}

function isListOfAudiences(value: unknown): boolean {
  if (!Array.isArray(value) || value.length < 1 || value.length > 50) return false;
  return value.every((each) => typeof each === 'string' && /^[^\s$]{1,255}$/.test(each));
}

function isSafeBaseUrl(value: string): boolean {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  const isLoopback = ['127.0.0.1', 'localhost', '[::1]'].includes(url?.hostname ?? '');
  return url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback);
}

function firstWord(violation: string): string {
  return violation.split(' ', 1).join();
}
