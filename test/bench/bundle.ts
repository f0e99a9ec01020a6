import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build, type Format } from 'esbuild';
import { bundling } from '../../lib/service-function';

const starts = 21;
const projectRoot = join(__dirname, '..', '..');
const variants: readonly { format: Format; mainFields: string[] }[] = [
  { format: 'cjs', mainFields: bundling.mainFields },
  { format: 'esm', mainFields: bundling.mainFields },
  { format: 'cjs', mainFields: ['main', 'module'] },
];

/** Bundles the worker in each format, measures size and module load, and writes docs/benchmarks.md. */
async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'charge-once-bench-'));
  try {
    const files = await Promise.all(variants.map((variant) => bundle(folder, variant)));
    const loads = medianLoads(files);
    const rows = variants.map(({ format, mainFields }, index) => {
      const code = readFileSync(files[index] ?? '');
      const [load = 0, first = 1] = [loads[index], loads[0]];
      return `| ${format}, ${mainFields.join(' before ')} | ${kilobytes(code.length)} | ${kilobytes(gzipSync(code).length)} | ${load.toFixed(0)} | ${(load / first).toFixed(2)} |`;
    });
    const table = [
      '| bundle of `lambdas/work.ts` | kB | kB gzip | load, ms | ratio |',
      '|---|---|---|---|---|',
      ...rows,
    ].join('\n');
    console.log(table);
    writeFileSync(join(projectRoot, 'docs', 'benchmarks.md'), page(table));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function bundle(folder: string, { format, mainFields }: (typeof variants)[number]): Promise<string> {
  const outfile = join(folder, `${format}-${mainFields[0]}.${format === 'esm' ? 'mjs' : 'js'}`);
  await build({
    entryPoints: [join(projectRoot, 'lambdas', 'work.ts')],
    bundle: true,
    platform: 'node',
    outfile,
    format,
    mainFields,
    target: bundling.target,
    minify: bundling.minify,
    sourcemap: bundling.sourceMap,
    sourcesContent: bundling.sourcesContent,
    ...(format === 'esm' && {
      banner: {
        js: "import { createRequire } from 'node:module';const require = createRequire(import.meta.url);",
      },
    }),
  });
  return outfile;
}

/** Medians of the module's load in fresh processes, the variants in turns so that they share the machine's moods. */
function medianLoads(files: readonly string[]): number[] {
  const times = files.map((): number[] => []);
  for (let start = 0; start < starts; start++) {
    for (const [index, file] of files.entries()) {
      const program = `const t = performance.now(); import(${JSON.stringify(file)}).then(() => console.log(performance.now() - t))`;
      times[index]?.push(Number(execFileSync(process.execPath, ['-e', program], { encoding: 'utf8' })));
    }
  }
  return times.map((measured) => measured.toSorted((a, b) => a - b)[Math.floor(starts / 2)] ?? 0);
}

const kilobytes = (bytes: number): string => (bytes / 1000).toFixed(0);

const page = (table: string): string => `# Benchmarks

Written by \`npm run bench\`. Times are medians of ${starts} fresh processes on one machine, in turns; the ratios say more than
the milliseconds do.

## The worker's bundle

${table}

Everything is inside, minified. CommonJS is what is deployed, because it loads fastest; the packages' ES modules come first,
because only from them can the bundler leave out what nobody uses.
`;

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
