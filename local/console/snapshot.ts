import { readOperation } from '../../lambdas/adapters/operation-item';
import { readProvider } from '../../lambdas/adapters/provider-item';
import { readTenant } from '../../lambdas/adapters/tenant-item';
import type { Limits } from '../../lambdas/operation/limits';
import type { Operation } from '../../lambdas/operation/operation';
import { type ProviderState, retriesLeft, windowStartOf } from '../../lambdas/operation/provider-state';
import { isTerminal, type State } from '../../lambdas/operation/state';
import { lapsedSlots, maxAcceptedOf, maxRunningOf, type Tenant } from '../../lambdas/operation/tenant';
import type { QueuedMessage } from '../jobs';
import type { LocalStack } from '../stack';
import type { LedgerEntry } from '../stripe-books';
import { operationOf } from '../stripe-objects';
import type { RecordedRequest } from '../stripe-requests';
import type {
  ConsoleDocument,
  LedgerRow,
  Line,
  MessageRow,
  OperationRow,
  ProviderView,
  TenantRow,
} from './document';
import { describeFault } from './faults';
import { type History, operationIn, readMessage } from './history';
import { formatAmount, fractionDigits } from './money';

/** How many rows of each kind a page gets; the totals count all. */
const most = { operations: 100, messages: 50, ledger: 100, tenants: 50 };

/** What the page's own server knows and the stack does not. */
export type ServerFacts = Pick<ConsoleDocument, 'startedAtMs'> & {
  readonly isHeld: boolean;
  readonly armed: ConsoleDocument['workers']['armed'];
};

/** Reads everything that the page shows, as it is now. */
export async function takeSnapshot(
  stack: LocalStack,
  history: History,
  { startedAtMs, isHeld, armed }: ServerFacts,
): Promise<ConsoleDocument> {
  const [items, { jobs, deadLetters }] = await Promise.all([stack.items(), stack.queueContents()]);
  const operations = items.map(readOperation).filter((operation) => operation !== undefined);
  const tenants = items.map(readTenant).filter((tenant) => tenant !== undefined);
  const requests = Map.groupBy(stack.stripe?.requests() ?? [], ({ operation }) => operation);
  const ledger = Map.groupBy(stack.stripe?.ledger() ?? [], ({ metadata }) => operationOf(metadata));
  const known = new Map(operations.map((operation) => [keyOfOperation(operation), operation]));
  const shown = latestOf(operations);
  const nowMs = stack.clock.now();
  const { started, killed } = stack.workers.counts();
  return {
    startedAtMs,
    clockOffsetMs: stack.clock.offsetMs(),
    limits: stack.limits,
    fractionDigits,
    queue: {
      visible: jobs.depth.visible,
      inFlight: jobs.depth.inFlight,
      delayed: jobs.depth.delayed,
      isHeld,
      messages: jobs.messages.slice(0, most.messages).map((message) => messageRow(message, history, known)),
    },
    deadLetters: {
      total: deadLetters.depth.total,
      messages: deadLetters.messages
        .slice(-most.messages)
        .map((message) => messageRow(message, history, known)),
    },
    operations: {
      total: operations.length,
      byState: countStates(operations),
      rows: shown.map((operation) => {
        const key = keyOfOperation(operation);
        return operationRow(operation, known, requests.get(key) ?? [], ledger.get(key) ?? [], history);
      }),
    },
    tenants: tenants
      .sort((a, b) => a.tenantId.localeCompare(b.tenantId))
      .slice(0, most.tenants)
      .map((tenant) => tenantRow(tenant, stack, nowMs)),
    workers: {
      alive: stack.workers.pids().length,
      busy: stack.workers.busyPids().length,
      started,
      killed,
      ...(armed && { armed }),
    },
    provider: {
      ...standInView(stack),
      ...switchView(
        stack.limits,
        items.map(readProvider).filter((state) => state !== undefined),
        nowMs,
      ),
    },
    activity: history.activity(),
  };
}

const keyOfOperation = ({ tenantId, operationId }: Operation): string => `${tenantId}/${operationId}`;

