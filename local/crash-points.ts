import type { LocalStack } from './stack';

/** The exact points of a delivery at which a worker can be killed, in the order in which it passes them. */
export const crashPoints = {
  beforeClaim: 'before the claim',
  beforeCall: 'after the claim, before the call',
  afterEffect: 'after the provider committed, before its answer',
  beforeSettle: 'after the answer, before the settle',
  afterSettle: 'after the settle, before the acknowledgement',
} as const;
export type CrashPoint = keyof typeof crashPoints;

export const isCrashPoint = (name: string): name is CrashPoint => Object.hasOwn(crashPoints, name);

export interface ArmedCrash {
  /** Resolves with how many processes were killed, once a delivery has come to the point. */
  readonly killed: Promise<number>;
  /** Takes it back, if it has not happened yet. */
  disarm(): void;
}

/**
 * Arms the stack so that its worker processes are killed (SIGKILL) when the next delivery comes to this point.
 * @throws Error for a point at the provider, when the stack uses another Stripe than the stand-in
 */
export function crashAt(stack: LocalStack, point: CrashPoint): ArmedCrash {
  const { promise: killed, resolve } = Promise.withResolvers<number>();
  const kill = () => resolve(stack.workers.killAll('SIGKILL'));
  return { killed, disarm: armed[point](stack, kill) };
}

type Arm = (stack: LocalStack, kill: () => void) => () => void;

const atUpdate =
  (state: 'running' | 'succeeded', when: 'before' | 'after'): Arm =>
  (stack, kill) => {
    const where = (body: unknown) => JSON.stringify(body).includes(`":state":{"S":"${state}"}`);
    const killAndDrop = (): 'drop' => {
      kill();
      return 'drop';
    };
    return stack.dynamodbProxy.intercept(
      { action: 'UpdateItem', where, times: 1 },
      { kind: 'hook', [when]: killAndDrop },
    );
  };

const atProvider =
  (at: 'beforeEffect' | 'afterEffect'): Arm =>
  (stack, kill) => {
    if (!stack.stripe) throw new Error('Only the Stripe stand-in can say when it has committed.');
    return stack.stripe.fault({ kind: 'hook', at, run: kill, next: 'drop' }, { method: 'POST' });
  };

const armed: Readonly<Record<CrashPoint, Arm>> = {
  beforeClaim: atUpdate('running', 'before'),
  beforeCall: atProvider('beforeEffect'),
  afterEffect: atProvider('afterEffect'),
  beforeSettle: atUpdate('succeeded', 'before'),
  afterSettle: atUpdate('succeeded', 'after'),
};
