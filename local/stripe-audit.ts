import type { Books } from './stripe-books';
import { type Metadata, operationOf } from './stripe-objects';
import type { RecordedRequest } from './stripe-requests';

/**
 * What went against the rule "one operation, one key for each step, one movement of money", one sentence each.
 * A POST without a key counts as a key of its own. Requests without tenantId and operationId are not looked at.
 */
export function violations(
  requests: readonly RecordedRequest[],
  books: Books,
  { allowKeyChange }: { readonly allowKeyChange: boolean },
): string[] {
  return [...(allowKeyChange ? [] : keyChanges(requests)), ...doubleMovements(books)];
}

function keyChanges(requests: readonly RecordedRequest[]): string[] {
  const keys = new Map<string, Set<string>>();
  for (const { method, operation, step, idempotencyKey, requestId } of requests) {
    if (method !== 'POST' || !operation || !step) continue;
    const used = keys.get(`${operation} (${step})`) ?? new Set();
    keys.set(`${operation} (${step})`, used.add(idempotencyKey ?? `no key, ${requestId}`));
  }
  return [...keys]
    .filter(([, used]) => used.size > 1)
    .map(([step, used]) => `${step} used ${used.size} idempotency keys: ${[...used].join(' | ')}`);
}

/** Money that is on its way (a processing intent, a pending refund) counts as moved. */
function doubleMovements(books: Books): string[] {
  const moved = new Map<string, string[]>();
  const add = (metadata: Metadata, movement: string) => {
    const operation = operationOf(metadata);
    if (operation !== undefined) moved.set(operation, [...(moved.get(operation) ?? []), movement]);
  };
  for (const { kind, id, amountMinor, currency, metadata } of books.ledger) {
    add(metadata, `${kind} ${id} of ${amountMinor} ${currency}`);
  }
  const onItsWay = [...books.intents(), ...books.refunds.values()];
  for (const { id, status, metadata } of onItsWay) {
    if (status === 'processing' || status === 'pending') add(metadata, `${id}, ${status}`);
  }
  return [...moved]
    .filter(([, movements]) => movements.length > 1)
    .map(
      ([operation, movements]) =>
        `${operation} moved money ${movements.length} times: ${movements.join(' | ')}`,
    );
}
