import fc from 'fast-check';
import { type Theme, themes } from './themes';

/** What a process asks the outside world for: faults are planned by the port and by which of its calls they meet. */
export const awsPorts = [
  'read',
  'operationWrite',
  'tenantWrite',
  'providerWrite',
  'send',
  'visibility',
  'ack',
] as const;
export const providerPorts = ['post', 'find'] as const;
export type Port = (typeof awsPorts)[number] | (typeof providerPorts)[number] | 'receive' | 'tick';

const crashes = ['crashBefore', 'crashInFlight', 'crashAfter'] as const;
const awsFaults = ['loseRequest', 'loseAnswer', 'throttle', 'late'] as const;
const providerFaults = [
  'refused',
  'resetBefore',
  'resetAfter',
  'stall',
  'slow',
  'rateLimited',
  'invalid',
  'unauthorized',
  'forbidden',
  'savedErrorBefore',
  'savedErrorAfter',
  'unsavedError',
] as const;
const deliveryFaults = ['duplicate', 'reorder'] as const;
export type CrashFault = (typeof crashes)[number];
export type AwsFault = (typeof awsFaults)[number];
export type ProviderFault = (typeof providerFaults)[number];
export type FaultKind = CrashFault | AwsFault | ProviderFault | (typeof deliveryFaults)[number];

export interface Fault {
  readonly kind: FaultKind;
  readonly port: Port;
  /** Which call of that port it meets, from 0, and how many in a row. */
  readonly nth: number;
  readonly times: number;
  /** 0 to 1: how long it takes, where that can be said. */
  readonly amount: number;
}

export const behaviours = [
  'ok',
  'declined',
  'processing',
  'processingFails',
  'invalid',
  'forbidden',
] as const;
export type Behaviour = (typeof behaviours)[number];

export interface PlannedOperation {
  readonly tenant: number;
  readonly by: 'queue' | 'api';
  readonly atMs: number;
  /** What its card does at the provider. */
  readonly behaviour: Behaviour;
  readonly hasDescription: boolean;
  /** What else is sent under its id at about the same time. */
  readonly rival: 'none' | 'same' | 'otherInputs' | 'accept';
  readonly rivalAfterMs: number;
  /** When it is wanted no more, counted from when it is sent; as the service says where it is null. */
  readonly deadlineAfterMs: number | null;
}

const actions = [
  'sendAgain',
  'sendInOtherVersion',
  'sendOtherInputs',
  'sendMalformed',
  'sendFutureVersion',
  'accept',
  'acceptOtherInputs',
  'cancel',
  'refund',
  'refundsAtOnce',
  'refundByHand',
  'redrive',
  'redriveOften',
  'burst',
  'retry',
  'settleAbsent',
  'settleSucceeded',
  'reconcileOne',
  'pause',
  'outage',
  'deploy',
] as const;
export type ActionKind = (typeof actions)[number];

export interface Action {
  readonly kind: ActionKind;
  readonly operation: number;
  readonly afterMs: number;
  readonly amount: number;
}

/** What a process is about to do when something comes in between. */
export const moments = [
  'slot',
  'reserve',
  'budget',
  'probe',
  'claim',
  'post',
  'settle',
  'end',
  'park',
  'defer',
  'find',
  'count',
  'open',
  'probeEnd',
] as const;
export type Moment = (typeof moments)[number];

const ambushes = [
  'sendAgain',
  'sendOtherInputs',
  'accept',
  'cancel',
  'refundsAtOnce',
  'retry',
  'redrive',
  'settleAbsent',
  'settleSucceeded',
  'reconcileOne',
  'pause',
  'burst',
] as const satisfies readonly ActionKind[];

/** The process stalls between what it saw and what it does about it, and somebody else does something meanwhile. */
export interface Ambush {
  readonly moment: Moment;
  /** Which of these moments it meets, from 0. */
  readonly nth: number;
  readonly kind: (typeof ambushes)[number];
  /** When somebody else acts, from that moment. */
  readonly afterMs: number;
  /** How long the process stalls; or, where it dies, how late what it was about to write lands. */
  readonly holdMs: number;
  readonly dies: boolean;
  readonly amount: number;
}

