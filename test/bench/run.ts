import { fork } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundle, measureBundles } from './bundle';
import type { Compared } from './compared';
import { page, table } from './page';
import type { Measured } from './process';
import { isBroken, type Results, rowsOf } from './rows';

/** Measures our worker against the stock consumer and writes docs/benchmarks.md. Exits with 1 when a bar is broken. */
async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'charge-once-bench-'));
  try {
    const program = await bundle('test/bench/process.ts', join(folder, 'process.js'));
    const results: Results = {
      noBounds: await measuredOften(program),
      bounds: await measuredBy(program, 'bounds'),
      ...(await measureBundles(folder)),
    };
    const rows = rowsOf(results);
    console.log(table(rows));
    writeFileSync(join(__dirname, '..', '..', 'docs', 'benchmarks.md'), page(results));
    const broken = rows.filter(isBroken);
    for (const { metric, ratio, bar } of broken)
      console.error(`${metric}: ${ratio.toFixed(2)} is above its bar, ${bar.toFixed(2)}`);
    if (process.argv.includes('--json')) console.log(JSON.stringify({ rows }));
    process.exitCode = broken.length > 0 ? 1 : 0;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** One process differs from the next by what V8 makes of the same code: of each time the middle one of several processes. */
async function measuredOften(program: string): Promise<Results['noBounds']> {
  const runs: Measured[] = [];
  for (let run = 0; run < processes; run++) runs.push(await measuredBy(program, 'no-bounds'));
  const [first] = runs;
  if (!first) throw new Error('Nothing was measured');
  const middle = (of: (run: Measured) => Compared | undefined): Compared => {
    const times = runs.map(of).filter((time) => time !== undefined);
    const [found] = times.toSorted((a, b) => a.ratio - b.ratio).slice(Math.floor(times.length / 2));
    if (!found) throw new Error('A time was not measured');
    return found;
  };
  if (!first.growth) throw new Error('Growth was not measured');
  return {
    counts: first.counts,
    growth: first.growth,
    freshMs: middle(({ freshMs }) => freshMs),
    duplicateMs: middle(({ duplicateMs }) => duplicateMs),
    elapsedMs: middle(({ elapsedMs }) => elapsedMs),
  };
}

const processes = 5;

/** Runs the program alone; what the handlers log goes nowhere. */
function measuredBy(program: string, kind: string): Promise<Measured> {
  const child = fork(program, [kind], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
  return new Promise((resolve, reject) => {
    // Both ends of the channel are this project's, of one build.
    child.once('message', (measured) =>
      typeof measured === 'string' ? reject(new Error(measured)) : resolve(measured as Measured),
    );
    child.once('exit', (code) => reject(new Error(`The measuring process ended with ${code}`)));
  });
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
