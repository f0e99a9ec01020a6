import fc from 'fast-check';
import type {
  Action,
  ActionKind,
  Ambush,
  Fault,
  Plan,
  PlannedLimits,
  PlannedOperation,
  Switch,
} from './plan';

/**
 * What a plan is about. Where everything may go wrong at once, little gets far enough for two to meet: so half of the
 * seeds have one situation in which they do, with or without the rest.
 */
export interface Theme {
  readonly theme: string;
  readonly on: readonly Switch[];
  readonly limits: Partial<PlannedLimits>;
  /** Nothing else goes wrong and nobody else acts. */
  readonly isAlone: boolean;
  readonly operations: readonly PlannedOperation[];
  readonly actions: readonly Action[];
  readonly faults: readonly Fault[];
  readonly ambushes: readonly Ambush[];
  readonly skews: Plan['skews'];
}

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;

const many = { size: 'max' } as const;
const upTo = (max: number, min = 0) => fc.integer({ min, max });
const amount = upTo(100).map((percent) => percent / 100);
const high = upTo(100, 55).map((percent) => percent / 100);
const oneOf = fc.constantFrom;
const listOf = <T>(of: fc.Arbitrary<T>, maxLength: number, minLength = 1) =>
  fc.array(of, { minLength, maxLength, ...many });

const operation = (
  given: Partial<{ [K in keyof PlannedOperation]: fc.Arbitrary<PlannedOperation[K]> }> = {},
) =>
  fc.record<PlannedOperation>({
    tenant: fc.constant(0),
    by: oneOf('queue', 'api'),
    atMs: upTo(500),
    behaviour: fc.constant('ok'),
    hasDescription: fc.constant(false),
    rival: fc.constant('none'),
    rivalAfterMs: upTo(1500),
    deadlineAfterMs: fc.constant(null),
    ...given,
  });

const action = (kinds: readonly ActionKind[], afterMs: fc.Arbitrary<number>, of = amount) =>
  fc.record<Action>({ kind: oneOf(...kinds), operation: upTo(1), afterMs, amount: of });

const fault = (
  kinds: readonly Fault['kind'][],
  port: Fault['port'],
  nth: fc.Arbitrary<number>,
  times: fc.Arbitrary<number>,
  of = amount,
) => fc.record<Fault>({ kind: oneOf(...kinds), port: fc.constant(port), nth, times, amount: of });

const ambush = (
  moments: readonly Ambush['moment'][],
  kinds: readonly Ambush['kind'][],
  holdMs: fc.Arbitrary<number>,
  { nth = upTo(3), afterMs = upTo(1500), dies = oneOf<boolean>(false) } = {},
) =>
  fc.record<Ambush>({ moment: oneOf(...moments), nth, kind: oneOf(...kinds), afterMs, holdMs, dies, amount });

type Parts = Pick<Theme, 'theme' | 'on'> & {
  readonly [K in Exclude<keyof Theme, 'theme' | 'on' | 'isAlone'>]?: fc.Arbitrary<Theme[K]>;
};

const theme = ({ theme: name, on, ...parts }: Parts): fc.Arbitrary<Theme> =>
  fc.record<Theme>({
    theme: fc.constant(name),
    on: fc.constant(on),
    isAlone: fc.boolean(),
    limits: fc.constant({}),
    operations: listOf(operation(), 2),
    actions: fc.constant([]),
    faults: fc.constant([]),
    ambushes: fc.constant([]),
    skews: oneOf([0], [0, 5000], [-6000, 6000, 0]),
    ...parts,
  });

const roomy = { tenantMaxRunning: 0, tenantDailyCalls: null, providerDailyCalls: null } as const;
const unlimited = { tenantDailyCalls: null, providerDailyCalls: null, retryBudgetFloor: 10 } as const;
/** Some limits, and others by chance. */
const limitsOf = (
  fixed: Partial<PlannedLimits>,
  chosen: { readonly [K in keyof PlannedLimits]?: fc.Arbitrary<PlannedLimits[K]> },
): fc.Arbitrary<Partial<PlannedLimits>> =>
  fc.record<Partial<PlannedLimits>>(chosen).map((limits) => ({ ...fixed, ...limits }));
const unknowns = ['resetBefore', 'unsavedError', 'stall'] as const;

