/**
 * The element of that id, which index.html has.
 * @template {HTMLElement} T
 * @param {string} id
 * @param {new () => T} kind
 * @returns {T}
 */
export function byId(id, kind) {
  const element = document.getElementById(id);
  if (element instanceof kind) return element;
  throw new Error(`index.html has no ${kind.name} #${id}`);
}

/** @param {string} id @param {string} said */
export const say = (id, said) => setText(byId(id, HTMLElement), said);

/**
 * Touches the document only where something differs, so that an unchanged page costs nothing.
 * @param {Element} element @param {string} said
 */
export function setText(element, said) {
  if (element.textContent !== said) element.textContent = said;
}

/** @param {Element} element @param {string} name @param {string | undefined} value */
export function setAttribute(element, name, value) {
  if (value === undefined) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/**
 * Shows one child for each item. Children are kept by their place, not by their item: a new first item changes
 * what the rows say and moves none of them, so nothing jumps under the reader's eye or pointer.
 * @template Item
 * @param {Element} parent
 * @param {readonly Item[]} items
 * @param {() => Element} create
 * @param {(child: Element, item: Item) => void} update
 */
export function fill(parent, items, create, update) {
  while (parent.children.length > items.length) parent.lastElementChild?.remove();
  for (const [place, item] of items.entries()) {
    const child = parent.children[place] ?? parent.appendChild(create());
    update(child, item);
  }
}

/**
 * An element with children.
 * @param {string} tag @param {string} className @param {...(Element | string)} children
 */
export function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

/** A table row of empty cells. @param {readonly string[]} classNames */
export const makeRow = (classNames) => make('tr', '', ...classNames.map((name) => make('td', name)));

/** @param {Element} row @param {number} place @returns {Element} */
export function cell(row, place) {
  const found = row.children[place];
  if (!found) throw new Error(`the row has no cell ${place}`);
  return found;
}

/** One-line cells may be cut, so what they say is their title too. @param {Element} element @param {string} said */
export function setCut(element, said) {
  setText(element, said);
  setAttribute(element, 'title', said || undefined);
}

/** @param {string} id @param {boolean} isEmpty @param {string} [said] */
export function showEmpty(id, isEmpty, said) {
  const element = byId(id, HTMLElement);
  element.hidden = !isEmpty;
  if (said !== undefined) setText(element, said);
}

/** `12:04:31`, in UTC. @param {number} ms */
export const clockTime = (ms) => new Date(ms).toISOString().slice(11, 19);

/** `12:04:31.120`, in UTC. @param {number} ms */
export const preciseTime = (ms) => new Date(ms).toISOString().slice(11, 23);

/** With its day where that is not today's. @param {number} ms @param {number} nowMs */
export function dayAndTime(ms, nowMs) {
  const [day = '', time = ''] = new Date(ms).toISOString().split('T');
  const isToday = day === new Date(nowMs).toISOString().slice(0, 10);
  return isToday ? time.slice(0, 8) : `${day.slice(5)} ${time.slice(0, 8)}`;
}

/** `5 s`, `12 min`, `3 h`, `2 d`: how long something is, to one unit. @param {number} ms */
export function duration(ms) {
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** @param {number} count @param {string} one @param {string} [many] */
export const counted = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;
