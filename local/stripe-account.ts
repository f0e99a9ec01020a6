import { type Answer, found, missing } from './stripe-answers';
import { Books } from './stripe-books';
import { list, search } from './stripe-lists';
import {
  type ChargeObject,
  type Metadata,
  operationOf,
  type PaymentIntentObject,
  type RefundObject,
} from './stripe-objects';
import { type Params, textsBelow } from './stripe-params';
import { cancelPaymentIntent, createPaymentIntent, settleIntent } from './stripe-payment-intents';
import { createRefund, settleRefund } from './stripe-refunds';

/** What a request is for: one operation must use one idempotency key for each of its steps. */
export type Step = 'charge' | 'cancel' | 'refund' | 'read';

/** An endpoint that a request reached. Nothing happens before `execute`, which is synchronous: all or nothing. */
export interface Endpoint {
  readonly step: Step;
  /** `tenantId/operationId` of the request's metadata or of the object that its path names. */
  operation(params: Params): string | undefined;
  execute(params: Params, idempotencyKey: string | undefined): Answer;
}

/** One Stripe account in memory. */
export interface Account {
  readonly books: Books;
  /** The endpoint for a request, undefined for a URL that this stand-in does not have. */
  endpoint(method: string, path: string): Endpoint | undefined;
  /** Ends a processing PaymentIntent or a pending refund. Throws an Error when it is neither. */
  settle(id: string, outcome: 'succeeded' | 'failed'): void;
}

/** An empty account on a clock; search shows what was true `searchLagMs` ago. */
export function openAccount(now: () => number, searchLagMs: number): Account {
  const books = new Books(now);
  return {
    books,
    endpoint: (method, path) => endpoint(books, searchLagMs, method, path),
    settle: (id, outcome) =>
      id.startsWith('re_') ? settleRefund(books, id, outcome) : settleIntent(books, id, outcome),
  };
}

function endpoint(books: Books, searchLagMs: number, method: string, path: string): Endpoint | undefined {
  const [, version, collection = '', id, action, ...more] = path.split('/');
  if (version !== 'v1' || more.length > 0) return undefined;
  const place = id === undefined || id === 'search' ? id : ':id';
  const asked = [`${method} ${collection}`, place, action].filter((part) => part !== undefined).join('/');
  const named = id ?? '';
  // Looked up again when the request is executed, which may be later.
  const intent = () => books.intent(named);
  const refund = () => books.refunds.get(named);
  const charge = () => books.charges.get(named);
  const of = (step: Step, execute: Execute, target: () => Named | undefined = () => undefined): Endpoint => ({
    step,
    operation: (params) =>
      operationOf(textsBelow(params, 'metadata')) ?? operationOf(target()?.metadata ?? {}),
    execute: (params, key) => expanded(execute(params, key), params, books.charges),
  });
  const show = (kind: string, target: () => Named | undefined): Endpoint =>
    of('read', () => shown(target(), kind, named), target);

  switch (asked) {
    case 'POST payment_intents':
      return of('charge', (params, key) => createPaymentIntent(books, params, key));
    case 'POST payment_intents/:id/cancel':
      return of('cancel', (params) => cancelPaymentIntent(books, named, params), intent);
    case 'POST refunds':
      return of('refund', (params, key) => createRefund(books, params, key));
    case 'GET payment_intents':
      return of('read', (params) => list(path, books.intents(), params, INTENT_FILTERS));
    case 'GET payment_intents/search':
      return of('read', (params) => search(path, books.intentsAsOf(books.now() - searchLagMs), params));
    case 'GET payment_intents/:id':
      return show('payment_intent', intent);
    case 'GET customers':
      return of('read', (params) => list(path, [], params, {}));
    case 'GET customers/:id':
      return of('read', () => customer(named));
    case 'GET charges/:id':
      return show('charge', charge);
    case 'GET refunds':
      return of('read', (params) => list(path, [...books.refunds.values()], params, REFUND_FILTERS));
    case 'GET refunds/:id':
      return show('refund', refund);
  }
  return undefined;
}

/** No list has them: `cus_of_North` carries the tenant North in its metadata; other customers carry none. */
function customer(id: string): Answer {
  if (!id.startsWith('cus_') || id === 'cus_missing') return missing('customer', id);
  const tenantId = /^cus_of_(.+)$/.exec(id)?.[1];
  return found({ id, object: 'customer', metadata: tenantId === undefined ? {} : { tenantId } });
}

type Execute = Endpoint['execute'];

interface Named {
  readonly metadata: Metadata;
}

const INTENT_FILTERS = { customer: (intent: PaymentIntentObject) => intent.customer };

const REFUND_FILTERS = {
  payment_intent: (refund: RefundObject) => refund.payment_intent,
  charge: (refund: RefundObject) => refund.charge,
};

function shown(object: Named | undefined, kind: string, id: string): Answer {
  return object ? found(object) : missing(kind, id);
}

/** `expand[]=latest_charge` (in lists `data.latest_charge`) puts the charge in place of its id; others do nothing. */
function expanded(answer: Answer, params: Params, charges: ReadonlyMap<string, ChargeObject>): Answer {
  const wanted = Object.values(textsBelow(params, 'expand'));
  if (answer.status !== 200 || !wanted.some((path) => /^(data\.)?latest_charge$/.test(path))) return answer;
  const expand = (name: string, value: unknown): unknown =>
    name === 'latest_charge' && typeof value === 'string' ? (charges.get(value) ?? value) : value;
  return { ...answer, body: JSON.stringify(JSON.parse(answer.body, expand), null, 2) };
}
