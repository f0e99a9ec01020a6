import * as z from 'zod/mini';
import { openReasons, type ProviderState } from '../operation/provider-state';
import { table } from './table';

const count = z._default(z.number(), 0);

const item = z.object({
  [table.partitionKey]: z.string().check(z.startsWith('provider#')),
  windowStartMs: count,
  windowCalls: count,
  windowFailures: count,
  retryTokens: count,
  // A reason of a newer build stops calls all the same.
  breakerReason: z.optional(z.catch(z.enum(openReasons), 'paused')),
  breakerOpenedAtMs: z.optional(z.number()),
  breakerProbeAtMs: z.optional(z.number()),
  breakerNote: z.optional(z.string()),
});

/** The first shard has no number: it is the whole record where there is only one. */
export const providerPartition = (shard: number): string =>
  shard === 0 ? 'provider#stripe' : `provider#stripe#${shard}`;

/** What a table item says of the provider; undefined when this build cannot read it. */
export function readProvider(stored: unknown): ProviderState | undefined {
  const parsed = item.safeParse(stored);
  if (!parsed.success) return undefined;
  const { [table.partitionKey]: pk, ...state } = parsed.data;
  const { breakerReason, breakerOpenedAtMs, breakerProbeAtMs, breakerNote, ...counts } = state;
  const [, , shard = '0'] = pk.split('#');
  if (breakerReason === undefined || breakerOpenedAtMs === undefined)
    return { ...counts, shard: Number(shard) };
  const breaker = {
    reason: breakerReason,
    openedAtMs: breakerOpenedAtMs,
    ...(breakerProbeAtMs === undefined ? {} : { probeAtMs: breakerProbeAtMs }),
    ...(breakerNote === undefined ? {} : { note: breakerNote }),
  };
  return { ...counts, shard: Number(shard), breaker };
}
