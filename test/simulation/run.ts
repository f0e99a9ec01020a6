import type { ChildProcess } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { SingleBar } from 'cli-progress';
import { endChild, forkTypeScript } from '../../local/child';
import { beginMs } from './jobs';
import { type Mutant, mutants } from './mutants';
import { planOf } from './plan';
import { none, type Request, type Results, results, sum, unreached } from './results';
import { shrink } from './seeds';
import { runPlan } from './world';

const usage = `npm run simulate -- [options]

  --seeds N     runs the seeds 1 to N (2000)
  --seed S      runs one seed and prints everything that happens in it
  --json        prints one JSON document
  --mutants     plants each known bug, and counts the seeds until a guarantee breaks
  --only TEXT   plants those whose name has the text
  --most N      gives up on a bug after N seeds (5000): more say that the simulation is too weak
  --write       puts what was found into docs/proof.md

Ends with 1 when a guarantee broke, when a kind of fault was never reached, or when a planted bug was not found.`;

/** Seeds that a process runs at a time. */
const chunk = 20;

async function main(): Promise<boolean> {
  const { values } = parseArgs({
    options: {
      seeds: { type: 'string', default: '2000' },
      seed: { type: 'string' },
      json: { type: 'boolean', default: false },
      mutants: { type: 'boolean', default: false },
      only: { type: 'string' },
      most: { type: 'string', default: '5000' },
      write: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(usage);
    return true;
  }
  if (values.seed !== undefined) return replay(numberOf(values.seed, 'seed'));
  if (values.mutants) return plantAll(values.only, numberOf(values.most, 'most'), values.json, values.write);
  return simulate(numberOf(values.seeds, 'seeds'), values.json, values.write);
}

function numberOf(text: string, name: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 0 || number > 0x7fffffff)
    throw new Error(`--${name} is ${text}; it must be a whole number from 0 to ${0x7fffffff}`);
  return number;
}

async function replay(seed: number): Promise<boolean> {
  const { trace, violation, hash } = await runPlan(planOf(seed));
  console.log(JSON.stringify(planOf(seed), undefined, 2));
  print(trace);
  console.log(`seed ${seed}: ${violation ?? 'every guarantee holds'} (trace ${hash.slice(0, 16)})`);
  return violation === undefined;
}

/** With the time since the plan began, as hours:minutes:seconds. */
function print(trace: readonly string[]): void {
  for (const line of trace) {
    const [at = '', ...what] = line.split(' ');
    const sinceMs = Number(at) - beginMs;
    const clock = new Date(sinceMs).toISOString().slice(14, 23);
    console.log(`${Math.floor(sinceMs / 3_600_000)}:${clock} ${what.join(' ')}`);
  }
}

async function simulate(seeds: number, isJson: boolean, isWritten: boolean): Promise<boolean> {
  const startedMs = performance.now();
  let all = none;
  let next = 1;
  const bar = progress(seeds, !isJson);
  await inProcesses(async (run) => {
    while (next <= seeds) {
      const from = next;
      next = Math.min(next + chunk, seeds + 1);
      const part = await run({ from, to: next });
      all = sum(all, part);
      bar?.update(all.seeds, { broken: all.broken.length });
    }
  });
  bar?.stop();
  const seconds = (performance.now() - startedMs) / 1000;
  const missing = unreached(all);
  if (isWritten) writePage('figures', figuresOf(all, seconds));
  if (isJson) {
    const { broken, reached, ...counts } = all;
    console.log(
      JSON.stringify({
        broken,
        unreached: missing,
        ...counts,
        seconds: Number(seconds.toFixed(1)),
        violations: broken.length,
        ...reached,
      }),
    );
  } else {
    report(all, missing, seconds);
    const [first] = all.broken;
    if (first) await explain(first.seed);
  }
  return all.broken.length === 0 && missing.length === 0;
}

function report(
  { seeds, operations, steps, reached, broken }: Results,
  missing: readonly string[],
  seconds: number,
) {
  console.log(`${seeds} seeds in ${seconds.toFixed(1)} s: ${operations} operations, ${steps} steps`);
  const counts = Object.entries(reached).map(([name, count]) => `${name} ${count}`);
  console.log(`Reached: ${counts.join(', ')}`);
  console.log(missing.length === 0 ? 'Nothing was left unreached.' : `Never reached: ${missing.join(', ')}`);
  for (const { seed, violation } of broken) console.log(`BROKEN in seed ${seed}: ${violation}`);
  if (broken.length === 0) console.log('Every guarantee holds in every seed.');
}

/** What pressure there was, for the page. */
function figuresOf({ seeds, operations, steps, reached, broken }: Results, seconds: number): string[] {
  const number = (count: number) => count.toLocaleString('en').replaceAll(',', ' ');
  const count = (...names: readonly string[]) =>
    number(names.reduce((total, name) => total + (reached[name] ?? 0), 0));
  return [
    `\`npm run simulate -- --seeds ${seeds}\`, on ${availableParallelism()} processors, ${Math.round(seconds)} s: ${number(broken.length)} violations.`,
    '',
    '| | |',
    '|---|---|',
    `| operations | ${number(operations)} |`,
    `| steps | ${number(steps)} |`,
    `| crashes | ${count('crashBefore', 'crashInFlight', 'crashAfter')} |`,
    `| messages delivered or sent twice | ${count('duplicate', 'sendAgain', 'sendInOtherVersion')} |`,
    `| leases that lapsed | ${count('leaseLapsed')} |`,
    `| answers lost | ${count('loseAnswer', 'resetAfter', 'savedErrorAfter')} |`,
    `| messages that reached the dead-letter queue | ${count('deadLettered')} |`,
    `| of them redriven an hour or more later | ${count('redrivenLate')} |`,
    `| somebody came in between a look and its write | ${count('ambush')} |`,
    `| requests refused or throttled, or that hung | ${count('throttle', 'refused', 'rateLimited', 'stall', 'slow', 'loseRequest', 'late')} |`,
    `| replays | ${count('replayed')} |`,
    `| absences proven | ${count('absenceProven')} |`,
  ];
}

async function explain(seed: number): Promise<void> {
  const { plan, run } = await shrink(seed);
  console.log(`\nThe smallest plan found for seed ${seed}:\n${JSON.stringify(plan)}`);
  print(run.trace);
  console.log(`\nnpm run simulate -- --seed ${seed} replays the seed as it was.`);
}

interface Planted {
  readonly mutant: Mutant;
  /** Seeds until it was found; undefined if it was not. */
  readonly seeds: number | undefined;
  readonly violation: string;
  /** What the bug beside the clause breaks by itself: then the pair says nothing of the clause. */
  readonly alone?: string;
}

async function plantAll(
  only: string | undefined,
  mostSeeds: number,
  isJson: boolean,
  isWritten: boolean,
): Promise<boolean> {
  const chosen = mutants.filter(({ name }) => only === undefined || name.includes(only));
  // Those that should be found come first.
  const waiting = chosen.toSorted((a, b) => Number(a.hidden !== undefined) - Number(b.hidden !== undefined));
  const found: Planted[] = [];
  const bar = progress(chosen.length, !isJson);
  await inProcesses(async (run) => {
    for (let mutant = waiting.shift(); mutant; mutant = waiting.shift()) {
      const planted = await plant(run, mutant, mostSeeds);
      found.push(planted);
      if (!isJson && !bar) console.log(lineOf(planted));
      if (isWritten) writePage('planted bugs', tablesOf(inOrderOf(found), mostSeeds));
      bar?.update(found.length, { broken: found.filter(({ seeds }) => seeds !== undefined).length });
    }
  });
  bar?.stop();
  const inOrder = inOrderOf(found);
  if (isJson)
    console.log(JSON.stringify(inOrder.map(({ mutant, ...one }) => ({ name: mutant.name, ...one }))));
  else if (bar) for (const one of inOrder) console.log(lineOf(one));
  const isFound = ({ seeds, alone }: Planted) => seeds !== undefined && alone === undefined;
  const isShown = (name: string) =>
    only !== undefined || inOrder.some((one) => one.mutant.name === name && isFound(one));
  return inOrder.every((one) => isFound(one) || (one.mutant.hidden && isShown(one.mutant.hidden.foundWith)));
}

async function plant(run: Run, mutant: Mutant, mostSeeds: number): Promise<Planted> {
  const { name } = mutant;
  // What is hidden is looked for a little, so that a wrong reason shows.
  const most = mutant.hidden === undefined ? mostSeeds : Math.ceil(mostSeeds / 10);
  const [first] = (await run({ from: 1, to: most + 1, mutant: name })).broken;
  const planted = { mutant, seeds: first?.seed, violation: first?.violation ?? '' };
  if (!first || mutant.clause === undefined) return planted;
  const to = Math.max(first.seed, 500) + 1;
  const [alone] = (await run({ from: 1, to, mutant: name, isAlone: true })).broken;
  return alone ? { ...planted, alone: `seed ${alone.seed}: ${alone.violation}` } : planted;
}

const inOrderOf = (found: readonly Planted[]): Planted[] =>
  found.toSorted((a, b) => mutants.indexOf(a.mutant) - mutants.indexOf(b.mutant));

function lineOf({ mutant, seeds, violation, alone }: Planted): string {
  const { name, hidden } = mutant;
  if (alone !== undefined) return `${name}: breaks without the clause's bug too, ${alone}`;
  if (seeds !== undefined) return `${name}: seed ${seeds}, ${violation}`;
  return hidden ? `${name}: hidden, see ${hidden.foundWith}` : `${name}: NOT FOUND`;
}

function tablesOf(found: readonly Planted[], mostSeeds: number): string[] {
  const rows = ({ mutant: { name, bug }, seeds, violation }: Planted) =>
    `| ${name} | ${bug} | ${seeds} | ${violation.split(' ')[0]} |`;
  const seen = found.filter(({ seeds }) => seeds !== undefined);
  const unseen = found.filter(({ seeds }) => seeds === undefined);
  return [
    '| clause or rule | planted bug | seeds until found | guarantee that broke |',
    '|---|---|---|---|',
    ...seen.map(rows),
    '',
    `Not found alone within ${Math.ceil(mostSeeds / 10)} seeds, because something else prevents the same, and found together with that:`,
    '',
    '| clause or rule | planted bug | what else prevents it | found together as |',
    '|---|---|---|---|',
    ...unseen.map(
      ({ mutant: { name, bug, hidden } }) =>
        `| ${name} | ${bug} | ${hidden?.by ?? `Not found within ${mostSeeds} seeds.`} | ${hidden?.foundWith ?? ''} |`,
    ),
  ];
}

/** Replaces a part of docs/proof.md. */
function writePage(part: string, lines: readonly string[]): void {
  const page = join(__dirname, '..', '..', 'docs', 'proof.md');
  const text = readFileSync(page, 'utf8');
  const begin = `<!-- begin: ${part} -->`;
  const end = `<!-- end: ${part} -->`;
  const [before, rest = ''] = text.split(begin);
  const [, after] = rest.split(end);
  if (after === undefined) throw new Error(`docs/proof.md has no part "${part}"`);
  writeFileSync(page, `${before}${begin}\n\n${lines.join('\n')}\n\n${end}${after}`);
}

/** On a terminal only: elsewhere it would fill a log. */
function progress(total: number, isWanted: boolean): SingleBar | undefined {
  if (!isWanted || !process.stdout.isTTY) return undefined;
  const bar = new SingleBar({ format: '{bar} {value}/{total} | broken {broken} | {eta} s left' });
  bar.start(total, 0, { broken: 0 });
  return bar;
}

type Run = (of: Request) => Promise<Results>;

/** Does the same work in one process for each processor, each with a child that runs seeds. */
async function inProcesses(work: (run: Run) => Promise<void>): Promise<void> {
  const children = Array.from({ length: availableParallelism() }, startChild);
  try {
    await Promise.all(children.map((child) => work((of) => ask(child, of))));
  } finally {
    await Promise.all(children.map((child) => endChild(child)));
  }
}

const startChild = (): ChildProcess =>
  forkTypeScript(join(__dirname, 'seeds-process.ts'), {}, (line) => console.error(line));

function ask(child: ChildProcess, of: Request): Promise<Results> {
  const answer = Promise.withResolvers<Results>();
  const die = () => answer.reject(new Error('A process that runs seeds ended by itself'));
  child.once('message', (message) => {
    child.off('exit', die);
    answer.resolve(results.parse(message));
  });
  child.once('exit', die);
  child.send(of);
  return answer.promise;
}

main().then(
  (isWell) => {
    process.exitCode = isWell ? 0 : 1;
  },
  (error: unknown) => {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 2;
  },
);
