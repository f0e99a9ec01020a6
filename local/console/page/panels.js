/** @import { ConsoleDocument, LedgerRow, MessageRow, TenantRow } from '../document' */
import {
  byId,
  cell,
  counted,
  dayAndTime,
  duration,
  fill,
  make,
  makeRow,
  say,
  setAttribute,
  setCut,
  setText,
  showEmpty,
} from './draw.js';

/**
 * Everything beside the operations.
 * @param {ConsoleDocument} shown @param {number} nowMs
 */
export function showPanels(shown, nowMs) {
  showStats(shown, nowMs);
  showQueue(shown, nowMs);
  showDeadLetters(shown);
  showTenants(shown);
  showProvider(shown, nowMs);
}

/** @param {ConsoleDocument} shown @param {number} nowMs */
function showStats({ queue, deadLetters, operations, workers, provider }, nowMs) {
  const { queued, running, settling, parked } = operations.byState;
  say('stat-queue', String(queue.visible + queue.inFlight + queue.delayed));
  say(
    'stat-queue-note',
    queue.isHeld ? 'deliveries are held' : `${queue.visible} waiting, ${queue.inFlight} in flight`,
  );
  say('stat-dead', String(deadLetters.total));
  say('stat-dead-note', deadLetters.total > 0 ? 'wait for a person' : 'nothing to look at');
  say('stat-open', String(queued + running + settling + parked));
  say('stat-open-note', `of ${operations.total}, ${parked} parked`);
  say('stat-workers', String(workers.alive));
  say('stat-workers-note', `${workers.busy} busy, ${workers.killed} killed`);
  say('stat-calls', String(provider.calls));
  say('stat-calls-note', `${counted(provider.charges, 'charge')}, ${counted(provider.refunds, 'refund')}`);
  say('stat-breaker', breakerState(provider));
  say('stat-breaker-note', breakerNote(provider, nowMs));
  mark('stat-dead', deadLetters.total > 0);
  mark('stat-breaker', provider.breaker !== undefined);
}

/** @param {string} id @param {boolean} isBad */
const mark = (id, isBad) => setAttribute(byId(id, HTMLElement), 'data-bad', isBad ? 'yes' : 'no');

/** A person's pause keeps the breaker open too. @param {ConsoleDocument['provider']} provider */
function breakerState({ breaker }) {
  if (!breaker) return 'closed';
  return breaker.reason === 'paused' ? 'paused' : 'open';
}

/** @param {ConsoleDocument['provider']} provider @param {number} nowMs */
function breakerNote({ breaker, retriesLeft }, nowMs) {
  if (!breaker) return counted(retriesLeft, 'retry', 'retries');
  const { reason, probeAtMs, note } = breaker;
  if (reason === 'paused') return note ?? 'by a person';
  if (probeAtMs === undefined) return reason;
  return probeAtMs > nowMs ? `${reason}, probe in ${duration(probeAtMs - nowMs)}` : `${reason}, probe due`;
}

/** @param {ConsoleDocument} shown @param {number} nowMs */
function showQueue({ queue }, nowMs) {
  const { visible, inFlight, delayed, messages } = queue;
  say('queue-count', `${visible} waiting, ${inFlight} in flight, ${delayed} delayed`);
  showEmpty(
    'queue-empty',
    messages.length === 0,
    queue.isHeld ? 'No messages. Deliveries are held: what you enqueue stays here.' : 'No messages.',
  );
  fill(byId('queue-rows', HTMLElement), messages, messageItem, (item, message) => {
    showMessage(item, message, placeOf(message, nowMs));
  });
}

const messageItem = () =>
  make('li', '', make('span', 'c-key'), make('span', 'number'), make('span', 'c-why'));

/** @param {Element} item @param {MessageRow} message @param {string} said */
function showMessage(item, { operation, content }, said) {
  setCut(cell(item, 0), operation ?? 'unreadable');
  setCut(cell(item, 1), content);
  setCut(cell(item, 2), said);
}

/** @param {MessageRow} message @param {number} nowMs */
function placeOf({ place, receiveCount, backAtMs }, nowMs) {
  const deliveries = receiveCount === 0 ? 'never delivered' : `delivered ${receiveCount}×`;
  if (place === 'waiting' || backAtMs === undefined) return `waiting, ${deliveries}`;
  const back = `back in ${duration(Math.max(0, backAtMs - nowMs))}`;
  return `${place === 'delayed' ? 'delayed' : 'in flight'}, ${back}, ${deliveries}`;
}

