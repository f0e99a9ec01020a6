import type { Fault } from '../stripe-faults';

/** What a person can plan for the next calls of the provider, by name. */
export const faults = {
  stall: { kind: 'stall', ms: 5000, effect: 'none' },
  loseAnswer: { kind: 'stall', ms: 5000, effect: 'done' },
  reset: { kind: 'reset', effect: 'none' },
  tooMany: { kind: 'answer', status: 429, error: { type: 'invalid_request_error', code: 'rate_limit' } },
  unavailable: { kind: 'answer', status: 503, error: { type: 'api_error', message: 'Unavailable.' } },
  savedError: { kind: 'answer', status: 500, error: { type: 'api_error', message: 'Something broke.' } },
  wrongKey: {
    kind: 'answer',
    status: 401,
    error: { type: 'invalid_request_error', message: 'Invalid API Key provided.' },
  },
  decline: {
    kind: 'answer',
    status: 402,
    error: {
      type: 'card_error',
      code: 'card_declined',
      decline_code: 'generic_decline',
      message: 'The card was declined.',
    },
  },
} as const satisfies Readonly<Record<string, Fault>>;
export type FaultName = keyof typeof faults;

export const isFaultName = (name: string): name is FaultName => Object.hasOwn(faults, name);

/** A planned fault in a few words. */
export function describeFault(fault: Fault): string {
  switch (fault.kind) {
    case 'answer':
      return `answers ${fault.status}`;
    case 'reset':
      return fault.effect === 'done'
        ? 'connection lost after the effect'
        : 'connection lost before the effect';
    case 'stall':
      return fault.effect === 'done' ? 'effect, then no answer' : 'stalls';
    case 'lateEffect':
      return 'lands late';
    case 'truncate':
      return 'half an answer';
    case 'hook':
      return 'kills the workers';
  }
}
