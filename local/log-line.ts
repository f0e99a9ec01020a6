import * as z from 'zod/mini';

const logLine = z.object({
  /** ISO 8601, of the process's real clock. */
  timestamp: z.optional(z.string()),
  message: z.string(),
  level: z.string(),
  messageId: z.optional(z.string()),
  tenantId: z.optional(z.string()),
  operationId: z.optional(z.string()),
  from: z.optional(z.string()),
  to: z.optional(z.string()),
  attempt: z.optional(z.number()),
  outcome: z.optional(z.string()),
  reason: z.optional(z.string()),
  found: z.optional(z.string()),
  by: z.optional(z.string()),
  note: z.optional(z.string()),
  problem: z.optional(z.string()),
  delaySeconds: z.optional(z.number()),
  receiveCount: z.optional(z.number()),
  providerRef: z.optional(z.string()),
  parkedReason: z.optional(z.string()),
  errorCode: z.optional(z.string()),
  errorMessage: z.optional(z.string()),
});

/** A line of our handlers' logs, as far as it tells of an operation or a message. */
export type LogLine = Readonly<z.infer<typeof logLine>>;

/** Undefined when the line is none of our logs: a metric, or what the runtime or a library prints. */
export function parseLogLine(line: string): LogLine | undefined {
  try {
    const parsed = logLine.safeParse(JSON.parse(line));
    return parsed.success ? parsed.data : undefined;
  } catch {
    return undefined;
  }
}

/** What each run of the reconciler says, one a second on a laptop. What it did to an operation has a line of its own. */
export const isRoutine = ({ level, message }: LogLine): boolean =>
  level === 'INFO' && ['due operations', 'open operations'].includes(message);

/** Metrics are JSON too, in CloudWatch's embedded metric format. */
export const isMetric = (line: string): boolean => line.includes('"_aws"');
