import type { AllCounts, Both } from './bench';
import { countRows, isBroken, type Row } from './rows';

/** The counts of a process of its own, with the real handlers on the table and the provider in memory. */
async function counted(hasBounds: boolean): Promise<Both<AllCounts>> {
  let counts: Both<AllCounts> | undefined;
  await jest.isolateModulesAsync(async () => {
    const { countAll, openBench } = await import('./bench');
    counts = await countAll(await openBench(hasBounds));
  });
  if (!counts) throw new Error('nothing was counted');
  return counts;
}

let noBounds: Both<AllCounts>;
let bounds: Both<AllCounts>;
const { fetch } = globalThis;
const before = { ...process.env };
const { now } = Date;
beforeAll(async () => {
  for (const level of ['log', 'info', 'warn', 'error', 'debug'] as const)
    jest.spyOn(console, level).mockImplementation(() => {});
  process.env.POWERTOOLS_DEV = 'true';
  noBounds = await counted(false);
  bounds = await counted(true);
});
afterAll(() => {
  jest.restoreAllMocks();
  globalThis.fetch = fetch;
  process.env = before;
  Date.now = now;
});

test('a fresh operation is one provider call, a claim and a settle, and its share of what a batch reads and counts', () => {
  const { fresh } = noBounds.ours;
  expect(fresh).toMatchObject({
    providerCalls: 1,
    writeUnits: 2,
    providerWriteUnits: 0.1,
    indexWriteUnits: 0,
  });
  expect(fresh.calls).toBeLessThanOrEqual(2.3);
});

test('with bounds a fresh operation is two writes more', () => {
  const { fresh } = bounds.ours;
  expect(fresh).toMatchObject({
    providerCalls: 1,
    writeUnits: 4,
    providerWriteUnits: 0.1,
    indexWriteUnits: 0,
  });
  expect(fresh.calls).toBeLessThanOrEqual(4.4);
});

test.each([
  ['without bounds', () => noBounds],
  ['with bounds', () => bounds],
])('a duplicate of a done operation is its share of one batch read, %s', (_, counts) => {
  const { duplicate } = counts().ours;
  expect(duplicate).toMatchObject({ calls: 0.1, providerCalls: 0, writeUnits: 0, providerWriteUnits: 0 });
});

test('a crashed operation is called for twice, and never in the index', () => {
  expect(bounds.ours.crashed).toMatchObject({ providerCalls: 2, indexWriteUnits: 0 });
  expect(noBounds.ours.crashed).toMatchObject({ providerCalls: 2, writeUnits: 3 });
});

test('the stock consumer takes what it was measured to take on an emulator', () => {
  expect(noBounds.stock).toMatchObject({
    fresh: { providerCalls: 1, calls: 2, writeUnits: 2 },
    duplicate: { providerCalls: 0, calls: 1, writeUnits: 1 },
    crashed: { providerCalls: 2, calls: 3, writeUnits: 3 },
  });
});

test('no count is above its bar, and a bar can be broken', () => {
  expect(countRows({ counts: noBounds }, { counts: bounds }).filter(isBroken)).toEqual([]);
  const row: Row = { metric: 'calls', ours: 2.4, stock: 2, ratio: 1.2, bar: 1.15 };
  expect(isBroken(row)).toBe(true);
  expect(isBroken({ ...row, ours: 1, stock: 0, ratio: Number.POSITIVE_INFINITY })).toBe(true);
  expect(isBroken({ ...row, bar: 1.2 })).toBe(false);
});
