/** The routes of the HTTP API, as API Gateway names them. Charges and refunds are path prefixes of their own, for IAM. */
export const routes = {
  charge: { method: 'PUT', path: '/tenants/{tenantId}/charges/{operationId}' },
  refund: { method: 'PUT', path: '/tenants/{tenantId}/refunds/{operationId}' },
  getOperation: { method: 'GET', path: '/tenants/{tenantId}/operations/{operationId}' },
  cancel: { method: 'POST', path: '/tenants/{tenantId}/operations/{operationId}/cancel' },
} as const;

export type Route = keyof typeof routes;

const isRoute = (name: string): name is Route => Object.hasOwn(routes, name);
export const allRoutes: readonly Route[] = Object.keys(routes).filter(isRoute);

/** What API Gateway calls a route, such as `GET /tenants/{tenantId}/operations/{operationId}`. */
export const routeKeyOf = (route: Route): string => `${routes[route].method} ${routes[route].path}`;

/** The methods of the routes whose path a request's path has: any path before it is a stage or an API mapping. */
export function methodsAt(rawPath: string): string[] {
  return Object.values(routes)
    .filter(({ path }) => new RegExp(`${path.replace(/\{\w+\}/g, '[^/]+')}$`).test(rawPath))
    .map(({ method }) => method);
}
