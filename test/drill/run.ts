import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SingleBar } from 'cli-progress';
import { Command, CommanderError } from 'commander';
import * as z from 'zod/mini';
import type { LocalStack } from '../../local/stack';
import { type Drill, type DrillResult, runDrill } from './drill';
import { drills } from './drills';
import { isKept } from './judge';
import { reportPage } from './report';
import { documentOf, lineOf, table } from './text';

const options = z.object({
  only: z.optional(z.array(z.string())),
  json: z.optional(z.boolean()),
  report: z.string(),
});

const root = join(__dirname, '..', '..');

/** @returns the exit code: 0, 1 when a guarantee broke, 2 when it was called wrongly */
async function main(args: readonly string[]): Promise<number> {
  const program = new Command('npm run drill --')
    .description(
      'Puts the laptop stack under pressure, one drill after the other, and judges the guarantees.',
    )
    .option('--only <names...>', `runs some of: ${drills.map(({ name }) => name).join(', ')}`)
    .option('--json', 'ends with one line of JSON on stdout; all else goes to stderr')
    .option('--report <file>', 'where the page with the plots is written', join(root, 'drill-report.html'))
    .exitOverride();
  try {
    program.parse([...args], { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    throw error;
  }
  const { only, json: isJson = false, report } = options.parse(program.opts());
  const unknown = only?.filter((name) => !drills.some((drill) => drill.name === name)) ?? [];
  if (unknown.length > 0) {
    console.error(
      `There is no drill ${unknown.join(', ')}; there are ${drills.map(({ name }) => name).join(', ')}.`,
    );
    return 2;
  }
  const say = isJson ? console.error : console.log;
  const chosen = drills.filter(({ name }) => only === undefined || only.includes(name));
  const results = await runAll(chosen, say, isJson);
  writeFileSync(report, reportPage(results));
  say(`\n${table(results)}\n`);
  for (const { name, checks } of results)
    for (const check of checks.filter((one) => !isKept(one))) say(`BROKEN in ${name}: ${lineOf(check)}`);
  if (results.every(({ ok }) => ok)) say('Every guarantee and every bar holds.');
  say(`The plots are in ${report}`);
  if (isJson) console.log(JSON.stringify(documentOf(results)));
  return results.every(({ ok }) => ok) ? 0 : 1;
}

async function runAll(
  chosen: readonly Drill[],
  say: (line: string) => void,
  isJson: boolean,
): Promise<DrillResult[]> {
  let running: LocalStack | undefined;
  const interrupt = (signal: NodeJS.Signals) => {
    console.error(`\n${signal}: stopping.`);
    const stopped = running?.stop().catch(() => {}) ?? Promise.resolve();
    void stopped.then(() => process.exit(signal === 'SIGINT' ? 130 : 143));
  };
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
  const bar = progress(chosen.length, isJson);
  const results: DrillResult[] = [];
  for (const drill of chosen) {
    const result = await runDrill(drill, {
      onPhase: (phase) => bar?.update(results.length, { drill: `${drill.name}: ${phase}` }),
      onStack: (stack) => {
        running = stack;
      },
    });
    running = undefined;
    results.push(result);
    bar?.update(results.length, { drill: drill.name });
    const line = `${result.ok ? 'ok    ' : 'BROKEN'} ${drill.name} (${result.seconds.toFixed(0)} s)`;
    if (!bar) say(line);
  }
  bar?.stop();
  process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
  return results;
}

/** On a terminal only: elsewhere it would fill a log. */
function progress(total: number, isJson: boolean): SingleBar | undefined {
  const stream = isJson ? process.stderr : process.stdout;
  if (!stream.isTTY) return undefined;
  const bar = new SingleBar({ format: '{bar} {value}/{total} | {drill}', stream });
  bar.start(total, 0, { drill: '' });
  return bar;
}

main(process.argv.slice(2)).then(
  (exitCode) => {
    process.exitCode = exitCode;
  },
  (error: unknown) => {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  },
);