/** Parts of a plan that a seed has or has not. */
export const switches = [
  ...crashes,
  ...awsFaults,
  ...providerFaults,
  ...deliveryFaults,
  ...actions,
  'ambush',
] as const;
export type Switch = (typeof switches)[number];
/** Further situations that a run should reach. */
export const situations = [
  'skew',
  'leaseLapsed',
  'landedLate',
  'keyInUse',
  'keySpent',
  'effectExists',
  'refundPending',
  'parked',
  'deadLettered',
  'redrivenLate',
  'redrivenByHand',
  'keptInTable',
  'breakerOpened',
  'probed',
  'budgetRefused',
  'tenantFull',
  'replayed',
  'absenceProven',
  'settledByReconciler',
  'escalated',
] as const;
/** A key that the provider forgot is met by planted bugs only: nothing is sent once that may be. */
export type Situation = (typeof situations)[number] | 'keyForgotten';

export interface PlannedLimits {
  readonly tenantMaxRunning: number;
  readonly tenantMaxWaiting: number;
  readonly maxAttempts: number;
  readonly retryBudgetFloor: number;
  readonly retryBudgetPercent: number;
  readonly providerShards: number;
  readonly breakerMinCalls: number;
  readonly batchSize: number;
  readonly allowDirectRefunds: boolean;
  readonly tenantDailyCalls: number | null;
  readonly providerDailyCalls: number | null;
}

export interface Plan {
  /** What it is about. */
  readonly theme: string;
  /** Of jitter: the back-off's and the event source's. */
  readonly seed: number;
  /** Which kinds of faults and actions this seed has. */
  readonly on: readonly Switch[];
  readonly limits: PlannedLimits;
  readonly operations: readonly PlannedOperation[];
  readonly actions: readonly Action[];
  readonly faults: readonly Fault[];
  readonly ambushes: readonly Ambush[];
  /** In milliseconds, taken in turns. */
  readonly latencies: readonly number[];
  /** How far the clocks of processes are off, in milliseconds, taken in turns. */
  readonly skews: readonly number[];
}

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

const pause = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 2000 }) },
  { weight: 4, arbitrary: fc.integer({ min: 0, max: 5 * minute }) },
  { weight: 2, arbitrary: fc.integer({ min: 0, max: 3 * hour }) },
  { weight: 2, arbitrary: fc.integer({ min: 22 * hour, max: 25 * hour }) },
  { weight: 1, arbitrary: fc.constantFrom(30 * second, 61 * second, hour + 2 * minute, 23 * hour - minute) },
  { weight: 1, arbitrary: fc.integer({ min: day, max: 13 * day }) },
);

const amount = fc.integer({ min: 0, max: 100 }).map((percent) => percent / 100);
const nth = fc.oneof(fc.integer({ min: 0, max: 2 }), fc.integer({ min: 0, max: 14 }));
// Three in a row are all of the SDK's tries.
const times = fc.constantFrom(1, 1, 1, 3);
const of = <K extends FaultKind>(kinds: readonly K[], ports: readonly Port[]): fc.Arbitrary<Fault> =>
  fc.record({ kind: fc.constantFrom(...kinds), port: fc.constantFrom(...ports), nth, times, amount });

const fault = fc.oneof(
  { weight: 4, arbitrary: of(crashes, ['operationWrite', 'post']) },
  { weight: 2, arbitrary: of(crashes, [...awsPorts, 'find']) },
  { weight: 4, arbitrary: of(awsFaults, [...awsPorts, 'operationWrite']) },
  { weight: 6, arbitrary: of(providerFaults, ['post', 'post', 'find']) },
  { weight: 2, arbitrary: of(deliveryFaults, ['receive', 'receive', 'tick']) },
);

const action: fc.Arbitrary<Action> = fc.record({
  kind: fc.constantFrom(...actions, 'redrive' as const, 'cancel' as const, 'refund' as const),
  operation: fc.nat(3),
  afterMs: pause,
  amount,
});

const ambush: fc.Arbitrary<Ambush> = fc.record({
  moment: fc.constantFrom(...moments),
  nth: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 5 })),
  kind: fc.constantFrom(...ambushes, 'sendAgain' as const),
  afterMs: fc.oneof(
    { weight: 3, arbitrary: fc.integer({ min: 0, max: 1500 }) },
    { weight: 1, arbitrary: fc.integer({ min: 55 * second, max: 90 * second }) },
  ),
  holdMs: fc.oneof(
    { weight: 3, arbitrary: fc.integer({ min: 0, max: 5000 }) },
    { weight: 2, arbitrary: fc.integer({ min: 0, max: 20 * second }) },
    { weight: 2, arbitrary: fc.integer({ min: minute, max: 115 * second }) },
  ),
  dies: fc.boolean(),
  amount,
});

