/** @import { ConsoleDocument, Line, OperationRow } from '../document' */
import {
  byId,
  cell,
  dayAndTime,
  duration,
  fill,
  make,
  makeRow,
  preciseTime,
  say,
  setAttribute,
  setCut,
  setText,
  showEmpty,
} from './draw.js';

/** The list of operations, and what one of them is and went through. */
export function createOperations() {
  const list = byId('operation-rows', HTMLElement);
  const filter = byId('filter', HTMLInputElement);
  const filterState = byId('filter-state', HTMLSelectElement);
  let selectedKey = keyInAddress();
  /** @type {OperationRow | undefined} */
  let selected;
  /** @type {() => void} */
  let selectionChanged = () => {};

  /** @param {string} key of an operation; '' for none */
  const select = (key) => {
    selectedKey = key;
    history.replaceState(null, '', key ? `#${key}` : location.pathname);
    selectionChanged();
  };
  list.addEventListener('click', ({ target }) => {
    const row = target instanceof Element ? target.closest('tr') : null;
    const key = row?.querySelector('button')?.dataset.key;
    if (key === undefined) return;
    select(key);
    // On a narrow page the operation is below the list.
    const detail = byId('detail-title', HTMLElement);
    if (matchMedia('(max-width: 759px)').matches) detail.scrollIntoView({ block: 'start' });
  });
  list.addEventListener('keydown', (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (steps === undefined || !(event.target instanceof HTMLButtonElement)) return;
    event.preventDefault();
    const buttons = [...list.querySelectorAll('button')];
    const here = buttons.indexOf(event.target);
    const next = buttons[Math.max(0, Math.min(buttons.length - 1, here + steps))];
    if (!next) return;
    next.focus();
    select(next.dataset.key ?? '');
  });
  addEventListener('keydown', ({ key, target }) => {
    if (key === 'Escape' && !(target instanceof Element && target.matches('input, select'))) select('');
  });
  addEventListener('hashchange', () => {
    selectedKey = keyInAddress();
    selectionChanged();
  });
  byId('show-all', HTMLButtonElement).addEventListener('click', () => {
    select('');
    byId('detail-title', HTMLElement).focus();
  });
  filter.addEventListener('input', () => selectionChanged());
  filterState.addEventListener('change', () => selectionChanged());

  return {
    selected: () => selected,
    /** @param {() => void} listener */
    onSelect(listener) {
      selectionChanged = listener;
    },
    /** @param {ConsoleDocument} shown @param {number} nowMs */
    show({ operations, activity }, nowMs) {
      const rows = operations.rows.filter((row) => isWanted(row, filter.value, filterState.value));
      const isCut = rows.length < operations.total;
      say('operations-count', isCut ? `${rows.length} of ${operations.total}` : String(operations.total));
      showEmpty('operations-empty', rows.length === 0, emptyText(operations.total));
      showList(list, rows, selectedKey, nowMs);
      selected = operations.rows.find(({ key }) => key === selectedKey);
      showDetail(selected, selectedKey, nowMs);
      showTimeline(selected ? selected.timeline : selectedKey ? [] : activity, selected);
    },
  };
}

/** @param {number} total */
const emptyText = (total) =>
  total === 0
    ? 'No operations yet. Enqueue a charge, or send one from a terminal: the README shows how.'
    : 'None fits the filter.';

/** `North/O7` of `#North/O7` */
function keyInAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return '';
  }
}

const openStates = ['queued', 'running', 'settling', 'parked'];

/** @param {OperationRow} row @param {string} text @param {string} state */
function isWanted({ key, record }, text, state) {
  if (!key.toLowerCase().includes(text.trim().toLowerCase())) return false;
  if (state === 'open') return openStates.includes(record.state);
  return state === '' || record.state === state;
}