/** The latest, newest first; of more than a page takes, those that have not ended come before the others. */
function latestOf(operations: readonly Operation[]): Operation[] {
  const newestFirst = operations.toSorted((a, b) => b.createdAtMs - a.createdAtMs);
  const [ended = [], open = []] = [true, false].map((hasEnded) =>
    newestFirst.filter(({ state }) => isTerminal(state) === hasEnded),
  );
  const chosen = [...open, ...ended].slice(0, most.operations);
  return chosen.sort((a, b) => b.createdAtMs - a.createdAtMs);
}

function countStates(operations: readonly Operation[]): Record<State, number> {
  const counts = { queued: 0, running: 0, settling: 0, parked: 0, succeeded: 0, failed: 0, cancelled: 0 };
  for (const { state } of operations) counts[state] += 1;
  return counts;
}

function operationRow(
  operation: Operation,
  known: ReadonlyMap<string, Operation>,
  requests: readonly RecordedRequest[],
  movements: readonly LedgerEntry[],
  history: History,
): OperationRow {
  const key = keyOfOperation(operation);
  const { amountMinor } = operation.input;
  const currency = currencyOf(operation, known);
  const refundedMinor = operation.refundedMinor ?? 0;
  return {
    key,
    amount: formatAmount(amountMinor, currency),
    ...(refundedMinor > 0 && { refunded: formatAmount(refundedMinor, currency) }),
    refundableMinor: operation.type === 'charge' ? Math.max(0, amountMinor - refundedMinor) : 0,
    calls: requests.filter(({ method }) => method === 'POST').length,
    movements: movements.length,
    record: operation,
    timeline: [...history.of(key), ...requests.map(callLine), ...movements.map(moneyLine)].sort(inOrder),
  };
}

/** A refund has its charge's currency. */
function currencyOf(operation: Operation, known: ReadonlyMap<string, Operation>): string | undefined {
  if (operation.type === 'charge') return operation.input.currency;
  const charge = known.get(`${operation.tenantId}/${operation.input.chargeOperationId}`);
  return charge?.type === 'charge' ? charge.input.currency : operation.result?.currency;
}

/** What happened in one millisecond is shown in the order in which a delivery goes. */
const inOrder = (a: Line, b: Line): number => a.atMs - b.atMs || rank(a) - rank(b);

function rank({ kind, to, text }: Line): number {
  if (kind === 'you') return 0;
  if (kind === 'message') return text.startsWith('delivery') ? 1 : 6;
  if (kind === 'provider') return 3;
  if (kind === 'money') return 4;
  return to === 'running' || to === 'queued' ? 2 : 5;
}

function callLine({ method, path, startedAtMs, endedAtMs, status, replayed }: RecordedRequest): Line {
  const answer =
    endedAtMs === undefined
      ? 'in flight'
      : status === undefined
        ? 'no answer'
        : `${status}${replayed ? ", replayed from the key's memory" : ''}`;
  return {
    atMs: startedAtMs,
    kind: 'provider',
    text: `${method} ${path}: ${answer}`,
    isBad: endedAtMs !== undefined && (status ?? 500) >= 400,
  };
}

const moneyLine = ({ kind, id, amountMinor, currency, atMs }: LedgerEntry): Line => ({
  atMs,
  kind: 'money',
  text: `${kind} of ${formatAmount(amountMinor, currency)} · ${id}`,
});

function messageRow(
  { body, ...message }: QueuedMessage,
  history: History,
  known: ReadonlyMap<string, Operation>,
): MessageRow {
  const operation = operationIn(body);
  const why = history.whyOf(message.messageId);
  const parsed = readMessage(body);
  const job = parsed?.kind === 'message' ? parsed.message : undefined;
  const currency =
    job?.type === 'charge'
      ? job.input.currency
      : job && currencyOfCharge(known.get(`${job.tenantId}/${job.input.chargeOperationId}`));
  return {
    ...message,
    ...(operation !== undefined && { operation }),
    content: job ? formatAmount(job.input.amountMinor, currency) : body.slice(0, 60),
    ...(why !== undefined && { why }),
  };
}

