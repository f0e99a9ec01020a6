import * as z from 'zod/mini';
import { DynamoDbProviderSwitch } from '../lambdas/adapters/dynamodb-provider-switch';
import { providerPartition } from '../lambdas/adapters/provider-item';
import { type Breaker, type ProviderState, retriesLeft } from '../lambdas/operation/provider-state';
import { dayOf } from '../lambdas/operation/tenant';
import type { Report } from './io';
import type { Session } from './session';
import { counted, fields, iso, moment } from './text';

/** `provider show` */
export async function providerShow(session: Session): Promise<Report> {
  const { target } = session;
  const { limits } = target;
  const nowMs = target.now();
  const states = await statesOf(session);
  const stopped = states.filter(({ breaker }) => breaker).length;
  const breaker = breakerOf(states);
  const isOfThisWindow = ({ windowStartMs }: ProviderState) =>
    nowMs - windowStartMs < limits.retryBudgetWindowSeconds * 1000;
  const inWindow = states.filter(isOfThisWindow);
  const sum = (count: 'windowCalls' | 'windowFailures') =>
    inWindow.reduce((total, state) => total + state[count], 0);
  const shards = Array.from({ length: limits.providerShards }, (_, shard) =>
    states.find((state) => state.shard === shard),
  );
  const retries = shards.reduce((total, state) => total + retriesLeft(limits, state, nowMs), 0);
  const callsToday = limits.providerDailyCalls === undefined ? undefined : await callsOf(session, nowMs);
  const calls = sum('windowCalls');
  const failures = sum('windowFailures');
  const text = fields([
    ['calls', breaker ? `${meaningOf(breaker)}${ofParts(stopped, limits.providerShards)}` : 'are made'],
    ['since', moment(breaker?.openedAtMs, nowMs)],
    ['by and because', breaker?.note],
    ['next probe', moment(breaker?.probeAtMs, nowMs)],
    [`calls in this window of ${limits.retryBudgetWindowSeconds} s`, `${calls}, of which ${failures} failed`],
    ['retries left in this window', String(retries)],
    [
      'calls today (UTC)',
      callsToday === undefined ? undefined : `${callsToday} of ${limits.providerDailyCalls}`,
    ],
  ]);
  return {
    ok: true,
    text,
    document: {
      target: target.name,
      areCallsMade: breaker === undefined,
      ...(breaker ? { breaker: viewOf(breaker) } : {}),
      windowSeconds: limits.retryBudgetWindowSeconds,
      windowCalls: calls,
      windowFailures: failures,
      retriesLeft: retries,
      ...(callsToday === undefined ? {} : { callsToday, dailyCalls: limits.providerDailyCalls }),
      shards: states.map(({ breaker: own, ...counts }) => ({
        ...counts,
        ...(own ? { breaker: viewOf(own) } : {}),
      })),
    },
  };
}

const statesOf = ({ target }: Session): Promise<ProviderState[]> =>
  // It only reads here, and a read may be repeated.
  new DynamoDbProviderSwitch(target.table, target.table, target.limits).states();

/** A pause is of all shards, and says the most. */
const breakerOf = (states: readonly ProviderState[]): Breaker | undefined => {
  const breakers = states.flatMap(({ breaker }) => breaker ?? []);
  return breakers.find(({ reason }) => reason === 'paused') ?? breakers[0];
};

function meaningOf({ reason }: Breaker): string {
  switch (reason) {
    case 'paused':
      return 'are paused by a person';
    case 'failures':
      return 'are stopped, because too many failed';
    case 'unauthorized':
      return 'are stopped, because Stripe does not take the key';
  }
}

const ofParts = (stopped: number, all: number): string =>
  all === 1 || stopped === all ? '' : ` (in ${stopped} of ${counted(all, 'shard')})`;

const viewOf = ({ reason, openedAtMs, probeAtMs, note }: Breaker): object => ({
  reason,
  openedAt: iso(openedAtMs),
  ...(probeAtMs === undefined ? {} : { probeAt: iso(probeAtMs) }),
  ...(note === undefined ? {} : { note }),
});

const dailyItem = z.object({ callsDay: z.optional(z.string()), calls: z.optional(z.number()) });

/** Calls of the whole service in this UTC day: the first shard counts them. */
async function callsOf({ target }: Session, nowMs: number): Promise<number> {
  const [item] = await target.table.read([providerPartition(0)]);
  const day = dailyItem.safeParse(item ?? {});
  return day.success && day.data.callsDay === dayOf(nowMs) ? (day.data.calls ?? 0) : 0;
}

/** What a person should know who sends messages back while no calls are made; undefined while they are. */
export async function pauseRemark(session: Session): Promise<string | undefined> {
  const breaker = breakerOf(await statesOf(session));
  if (!breaker) return undefined;
  const note = breaker.note === undefined ? '' : ` (${breaker.note})`;
  return `Calls of Stripe ${meaningOf(breaker)}${note}: what is redriven waits until that is over.`;
}
