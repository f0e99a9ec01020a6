/** What went wrong, for the caller: becomes an RFC 9457 document. */
export interface Problem {
  readonly problem: ProblemType;
  /** What was got and what is allowed, or what to do instead. Shows no more of a body than short values. */
  readonly detail: string;
  /** When the same request may succeed. */
  readonly retryAfterSeconds?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Members of this type of problem, beside the standard ones. */
  readonly members?: Readonly<Record<string, unknown>>;
}

/** Every type of problem, with its HTTP status. The names are stable; `docs/problems.md` has a section for each. */
export const problemTypes = {
  'invalid-id': { status: 400, title: 'An id in the path is not valid' },
  'invalid-body': { status: 400, title: 'The body is not valid' },
  'card-number': { status: 400, title: 'The request holds what looks like a card number' },
  'tenant-forbidden': { status: 403, title: 'The token is not for this tenant' },
  'operation-not-found': { status: 404, title: 'There is no such operation' },
  'route-not-found': { status: 404, title: 'There is no such route' },
  'method-not-allowed': { status: 405, title: 'The route does not have this method' },
  'inputs-conflict': { status: 409, title: 'The operation id is bound to other inputs' },
  'charge-not-final': { status: 409, title: 'The charge to refund has not ended' },
  'charge-not-succeeded': { status: 409, title: 'There is no charge to refund' },
  'refund-exceeds-charge': { status: 409, title: 'The refund is more than what is left of its charge' },
  'cancel-refused': { status: 409, title: 'The operation has an effect, may have one, or has ended' },
  'body-too-large': { status: 413, title: 'The body is too large' },
  'unsupported-media-type': { status: 415, title: 'The body must be plain JSON' },
  'tenant-places-used': { status: 429, title: 'All places of the tenant are taken' },
  'tenant-daily-calls-used': { status: 429, title: "The tenant's calls of the day are used up" },
  'service-paused': { status: 503, title: 'The service is paused' },
  'service-full': { status: 503, title: 'The queue is full' },
  unavailable: { status: 503, title: 'The answer is not known' },
} as const satisfies Readonly<Record<string, { readonly status: number; readonly title: string }>>;

export type ProblemType = keyof typeof problemTypes;

/** The value of `type`: a name to compare, not an address to fetch. */
export const problemUrn = (type: ProblemType): string => `urn:charge-once:problem:${type}`;

/**
 * The document of a problem. https://www.rfc-editor.org/rfc/rfc9457
 * @param requestId API Gateway's id of the request: in our log, too
 */
export function problemDocument({ problem, detail, members }: Problem, requestId: string) {
  return {
    type: problemUrn(problem),
    ...problemTypes[problem],
    detail,
    instance: `urn:charge-once:request:${requestId}`,
    ...members,
  };
}

export const isProblem = (value: object): value is Problem => 'problem' in value;