const currencyOfCharge = (operation: Operation | undefined): string | undefined =>
  operation?.type === 'charge' ? operation.input.currency : undefined;

function tenantRow(tenant: Tenant, { limits }: LocalStack, nowMs: number): TenantRow {
  const lapsed = lapsedSlots(tenant, nowMs);
  const bound = (most: number) => (Number.isFinite(most) ? most : null);
  return {
    tenantId: tenant.tenantId,
    running: Object.keys(tenant.running).filter((operationId) => !lapsed.includes(operationId)),
    lapsed: lapsed.length,
    maxRunning: bound(maxRunningOf(tenant, limits)),
    accepted: Object.keys(tenant.accepted),
    maxAccepted: bound(maxAcceptedOf(tenant, limits)),
  };
}

/** What the service knows of its provider, over all shards of its record. */
function switchView(
  limits: Limits,
  shards: readonly ProviderState[],
  nowMs: number,
): Pick<ProviderView, 'breaker' | 'windowCalls' | 'windowFailures' | 'retriesLeft'> {
  const breaker = shards.find((state) => state.breaker)?.breaker;
  const inWindow = shards.filter((state) => state.windowStartMs === windowStartOf(limits, state, nowMs));
  const all = Array.from({ length: limits.providerShards }, (_, index) =>
    shards.find(({ shard }) => shard === index),
  );
  return {
    ...(breaker && { breaker }),
    windowCalls: sumOf(inWindow.map(({ windowCalls }) => windowCalls)),
    windowFailures: sumOf(inWindow.map(({ windowFailures }) => windowFailures)),
    retriesLeft: sumOf(all.map((state) => retriesLeft(limits, state, nowMs))),
  };
}

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, number) => sum + number, 0);

/** What the stand-in received and moved. */
function standInView({
  stripe,
}: LocalStack): Omit<ProviderView, 'breaker' | 'windowCalls' | 'windowFailures' | 'retriesLeft'> {
  const requests = stripe?.requests() ?? [];
  const ledger = stripe?.ledger() ?? [];
  const charges = ledger.filter(({ kind }) => kind === 'charge');
  const refunds = ledger.filter(({ kind }) => kind === 'refund');
  return {
    isStandIn: stripe !== undefined,
    calls: requests.filter(({ method }) => method === 'POST').length,
    openCalls: stripe?.openRequests() ?? 0,
    charges: charges.length,
    refunds: refunds.length,
    charged: sums(charges),
    refunded: sums(refunds),
    ledger: ledger.slice(-most.ledger).reverse().map(ledgerRow),
    onTheirWay: onTheirWay(stripe),
    faults: (stripe?.plannedFaults() ?? []).map(({ fault, timesLeft }) => ({
      what: describeFault(fault),
      times: Number.isFinite(timesLeft) ? timesLeft : null,
    })),
  };
}

const ledgerRow = ({ id, kind, metadata, amountMinor, currency, atMs }: LedgerEntry): LedgerRow => ({
  id,
  kind,
  operation: operationOf(metadata) ?? '',
  amount: formatAmount(amountMinor, currency),
  atMs,
});

function sums(entries: readonly LedgerEntry[]): string[] {
  const byCurrency = Map.groupBy(entries, ({ currency }) => currency);
  return [...byCurrency].map(([currency, some]) =>
    formatAmount(sumOf(some.map(({ amountMinor }) => amountMinor)), currency),
  );
}

function onTheirWay(stripe: LocalStack['stripe']): ProviderView['onTheirWay'] {
  const intents = (stripe?.paymentIntents() ?? []).filter(({ status }) => status === 'processing');
  const refunds = (stripe?.refunds() ?? []).filter(({ status }) => status === 'pending');
  return [...intents, ...refunds].map(({ id, metadata, amount, currency }) => ({
    id,
    operation: operationOf(metadata) ?? '',
    amount: formatAmount(amount, currency),
  }));
}
