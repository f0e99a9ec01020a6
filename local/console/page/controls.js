/** @import { ConsoleDocument, OperationRow } from '../document' */
/** @import { Action } from '../actions' */
import { byId, say, setAttribute, setText } from './draw.js';

/**
 * The forms and buttons.
 * @param {() => OperationRow | undefined} selected the operation that the page shows
 */
export function createControls(selected) {
  const form = byId('enqueue', HTMLFormElement);
  const arm = byId('arm', HTMLButtonElement);
  const hold = byId('hold', HTMLButtonElement);
  const pause = byId('pause', HTMLButtonElement);
  const refundAmount = byId('refund-amount', HTMLInputElement);
  const operationId = field(form, 'operationId');
  let suggested = operationId.value;
  /** @type {ConsoleDocument | undefined} */
  let latest;

  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const isDone = await ask(enqueueOf(form), event.submitter);
    if (isDone && operationId.value === suggested) suggest(nextId(suggested, latest));
  });
  form.addEventListener('input', () => previewAmount(form, latest));

  /** @param {string} id */
  const suggest = (id) => {
    suggested = id;
    operationId.value = id;
  };

  arm.addEventListener('click', () => {
    const chosen = byId('crash-point', HTMLSelectElement).value;
    const point = crashPoints.find((name) => name === chosen) ?? 'afterEffect';
    void ask(latest?.workers.armed ? { action: 'disarmCrash' } : { action: 'armCrash', point }, arm);
  });
  hold.addEventListener('click', () => {
    void ask({ action: latest?.queue.isHeld ? 'deliver' : 'hold' }, hold);
  });
  document.addEventListener('click', ({ target }) => {
    const button = target instanceof Element ? target.closest('button') : null;
    const action = button && actionOf(button, selected(), refundAmount);
    if (action) void ask(action, button);
  });

  let refundOf = '';
  return {
    /** @param {ConsoleDocument} shown */
    show(shown) {
      latest = shown;
      const { provider, workers, queue } = shown;
      setAttribute(arm, 'aria-pressed', String(workers.armed !== undefined));
      setAttribute(hold, 'aria-pressed', String(queue.isHeld));
      // Whatever keeps the breaker open, a person may close it.
      setText(pause, provider.breaker ? 'Resume calls' : 'Pause calls');
      pause.dataset.action = provider.breaker ? 'resume' : 'pause';
      say('planned', plannedText(provider));
      for (const button of document.querySelectorAll('#faults button'))
        if (button instanceof HTMLButtonElement) button.disabled = !provider.isStandIn;
      previewAmount(form, shown);
      if (
        operationId.value === suggested &&
        document.activeElement !== operationId &&
        isTaken(suggested, shown)
      )
        suggest(nextId(suggested, shown));

      const row = selected();
      for (const button of document.querySelectorAll('[data-with]')) {
        if (!(button instanceof HTMLButtonElement)) continue;
        button.disabled = !row || (button.dataset.with === 'refund' && row.record.type !== 'charge');
      }
      refundAmount.disabled = row?.record.type !== 'charge';
      const offered = row ? `${row.key} ${row.refundableMinor}` : '';
      if (offered === refundOf) return;
      refundOf = offered;
      refundAmount.value = row && row.refundableMinor > 0 ? String(row.refundableMinor) : '';
    },
  };
}

/** @param {HTMLFormElement} form @param {string} name @returns {HTMLInputElement | HTMLSelectElement} */
function field(form, name) {
  const element = form.elements.namedItem(name);
  if (element instanceof HTMLInputElement || element instanceof HTMLSelectElement) return element;
  throw new Error(`the form has no field ${name}`);
}

/** @param {HTMLFormElement} form @returns {Action} */
function enqueueOf(form) {
  const textOf = (/** @type {string} */ name) => field(form, name).value.trim();
  const [times, which] = textOf('times').split(' ');
  return {
    action: 'enqueue',
    way: textOf('way') === 'queue' ? 'queue' : 'api',
    tenantId: textOf('tenantId'),
    operationId: textOf('operationId'),
    amountMinor: Number(textOf('amountMinor')),
    currency: textOf('currency'),
    paymentMethodId: textOf('paymentMethodId'),
    times: Number(times),
    sameId: which === 'same',
  };
}

