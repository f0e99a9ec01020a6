import type { LimitOverrides } from '../lambdas/operation/limits';

/** The laptop stack's limits: short enough to watch. The visibility timeout follows: 12 s. */
export const laptopLimits = {
  workerTimeoutSeconds: 2,
  providerTimeoutSeconds: 1,
  leaseMarginSeconds: 2,
  retryBaseSeconds: 1,
  retryCapSeconds: 10,
  /** Each concurrent invocation is a process; two cores carry a few. */
  maxConcurrency: 4,
} as const satisfies LimitOverrides;
