import * as z from 'zod/mini';
import { Failure } from './failure';
import type { Report } from './io';
import type { Session } from './session';
import { fields, iso, moment } from './text';

const item = z.object({
  windowStartMs: z.optional(z.number()),
  windowCalls: z.optional(z.number()),
  windowFailures: z.optional(z.number()),
  retryTokens: z.optional(z.number()),
  breakerReason: z.optional(z.enum(['failures', 'unauthorized', 'paused'])),
  breakerOpenedAtMs: z.optional(z.number()),
  breakerProbeAtMs: z.optional(z.number()),
  breakerNote: z.optional(z.string()),
});

/** `provider show` */
export async function providerShow({ target }: Session): Promise<Report> {
  throw new Failure(`${target.name} ${String(item)} ${String(fields)} ${String(iso)} ${String(moment)}`);
}
