import { backOffSeconds, secondsUntil } from './delivery';
import type { Limits } from './limits';
import type { Outcome } from './outcome';
import type { Clock, ProviderSwitch, ProviderTelemetry } from './ports';
import {
  type Breaker,
  healthOf,
  isFailing,
  type ProviderState,
  retriesLeft,
  tokensPerRetry,
} from './provider-state';

export interface GatePorts {
  readonly provider: ProviderSwitch;
  readonly telemetry: ProviderTelemetry;
  readonly clock: Clock;
  readonly limits: Limits;
  /** 0 to below 1. */
  readonly random: () => number;
}

/** Who pays for an attempt: a first one is free, a retry costs tokens of the budget, a probe is on the breaker. */
export type Payer = 'nobody' | 'budget' | 'probe';

/** Why no attempt is made now, and when to ask again. */
export interface Shut {
  readonly reason: 'retry_budget' | 'breaker_open' | 'paused';
  readonly delaySeconds: number;
}

/**
 * What stands between one batch and the provider: the retry budget and the breaker of the whole service. Tokens are
 * taken once, when the first retry asks, and calls are counted once, when the last has ended.
 */
export class Gate {
  #purchase: Promise<void> | undefined;
  #isBought = false;
  #bought = 0;
  #boughtInWindowMs = 0;
  #probe: { readonly untilMs: number; outcome?: Outcome } | undefined;
  #calls = 0;
  #failures = 0;
  #firstAttempts = 0;
  #isUnauthorized = false;

  /**
   * @param seen the provider's shard as the look found it
   * @param retries how many messages of the batch may turn out to be retries
   */
  constructor(
    private readonly ports: GatePorts,
    private readonly shard: number,
    private readonly seen: ProviderState | undefined,
    private readonly retries: number,
  ) {}

  /** What the look says, before anything is written for the attempt. */
  advice(isRetry: boolean, receiveCount: number): Shut | undefined {
    const { clock, limits } = this.ports;
    const nowMs = clock();
    const breaker = this.seen?.breaker;
    if (breaker) return this.#mayProbe(breaker, nowMs) ? undefined : this.#shut(breaker, receiveCount);
    const left = this.#isBought ? this.#bought : retriesLeft(limits, this.seen, nowMs);
    return isRetry && left <= 0 ? this.#noBudget(receiveCount) : undefined;
  }

  /** Why a question that moves no money waits: the provider is not well. A person's pause does not stop it. */
  question(receiveCount: number): Shut | undefined {
    const breaker = this.seen?.breaker;
    if (!breaker || breaker.reason === 'paused' || (breaker.probeAtMs ?? 0) <= this.ports.clock())
      return undefined;
    return this.#shut(breaker, receiveCount);
  }

