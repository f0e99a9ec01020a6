/** A text as a terminal may show it: nothing in it moves the cursor, changes colours or hides a part. */
export const visible = (text: string): string => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '·');

/** Columns side by side, as wide as their widest cell. No line ends in white space. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows].map((row) => row.map(visible));
  const widths = headings.map((_, column) => Math.max(...lines.map((row) => row[column]?.length ?? 0)));
  return lines
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Names and values, one a line; those without a value are left out. */
export function fields(pairs: readonly (readonly [name: string, value: string | undefined])[]): string {
  const known = pairs.filter(([, value]) => value !== undefined);
  const width = Math.max(0, ...known.map(([name]) => name.length));
  return known.map(([name, value = '']) => `${name.padEnd(width)}  ${visible(value)}`).join('\n');
}

/** A length of time in its two largest units. Negative ones are 0 s. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const units = [
    ['d', 86_400],
    ['h', 3600],
    ['min', 60],
    ['s', 1],
  ] as const;
  const from = units.findIndex(([, size]) => seconds >= size);
  if (from === -1) return '0 s';
  let left = seconds;
  return units
    .slice(from, from + 2)
    .map(([name, size]) => {
      const count = Math.floor(left / size);
      left -= count * size;
      return count === 0 ? '' : `${count} ${name}`;
    })
    .filter((part) => part !== '')
    .join(' ');
}

/** ISO 8601 in UTC, to the second, and how far that is from now. */
export function moment(atMs: number | undefined, nowMs: number): string | undefined {
  if (atMs === undefined) return undefined;
  const distance = atMs > nowMs ? `in ${duration(atMs - nowMs)}` : `${duration(nowMs - atMs)} ago`;
  return `${iso(atMs)} (${distance})`;
}

/** ISO 8601 in UTC; undefined where there is no such time. */
export function iso(atMs: number): string;
export function iso(atMs: number | undefined): string | undefined;
export function iso(atMs: number | undefined): string | undefined {
  return atMs === undefined ? undefined : `${new Date(atMs).toISOString().slice(0, 19)}Z`;
}

export const counted = (count: number, one: string, many = `${one}s`): string =>
  `${count} ${count === 1 ? one : many}`;

export const yesNo = (claim: boolean): string => (claim ? 'yes' : 'no');