/** @param {HTMLElement} list @param {readonly OperationRow[]} rows @param {string} selectedKey @param {number} nowMs */
function showList(list, rows, selectedKey, nowMs) {
  const focused = document.activeElement;
  const focusedKey =
    focused instanceof HTMLButtonElement && list.contains(focused) ? focused.dataset.key : undefined;
  // One row is in the tab order; the arrow keys reach the others.
  const entryKey = rows.some(({ key }) => key === selectedKey) ? selectedKey : rows[0]?.key;
  fill(list, rows, operationRow, (row, item) => {
    const [button] = cell(row, 0).children;
    if (!(button instanceof HTMLButtonElement)) return;
    const { key, record, amount, refunded, calls, movements } = item;
    setCut(button, key);
    button.dataset.key = key;
    button.tabIndex = key === entryKey ? 0 : -1;
    setAttribute(button, 'aria-pressed', String(key === selectedKey));
    setAttribute(row, 'data-selected', key === selectedKey ? 'yes' : undefined);
    showState(cell(cell(row, 1), 0), record.state);
    setCut(cell(row, 2), record.type === 'refund' ? `−${amount}` : amount);
    setText(cell(row, 3), `${record.attemptCount} of ${record.attemptLimit}`);
    setText(cell(row, 4), String(calls));
    setText(cell(row, 5), String(movements));
    setAttribute(cell(row, 5), 'data-bad', movements > 1 ? 'yes' : undefined);
    setCut(cell(row, 6), noteOf(item, refunded, nowMs));
    setText(cell(row, 7), dayAndTime(record.updatedAtMs, nowMs));
  });
  if (focusedKey === undefined) return;
  const moved = [...list.querySelectorAll('button')].find(({ dataset }) => dataset.key === focusedKey);
  if (moved && moved !== document.activeElement) moved.focus({ preventScroll: true });
}

function operationRow() {
  const row = makeRow([
    'c-key',
    'c-state',
    'c-amount number',
    'c-attempts number',
    'c-calls number',
    'c-moved number',
    'c-note',
    'c-time number',
  ]);
  const button = make('button', 'rowbutton');
  button.setAttribute('type', 'button');
  cell(row, 0).append(button);
  cell(row, 1).append(make('span', 'badge'));
  return row;
}

/** @param {Element} badge @param {string} state */
function showState(badge, state) {
  setText(badge, state);
  setAttribute(badge, 'data-state', state);
}

/** What is worth knowing at a glance. @param {OperationRow} row @param {string | undefined} refunded @param {number} nowMs */
function noteOf({ record }, refunded, nowMs) {
  const { state, leaseExpiresAtMs, dueAtMs, parkedReason, error, effectPossibleSinceMs } = record;
  if (state === 'parked') return parkedReason ?? '';
  if (error) return error.declineCode ? `${error.code}, ${error.declineCode}` : error.code;
  if (refunded !== undefined) return `${refunded} refunded`;
  if (state === 'running' && leaseExpiresAtMs !== undefined)
    return leaseExpiresAtMs > nowMs ? `lease ends in ${duration(leaseExpiresAtMs - nowMs)}` : 'lease lapsed';
  if (state === 'queued' && dueAtMs !== undefined)
    return dueAtMs > nowMs ? `due in ${duration(dueAtMs - nowMs)}` : 'due now';
  if (state === 'queued' && effectPossibleSinceMs !== undefined) return 'to be retried';
  return '';
}

/** @param {OperationRow | undefined} row @param {string} selectedKey @param {number} nowMs */
function showDetail(row, selectedKey, nowMs) {
  setText(byId('detail-title', HTMLElement), selectedKey || 'All activity');
  const badge = byId('detail-state', HTMLElement);
  badge.hidden = !row;
  if (row) showState(badge, row.record.state);
  say('detail-amount', row?.amount ?? '');
  byId('show-all', HTMLButtonElement).hidden = selectedKey === '';
  const missing = 'It is not in the table yet: a message is known from its first claim or deferral.';
  const hint =
    'Select an operation to see its record and its timeline, and to duplicate, contradict, cancel or refund it.';
  showEmpty('record-empty', !row, selectedKey ? missing : hint);
  const record = byId('record', HTMLElement);
  record.hidden = !row;
  if (!row) return;
  fill(
    record,
    fieldsOf(row, nowMs),
    () => make('div', '', make('dt', ''), make('dd', '')),
    (field, [name, value]) => {
      setText(cell(field, 0), name);
      setCut(cell(field, 1), value ?? '–');
    },
  );
}

/**
 * The record, always with the same fields in the same places.
 * @param {OperationRow} row @param {number} nowMs
 * @returns {[name: string, value: string | undefined][]}
 */
