import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';

export interface Handlers {
  readonly work: (event: SQSEvent, context: Context) => Promise<SQSBatchResponse>;
  readonly reconcile: (event: unknown, context: Context) => Promise<unknown>;
}

const product = '../../../lambdas';

/** The worker and the reconciler of this build, as fresh processes. */
export function loadHandlers(): Handlers {
  let handlers: Handlers | undefined;
  jest.isolateModules(() => {
    const { handler: work } = require(`${product}/work`);
    const { handler: reconcile } = require(`${product}/reconcile`);
    handlers = { work, reconcile };
  });
  if (!handlers) throw new Error('The handlers were not loaded');
  return handlers;
}

/**
 * The same of a build that knows version 1 alone: it reads messages and records as the frozen copies here do, and makes
 * the provider's parameters of version 1 only.
 */
export function loadHandlersOfVersion1(): Handlers {
  const mocks: Readonly<Record<string, () => unknown>> = {
    'operation/message': () => require('./message'),
    'adapters/operation-item': () => require('./operation-item'),
    'adapters/stripe-params': paramsOfVersion1,
  };
  for (const [name, module] of Object.entries(mocks)) jest.doMock(`${product}/${name}`, module);
  try {
    return loadHandlers();
  } finally {
    for (const name of Object.keys(mocks)) jest.dontMock(`${product}/${name}`);
  }
}

function paramsOfVersion1() {
  const { paramsByVersion } = jest.requireActual<typeof import('../../../lambdas/adapters/stripe-params')>(
    '../../../lambdas/adapters/stripe-params',
  );
  type Params = (typeof paramsByVersion)[1];
  type Charge = Parameters<Params['charge']>[0];
  type ChargeOfVersion1 = Charge & { readonly input: { readonly invoiceId: string } };
  const charge = (operation: ChargeOfVersion1) => {
    const { invoiceId: reference, ...input } = operation.input;
    return paramsByVersion[1].charge({ ...operation, input: { ...input, reference } });
  };
  return { paramsByVersion: { 1: { ...paramsByVersion[1], charge } }, paramsVersionOf: () => 1 };
}
