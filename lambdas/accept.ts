import type { APIGatewayProxyEventV2, Context } from 'aws-lambda';
import { readBody } from './http/body';
import { isProblem, type Problem, type ProblemType } from './http/problem';
import { respond, type Success } from './http/respond';
import { viewOf } from './http/view';
import { type Accepted, accept } from './operation/accept';
import type { Limits } from './operation/limits';
import type { Operation } from './operation/operation';
import type { HindranceCode } from './operation/refund';

/** Takes a charge or a refund on, under the caller's own id. */
export const handler = (event: APIGatewayProxyEventV2, context: Context) =>
  respond(event, context, ['charge', 'refund'], async ({ route, id }, ports) => {
    const type = route === 'refund' ? 'refund' : 'charge';
    const message = readBody(event, type, id, ports.limits.maxMessageBytes);
    if (isProblem(message)) return message;
    return answerOf(await accept(ports, message), event, ports.limits);
  });

function answerOf(accepted: Accepted, event: APIGatewayProxyEventV2, limits: Limits): Success | Problem {
  switch (accepted.kind) {
    case 'accepted':
      return { status: 202, ...found(accepted.operation, event, false) };
    case 'known':
      return { status: 200, ...found(accepted.operation, event, true) };
    case 'conflict':
      return {
        problem: 'inputs-conflict',
        detail:
          'This operation id was first used with other inputs, which stay; nothing was changed. Another request for money needs an id of its own.',
        members: { operation: viewOf(accepted.operation) },
      };
    case 'refundRefused':
      return {
        problem: refundProblems[accepted.code],
        detail: accepted.detail,
        members: { code: accepted.code },
        ...(accepted.code === 'charge_not_final' ? { retryAfterSeconds: 5 } : {}),
      };
    case 'tenantFull':
      return tenantFull(accepted, limits);
    case 'paused':
      return {
        problem: 'service-paused',
        detail:
          'The service is paused: nothing new is accepted. What was accepted before is kept, and runs afterwards.',
        retryAfterSeconds: accepted.retryAfterSeconds,
      };
    case 'serviceFull':
      return {
        problem: 'service-full',
        detail: `The queue of all tenants has as many messages as are allowed, ${limits.queueMaxDepth}.`,
        retryAfterSeconds: accepted.retryAfterSeconds,
      };
  }
}

function tenantFull(
  { why, retryAfterSeconds }: Accepted & { readonly kind: 'tenantFull' },
  { tenantMaxRunning, tenantMaxWaiting, tenantDailyCalls }: Limits,
): Problem {
  switch (why) {
    case 'places': {
      const detail = `The tenant has as many operations that have not ended as it may: ${tenantMaxRunning} running and ${tenantMaxWaiting} waiting, or a limit of its own.`;
      return { problem: 'tenant-places-used', detail, retryAfterSeconds };
    }
    case 'daily_calls': {
      const detail = `The tenant's calls of this UTC day are used up: ${tenantDailyCalls} are allowed.`;
      return { problem: 'tenant-daily-calls-used', detail, retryAfterSeconds };
    }
  }
}

const refundProblems: Readonly<Record<HindranceCode, ProblemType>> = {
  charge_not_final: 'charge-not-final',
  charge_not_succeeded: 'charge-not-succeeded',
  refund_exceeds_charge: 'refund-exceeds-charge',
  refund_id_taken: 'inputs-conflict',
};

/** Seconds after which it is worth asking how an operation stands. */
const askAfterSeconds = 1;

function found(
  operation: Operation,
  { rawPath }: APIGatewayProxyEventV2,
  isReplay: boolean,
): Omit<Success, 'status'> {
  const view = viewOf(operation);
  const { tenantId, operationId } = operation;
  // What stands before the route's four segments is the stage, or the key of an API mapping.
  const base = rawPath.split('/').slice(0, -4).join('/');
  return {
    isReplay,
    headers: {
      location: `${base}/tenants/${tenantId}/operations/${operationId}`,
      ...(view.done ? {} : { 'retry-after': String(askAfterSeconds) }),
    },
    body: { ...view, replay: isReplay },
  };
}
