import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { describe, holdsCardNumber } from '../operation/describe';
import { idPattern } from '../operation/message-fields';
import type { OperationId } from '../operation/operation';
import type { Problem } from './problem';
import { methodsAt, type Route, routeKeyOf } from './routes';

/** A request for an operation, of a caller who may ask for its tenant. */
export interface Request {
  readonly route: Route;
  readonly id: OperationId;
}

/**
 * Who asks for what: the route, the ids of its path, and whether the caller's token is for that tenant.
 * @param served the routes of this function
 * @param tenantClaim the claim of a JWT that names its tenant
 */
export function readRequest(
  event: APIGatewayProxyEventV2,
  served: readonly Route[],
  tenantClaim: string,
): Request | Problem {
  const route = served.find((name) => routeKeyOf(name) === event.routeKey);
  if (!route) return noRoute(event);
  const id = readIds(event);
  if ('problem' in id) return id;
  return otherTenant(event, route, id, tenantClaim) ?? { route, id };
}

function noRoute({ rawPath, requestContext }: APIGatewayProxyEventV2): Problem {
  const methods = methodsAt(rawPath);
  const { method } = requestContext.http;
  if (methods.length === 0 || methods.includes(method)) {
    return {
      problem: 'route-not-found',
      detail: 'The path is no route of this API; docs/openapi.json lists them.',
    };
  }
  const allow = methods.join(', ');
  return {
    problem: 'method-not-allowed',
    detail: `The method is ${describe(method)}; this path has ${allow}.`,
    headers: { allow },
  };
}

/**
 * The ids as API Gateway hands them over: an HTTP API decodes the path once, all but `%25`. They are not decoded
 * again, or `%252E` would be another spelling of an id that IAM saw differently. A legal id has no `%` in it.
 */
function readIds({ pathParameters }: APIGatewayProxyEventV2): OperationId | Problem {
  const { tenantId, operationId } = pathParameters ?? {};
  const wrong = [idProblem('tenantId', tenantId), idProblem('operationId', operationId)];
  const problem = wrong.find((found) => found !== undefined);
  if (problem) return problem;
  return { tenantId: tenantId ?? '', operationId: operationId ?? '' };
}

function idProblem(name: string, value: string | undefined): Problem | undefined {
  if (value !== undefined && holdsCardNumber(value)) {
    return {
      problem: 'card-number',
      detail: `${name} holds what looks like a card number (not shown); it must be an identifier.`,
    };
  }
  if (value !== undefined && idPattern.test(value)) return undefined;
  return {
    problem: 'invalid-id',
    detail: `${name} is ${describe(value)}; it must be 1 to 64 of the characters A-Z a-z 0-9 . _ : - and start with a letter or digit.`,
  };
}

/** IAM callers have no token: their policies name the paths that they may call. */
function otherTenant(
  event: APIGatewayProxyEventV2,
  route: Route,
  id: OperationId,
  tenantClaim: string,
): Problem | undefined {
  const jwt = memberOf(memberOf(event.requestContext, 'authorizer'), 'jwt');
  if (jwt === undefined || jwt === null) return undefined;
  const claimed = memberOf(memberOf(jwt, 'claims'), tenantClaim);
  if (claimed === id.tenantId) return undefined;
  if (typeof claimed !== 'string') {
    const detail = `The token's claim ${tenantClaim} is ${describe(claimed)}; it must be the text of one tenant's id.`;
    return { problem: 'tenant-forbidden', detail };
  }
  // Said before anything is read, and no more than for an id that does not exist.
  if (route === 'getOperation' || route === 'cancel') return notFound(id);
  const detail = `The path's tenant is ${describe(id.tenantId)}; it must be the one of the token's claim ${tenantClaim}.`;
  return { problem: 'tenant-forbidden', detail };
}

/** A direct message's operation is known from its first claim or deferral on. */
export const notFound = ({ tenantId, operationId }: OperationId): Problem => ({
  problem: 'operation-not-found',
  detail: `No operation ${operationId} of tenant ${tenantId} is known. One that was sent to the queue is known from its first attempt, or from its fifth delivery while it waits.`,
});

function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.entries(value).find(([key]) => key === name)?.[1];
}
