import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build, type Format } from 'esbuild';
import { bundling, replaced } from '../../lib/service-function';
import { environment } from './bench';
import { type Compared, compared, median } from './compared';

/** Fresh processes that load each bundle. */
export const starts = 41;

const projectRoot = join(__dirname, '..', '..');

interface How {
  readonly format: Format;
  readonly mainFields: readonly string[];
  /** Files in place of packages, from the project's root. */
  readonly alias: Readonly<Record<string, string>>;
}

const asMostTeams: How = { format: 'cjs', mainFields: bundling.mainFields, alias: {} };
const asDeployed: How = { ...asMostTeams, alias: replaced };
const worker = 'lambdas/work.ts';

/** What is bundled, and how. The first two are as they would be deployed. */
const variants: readonly (How & { readonly title: string; readonly entry: string })[] = [
  { title: 'our worker, cjs', entry: worker, ...asDeployed },
  { title: 'the stock consumer, cjs', entry: 'test/bench/stock/handler.ts', ...asMostTeams },
  { title: 'our worker, cjs, with all sources of credentials', entry: worker, ...asMostTeams },
  { title: 'our worker, esm', entry: worker, ...asDeployed, format: 'esm' },
  {
    title: 'our worker, cjs, `main` before `module`',
    entry: worker,
    ...asDeployed,
    mainFields: ['main', 'module'],
  },
];

export interface MeasuredBundle {
  readonly title: string;
  readonly kilobytes: number;
  readonly gzipKilobytes: number;
  /** Median. */
  readonly loadMs: number;
}

export interface Bundles {
  readonly bundles: readonly MeasuredBundle[];
  /** Milliseconds of the first two's module load. */
  readonly load: Compared;
}

/** Size and module load of our worker and of the stock consumer as they are deployed, and of our worker otherwise. */
export async function measureBundles(folder: string): Promise<Bundles> {
  const files = await Promise.all(
    variants.map(({ entry, ...how }, index) =>
      bundle(entry, join(folder, `${index}.${how.format === 'esm' ? 'mjs' : 'js'}`), how),
    ),
  );
  const loads = loadsOf(files);
  const bundles = variants.map(({ title }, index) => {
    const code = readFileSync(files[index] ?? '');
    const gzipKilobytes = gzipSync(code).length / 1000;
    return { title, kilobytes: code.length / 1000, gzipKilobytes, loadMs: median(loads[index] ?? []) };
  });
  const [ours = [], stock = []] = loads;
  return { bundles, load: compared({ ours, stock }) };
}

/** Bundles a program with everything inside, as most teams would if nothing else is said. @returns the file */
export async function bundle(
  entry: string,
  outfile: string,
  { format, mainFields, alias }: How = asMostTeams,
): Promise<string> {
  await build({
    entryPoints: [join(projectRoot, entry)],
    bundle: true,
    platform: 'node',
    outfile,
    format,
    mainFields: [...mainFields],
    alias: { ...alias },
    absWorkingDir: projectRoot,
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

/** Milliseconds of the module's load in fresh processes, the variants in turns so that they share the machine's moods. */
function loadsOf(files: readonly string[]): number[][] {
  const times = files.map((): number[] => []);
  const env = { ...process.env, ...environment(true) };
  for (let start = 0; start < starts; start++) {
    for (const [index, file] of files.entries()) {
      const program = `const t = performance.now(); import(${JSON.stringify(file)}).then(() => console.log(performance.now() - t))`;
      times[index]?.push(Number(execFileSync(process.execPath, ['-e', program], { encoding: 'utf8', env })));
    }
  }
  return times;
}
