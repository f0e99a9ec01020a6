import type { OperationRecord } from './operation';
import type { Clock, ProviderSwitch } from './ports';
import type { State } from './state';

/** The states of an operation that has not ended. */
export type OpenState = Extract<State, 'queued' | 'running' | 'settling' | 'parked'>;

/** What the attention index knows of an operation. */
export interface OpenOperation
  extends Pick<OperationRecord, 'createdAtMs' | 'parkedAtMs' | 'effectPossibleSinceMs'> {
  readonly dueAtMs: number;
  readonly state: OpenState;
  readonly type: 'charge' | 'refund';
}

/** The operations that no message will bring back by itself, whether they are due or not. */
export interface OpenOperations {
  readonly shards: number;
  /** Those of one shard, in pages; undefined for one that this build cannot read. It may lag behind the records. */
  pages(shard: number): AsyncIterable<readonly (OpenOperation | undefined)[]>;
}

export interface Census {
  /** How many there are, by type and state. */
  readonly open: Readonly<Record<OpenOperation['type'], Readonly<Record<OpenState, number>>>>;
  /**
   * Age of the oldest, 0 where there is none: waiting (queued or running) since it was first heard of, settling since its
   * effect became possible, parked since then; and how late the one is that was due first.
   */
  readonly oldestMs: Readonly<Record<'waiting' | 'settling' | 'parked' | 'due', number>>;
  /** False when there were more than are counted, or the time was up. */
  readonly isWhole: boolean;
  readonly unreadable: number;
  /** No calls are made: the breaker is open, or the service is paused. */
  readonly isStopped: boolean;
}

export interface CensusPorts {
  readonly open: OpenOperations;
  readonly provider: Pick<ProviderSwitch, 'states'>;
  readonly clock: Clock;
}

/** Pages counted of each shard: with the adapter's 1000 operations each, 40 000 in 8 shards, for about 1300 read units. */
const maxPages = 5;

/** The event that asks the reconciler for a census beside its run. It costs reads for all that is open, and not only for what is due. */
export const censusEvent = { census: true } as const;

/** Whether the reconciler was invoked with `censusEvent`. False for any other event, also one that is no object. */
export const asksForCensus = (event: unknown): boolean =>
  typeof event === 'object' && event !== null && 'census' in event && event.census === true;

/**
 * Counts what is open, by type and state, and says how old the oldest are, and whether calls are made. For people:
 * nothing is decided by it.
 * @param untilMs when to stop
 */
export async function takeCensus({ open, provider, clock }: CensusPorts, untilMs: number): Promise<Census> {
  const counts = { charge: none(), refund: none() };
  const oldestMs = { waiting: 0, settling: 0, parked: 0, due: 0 };
  let unreadable = 0;
  let isWhole = true;
  for (let shard = 0; shard < open.shards; shard++) {
    let pages = 0;
    for await (const page of open.pages(shard)) {
      if (pages === maxPages || clock() >= untilMs) {
        isWhole = false;
        break;
      }
      pages += 1;
      for (const operation of page) {
        if (!operation) {
          unreadable += 1;
          continue;
        }
        counts[operation.type][operation.state] += 1;
        const { since, kind } = ageOf(operation);
        oldestMs[kind] = Math.max(oldestMs[kind], clock() - since);
        oldestMs.due = Math.max(oldestMs.due, clock() - operation.dueAtMs);
      }
    }
  }
  const isStopped = (await provider.states()).some(({ breaker }) => breaker !== undefined);
  return { open: counts, oldestMs, isWhole, unreadable, isStopped };
}

const none = () => ({ queued: 0, running: 0, settling: 0, parked: 0 });

function ageOf(operation: OpenOperation) {
  const { state, createdAtMs, effectPossibleSinceMs = createdAtMs, parkedAtMs = createdAtMs } = operation;
  switch (state) {
    case 'queued':
    case 'running':
      return { kind: 'waiting', since: createdAtMs } as const;
    case 'settling':
      return { kind: 'settling', since: effectPossibleSinceMs } as const;
    case 'parked':
      return { kind: 'parked', since: parkedAtMs } as const;
  }
}
