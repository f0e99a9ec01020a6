import { mutants } from './mutants';
import { type Plan, planOf } from './plan';
import { none, type Results, sum, unreached } from './results';
import { runSeed, shrink } from './seeds';
import { runPlan } from './world';

const seeds = 2000;
/** So that a busy machine does not fail for its speed: what was run by then is judged. */
const mostMs = 150_000;

test(`every guarantee holds in the seeds 1 to ${seeds}, and all of them leave nothing unreached`, async () => {
  const startedMs = performance.now();
  let all: Results = none;
  for (let seed = 1; seed <= seeds && performance.now() - startedMs < mostMs; seed++)
    all = sum(all, await runSeed(seed));
  expect(all.broken).toEqual([]);
  if (all.seeds === seeds) expect(unreached(all)).toEqual([]);
  expect(all.operations).toBeGreaterThan(all.seeds);
}, 240_000);

test('the same seed is the same run, event by event', async () => {
  for (const seed of [3, 33, 333]) {
    const [first, second] = [await runPlan(planOf(seed)), await runPlan(planOf(seed))];
    expect(second.hash).toBe(first.hash);
    expect(second.trace).toEqual(first.trace);
  }
  expect((await runPlan(planOf(4))).hash).not.toBe((await runPlan(planOf(5))).hash);
});

test('a seed that breaks a guarantee shrinks to a plan that breaks it too', async () => {
  const planted = mutants.find(({ name }) => name === 'claim: effect');
  let seed = 1;
  while ((await runSeed(seed, planted)).broken.length === 0) seed += 1;
  const { plan, run } = await shrink(seed, 10_000, planted);
  const sizeOf = ({ operations, actions, faults, ambushes, on }: Plan) =>
    [operations, actions, faults, ambushes, on].flat().length;
  expect(run.violation).toMatch(/^G2 /);
  expect(run.trace.at(-1)).toContain(run.violation);
  expect(sizeOf(plan)).toBeLessThan(sizeOf(planOf(seed)));
}, 60_000);

test('what hides a planted bug is planted together with it', () => {
  const names = mutants.map(({ name }) => name);
  const hidden = mutants.flatMap((mutant) => mutant.hidden?.foundWith ?? []);
  expect(hidden.length).toBeGreaterThan(0);
  for (const name of hidden) expect(names).toContain(name);
  const pairs = mutants.filter(({ clause }) => clause !== undefined).map(({ name }) => name);
  expect(hidden).toEqual(expect.arrayContaining(pairs));
});

test.each([
  ['rule: key', /^G1 /],
  ['claim: effect', /^G2 /],
  ['rule: acknowledge first', /^G2 /],
  ['slot: hasRoom', /^G7 /],
])(
  'the planted bug "%s" breaks a guarantee',
  async (name, guarantee) => {
    const planted = mutants.find((mutant) => mutant.name === name);
    expect(planted).toBeDefined();
    for (let seed = 1; seed <= 500; seed++) {
      const [broken] = (await runSeed(seed, planted)).broken;
      if (!broken) continue;
      expect(broken.violation).toMatch(guarantee);
      return;
    }
    throw new Error('It was not found within 500 seeds');
  },
  60_000,
);
