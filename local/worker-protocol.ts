import * as z from 'zod/mini';

/** What a worker process is told. */
export const toWorker = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('invoke'),
    requestId: z.string(),
    event: z.unknown(),
    timeoutMs: z.number(),
    clockOffsetMs: z.number(),
  }),
  z.object({ kind: z.literal('clock'), offsetMs: z.number() }),
]);

/** What a worker process says. */
export const fromWorker = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('ready') }),
  z.object({ kind: z.literal('response'), requestId: z.string(), payload: z.optional(z.string()) }),
  z.object({ kind: z.literal('error'), requestId: z.string(), error: z.string() }),
  z.object({ kind: z.literal('clockMoved'), offsetMs: z.number() }),
]);

export type ToWorker = z.infer<typeof toWorker>;
export type FromWorker = z.infer<typeof fromWorker>;
