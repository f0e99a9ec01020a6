/** One HTTP answer. `isSaved` says whether an idempotency key remembers it. */
export interface Answer {
  readonly status: number;
  readonly body: string;
  readonly isSaved: boolean;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The `error` object of an answer, https://docs.stripe.com/api/errors. */
export interface WireError {
  readonly type?: string;
  readonly code?: string;
  readonly decline_code?: string;
  readonly message?: string;
  readonly param?: string;
  readonly [field: string]: unknown;
}

/** 200 with a JSON object. */
export function found(object: unknown): Answer {
  return { status: 200, body: JSON.stringify(object, null, 2), isSaved: true };
}

/** An error answer. Saved exactly when the endpoint had begun to execute: then the key stays bound to it. */
export function failed(status: number, error: WireError, isSaved: boolean): Answer {
  return { status, body: JSON.stringify({ error }, null, 2), isSaved };
}

/** 400 for parameters that were refused before anything was executed; never saved. */
export function invalid(message: string, param?: string, code?: string): Answer {
  const error = { type: 'invalid_request_error', message, ...(param && { param }), ...(code && { code }) };
  return failed(400, error, false);
}

/** `resource_missing`: 404 for an id in the path (no `param`), 400 for an id in a parameter. */
export function missing(kind: string, id: string, param?: string): Answer {
  const message = `No such ${kind}: '${id}'`;
  const code = 'resource_missing';
  if (param !== undefined) return invalid(message, param, code);
  return failed(404, { type: 'invalid_request_error', code, message, param: 'id' }, false);
}
