import { crc32, deflateSync, inflateSync } from 'node:zlib';

/**
 * The same picture in 256 of its colours: a third of the size for a picture of text on plain grounds.
 * @param png as a browser takes it: eight bits a channel, RGB or RGBA (what shows through is not kept), not interlaced
 * https://www.w3.org/TR/png-3/
 */
export function smallPng(png: Buffer): Buffer {
  const { width, height, colours } = pixelsOf(png);
  const palette = paletteOf(colours);
  const places = new Map<number, number>();
  const placeOf = (colour: number): number => {
    const place = places.get(colour) ?? nearest(palette, colour);
    places.set(colour, place);
    return place;
  };
  const lines = Buffer.alloc(height * (width + 1));
  for (const [index, colour] of colours.entries())
    lines[Math.floor(index / width) * (width + 1) + 1 + (index % width)] = placeOf(colour);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  return Buffer.concat([
    png.subarray(0, 8),
    chunk('IHDR', header),
    chunk('PLTE', Buffer.from(palette.flatMap(channels))),
    chunk('IDAT', deflateSync(lines, { level: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

/** Of the colours that are nearly the same, the one that occurs most: so rare colours are kept too. */
function paletteOf(colours: Uint32Array): number[] {
  const counts = new Map<number, number>();
  for (const colour of colours) counts.set(colour, (counts.get(colour) ?? 0) + 1);
  const commonest = [...counts].sort(([, a], [, b]) => b - a);
  const groups = Map.groupBy(commonest, ([colour]) => colour & 0xf0_f0_f0);
  const ranked = [...groups.values()].map((group) => ({
    colour: group[0]?.[0] ?? 0,
    count: group.reduce((sum, [, count]) => sum + count, 0),
  }));
  const shown = ranked.sort((a, b) => b.count - a.count).map(({ colour }) => colour);
  // What is left of the palette takes the commonest of the others, such as two grounds that are nearly the same.
  return [...new Set([...shown.slice(0, 192), ...commonest.map(([colour]) => colour)])].slice(0, 256);
}

const channels = (colour: number): number[] => [colour >> 16, (colour >> 8) & 255, colour & 255];

function nearest(palette: readonly number[], colour: number): number {
  const distance = (other: number): number => {
    const [r = 0, g = 0, b = 0] = channels(other).map((channel, index) => channel - (wanted[index] ?? 0));
    return r * r + g * g + b * b;
  };
  const wanted = channels(colour);
  const distances = palette.map(distance);
  return distances.indexOf(Math.min(...distances));
}

function chunk(type: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(data.length);
  const check = Buffer.alloc(4);
  check.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, check]);
}

/** One number for each pixel, `0xRRGGBB`. */
function pixelsOf(png: Buffer): { width: number; height: number; colours: Uint32Array } {
  const data: Buffer[] = [];
  for (let at = 8; at < png.length; at += 12 + png.readUInt32BE(at)) {
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT')
      data.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)));
  }
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)];
  const step = png[25] === 6 ? 4 : 3;
  const bytes = unfiltered(inflateSync(Buffer.concat(data)), width * step, height, step);
  const colours = new Uint32Array(width * height);
  for (let index = 0; index < colours.length; index++) colours[index] = bytes.readUIntBE(index * step, 3);
  return { width, height, colours };
}

/** Undoes the filters of the lines. https://www.w3.org/TR/png-3/#9Filter-types */
function unfiltered(raw: Buffer, lineBytes: number, height: number, step: number): Buffer {
  const bytes = Buffer.alloc(height * lineBytes);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (lineBytes + 1)];
    for (let x = 0; x < lineBytes; x++) {
      const at = y * lineBytes + x;
      const left = x < step ? 0 : (bytes[at - step] ?? 0);
      const above = y === 0 ? 0 : (bytes[at - lineBytes] ?? 0);
      const corner = x < step || y === 0 ? 0 : (bytes[at - lineBytes - step] ?? 0);
      const predicted = [0, left, above, (left + above) >> 1, paeth(left, above, corner)][filter ?? 0] ?? 0;
      bytes[at] = ((raw[y * (lineBytes + 1) + 1 + x] ?? 0) + predicted) & 255;
    }
  }
  return bytes;
}

function paeth(left: number, above: number, corner: number): number {
  const [a, b, c] = [Math.abs(above - corner), Math.abs(left - corner), Math.abs(left + above - 2 * corner)];
  if (a <= b && a <= c) return left;
  return b <= c ? above : corner;
}
