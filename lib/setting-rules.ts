import { visibilityTimeoutSeconds } from '../lambdas/operation/limits';
import type { Settings } from './settings';

/** Days that a dead letter must stay for a person to act: a long weekend and the week's start. */
const daysToAct = 7;
const secondsPerDay = 86_400;

/** The rules between settings that only a deployment can break, each violation with the names, the values and the rule. */
export function deploymentConflicts(settings: Settings): string[] {
  const { queueRetentionDays, deadLetterRetentionDays, recordRetentionDays, maxReceiveCount } = settings;
  const receiveSeconds = Math.max(visibilityTimeoutSeconds(settings), settings.retryCapSeconds);
  const deadLetterDays = (maxReceiveCount * receiveSeconds) / secondsPerDay;
  // A redrive starts both retentions anew.
  const messageDays = 2 * (queueRetentionDays + deadLetterRetentionDays) + settings.providerWindowHours / 24;
  const reserved = settings.reservedConcurrency;
  const { jwtIssuer, jwtAudiences, jwtTenantClaim } = settings;
  const jwt = Object.entries({ jwtIssuer, jwtAudiences, jwtTenantClaim });
  const jwtMissing = jwt.filter(([, value]) => value === undefined).map(([name]) => name);
  const rules: readonly [holds: boolean, rule: string][] = [
    [
      reserved === undefined || reserved >= settings.maxConcurrency,
      `reservedConcurrency ${reserved} must be at least maxConcurrency ${settings.maxConcurrency}, or Lambda throttles deliveries until they are dead letters`,
    ],
    [
      deadLetterDays < queueRetentionDays,
      `maxReceiveCount ${maxReceiveCount} deliveries of up to ${receiveSeconds} s take ${rounded(deadLetterDays)} days (workerTimeoutSeconds, batchWindowSeconds, retryCapSeconds); it must be below queueRetentionDays ${queueRetentionDays}, because SQS deletes an expired message instead of dead-lettering it`,
    ],
    [
      queueRetentionDays + deadLetterDays + daysToAct <= deadLetterRetentionDays,
      `queueRetentionDays ${queueRetentionDays} + ${rounded(deadLetterDays)} days of maxReceiveCount ${maxReceiveCount} deliveries must leave ${daysToAct} of deadLetterRetentionDays ${deadLetterRetentionDays} to a person: a dead letter's age counts from when it was first sent`,
    ],
    [
      recordRetentionDays >= messageDays,
      `recordRetentionDays ${recordRetentionDays} must be at least ${Math.ceil(messageDays)}: twice queueRetentionDays ${queueRetentionDays} + deadLetterRetentionDays ${deadLetterRetentionDays}, and providerWindowHours ${settings.providerWindowHours}, or a message outlives the record that stops it from charging again`,
    ],
    [
      jwtMissing.length === 0 || jwtMissing.length === jwt.length,
      `${jwtMissing.join(' and ')} must be set too, or none of ${jwt.map(([name]) => name).join(', ')}: a token is good only with its issuer, its audience and its tenant known`,
    ],
    [
      jwtMissing.length > 0 || settings.customerTenantCheck,
      `customerTenantCheck ${settings.customerTenantCheck} must be true with jwtIssuer: tenants call the API themselves, and one could name another's customer`,
    ],
    [
      !settings.production || settings.stripeApiBase === undefined,
      `stripeApiBase ${settings.stripeApiBase} must be absent when production is true`,
    ],
  ];
  return rules.filter(([holds]) => !holds).map(([, rule]) => rule);
}

const stripeKey = /\b([rs]k_(?:live|test)_)\w*/g;
const liveStripeKey = /\b[rs]k_live_/;

/** Stripe keys where none may be: in any setting, and live ones in the environment of a stage that is not production. */
export function keyViolations(
  given: Readonly<Record<string, unknown>>,
  environment: Readonly<Record<string, string | undefined>>,
  { stage, production }: Settings,
): string[] {
  const inSettings = Object.entries(given)
    .filter(([, value]) => JSON.stringify(value) !== withoutKeys(JSON.stringify(value)))
    .map(
      ([name, value]) =>
        `${name} holds a Stripe key (${withoutKeys(JSON.stringify(value))}); settings end in the template in plain text: a key belongs in the stack's secret`,
    );
  if (production) return inSettings;
  const inEnvironment = Object.entries(environment)
    .filter(([, value]) => value !== undefined && liveStripeKey.test(value))
    .map(
      ([name]) =>
        `${name} in the environment is a live Stripe key; stage ${stage} is not marked production: unset it, or set production to true`,
    );
  return [...inSettings, ...inEnvironment];
}

/** `value` with every Stripe key cut to its prefix: a key in an error message would end in a build log. */
export function withoutKeys(value: string | undefined): string {
  return value?.replace(stripeKey, '$1...') ?? 'undefined';
}

function rounded(days: number): number {
  return Math.round(days * 100) / 100;
}
