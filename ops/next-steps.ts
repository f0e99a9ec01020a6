import { viewOf } from '../lambdas/http/view';
import { isKeySpent } from '../lambdas/operation/delivery';
import { nameOf, type Operation } from '../lambdas/operation/operation';
import { opsCommand } from './session';
import type { Target } from './target';

/** Something that a person may do next, as it is to be typed. */
export interface Step {
  readonly command: string;
  readonly why: string;
}

/** What helps an operation on; nothing where it has ended, or goes on by itself. */
export function nextSteps(operation: Operation, target: Target): Step[] {
  const name = nameOf(operation);
  const step = (command: string, why: string): Step => ({ command: opsCommand(target, command), why });
  const reference = operation.type === 'charge' ? 'pi_...' : 're_...';
  switch (operation.state) {
    case 'succeeded':
    case 'failed':
    case 'cancelled':
    case 'running':
      return [];
    case 'settling':
      return [step(`operation reconcile ${name}`, 'asks Stripe how it ended, now')];
    case 'queued':
      return viewOf(operation).effectPossible
        ? [step(`operation reconcile ${name}`, 'asks Stripe what the earlier attempt did')]
        : [step(`operation cancel ${name}`, 'if it is not wanted any more')];
    case 'parked':
      if (!viewOf(operation).effectPossible) {
        return [
          step(`operation retry ${name}`, 'once the reason for it is gone'),
          step(`operation cancel ${name}`, 'if it is not wanted any more'),
        ];
      }
      return [
        step(`operation reconcile ${name}`, 'asks Stripe what happened; it may settle it'),
        ...(isKeySpent(operation)
          ? []
          : [step(`operation retry ${name}`, 'tries again under the same key, where that is safe')]),
        step(`operation settle ${name} --succeeded ${reference}`, 'if Stripe shows that it happened'),
        step(
          `operation settle ${name} --absent --evidence "TEXT"`,
          'if you have proof that it did not: say which',
        ),
      ];
  }
}

export const stepsText = (steps: readonly Step[]): string =>
  steps.map(({ command, why }) => `  ${command}\n      ${why}`).join('\n');