/** @param {ConsoleDocument} shown */
function showDeadLetters({ deadLetters: { total, messages } }) {
  say('dead-count', counted(total, 'message'));
  showEmpty('dead-empty', messages.length === 0);
  fill(byId('dead-rows', HTMLElement), messages, messageItem, (item, message) => {
    showMessage(item, message, message.why ?? 'given up before this console began');
  });
}

/** @param {ConsoleDocument} shown */
function showTenants({ tenants }) {
  showEmpty('tenants-empty', tenants.length === 0);
  fill(byId('tenant-rows', HTMLElement), tenants, tenantRow, (row, tenant) => {
    setCut(cell(row, 0), tenant.tenantId);
    showPlaces(cell(row, 1), tenant.running, tenant.maxRunning, tenant.lapsed);
    showPlaces(cell(row, 2), tenant.accepted, tenant.maxAccepted, 0);
  });
  fill(
    byId('tenant-ids', HTMLElement),
    tenants,
    () => make('option', ''),
    (option, { tenantId }) => setAttribute(option, 'value', tenantId),
  );
}

const tenantRow = () => {
  const places = () => make('td', '', make('span', 'places'), make('span', 'meter', make('span', '')));
  return make('tr', '', make('td', 'c-key'), places(), places());
};

/** @param {Element} place @param {TenantRow['running']} taken @param {number | null} most @param {number} lapsed */
function showPlaces(place, taken, most, lapsed) {
  const [text, meter] = [cell(place, 0), cell(place, 1)];
  const more = lapsed > 0 ? `, ${lapsed} lapsed` : '';
  setText(text, `${taken.length} of ${most ?? 'any'}${more}`);
  setAttribute(place, 'title', taken.length > 0 ? taken.join(', ') : undefined);
  const [bar] = meter.children;
  if (!(bar instanceof HTMLElement)) return;
  bar.style.inlineSize = `${Math.min(100, (100 * taken.length) / (most || 1))}%`;
  setAttribute(meter, 'data-full', most !== null && taken.length >= most ? 'yes' : 'no');
}

/** @param {ConsoleDocument} shown @param {number} nowMs */
function showProvider({ provider, limits }, nowMs) {
  const { breaker, windowCalls, windowFailures, retriesLeft, charged, refunded } = provider;
  const state = breakerState(provider);
  const since = breaker
    ? ` since ${dayAndTime(breaker.openedAtMs, nowMs)}: ${breakerNote(provider, nowMs)}`
    : '';
  setCut(byId('breaker', HTMLElement), `${state}${since}`);
  setCut(byId('window', HTMLElement), `${counted(windowCalls, 'call')}, ${windowFailures} failed`);
  setCut(
    byId('budget', HTMLElement),
    `${counted(retriesLeft, 'retry', 'retries')} left in ${limits.retryBudgetWindowSeconds} s`,
  );
  setCut(byId('charged', HTMLElement), charged.join(', ') || 'nothing');
  setCut(byId('refunded', HTMLElement), refunded.join(', ') || 'nothing');
  const isEmpty = provider.ledger.length === 0 && provider.onTheirWay.length === 0;
  showEmpty(
    'ledger-empty',
    isEmpty,
    provider.isStandIn
      ? 'No money has moved.'
      : "Payments go to Stripe's test mode: its dashboard shows them.",
  );
  fill(byId('way-rows', HTMLElement), provider.onTheirWay, wayRow, (row, { id, operation, amount }) => {
    setCut(cell(row, 1), operation);
    setCut(cell(row, 2), amount);
    for (const button of row.querySelectorAll('button')) button.dataset.settle = id;
  });
  fill(byId('ledger-rows', HTMLElement), provider.ledger, ledgerRow, (row, entry) => {
    setText(cell(row, 0), entry.kind);
    setCut(cell(row, 1), entry.operation);
    setCut(cell(row, 2), entry.amount);
    setText(cell(row, 3), dayAndTime(entry.atMs, nowMs));
    showKind(row, entry);
  });
}

const ledgerRow = () => makeRow(['c-kind', 'c-key', 'number', 'c-time number']);

/** @param {Element} row @param {LedgerRow} entry */
function showKind(row, { kind, id }) {
  setAttribute(row, 'data-kind', kind);
  setAttribute(row, 'title', id);
}

/** Money on its way: the stand-in waits for somebody to say how it ends. */
const wayRow = () => {
  const end = (/** @type {string} */ outcome, /** @type {string} */ said) => {
    const button = make('button', 'small', said);
    setAttribute(button, 'type', 'button');
    setAttribute(button, 'data-outcome', outcome);
    return button;
  };
  const buttons = make('td', 'c-ends number', end('succeeded', 'Done'), ' ', end('failed', 'Fail'));
  return make('tr', '', make('td', 'c-kind', 'pending'), make('td', 'c-key'), make('td', 'number'), buttons);
};
