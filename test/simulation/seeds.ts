import fc from 'fast-check';
import type { Mutant } from './mutants';
import { anyPlan, type Plan, planOf } from './plan';
import type { Results } from './results';
import { type Run, runPlan } from './world';

/** Runs the plan of one seed and counts what it reached. */
export async function runSeed(seed: number, mutant?: Mutant): Promise<Results> {
  const { violation, reached, operations, steps } = await runPlan(planOf(seed), mutant);
  return {
    seeds: 1,
    operations,
    steps,
    reached: Object.fromEntries(reached),
    broken: violation === undefined ? [] : [{ seed, violation }],
  };
}

/**
 * The smallest plan that fast-check finds in which the guarantee of a seed breaks too, and its run.
 * @param mostMs how long it looks for a smaller one
 */
export async function shrink(
  seed: number,
  mostMs = 60_000,
  mutant?: Mutant,
): Promise<{ readonly plan: Plan; readonly run: Run }> {
  const holds = fc.asyncProperty(
    anyPlan,
    async (plan) => (await runPlan(plan, mutant)).violation === undefined,
  );
  const { counterexample } = await fc.check(holds, { seed, numRuns: 1, interruptAfterTimeLimit: mostMs });
  const plan = counterexample?.[0] ?? planOf(seed);
  return { plan, run: await runPlan(plan, mutant) };
}
