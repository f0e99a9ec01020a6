import type { APIGatewayProxyEventV2, Context } from 'aws-lambda';
import { notFound } from './http/request';
import { respond } from './http/respond';
import { viewOf } from './http/view';
import { cancel } from './operation/cancel';

/** Cancels an operation that has no effect and can have none; otherwise keeps the wish and says what to do instead. */
export const handler = (event: APIGatewayProxyEventV2, context: Context) =>
  respond(event, context, ['cancel'], async ({ id }, ports) => {
    const cancelled = await cancel(ports, id);
    switch (cancelled.kind) {
      case 'cancelled':
        return { status: 200, body: viewOf(cancelled.operation) };
      case 'refused':
        return {
          problem: 'cancel-refused',
          detail: cancelled.advice,
          members: { operation: viewOf(cancelled.operation) },
        };
      case 'unknown':
        return notFound(id);
    }
  });
