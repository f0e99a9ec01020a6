import * as z from 'zod/mini';

const responseSchema = z.nullish(
  z.object({
    batchItemFailures: z.nullish(z.array(z.object({ itemIdentifier: z.string().check(z.minLength(1)) }))),
  }),
);

export interface BatchVerdict {
  /** The messages of the batch that failed. All others are deleted. */
  readonly failedIds: ReadonlySet<string>;
  /** Why the whole batch failed; absent when the function's own list was followed. */
  readonly wholeBatchBecause?: string;
}

/**
 * Which messages of a batch failed, as Lambda reads a function's response with `ReportBatchItemFailures`.
 * Success of all: an empty response, null, `{}`, and `batchItemFailures` that is empty, null or missing.
 * Failure of all: anything that is not JSON of that shape, and an `itemIdentifier` that is missing, null,
 * empty or no message of the batch.
 * https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html#services-sqs-batchfailurereporting
 * @param payload the response as JSON text; undefined or '' when the function returned nothing
 */
export function readBatchResponse(payload: string | undefined, batchIds: readonly string[]): BatchVerdict {
  if (payload === undefined || payload === '') return { failedIds: new Set() };
  let response: unknown;
  try {
    response = JSON.parse(payload);
  } catch {
    return wholeBatch(batchIds, 'the response is not JSON');
  }
  const parsed = responseSchema.safeParse(response);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const place = issue?.path.join('.') || 'the response';
    return wholeBatch(batchIds, `${place} is not what a batch response has: ${issue?.message}`);
  }
  const failedIds = new Set(
    (parsed.data?.batchItemFailures ?? []).map(({ itemIdentifier }) => itemIdentifier),
  );
  const unknown = [...failedIds].find((id) => !batchIds.includes(id));
  if (unknown !== undefined) return wholeBatch(batchIds, `${unknown} is no message of the batch`);
  return { failedIds };
}

/** The verdict when the function threw, timed out or died: every message failed. */
export function wholeBatch(batchIds: readonly string[], because: string): BatchVerdict {
  return { failedIds: new Set(batchIds), wholeBatchBecause: because };
}
