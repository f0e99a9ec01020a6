import type { Limits } from '../operation/limits';
import type { Calls, ProviderSwitch } from '../operation/ports';
import {
  type Breaker,
  floorTokens,
  type ProviderState,
  retriesLeft,
  tokensPerRetry,
  windowStartOf,
} from '../operation/provider-state';
import { providerPartition, readProvider } from './provider-item';
import type { ConditionalUpdate, Table } from './table-client';

/** Other batches write the same record: after so many lost races the rest is left to them. */
const maxRounds = 4;

/** The retry budget and the breaker in DynamoDB: one item, or as many as the setting says. */
export class DynamoDbProviderSwitch implements ProviderSwitch {
  /**
   * @param unrepeated the same table through a client that never sends a request twice: a batch's count that was applied,
   * and whose answer was lost, would be applied again after other batches' counts, and grant retries that nobody earned
   */
  constructor(
    private readonly client: Table,
    private readonly unrepeated: Table,
    private readonly limits: Limits,
  ) {}

  async takeRetries(...[shard, first, wanted, nowMs]: Parameters<ProviderSwitch['takeRetries']>) {
    const { limits } = this;
    let seen = first;
    for (let round = 0; round < maxRounds; round++) {
      const windowStartMs = windowStartOf(limits, seen, nowMs);
      const granted = Math.min(wanted, retriesLeft(limits, seen, nowMs));
      if (granted <= 0) break;
      const { applied, item } = await this.#update(shard, takeUpdate(limits, seen, windowStartMs, granted));
      if (applied) return { granted, windowStartMs };
      seen = readProvider(item);
    }
    return { granted: 0, windowStartMs: 0 };
  }

  async takeProbe({ shard }: ProviderState, nowMs: number, untilMs: number): Promise<boolean> {
    const { applied } = await this.#update(shard, {
      condition: switchClauses.probeIsDue,
      assign: { breakerProbeAtMs: untilMs },
      values: { nowMs },
    });
    return applied;
  }

  async report(...[shard, first, calls, nowMs]: Parameters<ProviderSwitch['report']>) {
    let seen = first;
    for (let round = 0; round < maxRounds; round++) {
      const windowStartMs = windowStartOf(this.limits, seen, nowMs);
      const update = reportUpdate(this.limits, windowStartMs, seen, calls);
      const { applied, item } = await this.unrepeated.update(providerPartition(shard), update);
      seen = readProvider(item);
      if (seen && applied) return seen;
    }
    throw new Error("the batch's calls could not be counted: the provider's record is contended");
  }

  async open(shard: number, breaker: Breaker): Promise<boolean> {
    const { applied } = await this.#update(shard, {
      condition: switchClauses.isClosed,
      assign: attributesOf(breaker),
    });
    return applied;
  }

  async close(shard: number, untilMs: number): Promise<boolean> {
    const { applied } = await this.#update(shard, {
      condition: switchClauses.isOurProbe,
      assign: noCalls,
      remove: breakerAttributes,
      values: { untilMs },
    });
    return applied;
  }

  async probeLater(...[shard, untilMs, probeAtMs, reason]: Parameters<ProviderSwitch['probeLater']>) {
    await this.#update(shard, {
      condition: switchClauses.isOurProbe,
      assign: { breakerProbeAtMs: probeAtMs, breakerReason: reason },
      values: { untilMs },
    });
  }

  async states(): Promise<ProviderState[]> {
    const items = await this.client.read(this.#shards().map(providerPartition));
    return items.map(readProvider).filter((state) => state !== undefined);
  }

  async pause(breaker: Breaker): Promise<void> {
    const pauses = this.#shards().map((shard) =>
      this.#update(shard, {
        condition: switchClauses.any,
        assign: attributesOf(breaker),
        remove: ['breakerProbeAtMs'],
      }),
    );
    await Promise.all(pauses);
  }

  async resume(): Promise<boolean> {
    const resumes = this.#shards().map((shard) =>
      this.#update(shard, {
        condition: switchClauses.isOpen,
        assign: noCalls,
        remove: breakerAttributes,
      }),
    );
    return (await Promise.all(resumes)).some(({ applied }) => applied);
  }

  #shards(): number[] {
    return Array.from({ length: this.limits.providerShards }, (_, shard) => shard);
  }

  #update(shard: number, update: ConditionalUpdate) {
    return this.client.update(providerPartition(shard), update);
  }
}

const switchClauses = {
  any: '(attribute_exists(pk) OR attribute_not_exists(pk))',
  /** G8: the tokens that were looked at are still there, and of this window. */
  hasTokens: '#windowStartMs = :windowStartMs AND #retryTokens >= :cost',
  /** Only a later window replaces one: a worker whose clock is behind must not grant the floor again. */
  isLaterWindow: '(attribute_not_exists(#windowStartMs) OR #windowStartMs < :windowStartMs)',
  isThisWindow: '#windowStartMs = :windowStartMs',
  isClosed: 'attribute_not_exists(#breakerOpenedAtMs)',
  isOpen: 'attribute_exists(#breakerOpenedAtMs)',
  /** One call at a time finds out; a pause has no time for it. */
  probeIsDue: 'attribute_exists(#breakerOpenedAtMs) AND #breakerProbeAtMs <= :nowMs',
  /** The switch is as the probe left it: nobody paused meanwhile, and no later probe runs. */
  isOurProbe: 'attribute_exists(#breakerOpenedAtMs) AND #breakerProbeAtMs = :untilMs',
} as const;

function takeUpdate(
  limits: Limits,
  seen: ProviderState | undefined,
  windowStartMs: number,
  retries: number,
): ConditionalUpdate {
  const cost = retries * tokensPerRetry;
  if (seen?.windowStartMs === windowStartMs) {
    return {
      condition: switchClauses.hasTokens,
      set: ['#retryTokens = #retryTokens - :cost'],
      values: { windowStartMs, cost },
    };
  }
  const assign = { windowStartMs, ...noCalls, retryTokens: floorTokens(limits) - cost };
  return { condition: switchClauses.isLaterWindow, assign };
}

function reportUpdate(
  limits: Limits,
  windowStartMs: number,
  seen: ProviderState | undefined,
  { calls, failures, earned, unspent, takenInWindowMs }: Calls,
): ConditionalUpdate {
  const { isThisWindow, isLaterWindow } = switchClauses;
  // Tokens of a window that has ended are worth nothing.
  const tokens = earned + (takenInWindowMs === windowStartMs ? unspent : 0);
  if (seen?.windowStartMs === windowStartMs) {
    return {
      condition: isThisWindow,
      set: [
        '#windowCalls = #windowCalls + :calls',
        '#windowFailures = #windowFailures + :failures',
        '#retryTokens = #retryTokens + :tokens',
      ],
      values: { windowStartMs, calls, failures, tokens },
    };
  }
  return {
    condition: isLaterWindow,
    assign: {
      windowStartMs,
      windowCalls: calls,
      windowFailures: failures,
      retryTokens: floorTokens(limits) + tokens,
    },
  };
}

/** Also when the breaker closes: what was counted before must not open it again. Tokens stay, as G8 is about them. */
const noCalls = { windowCalls: 0, windowFailures: 0 };

const breakerAttributes = ['breakerReason', 'breakerOpenedAtMs', 'breakerProbeAtMs', 'breakerNote'];

const attributesOf = ({ reason, openedAtMs, probeAtMs, note }: Breaker) => ({
  breakerReason: reason,
  breakerOpenedAtMs: openedAtMs,
  breakerProbeAtMs: probeAtMs,
  breakerNote: note,
});
