/** @import { ConsoleDocument } from '../document' */
import { createControls } from './controls.js';
import { byId, clockTime, duration, say, setAttribute, setText } from './draw.js';
import { createOperations } from './operations.js';
import { showPanels } from './panels.js';

/** @type {ConsoleDocument | undefined} */
let shown;
const stackNow = () => Date.now() + (shown?.clockOffsetMs ?? 0);

const operations = createOperations();
const controls = createControls(operations.selected);

/** Draws the latest document once a frame at most. */
function draw() {
  if (!shown) return;
  const nowMs = stackNow();
  operations.show(shown, nowMs);
  showPanels(shown, nowMs);
  controls.show(shown);
  tell(shown);
}

let isDue = false;
function drawSoon() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    draw();
  });
}
operations.onSelect(drawSoon);

function tick() {
  if (!shown) return;
  const offsetMs = shown.clockOffsetMs;
  say('clock', clockTime(stackNow()));
  say('clock-offset', offsetMs > 0 ? `${duration(offsetMs)} ahead` : '');
  drawSoon();
}
setInterval(tick, 1000);

let toldAtMs = 0;
/** The state of things in one sentence, for whoever cannot see it: not more often than it can be listened to. */
function tell(/** @type {ConsoleDocument} */ { operations: { total, byState }, queue, deadLetters }) {
  const states = Object.entries(byState).filter(([, count]) => count > 0);
  const parts = states.map(([state, count]) => `${count} ${state}`);
  const summary = `${total} operations${parts.length > 0 ? `: ${parts.join(', ')}` : ''}. Queue ${
    queue.visible + queue.inFlight + queue.delayed
  }, dead letters ${deadLetters.total}.`;
  const element = byId('summary', HTMLElement);
  if (element.textContent === summary || Date.now() - toldAtMs < 2000) return;
  toldAtMs = Date.now();
  setText(element, summary);
}

/** @param {'yes' | 'no'} isLive @param {string} said */
function showLink(isLive, said) {
  setAttribute(byId('link', HTMLElement), 'data-live', isLive);
  say('link-text', said);
}

// The browser connects again by itself; the next document then says all.
const events = new EventSource('/events');
events.addEventListener('open', () => showLink('yes', 'Live'));
events.addEventListener('error', () => showLink('no', 'Not connected'));
events.addEventListener('message', ({ data }) => {
  const isFirst = shown === undefined;
  shown = JSON.parse(data);
  if (isFirst) tick();
  drawSoon();
});
