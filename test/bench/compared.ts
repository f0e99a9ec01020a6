import type { Both } from './bench';

/** A number of each consumer, and the median of the ratios of neighbouring rounds, which a busy machine slows alike. */
export interface Compared extends Both<number> {
  readonly ratio: number;
}

export const compared = ({ ours, stock }: Both<readonly number[]>): Compared => ({
  ours: median(ours),
  stock: median(stock),
  ratio: median(ours.map((each, round) => each / (stock[round] ?? each))),
});

export const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;
