import { type Limits, LimitsError, limitsFrom } from '../operation/limits';

/** What every handler reads from its environment, beside AWS's own variables. */
export interface ServiceEnvironment {
  /** OPERATIONS_TABLE: the table's name. */
  readonly operationsTable: string;
  /** QUEUE_URL: the queue that jobs are sent to and the worker is fed from. */
  readonly queueUrl: string;
  /** STAGE: for logs and metrics. */
  readonly stage: string;
  /** SETTINGS: JSON, overrides of the limits. */
  readonly limits: Limits;
  /** SETTINGS as it is, also with names that are no limit of this build. */
  readonly settings: object;
  /** PROVIDER_KEY_PREFIX: keeps two stacks on one Stripe account apart. 1 to 100 characters. */
  readonly providerKeyPrefix: string;
  /** JWT_TENANT_CLAIM: the claim that names the caller's tenant, where callers sign in by JWT. */
  readonly tenantClaim: string;
}

/** What a worker reads beside that. */
export interface WorkerEnvironment extends ServiceEnvironment {
  /** STRIPE_API_KEY_SECRET_ID, or on a laptop STRIPE_API_KEY. */
  readonly stripeKey: { readonly secretId: string } | { readonly value: string };
  /** STRIPE_API_BASE: another base URL than Stripe's own; plain http only to loopback. */
  readonly stripeApiBase: URL | undefined;
}

/** Thrown at start: names each variable that is wrong, what was got and what is allowed. */
export class EnvironmentError extends Error {
  override readonly name = 'EnvironmentError';
}

export type Variables = Readonly<Record<string, string | undefined>>;

/** @throws EnvironmentError listing everything that is missing or wrong */
export function serviceEnvironment(variables: Variables): ServiceEnvironment {
  const problems: string[] = [];
  return checked(problems, serviceIn(variables, problems));
}

/** @throws EnvironmentError listing everything that is missing or wrong */
export function workerEnvironment(variables: Variables): WorkerEnvironment {
  const problems: string[] = [];
  return checked(problems, {
    ...serviceIn(variables, problems),
    stripeKey: stripeKeyIn(variables, problems),
    stripeApiBase: stripeApiBaseIn(variables.STRIPE_API_BASE, problems),
  });
}

function checked<T>(problems: readonly string[], environment: T): T {
  if (problems.length > 0) throw new EnvironmentError(`Invalid environment: ${problems.join('; ')}`);
  return environment;
}

function serviceIn(variables: Variables, problems: string[]): ServiceEnvironment {
  const required = (name: string): string => {
    const value = variables[name] ?? '';
    if (value === '') problems.push(`${name} is missing`);
    return value;
  };
  const stage = variables.STAGE || 'local';
  const settings = settingsIn(variables.SETTINGS, problems);
  return {
    operationsTable: required('OPERATIONS_TABLE'),
    queueUrl: required('QUEUE_URL'),
    stage,
    settings,
    limits: limitsIn(settings, problems),
    providerKeyPrefix: prefixIn(variables, stage, problems),
    tenantClaim: variables.JWT_TENANT_CLAIM || 'tenantId',
  };
}

function settingsIn(json: string | undefined, problems: string[]): object {
  if (json === undefined || json === '') return {};
  try {
    const settings: unknown = JSON.parse(json);
    if (typeof settings === 'object' && settings !== null && !Array.isArray(settings)) return settings;
  } catch {
    // Said below, as for any other text that is no JSON object.
  }
  problems.push('SETTINGS must be a JSON object, such as {"maxAttempts":5}');
  return {};
}

function limitsIn(settings: object, problems: string[]): Limits {
  try {
    return limitsFrom(settings);
  } catch (error) {
    if (!(error instanceof LimitsError)) throw error;
    problems.push(...error.violations.map((violation) => `SETTINGS: ${violation}`));
    return limitsFrom();
  }
}

/** Part of a provider key of at most 255 characters. */
function prefixIn({ PROVIDER_KEY_PREFIX, AWS_REGION }: Variables, stage: string, problems: string[]): string {
  const prefix = PROVIDER_KEY_PREFIX || `charge-once-${stage}-${AWS_REGION ?? 'local'}`;
  if (!/^[A-Za-z0-9._:/-]{1,100}$/.test(prefix)) {
    problems.push(
      `PROVIDER_KEY_PREFIX is ${JSON.stringify(prefix)}; it must be 1 to 100 of the characters A-Z a-z 0-9 . _ : / -`,
    );
  }
  return prefix;
}

function stripeKeyIn({ STRIPE_API_KEY_SECRET_ID, STRIPE_API_KEY }: Variables, problems: string[]) {
  if (STRIPE_API_KEY_SECRET_ID) return { secretId: STRIPE_API_KEY_SECRET_ID };
  if (!STRIPE_API_KEY) problems.push('STRIPE_API_KEY_SECRET_ID is missing (on a laptop: STRIPE_API_KEY)');
  return { value: STRIPE_API_KEY ?? '' };
}

const loopback = new Set(['localhost', '127.0.0.1', '[::1]']);

function stripeApiBaseIn(value: string | undefined, problems: string[]): URL | undefined {
  if (value === undefined || value === '') return undefined;
  const url = URL.canParse(value) ? new URL(value) : undefined;
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && loopback.has(url.hostname));
  if (isSafe) return url;
  problems.push(`STRIPE_API_BASE is ${JSON.stringify(value)}; it must be an https URL, or http to loopback`);
  return undefined;
}