/** The points and faults that the server knows by these names; it refuses others. */
const crashPoints = /** @type {const} */ ([
  'beforeClaim',
  'beforeCall',
  'afterEffect',
  'beforeSettle',
  'afterSettle',
]);
const faultNames = /** @type {const} */ ([
  'stall',
  'loseAnswer',
  'reset',
  'tooMany',
  'unavailable',
  'savedError',
  'wrongKey',
  'decline',
]);

/**
 * What a button asks for; undefined for buttons that ask for nothing here.
 * @param {HTMLButtonElement} button @param {OperationRow | undefined} row @param {HTMLInputElement} refundAmount
 * @returns {Action | undefined}
 */
function actionOf(button, row, refundAmount) {
  const { action, fault, seconds, settle, outcome, with: what } = button.dataset;
  if (seconds !== undefined) return { action: 'moveClock', seconds: Number(seconds) };
  if (settle !== undefined)
    return { action: 'settleAtProvider', id: settle, outcome: outcome === 'failed' ? 'failed' : 'succeeded' };
  const name = faultNames.find((known) => known === fault);
  if (name !== undefined) {
    const times = byId('fault-times', HTMLSelectElement).value;
    return { action: 'planFault', fault: name, times: times ? Number(times) : null };
  }
  switch (action) {
    case 'sendMalformed':
    case 'killWorkers':
    case 'clearFaults':
    case 'redrive':
    case 'pause':
    case 'resume':
      return { action };
  }
  if (!row) return undefined;
  const { tenantId, operationId } = row.record;
  switch (what) {
    case 'duplicate':
    case 'conflict':
    case 'cancel':
      return { action: what, tenantId, operationId };
    case 'refund':
      return { action: what, tenantId, operationId, amountMinor: Number(refundAmount.value) };
  }
  return undefined;
}

/**
 * Asks the stack for something and shows what it said. A button that waits for its answer does nothing more.
 * @param {Action} action @param {Element | null} button
 * @returns {Promise<boolean>} whether it was done
 */
async function ask(action, button) {
  if (button?.getAttribute('aria-busy') === 'true') return false;
  button?.setAttribute('aria-busy', 'true');
  const { ok, said } = await send(action);
  button?.removeAttribute('aria-busy');
  const status = byId('said', HTMLElement);
  setAttribute(status, 'data-ok', ok ? 'yes' : 'no');
  setAttribute(status, 'title', said);
  setText(status, said);
  return ok;
}

/** @param {Action} action @returns {Promise<{ ok: boolean, said: string }>} */
async function send(action) {
  try {
    const response = await fetch('/actions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(action),
    });
    const answer = await response.json();
    return response.ok ? answer : { ok: false, said: answer.problem };
  } catch {
    return { ok: false, said: 'The stack does not answer: is npm start still running?' };
  }
}

/** @param {ConsoleDocument['provider']} provider */
function plannedText({ isStandIn, faults }) {
  if (!isStandIn) return "Payments go to Stripe's test mode.";
  if (faults.length === 0) return 'Nothing planned.';
  return faults.map(({ what, times }) => `${times === null ? 'every call' : `${times}×`} ${what}`).join('; ');
}

/** @param {HTMLFormElement} form @param {ConsoleDocument | undefined} shown */
function previewAmount(form, shown) {
  const currency = field(form, 'currency').value.trim().toLowerCase();
  const amountMinor = Number(field(form, 'amountMinor').value);
  const digits = shown?.fractionDigits[currency] ?? 2;
  const isKnown = currency.length === 3 && Number.isInteger(amountMinor);
  say(
    'amount-preview',
    isKnown ? `${(amountMinor / 10 ** digits).toFixed(digits)} ${currency.toUpperCase()}` : '',
  );
}

/** @param {string} id @param {ConsoleDocument} shown */
const isTaken = (id, { operations }) => operations.rows.some(({ record }) => record.operationId === id);

/** The next free `J1`, `J2` and so on. @param {string} id @param {ConsoleDocument | undefined} shown */
function nextId(id, shown) {
  const [, name = 'J', number = '0'] = /^(.*?)(\d+)$/.exec(id) ?? [];
  for (let next = Number(number) + 1; ; next++) {
    const candidate = `${name}${next}`;
    if (!shown || !isTaken(candidate, shown)) return candidate;
  }
}
