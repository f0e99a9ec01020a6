import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2, Context } from 'aws-lambda';
import { withinTime } from '../adapters/deadline';
import type { AcceptPorts } from '../operation/accept';
import { type Api, createApi } from '../runtime/wiring';
import { isProblem, type Problem, problemDocument, problemTypes } from './problem';
import { type Request, readRequest } from './request';
import type { Route } from './routes';

/** What a request was answered with. */
export interface Success {
  readonly status: 200 | 202;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: object;
  /** Nothing new: an earlier request has done it. */
  readonly isReplay?: boolean;
}

export type Run = (request: Request, ports: AcceptPorts) => Promise<Success | Problem>;

let api: Api | undefined;

/**
 * One request: read, run, answered and told. Whatever fails is a 503 with a problem document and a log line, and
 * safe to repeat, because every request of this API is idempotent.
 * @param served the routes of this function
 * @throws EnvironmentError when the function is not set up, so that it never starts
 */
export async function respond(
  event: APIGatewayProxyEventV2,
  context: Context,
  served: readonly Route[],
  run: Run,
): Promise<APIGatewayProxyStructuredResultV2> {
  api ??= createApi(process.env);
  const requestId = event.requestContext?.requestId ?? context.awsRequestId;
  const request = readRequest(event, served, api.tenantClaim);
  const answer = isProblem(request) ? request : await runInTime(api, context, requestId, request, run);
  tell(api, requestId, isProblem(request) ? undefined : request, answer);
  api.telemetry.flush();
  return isProblem(answer) ? problemResponse(answer, requestId) : response(answer.status, answer);
}

/** What is kept of the function's time for the answer. */
const reserveMs = 500;

async function runInTime(
  { ports, telemetry }: Api,
  context: Context,
  requestId: string,
  request: Request,
  run: Run,
): Promise<Success | Problem> {
  const leftMs = context.getRemainingTimeInMillis() - reserveMs;
  try {
    return await withinTime(leftMs, () => run(request, { ...ports, telemetry: telemetry.of({ requestId }) }));
  } catch (error) {
    telemetry.failed('the request failed', error, { requestId, ...request.id });
    return {
      problem: 'unavailable',
      detail:
        'It is not known how far the request came. Send the same request again: it is done once at most.',
      retryAfterSeconds: 5,
    };
  }
}

/** One line for each refusal and replay; what changes an operation has a line of its own. Never a body, and no id that is not valid. */
function tell(
  { telemetry }: Api,
  requestId: string,
  request: Request | undefined,
  answer: Success | Problem,
): void {
  const about = { requestId, route: request?.route, ...request?.id };
  if (isProblem(answer)) {
    // A failure has been told, with its error.
    if (answer.problem === 'unavailable') return;
    const { status } = problemTypes[answer.problem];
    telemetry.refused({ ...about, httpStatus: status }, answer.problem);
  } else if (answer.isReplay) telemetry.replayed(about);
}

function problemResponse(problem: Problem, requestId: string): APIGatewayProxyStructuredResultV2 {
  const { retryAfterSeconds, headers } = problem;
  return response(problemTypes[problem.problem].status, {
    headers: {
      'content-type': 'application/problem+json',
      ...(retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) }),
      ...headers,
    },
    body: problemDocument(problem, requestId),
  });
}

const response = (
  statusCode: number,
  { headers, body }: Pick<Success, 'headers' | 'body'>,
): APIGatewayProxyStructuredResultV2 => ({
  statusCode,
  headers: {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...headers,
  },
  body: JSON.stringify(body),
});
