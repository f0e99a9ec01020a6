import type { DrillResult } from './drill';
import { type Check, isKept, p99AllowedMs, secondsToBaselineAllowed } from './judge';

/** What `--json` ends with. */
export const documentOf = (results: readonly DrillResult[]) => ({
  ok: results.every(({ ok }) => ok),
  drills: results.map(({ name, ok, seconds, figures, checks, evidence }) => ({
    name,
    ok,
    seconds,
    ...figures,
    ...(evidence.areOthersBarred && { p99AllowedMs: p99AllowedMs(figures.calmP99Ms) }),
    secondsToBaselineAllowed: secondsToBaselineAllowed(evidence.limits),
    broken: checks.filter((check) => !isKept(check)),
  })),
});

/** A rule with what was got and what is allowed, in a sentence. */
export function lineOf({ guarantee, rule, got, allowed, unit = '', examples = [] }: Check): string {
  const named = examples.length > 0 ? ` (${examples.join('; ')})` : '';
  return `${guarantee} ${rule}: ${short(got)}${unit && ` ${unit}`}, allowed ${short(allowed)}${unit && ` ${unit}`}${named}`;
}

/** A number as a person reads it. */
export const short = (value: number): string =>
  Number.isInteger(value) || value >= 100 ? value.toFixed(0) : value.toFixed(1);

/** The figures as a table in Markdown. */
export function table(results: readonly DrillResult[]): string {
  const rows = results.map(({ name, ok, figures, evidence }) => [
    name,
    ok ? 'ok' : 'BROKEN',
    short(figures.operations),
    short(figures.effects),
    `${short(figures.providerCalls)} (${short(figures.retries)})`,
    `${short(figures.maxConcurrentProviderCalls)} / ${short(figures.maxConcurrentProviderCallsOfOneTenant)}`,
    short(figures.maxWorkers),
    short(figures.maxOpenConnections),
    short(figures.maxTemporaryFiles),
    short(figures.maxQueueDepth),
    `${short(figures.calmP50Ms)} / ${short(figures.calmP99Ms)}`,
    `${short(figures.p50Ms)} / ${short(figures.p99Ms)}`,
    evidence.areOthersBarred ? short(p99AllowedMs(figures.calmP99Ms)) : '-',
    figures.secondsToBaseline === undefined ? 'never' : short(figures.secondsToBaseline),
  ]);
  const head = [
    'drill',
    '',
    'operations',
    'effects',
    'provider calls (retries)',
    'at once / of a tenant',
    'workers',
    'connections',
    'temporary files',
    'queue depth',
    'calm p50 / p99, ms',
    'p50 / p99, ms',
    'p99 at most',
    'to baseline, s',
  ];
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