const operation: fc.Arbitrary<PlannedOperation> = fc.record({
  tenant: fc.oneof(fc.constant(0), fc.nat(2)),
  by: fc.constantFrom('queue' as const, 'api' as const),
  atMs: fc.oneof(fc.integer({ min: 0, max: 500 }), fc.integer({ min: 0, max: 3 * minute })),
  behaviour: fc.oneof(
    { weight: 6, arbitrary: fc.constant('ok' as const) },
    { weight: 4, arbitrary: fc.constantFrom(...behaviours) },
  ),
  hasDescription: fc.boolean(),
  rival: fc.constantFrom('none' as const, 'same' as const, 'otherInputs' as const, 'accept' as const),
  rivalAfterMs: fc.oneof(fc.integer({ min: 0, max: 100 }), fc.integer({ min: 0, max: 2000 })),
  deadlineAfterMs: fc.oneof(
    { weight: 3, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 8000 }) },
  ),
});

const limits: fc.Arbitrary<PlannedLimits> = fc
  .record({
    tenantMaxRunning: fc.constantFrom(2, 1, 2, 0),
    tenantMaxWaiting: fc.constantFrom(5, 0, 1),
    maxAttempts: fc.constantFrom(5, 1, 2, 3),
    retryBudgetFloor: fc.constantFrom(10, 2, 1),
    retryBudgetPercent: fc.constantFrom(10, 100),
    providerShards: fc.constantFrom(1, 1, 2),
    breakerMinCalls: fc.constantFrom(20, 1, 3),
    batchSize: fc.constantFrom(5, 1, 3),
    allowDirectRefunds: fc.boolean(),
    tenantDailyCalls: fc.constantFrom(null, null, null, 2),
    providerDailyCalls: fc.constantFrom(null, null, null, 3),
  })
  .map(enough);

/** A shard without a whole retry of its own grants none: the settings refuse it. */
function enough(all: PlannedLimits): PlannedLimits {
  return { ...all, retryBudgetFloor: Math.max(all.retryBudgetFloor, all.providerShards) };
}

const many = { size: 'max' } as const;

/** Everything may happen, at any time. */
const mixed: fc.Arbitrary<Plan> = fc.record({
  theme: fc.constant('everything'),
  seed: fc.nat(0xffffffff),
  on: fc.subarray([...switches], { minLength: 0 }),
  limits,
  operations: fc.array(operation, { minLength: 1, maxLength: 4, ...many }),
  actions: fc.array(action, { maxLength: 10, ...many }),
  faults: fc.array(fault, { maxLength: 24, ...many }),
  ambushes: fc.array(ambush, { maxLength: 6, ...many }),
  latencies: fc.array(fc.oneof(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 1, max: 900 })), {
    minLength: 1,
    maxLength: 12,
    ...many,
  }),
  skews: fc.array(fc.oneof(fc.constant(0), fc.integer({ min: -7000, max: 7000 })), {
    minLength: 1,
    maxLength: 4,
    ...many,
  }),
});

const about = (plan: Plan, { isAlone, limits, ...theme }: Theme): Plan => ({
  ...plan,
  ...theme,
  limits: enough({ ...plan.limits, ...limits }),
  on: isAlone ? theme.on : [...new Set([...theme.on, ...plan.on])],
  actions: isAlone ? theme.actions : [...theme.actions, ...plan.actions],
  faults: isAlone ? theme.faults : [...theme.faults, ...plan.faults],
});

/** One situation as data: what arrives, what goes wrong, and what people do. */
export const anyPlan: fc.Arbitrary<Plan> = fc.oneof(
  mixed,
  fc.tuple(mixed, fc.oneof(...themes)).map(([plan, theme]) => about(plan, theme)),
);

/** The plan of a seed: always the same one. */
export function planOf(seed: number): Plan {
  const [plan] = fc.sample(anyPlan, { seed, numRuns: 1 });
  if (!plan) throw new Error('fast-check gave no plan');
  return plan;
}
