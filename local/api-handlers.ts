import type { APIGatewayProxyEventV2, APIGatewayProxyResultV2, Context } from 'aws-lambda';
import { handler as accept } from '../lambdas/accept';
import { handler as cancel } from '../lambdas/cancel';
import { handler as getOperation } from '../lambdas/get-operation';
import { allRoutes, type Route, routeKeyOf } from '../lambdas/http/routes';

type Handler = (event: APIGatewayProxyEventV2, context: Context) => Promise<APIGatewayProxyResultV2>;

const handlers: Readonly<Record<Route, Handler>> = { charge: accept, refund: accept, getOperation, cancel };

/** The API's functions in one process: what API Gateway's routes do with several. */
export async function handler(
  event: APIGatewayProxyEventV2,
  context: Context,
): Promise<APIGatewayProxyResultV2> {
  const route = allRoutes.find((name) => routeKeyOf(name) === event.routeKey);
  if (!route) throw new Error(`There is no route ${event.routeKey}.`);
  return handlers[route](event, context);
}
