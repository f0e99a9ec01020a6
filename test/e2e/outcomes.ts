import type { Operation } from '../../lambdas/operation/operation';
import type { StripeStandIn } from '../../local/stripe-stand-in';
import type { Deployed } from './deployed';
import type { Charge } from './jobs';
import { expectEqual, until } from './report';

/** The operation once it ended, after what it did to money was compared with the message. */
export async function chargedOnce(
  deployed: Deployed,
  stripe: StripeStandIn,
  { operationId, input }: Charge,
): Promise<Operation> {
  const operation = await until(
    `end of ${operationId}`,
    () => recordOf(deployed, operationId),
    ({ state }) => state !== 'running' && state !== 'queued',
  );
  await queueIsEmpty(deployed);
  const { amountMinor, currency } = input;
  expectEqual('its state', operation.state, 'succeeded');
  expectEqual('the ledger', movementsOf(stripe, operationId), [
    { kind: 'charge', amountMinor, currency, paymentIntentId: operation.providerRef },
  ]);
  return operation;
}

/** What an operation of the tenant North did to money. */
export function movementsOf(stripe: StripeStandIn, operationId: string) {
  return stripe
    .ledger()
    .filter(({ metadata }) => metadata.tenantId === 'North' && metadata.operationId === operationId)
    .map(({ kind, amountMinor, currency, paymentIntentId }) => ({
      kind,
      amountMinor,
      currency,
      paymentIntentId,
    }));
}

export async function recordOf(deployed: Deployed, operationId: string): Promise<Operation> {
  const found = (await deployed.records()).find((each) => each.operationId === operationId);
  if (!found) throw new Error(`there is no record of ${operationId}`);
  return found;
}

export function queueIsEmpty(deployed: Deployed): Promise<number> {
  return until(
    'empty queue',
    () => deployed.depth(),
    (depth) => depth === 0,
  );
}
