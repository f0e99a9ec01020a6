/** An event loop of our own: what is to happen, by the time when it does. Nothing here waits. */
export class VirtualTime {
  #nowMs: number;
  #sequence = 0;
  /** Latest first, so that the next one is taken off the end. */
  readonly #events: { readonly atMs: number; readonly sequence: number; readonly run: () => void }[] = [];

  constructor(startMs: number) {
    this.#nowMs = startMs;
  }

  nowMs(): number {
    return this.#nowMs;
  }

  after(delayMs: number, run: () => void): void {
    this.at(this.#nowMs + delayMs, run);
  }

  at(atMs: number, run: () => void): void {
    const event = { atMs: Math.max(this.#nowMs, Math.round(atMs)), sequence: this.#sequence++, run };
    let low = 0;
    let high = this.#events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = this.#events[middle];
      if (
        other &&
        (other.atMs > event.atMs || (other.atMs === event.atMs && other.sequence > event.sequence))
      )
        low = middle + 1;
      else high = middle;
    }
    this.#events.splice(low, 0, event);
  }

  /** Runs the next event and everything that follows from it at the same moment. @returns whether there was one */
  async step(): Promise<boolean> {
    const event = this.#events.pop();
    if (!event) return false;
    this.#nowMs = event.atMs;
    event.run();
    await allSettledNow();
    return true;
  }
}

/** Promises that can go on have done so when the process's own loop turns. */
const allSettledNow = () => new Promise<void>((resolve) => setImmediate(resolve));
