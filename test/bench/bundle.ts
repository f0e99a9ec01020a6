import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build, type Format } from 'esbuild';
import { bundling } from '../../lib/service-function';
import { environment } from './bench';

/** Fresh processes that load each bundle. */
export const starts = 21;

const projectRoot = join(__dirname, '..', '..');

/** What is bundled, and how. The first two are as they would be deployed. */
const variants = [
  { title: 'our worker, cjs', entry: 'lambdas/work.ts', format: 'cjs', mainFields: bundling.mainFields },
  {
    title: 'the stock consumer, cjs',
    entry: 'test/bench/stock/handler.ts',
    format: 'cjs',
    mainFields: bundling.mainFields,
  },
  { title: 'our worker, esm', entry: 'lambdas/work.ts', format: 'esm', mainFields: bundling.mainFields },
  {
    title: 'our worker, cjs, `main` before `module`',
    entry: 'lambdas/work.ts',
    format: 'cjs',
    mainFields: ['main', 'module'],
  },
] as const satisfies readonly { title: string; entry: string; format: Format; mainFields: string[] }[];

export interface MeasuredBundle {
  readonly title: string;
  readonly kilobytes: number;
  readonly gzipKilobytes: number;
  /** Median. */
  readonly loadMs: number;
}

/** Size and module load of our worker and of the stock consumer as they are deployed, and of our worker otherwise. */
export async function measureBundles(folder: string): Promise<MeasuredBundle[]> {
  const files = await Promise.all(
    variants.map(({ entry, format, mainFields }, index) =>
      bundle(entry, join(folder, `${index}.${format === 'esm' ? 'mjs' : 'js'}`), format, mainFields),
    ),
  );
  const loads = medianLoads(files);
  return variants.map(({ title }, index) => {
    const code = readFileSync(files[index] ?? '');
    const gzipKilobytes = gzipSync(code).length / 1000;
    return { title, kilobytes: code.length / 1000, gzipKilobytes, loadMs: loads[index] ?? 0 };
  });
}

/** Bundles a program as functions are bundled for AWS. @returns the file */
export async function bundle(
  entry: string,
  outfile: string,
  format: Format = 'cjs',
  mainFields: readonly string[] = bundling.mainFields,
): Promise<string> {
  await build({
    entryPoints: [join(projectRoot, entry)],
    bundle: true,
    platform: 'node',
    outfile,
    format,
    mainFields: [...mainFields],
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
  const env = { ...process.env, ...environment(true) };
  for (let start = 0; start < starts; start++) {
    for (const [index, file] of files.entries()) {
      const program = `const t = performance.now(); import(${JSON.stringify(file)}).then(() => console.log(performance.now() - t))`;
      times[index]?.push(Number(execFileSync(process.execPath, ['-e', program], { encoding: 'utf8', env })));
    }
  }
  return times.map((measured) => measured.toSorted((a, b) => a - b)[Math.floor(starts / 2)] ?? 0);
}
