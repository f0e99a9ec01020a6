import { hiders, mutants } from './mutants';
import { none, type Results, request, sum } from './results';
import { runSeed } from './seeds';

/** A process that runs seeds: as many of these run at once as there are processors. */
process.on('message', async (message: unknown) => {
  const { from, to, mutant, isAlone } = request.parse(message);
  const planted = (isAlone ? hiders : mutants).find(({ name }) => name === mutant);
  let all: Results = none;
  for (let seed = from; seed < to; seed++) {
    all = sum(all, await runSeed(seed, planted));
    // A planted bug is found once.
    if (planted && all.broken.length > 0) break;
  }
  process.send?.(all);
});
