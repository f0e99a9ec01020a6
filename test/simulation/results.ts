import * as z from 'zod/mini';
import { type Situation, type Switch, situations, switches } from './plan';

/** What a process is asked for: seeds from `from` to before `to`, perhaps until one of them breaks. */
export const request = z.object({
  from: z.number(),
  to: z.number(),
  mutant: z.optional(z.string()),
  /** Of a pair of bugs: only the one beside the clause. */
  isAlone: z.optional(z.boolean()),
});
export type Request = z.infer<typeof request>;

export const results = z.object({
  seeds: z.number(),
  operations: z.number(),
  steps: z.number(),
  reached: z.record(z.string(), z.number()),
  broken: z.array(z.object({ seed: z.number(), violation: z.string() })),
});
export type Results = z.infer<typeof results>;

export const none: Results = { seeds: 0, operations: 0, steps: 0, reached: {}, broken: [] };

export function sum(a: Results, b: Results): Results {
  const names = new Set([...Object.keys(a.reached), ...Object.keys(b.reached)]);
  const countOf = (name: string) => (a.reached[name] ?? 0) + (b.reached[name] ?? 0);
  return {
    seeds: a.seeds + b.seeds,
    operations: a.operations + b.operations,
    steps: a.steps + b.steps,
    reached: Object.fromEntries([...names].sort().map((name) => [name, countOf(name)])),
    broken: [...a.broken, ...b.broken].sort((one, other) => one.seed - other.seed),
  };
}

/** Kinds of faults, actions and situations that no seed had. */
export const unreached = ({ reached }: Results): (Switch | Situation)[] =>
  [...switches, ...situations].filter((name) => (reached[name] ?? 0) === 0);
