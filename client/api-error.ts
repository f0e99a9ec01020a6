import * as z from 'zod/mini';

/** RFC 9457. */
const problemSchema = z.object({
  type: z.optional(z.string()),
  title: z.optional(z.string()),
  detail: z.optional(z.string()),
});

/** What the API answered instead of doing what it was asked. */
export class ApiError extends Error {
  override readonly name = 'ApiError';

  private constructor(
    readonly status: number,
    /** The problem's type: stable, made to be compared. All are in docs/problems.md. */
    readonly type: string | undefined,
    message: string,
    /** When to ask again, where the API said so. */
    readonly retryAfterSeconds: number | undefined,
  ) {
    super(message);
  }

  static async from(response: Response): Promise<ApiError> {
    const { status, headers } = response;
    const parsed = problemSchema.safeParse(await response.json().catch(() => undefined));
    const { type, title, detail } = parsed.success ? parsed.data : {};
    const retryAfter = Number(headers.get('retry-after') ?? Number.NaN);
    const message = detail ?? title ?? `The API answered ${status}.`;
    return new ApiError(status, type, message, Number.isFinite(retryAfter) ? retryAfter : undefined);
  }
}
