/**
 * One movable clock for all processes of a laptop stack. It runs with the real clock, ahead of it by an
 * offset.
 */
export interface Clock {
  /** Milliseconds since the epoch, as the stack sees them. */
  now(): number;
  /** How far the clock is ahead of the real one, in milliseconds; 0 or more. */
  offsetMs(): number;
  /**
   * Moves the clock forward. Resolves once every process of the stack tells the new time.
   * @param ms 0 or more; never backwards, because leases and visibility deadlines assume that
   * @throws RangeError for anything else
   */
  advance(ms: number): Promise<void>;
  /**
   * Called with the new offset on each move, which waits for it. @returns a function that removes the
   * follower
   */
  follow(follower: (offsetMs: number) => void | Promise<void>): () => void;
}

/** A clock that starts at the real time. */
export function createClock(): Clock {
  const followers = new Set<(offsetMs: number) => void | Promise<void>>();
  let offsetMs = 0;
  return {
    now: () => realNow() + offsetMs,
    offsetMs: () => offsetMs,
    async advance(ms) {
      if (!Number.isFinite(ms) || ms < 0) throw new RangeError(`The clock cannot move by ${ms} ms.`);
      offsetMs += ms;
      await Promise.all([...followers].map((follower) => follower(offsetMs)));
    },
    follow(follower) {
      followers.add(follower);
      return () => void followers.delete(follower);
    },
  };
}

/**
 * Moves this process's `Date.now` ahead of the real time. For child processes, whose code knows no other
 * clock. `new Date()` without arguments stays real.
 * @param offsetMs from the real time, not from an earlier shift
 */
export function shiftDateNow(offsetMs: number): void {
  Date.now = () => realNow() + offsetMs;
}

const realNow = Date.now;
