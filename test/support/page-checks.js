// Runs in the browser, before a page's own scripts: what the tests of a page measure there.

let shiftSum = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    if (Reflect.get(entry, 'hadRecentInput') !== true) shiftSum += Number(Reflect.get(entry, 'value'));
  }
}).observe({ type: 'layout-shift', buffered: true });

Object.assign(globalThis, {
  pageChecks: {
    /** The sum of all layout shifts that no input explains: the metric CLS without its window, which only takes some. */
    shifts: () => shiftSum,
    cutControls,
    paleTexts,
  },
});

/** Buttons, choices and headings that stick out of the page, or whose text does not fit into them. */
function cutControls() {
  return [...document.querySelectorAll('button, input, select, h2')].flatMap((element) => {
    if (!(element instanceof HTMLElement) || element.offsetParent === null) return [];
    const { left, right } = element.getBoundingClientRect();
    const isOut = left < 0 || right > innerWidth;
    // A row's id may be long, and is told in full by its title.
    const mayBeCut = element.matches('input, .rowbutton, #detail-title');
    const isCut = !mayBeCut && element.scrollWidth > element.clientWidth + 1;
    return isOut || isCut ? [`${element.tagName}#${element.id} ${element.textContent}`] : [];
  });
}

/** Texts with less than WCAG AA's contrast of 4.5:1 on the ground that is painted behind them. */
function paleTexts() {
  const texts = [...document.querySelectorAll('body *')].filter((element) => {
    if (!(element instanceof HTMLElement) || element.offsetParent === null) return false;
    if (element.matches('option, :disabled')) return false;
    return [...element.childNodes].some(
      ({ nodeType, textContent }) => nodeType === Node.TEXT_NODE && textContent?.trim(),
    );
  });
  const shown = texts.map((element) => ({ element, colour: getComputedStyle(element).color }));
  const fields = [...document.querySelectorAll('input')].map((element) => ({
    element,
    colour: getComputedStyle(element, element.value ? null : '::placeholder').color,
  }));
  return [...shown, ...fields].flatMap(({ element, colour }) => {
    const [light = 0, dark = 0] = [luminance(rgba(colour)), luminance(groundOf(element))].sort(
      (a, b) => b - a,
    );
    const contrast = (light + 0.05) / (dark + 0.05);
    return contrast < 4.5 ? [`${contrast.toFixed(2)} ${element.outerHTML.slice(0, 100)}`] : [];
  });
}

/** @param {Element} element */
function groundOf(element) {
  for (let here = /** @type {Element | null} */ (element); here; here = here.parentElement) {
    const colour = rgba(getComputedStyle(here).backgroundColor);
    if ((colour[3] ?? 0) > 250) return colour;
  }
  return [255, 255, 255, 255];
}

/** Whatever form a colour is written in. @param {string} colour */
function rgba(colour) {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  if (!canvas) throw new Error('no canvas');
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
}

/** https://www.w3.org/TR/WCAG22/#dfn-relative-luminance @param {number[]} colour */
function luminance(colour) {
  const [red = 0, green = 0, blue = 0] = colour.slice(0, 3).map((channel) => {
    const share = channel / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
