import { fork } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundle, measureBundles } from './bundle';
import { page, table } from './page';
import type { Measured } from './process';
import { isBroken, type Results, rowsOf } from './rows';

/** Measures our worker against the stock consumer and writes docs/benchmarks.md. Exits with 1 when a bar is broken. */
async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'charge-once-bench-'));
  try {
    const program = await bundle('test/bench/process.ts', join(folder, 'process.js'));
    const { elapsedMs, growth, ...noBounds } = await measuredBy(program, 'no-bounds');
    if (!elapsedMs || !growth) throw new Error('Time and growth were not measured');
    const bounds = await measuredBy(program, 'bounds');
    const results: Results = {
      noBounds: { ...noBounds, elapsedMs, growth },
      bounds,
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
