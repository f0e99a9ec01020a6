import type { APIGatewayProxyEventV2, Context } from 'aws-lambda';
import { notFound } from './http/request';
import { respond } from './http/respond';
import { viewOf } from './http/view';
import { keyOf } from './operation/ports';

/** Says how an operation stands. */
export const handler = (event: APIGatewayProxyEventV2, context: Context) =>
  respond(event, context, ['getOperation'], async ({ id }, { store }) => {
    const { operations, unreadable } = await store.look([id]);
    if (unreadable.has(keyOf(id))) throw new Error('A newer build wrote the record: this one cannot read it');
    const operation = operations.get(keyOf(id));
    if (!operation) return notFound(id);
    const view = viewOf(operation);
    return { status: 200, ...(view.done ? {} : { headers: { 'retry-after': '1' } }), body: view };
  });
