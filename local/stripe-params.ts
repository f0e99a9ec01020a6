/** Form parameters as Stripe nests them: `metadata[tenantId]=North` is `{ metadata: { tenantId: 'North' } }`. */
export interface Params {
  readonly [name: string]: string | Params;
}

interface MutableParams {
  [name: string]: string | MutableParams;
}

/**
 * Decodes a query string or a form body. `expand[]=a` and `expand[0]=a` both become `{ expand: { 0: 'a' } }`;
 * of two values for one name the last one wins.
 */
export function decodeParams(form: string): Params {
  const params = emptyParams();
  for (const [name, value] of new URLSearchParams(form)) place(params, segments(name), value);
  return params;
}

/** The text of one top-level parameter; undefined when it is absent or nested. */
export function text(params: Params, name: string): string | undefined {
  const value = params[name];
  return typeof value === 'string' ? value : undefined;
}

/** The text values below one top-level parameter, `{}` when there are none. */
export function textsBelow(params: Params, name: string): Record<string, string> {
  const value = params[name];
  if (value === undefined || typeof value === 'string') return {};
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => isText(entry[1])),
  );
}

/** One text for equal parameters, whatever order they were sent in. */
export function fingerprint(params: Params): string {
  const entries = Object.entries(params).map(([name, value]) => [
    name,
    isText(value) ? value : fingerprint(value),
  ]);
  return JSON.stringify(entries.sort(([a = ''], [b = '']) => (a < b ? -1 : 1)));
}

function isText(value: string | Params): value is string {
  return typeof value === 'string';
}

/** Without a prototype, so that a parameter called `__proto__` is a parameter like any other. */
function emptyParams(): MutableParams {
  return Object.create(null);
}

function segments(name: string): string[] {
  const bracket = name.indexOf('[');
  if (bracket <= 0) return [name];
  const inner = [...name.slice(bracket).matchAll(/\[([^\]]*)\]/g)].map((match) => match[1] ?? '');
  return [name.slice(0, bracket), ...inner];
}

function place(into: MutableParams, path: readonly string[], value: string): void {
  const [first = '', ...rest] = path;
  const name = first === '' ? String(Object.keys(into).length) : first;
  if (rest.length === 0) {
    into[name] = value;
    return;
  }
  const known = into[name];
  const below = known === undefined || typeof known === 'string' ? emptyParams() : known;
  into[name] = below;
  place(below, rest, value);
}
