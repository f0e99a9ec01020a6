/** Time that the stand-ins take themselves, so that it can be taken off what is measured. */
export class OwnTime {
  #cpuUs = 0;
  #wallMs = 0;

  /** Runs `work`, which must not wait for anything, on these clocks. */
  of<T>(work: () => T): T {
    const begun = performance.now();
    // Of the whole process, as what is measured: a thread's own is told to the tick, which is longer than most work here.
    const before = process.cpuUsage();
    try {
      return work();
    } finally {
      const { user, system } = process.cpuUsage(before);
      this.#cpuUs += user + system;
      this.#wallMs += performance.now() - begun;
    }
  }

  /** Since the last time. */
  take(): { readonly cpuUs: number; readonly wallMs: number } {
    const taken = { cpuUs: this.#cpuUs, wallMs: this.#wallMs };
    this.#cpuUs = 0;
    this.#wallMs = 0;
    return taken;
  }
}
