import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Measured, measure } from './measure';
import { withTables } from './tables';

/** `npm run scale` works the tables of docs/scale.md out again; with `-- --measure` it counts first. */
async function main(): Promise<void> {
  const { values } = parseArgs({ options: { measure: { type: 'boolean' } } });
  const countsFile = join(__dirname, 'counts.json');
  if (values.measure) writeFileSync(countsFile, `${JSON.stringify(await measure(), undefined, 2)}\n`);
  const measured: Measured = JSON.parse(readFileSync(countsFile, 'utf8'));
  const page = join(__dirname, '..', '..', '..', 'docs', 'scale.md');
  writeFileSync(page, withTables(readFileSync(page, 'utf8'), measured));
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