function fieldsOf({ record, amount, refunded }, nowMs) {
  const at = (/** @type {number | undefined} */ ms) => (ms === undefined ? undefined : dayAndTime(ms, nowMs));
  const { input, error } = record;
  const isCharge = 'customerId' in input;
  return [
    ['type', record.type],
    ['amount', amount],
    ['refunded', refunded],
    isCharge ? ['reference', input.reference] : ['refund of', input.chargeOperationId],
    isCharge ? ['paid by', `${input.customerId}, ${input.paymentMethodId}`] : ['reason', input.reason],
    ['attempts', `${record.attemptCount} of ${record.attemptLimit}, ${record.redriveCount} redrives`],
    ['effect possible', at(record.effectPossibleSinceMs)],
    ['provider ref', record.providerRef],
    ['provider key', record.providerKey],
    ['error', error && `${error.code}: ${error.message}`],
    ['parked', record.parkedReason && `${record.parkedReason}, ${at(record.parkedAtMs)}`],
    ['claim', record.claimId],
    ['lease ends', at(record.leaseExpiresAtMs)],
    ['due', at(record.dueAtMs)],
    ['cancel asked', at(record.cancelRequestedAtMs)],
    ['deadline', at(record.deadlineAtMs)],
    ['accepted by', record.acceptedBy],
    ['created', at(record.createdAtMs)],
    ['changed', at(record.updatedAtMs)],
    ['input digest', record.inputDigest],
  ];
}

/** @param {readonly Line[]} lines @param {OperationRow | undefined} selected whose lines they are; undefined for all */
function showTimeline(lines, selected) {
  const isOfOne = selected !== undefined;
  const list = byId('timeline', HTMLElement);
  const scroll = byId('timeline-scroll', HTMLElement);
  const isAtEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 24;
  const last = `${lines.length} ${lines.at(-1)?.atMs}`;
  const hasMore = list.dataset.last !== last;
  showEmpty('timeline-empty', lines.length === 0);
  setAttribute(list, 'data-of-one', isOfOne ? 'yes' : 'no');
  fill(
    list,
    lines.map((line, place) => ({ line, previous: lines[place - 1] })),
    timelineItem,
    (item, { line, previous }) => {
      const [time, gap, what] = [cell(item, 0), cell(item, 1), cell(item, 2)];
      setAttribute(item, 'data-kind', line.kind);
      setAttribute(item, 'data-bad', line.isBad ? 'yes' : undefined);
      setText(time, preciseTime(line.atMs));
      setText(gap, previous ? gapOf(line.atMs - previous.atMs) : '');
      const [operation, from, arrow, to, text] = [0, 1, 2, 3, 4].map((place) => cell(what, place));
      if (!operation || !from || !arrow || !to || !text) return;
      setText(operation, isOfOne ? '' : (line.operation ?? ''));
      for (const part of [from, arrow, to])
        setAttribute(part, 'hidden', line.to === undefined ? '' : undefined);
      showState(from, line.from ?? '');
      showState(to, line.to ?? '');
      setText(text, line.text);
      setAttribute(what, 'title', line.text);
    },
  );
  // What is new is read at the end, unless the reader has scrolled up. What has ended is read from its beginning.
  const about = selected?.key ?? '';
  const isOther = list.dataset.about !== about;
  list.dataset.about = about;
  list.dataset.last = last;
  if (isOther)
    scroll.scrollTop = selected && !openStates.includes(selected.record.state) ? 0 : scroll.scrollHeight;
  else if (isAtEnd && hasMore) scroll.scrollTop = scroll.scrollHeight;
}

const timelineItem = () =>
  make(
    'li',
    '',
    make('time', ''),
    make('span', 'gap'),
    make(
      'span',
      'what',
      make('span', 'of'),
      ' ',
      make('span', 'badge'),
      ' ',
      make('span', 'arrow', '→'),
      ' ',
      make('span', 'badge'),
      ' ',
      make('span', 'text'),
    ),
  );

/** @param {number} ms */
const gapOf = (ms) => (ms < 1000 ? `+${Math.max(0, Math.round(ms))} ms` : `+${duration(ms)}`);