  /**
   * Lets one attempt pass, or says why not. `leave` gives back what it took, where no attempt comes of it.
   * @param leaseExpiresAtMs when the claim to come would end: a probe that dies holds the others up no longer
   */
  async enter(isRetry: boolean, receiveCount: number, leaseExpiresAtMs: number): Promise<Payer | Shut> {
    const breaker = this.seen?.breaker;
    if (breaker) return this.#enterProbe(breaker, receiveCount, leaseExpiresAtMs);
    if (!isRetry) return 'nobody';
    this.#purchase ??= this.#buy();
    await this.#purchase;
    if (this.#bought <= 0) return this.#noBudget(receiveCount);
    this.#bought -= 1;
    return 'budget';
  }

  /** Of an attempt that was let pass and not made. */
  leave(payer: Payer): void {
    if (payer === 'budget') this.#bought += 1;
  }

  /** Of an attempt that was made. */
  count(payer: Payer, outcome: Outcome): void {
    if (payer === 'probe' && this.#probe) this.#probe.outcome = outcome;
    const health = healthOf(outcome);
    if (health === 'uncalled') return;
    this.#calls += 1;
    if (health !== 'well') this.#failures += 1;
    if (health === 'unauthorized') this.#isUnauthorized = true;
    // What proved to be no attempt comes again as a first one: it earns when it was one.
    if (payer === 'nobody' && outcome.kind !== 'notSent') this.#firstAttempts += 1;
  }

  /** Writes what the batch's calls say of the provider: once, and not at all when nothing was called or taken. */
  async close(): Promise<void> {
    const { provider, telemetry, limits } = this.ports;
    if (this.#probe) return this.#endProbe(this.#probe);
    if (this.#calls === 0 && this.#bought === 0) return;
    const calls = {
      calls: this.#calls,
      failures: this.#failures,
      earned: this.#firstAttempts * limits.retryBudgetPercent,
      unspent: this.#bought * tokensPerRetry,
      takenInWindowMs: this.#boughtInWindowMs,
    };
    const nowMs = this.ports.clock();
    const state = await provider.report(this.shard, this.seen, calls, nowMs);
    const reason = this.#isUnauthorized ? 'unauthorized' : isFailing(limits, state) ? 'failures' : undefined;
    if (reason && !state.breaker) {
      const breaker = {
        reason,
        openedAtMs: nowMs,
        probeAtMs: nowMs + limits.breakerOpenSeconds * 1000,
      } as const;
      const { windowCalls, windowFailures } = state;
      if (await provider.open(this.shard, breaker)) {
        telemetry.breaker('opened', reason, { windowCalls, windowFailures, shard: this.shard });
      }
      return telemetry.provider({ ...state, breaker });
    }
    telemetry.provider(state);
  }

  #mayProbe({ probeAtMs }: Breaker, nowMs: number): boolean {
    return probeAtMs !== undefined && probeAtMs <= nowMs && !this.#probe;
  }

  async #enterProbe(breaker: Breaker, receiveCount: number, untilMs: number): Promise<Payer | Shut> {
    const { provider, clock, telemetry } = this.ports;
    const nowMs = clock();
    if (!this.seen || !this.#mayProbe(breaker, nowMs)) return this.#shut(breaker, receiveCount);
    const probe = { untilMs };
    this.#probe = probe;
    if (!(await provider.takeProbe(this.seen, nowMs, untilMs))) {
      this.#probe = undefined;
      return this.#shut({ ...breaker, probeAtMs: nowMs }, receiveCount);
    }
    telemetry.breaker('probed', breaker.reason, { shard: this.shard });
    return 'probe';
  }

  async #endProbe({
    untilMs,
    outcome,
  }: {
    readonly untilMs: number;
    readonly outcome?: Outcome;
  }): Promise<void> {
    const { provider, telemetry, limits, clock } = this.ports;
    const reason = this.seen?.breaker?.reason ?? 'failures';
    const health = outcome ? healthOf(outcome) : 'uncalled';
    if (health === 'well') {
      if (await provider.close(this.shard, untilMs))
        telemetry.breaker('closed', reason, { shard: this.shard });
      return;
    }
    // A probe that called nobody leaves its turn to the next.
    const probeAtMs = clock() + (health === 'uncalled' ? 0 : limits.breakerOpenSeconds * 1000);
    const now = health === 'unauthorized' ? 'unauthorized' : health === 'failing' ? 'failures' : reason;
    await provider.probeLater(this.shard, untilMs, probeAtMs, now);
    if (this.seen) telemetry.provider(this.seen);
  }

  async #buy(): Promise<void> {
    const { provider, clock } = this.ports;
    const { granted, windowStartMs } = await provider.takeRetries(
      this.shard,
      this.seen,
      this.retries,
      clock(),
    );
    this.#isBought = true;
    this.#bought = granted;
    this.#boughtInWindowMs = windowStartMs;
  }

  #noBudget(receiveCount: number): Shut {
    const { limits, random } = this.ports;
    return { reason: 'retry_budget', delaySeconds: backOffSeconds(limits, receiveCount, random) };
  }

  /** Until the next probe has told, and no longer than the longest back-off; spread, so that not all come back at once. */
  #shut({ reason, probeAtMs }: Breaker, receiveCount: number): Shut {
    const { limits, clock, random } = this.ports;
    const longestSeconds = Math.ceil(limits.retryCapSeconds * (0.5 + random() / 2));
    if (probeAtMs === undefined) return { reason: 'paused', delaySeconds: longestSeconds };
    const waitSeconds = secondsUntil(probeAtMs, clock()) + backOffSeconds(limits, receiveCount, random);
    return {
      reason: reason === 'paused' ? reason : 'breaker_open',
      delaySeconds: Math.min(longestSeconds, waitSeconds),
    };
  }
}