export const themes: readonly fc.Arbitrary<Theme>[] = [
  theme({
    theme: 'refunds of one charge at once',
    on: ['refundsAtOnce', 'ambush', 'reorder'],
    limits: limitsOf(unlimited, { tenantMaxWaiting: fc.constant(5) }),
    actions: listOf(action(['refundsAtOnce'], upTo(20 * second, 3000)), 3),
    ambushes: listOf(
      ambush(['reserve', 'claim', 'settle'], ['refundsAtOnce', 'sendAgain', 'cancel'], upTo(5000)),
      3,
    ),
  }),
  theme({
    theme: 'the breaker and a pause',
    on: ['ambush', 'burst', 'unsavedError', 'resetBefore', 'unauthorized'],
    limits: limitsOf(unlimited, {
      tenantMaxRunning: oneOf(0, 2),
      breakerMinCalls: oneOf(1, 2),
      batchSize: oneOf(1, 1, 3),
      providerShards: oneOf(1, 1, 2),
    }),
    operations: listOf(operation(), 4, 2),
    actions: listOf(action(['burst'], fc.oneof(upTo(1000), upTo(90 * second))), 2),
    faults: listOf(
      fault(['unsavedError', 'resetBefore', 'unauthorized'], 'post', upTo(4), oneOf(1, 3, 6)),
      3,
    ),
    ambushes: listOf(
      ambush(
        ['count', 'open', 'probe', 'probeEnd', 'post'],
        ['pause', 'pause', 'burst', 'sendAgain'],
        upTo(5000),
        {
          nth: upTo(5),
        },
      ),
      4,
    ),
  }),
  theme({
    theme: 'retries of many at the turn of a window',
    on: ['ambush', 'burst', 'unsavedError', 'resetBefore'],
    limits: fc.record({
      tenantDailyCalls: fc.constant(null),
      providerDailyCalls: fc.constant(null),
      tenantMaxRunning: oneOf(0, 1, 2),
      breakerMinCalls: fc.constant(20),
      retryBudgetFloor: oneOf(1, 2, 3),
      retryBudgetPercent: oneOf(10, 100),
      providerShards: fc.constant(1),
      batchSize: oneOf(1, 3, 5),
    }),
    operations: listOf(operation({ tenant: upTo(2), atMs: upTo(minute) }), 4, 2),
    actions: listOf(action(['burst'], fc.oneof(upTo(1000), upTo(minute)), high), 2),
    ambushes: listOf(
      ambush(
        ['budget', 'count', 'slot', 'claim'],
        ['burst', 'sendAgain'],
        fc.oneof(upTo(5000), upTo(20 * second)),
        {
          nth: upTo(12),
        },
      ),
      6,
    ),
  }),
  theme({
    theme: 'writes that land after their worker, and what came since',
    on: ['late', 'crashInFlight', 'resetBefore', 'ambush', 'duplicate', 'settleSucceeded', 'reconcileOne'],
    limits: limitsOf(unlimited, { tenantMaxRunning: oneOf(1, 2, 0), maxAttempts: oneOf(5, 3) }),
    operations: listOf(
      operation({ behaviour: oneOf('ok', 'processing', 'processing', 'processingFails', 'declined') }),
      2,
    ),
    faults: listOf(
      fc.oneof(
        fault(['late', 'crashInFlight'], 'operationWrite', upTo(4), fc.constant(3), high),
        fault(['late'], 'tenantWrite', upTo(4), fc.constant(3), high),
        fault(['resetBefore'], 'post', upTo(1), oneOf(1, 2)),
      ),
      4,
      2,
    ),
    ambushes: listOf(
      ambush(
        ['settle', 'settle', 'claim', 'slot'],
        ['sendAgain', 'reconcileOne', 'reconcileOne', 'settleSucceeded'],
        upTo(115 * second, 62 * second),
        { nth: upTo(1), afterMs: upTo(100 * second, 45 * second), dies: oneOf(true, true, false) },
      ),
      3,
    ),
    actions: listOf(action(['reconcileOne', 'settleSucceeded'], upTo(90 * second, 30 * second), high), 3, 0),
  }),
  theme({
    theme: 'cancels while it is taken on, called and settled',
    on: ['ambush', 'cancel', 'rateLimited', 'refused', 'resetBefore', 'forbidden'],
    limits: limitsOf(unlimited, { tenantMaxRunning: oneOf(0, 2) }),
    operations: listOf(
      operation({ by: oneOf('api', 'api', 'queue'), behaviour: oneOf('ok', 'declined', 'forbidden') }),
      2,
    ),
    actions: listOf(action(['cancel'], upTo(900)), 3),
    faults: listOf(
      fault(['rateLimited', 'refused', 'resetBefore', 'forbidden'], 'post', upTo(1), oneOf(1, 3)),
      2,
    ),
    ambushes: listOf(
      fc.oneof(
        ambush(['end'], ['sendAgain'], upTo(8000), { nth: upTo(1) }),
        ambush(['claim', 'slot', 'post', 'settle'], ['cancel'], upTo(6000), {
          nth: upTo(1),
          afterMs: upTo(500),
        }),
      ),
      4,
    ),
  }),
  theme({
    theme: 'a cancel that is slower than a call',
    on: ['ambush', 'resetBefore', 'unsavedError'],
    limits: limitsOf(unlimited, { tenantMaxRunning: oneOf(0, 2) }),
    operations: listOf(operation({ by: fc.constant('api'), behaviour: oneOf('ok', 'ok', 'declined') }), 1),
    faults: listOf(fault(['resetBefore', 'unsavedError'], 'post', fc.constant(0), oneOf(1, 3)), 1, 0),
    ambushes: fc
      .tuple(
        ambush(['claim'], ['cancel'], upTo(2500, 1000), { nth: fc.constant(0), afterMs: upTo(300) }),
        ambush(['end'], ['sendAgain'], upTo(9000, 4000), { nth: fc.constant(0) }),
      )
      .map((both) => [...both]),
  }),
  theme({
    theme: 'a deadline between two deliveries',
    on: ['ambush', 'resetBefore', 'resetAfter', 'cancel'],
    limits: limitsOf(unlimited, { tenantMaxRunning: oneOf(0), batchSize: oneOf(1) }),
    operations: listOf(
      operation({
        rival: oneOf('same', 'same', 'accept'),
        rivalAfterMs: upTo(5000, 1000),
        deadlineAfterMs: upTo(3500, 300),
      }),
      1,
    ),
    faults: listOf(fault(['resetBefore', 'resetAfter'], 'post', fc.constant(0), oneOf(1, 3)), 1),
    ambushes: fc
      .tuple(
        ambush(['claim'], ['sendAgain'], upTo(5000, 1500), { nth: fc.constant(0), afterMs: upTo(5000) }),
        ambush(['end'], ['sendAgain', 'cancel'], upTo(12 * second, 4000), { nth: fc.constant(0) }),
      )
      .map((both) => [...both]),
  }),
  theme({
    theme: 'questions while it goes on',
    on: [
      ...unknowns,
      'savedErrorBefore',
      'savedErrorAfter',
      'crashAfter',
      'forbidden',
      'ambush',
      'redrive',
      'retry',
      'reconcileOne',
      'settleAbsent',
      'settleSucceeded',
    ],
    limits: limitsOf(unlimited, { tenantMaxRunning: oneOf(0, 2), maxAttempts: oneOf(1, 2) }),
    operations: listOf(operation({ behaviour: oneOf('ok', 'ok', 'declined') }), 2),
    faults: listOf(
      fc.oneof(
        fault(
          [...unknowns, 'savedErrorBefore', 'savedErrorAfter', 'crashAfter'],
          'post',
          upTo(2),
          oneOf(1, 3),
        ),
        fault(['savedErrorBefore', 'forbidden'], 'find', upTo(3), oneOf(1, 2)),
      ),
      3,
    ),
    actions: listOf(
      action(
        ['redrive', 'retry', 'reconcileOne', 'settleAbsent', 'settleSucceeded'],
        fc.oneof(upTo(3 * minute, minute), upTo(70 * minute, 58 * minute), upTo(25 * hour, 23 * hour)),
      ),
      4,
    ),
    ambushes: listOf(
      ambush(
        ['find', 'find', 'settle', 'park', 'claim', 'post'],
        ['retry', 'redrive', 'reconcileOne', 'cancel', 'settleAbsent', 'settleSucceeded', 'sendAgain'],
        fc.oneof(upTo(5000), upTo(20 * second)),
      ),
      5,
    ),
  }),
  theme({
    theme: 'a retry at the turn of a window',
    on: ['resetBefore', 'ambush', 'burst'],
    limits: limitsOf(
      { ...unlimited, retryBudgetFloor: 3, breakerMinCalls: 20, providerShards: 1, tenantMaxRunning: 0 },
      { batchSize: oneOf(1, 3) },
    ),
    operations: listOf(operation({ atMs: upTo(55 * second, 30 * second) }), 2),
    faults: listOf(fault(['resetBefore'], 'post', fc.constant(0), oneOf(1, 2)), 1),
    ambushes: listOf(
      ambush(['budget'], ['burst'], upTo(20 * second, 10 * second), {
        nth: upTo(1),
        afterMs: upTo(12 * second),
      }),
      2,
    ),
  }),
  theme({
    theme: 'tokens that are given back in the next window',
    on: ['resetBefore', 'ambush', 'redrive', 'burst'],
    limits: limitsOf(
      { ...unlimited, maxAttempts: 1, batchSize: 5, breakerMinCalls: 20, providerShards: 1 },
      { tenantMaxRunning: oneOf(1, 2) },
    ),
    operations: listOf(operation(), 3, 2),
    faults: listOf(fault(['resetBefore'], 'post', fc.constant(0), upTo(5, 2)), 1),
    actions: listOf(action(['redrive'], upTo(5 * minute, minute)), 2),
    ambushes: listOf(
      ambush(['count'], ['burst'], upTo(115 * second, 62 * second), {
        nth: upTo(12),
        afterMs: upTo(60 * second),
        dies: oneOf<boolean>(true),
      }),
      4,
      2,
    ),
  }),
  theme({
    theme: 'a settle that lands after the end',
    on: ['ambush', 'reconcileOne', 'crashInFlight'],
    limits: limitsOf(unlimited, { tenantMaxRunning: oneOf(0, 2) }),
    operations: listOf(
      operation({ behaviour: oneOf('ok', 'processing', 'processing', 'processingFails') }),
      1,
    ),
    ambushes: listOf(
      ambush(['settle'], ['reconcileOne', 'settleSucceeded'], upTo(115 * second, 80 * second), {
        nth: fc.constant(0),
        afterMs: upTo(75 * second, 62 * second),
        dies: oneOf<boolean>(true),
      }),
      1,
    ),
  }),
  theme({
    theme: 'a place that is given back late',
    on: ['late', 'resetBefore', 'stall'],
    limits: limitsOf(unlimited, { tenantMaxRunning: oneOf(1, 2) }),
    operations: listOf(operation({ by: fc.constant('queue') }), 2),
    faults: fc
      .tuple(
        fault(['late'], 'tenantWrite', upTo(2, 1), fc.constant(3), high),
        fault(['resetBefore', 'stall'], 'post', fc.constant(0), oneOf(1, 2)),
      )
      .map((both) => [...both]),
  }),
  theme({
    theme: 'workers that die, one after another',
    on: ['crashAfter', 'crashInFlight'],
    limits: fc.constant(unlimited),
    operations: listOf(operation({ by: oneOf('queue', 'queue', 'api') }), 1),
    faults: fc
      .tuple(
        fault(['crashAfter', 'crashInFlight'], 'post', fc.constant(0), fc.constant(1)),
        fault(['crashInFlight'], 'read', upTo(3, 1), upTo(20, 5)),
      )
      .map((both) => [...both]),
  }),
  theme({
    theme: 'a table that is away when it is settled',
    on: ['throttle', 'loseRequest'],
    limits: fc.constant(unlimited),
    operations: listOf(operation({ by: oneOf('queue', 'queue', 'api') }), 3),
    faults: listOf(fault(['throttle', 'loseRequest'], 'operationWrite', upTo(4, 1), upTo(5, 3)), 2),
  }),
  theme({
    theme: 'asked about while it runs',
    on: ['ambush', 'reconcileOne', 'resetBefore'],
    limits: limitsOf(unlimited, { tenantMaxRunning: oneOf(0, 2) }),
    operations: listOf(operation({ behaviour: oneOf('declined', 'declined', 'ok', 'processing') }), 2),
    ambushes: listOf(
      ambush(['settle', 'post'], ['reconcileOne', 'retry', 'settleAbsent'], upTo(9000, 2000), {
        nth: upTo(1),
        afterMs: upTo(500),
      }),
      2,
    ),
  }),
  theme({
    theme: 'parked and settled at once',
    on: ['crashAfter', 'crashInFlight', 'ambush', 'settleSucceeded', 'reconcileOne'],
    limits: limitsOf(unlimited, { tenantMaxRunning: oneOf(0, 2), maxAttempts: fc.constant(1) }),
    faults: listOf(fault(['crashAfter', 'crashInFlight'], 'post', upTo(1), fc.constant(1)), 2),
    ambushes: listOf(
      ambush(['park'], ['settleSucceeded', 'reconcileOne'], upTo(9000, 2000), {
        nth: upTo(1),
        afterMs: upTo(500),
      }),
      2,
    ),
  }),
  theme({
    theme: 'two first attempts',
    on: ['ambush', ...unknowns, 'duplicate'],
    limits: limitsOf(roomy, { batchSize: fc.constant(1), retryBudgetFloor: fc.constant(10) }),
    operations: listOf(operation({ rival: oneOf('same', 'none') }), 2),
    faults: listOf(fault(unknowns, 'post', upTo(1), oneOf(1, 3)), 2),
    ambushes: listOf(
      ambush(['claim'], ['sendAgain'], upTo(9000, 1000), { nth: upTo(1), afterMs: upTo(300) }),
      3,
    ),
  }),
  theme({
    theme: 'a refusal after an unknown outcome',
    on: ['stall', 'resetAfter', 'crashInFlight', 'invalid'],
    limits: fc.constant(unlimited),
    faults: fc
      .tuple(
        fault(['stall', 'crashInFlight'], 'post', fc.constant(0), fc.constant(1), high),
        fault(['invalid'], 'post', fc.constant(1), oneOf(1, 3, 6)),
      )
      .map((both) => [...both]),
  }),
  theme({
    theme: 'a long wait, and then two at once',
    on: [...unknowns, 'pause', 'ambush', 'retry', 'reconcileOne'],
    limits: fc.constant({ ...unlimited, tenantMaxRunning: 2 }),
    operations: listOf(operation(), 1),
    actions: fc
      .tuple(
        action(['pause'], upTo(20 * second, 2000), high),
        action(['reconcileOne', 'retry'], upTo(2 * hour, hour)),
      )
      .map((both) => [...both]),
    faults: listOf(fault(unknowns, 'post', fc.constant(0), oneOf(1, 2)), 1),
    ambushes: listOf(
      ambush(['claim', 'slot', 'find'], ['reconcileOne', 'reconcileOne', 'cancel'], upTo(9000, 1000), {
        afterMs: upTo(500),
      }),
      4,
    ),
  }),
  theme({
    theme: 'redriven again and again',
    on: ['redriveOften', 'ambush', 'forbidden'],
    limits: limitsOf(unlimited, { tenantMaxRunning: oneOf(0, 2) }),
    operations: listOf(operation({ behaviour: oneOf('forbidden', 'forbidden', 'ok') }), 2),
    actions: listOf(action(['redriveOften'], upTo(20 * minute)), 2),
    ambushes: listOf(ambush(['claim', 'slot', 'defer'], ['redrive', 'sendAgain'], upTo(9000)), 2, 0),
  }),
  theme({
    theme: 'redriven weeks later',
    on: [...unknowns, 'redrive', 'ambush'],
    limits: limitsOf(unlimited, { maxAttempts: fc.constant(1), tenantMaxRunning: oneOf(0, 2) }),
    operations: listOf(operation(), 4, 2),
    faults: listOf(fault(unknowns, 'post', upTo(3), oneOf(1, 3, 6)), 3),
    actions: listOf(
      action(['redrive'], fc.oneof(upTo(hour), upTo(25 * hour, 22 * hour), upTo(72 * hour, 24 * hour))),
      7,
      3,
    ),
    ambushes: listOf(ambush(['claim', 'slot', 'defer'], ['redrive', 'sendAgain'], upTo(9000)), 2, 0),
  }),
  theme({
    theme: 'a cancel while the provider is asked',
    on: ['resetBefore', 'ambush', 'reconcileOne'],
    limits: limitsOf(unlimited, { maxAttempts: fc.constant(1), tenantMaxRunning: oneOf(0, 2) }),
    operations: listOf(operation(), 1),
    faults: listOf(fault(['resetBefore'], 'post', fc.constant(0), fc.constant(1)), 1),
    actions: listOf(action(['reconcileOne'], upTo(61 * minute, 58 * minute)), 1, 0),
    ambushes: listOf(
      ambush(['find'], ['cancel'], upTo(6000, 2000), { nth: upTo(14, 5), afterMs: upTo(200) }),
      1,
    ),
  }),
  theme({
    theme: 'waits of two that have one id',
    on: ['ambush', 'sendOtherInputs'],
    limits: fc.record({
      tenantDailyCalls: oneOf(null, 1),
      providerDailyCalls: oneOf(null, 1),
      batchSize: fc.constant(1),
    }),
    operations: listOf(operation({ rival: oneOf('otherInputs', 'same'), rivalAfterMs: upTo(300) }), 3, 2),
    ambushes: listOf(ambush(['defer'], ['sendOtherInputs', 'accept', 'sendAgain'], upTo(6000)), 3),
  }),
];
