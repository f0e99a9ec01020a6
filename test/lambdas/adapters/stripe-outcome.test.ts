import Stripe from 'stripe';
import { chargeOutcomeOf, refundOutcomeOf } from '../../../lambdas/adapters/stripe-outcome';

const system = (code: string, syscall: string) =>
  Object.assign(new Error(`${syscall} ${code}`), { code, syscall });
const connectionError = (cause: Error) =>
  new Stripe.errors.StripeConnectionError({
    message: 'An error occurred with our connection to Stripe.',
    type: 'api_error',
    detail: new Error('No answer from Stripe', { cause }),
  });

const both = [chargeOutcomeOf, refundOutcomeOf];

test.each([
  ['ECONNREFUSED', 'connect'],
  ['ENOTFOUND', 'getaddrinfo'],
  ['EAI_AGAIN', 'getaddrinfo'],
  ['EHOSTUNREACH', 'connect'],
  ['ENETUNREACH', 'connect'],
  ['ETIMEDOUT', 'connect'],
])('%s of %s was before anything was sent', (code, syscall) => {
  for (const outcomeOf of both) {
    expect(outcomeOf({ error: connectionError(system(code, syscall)) })).toEqual({
      kind: 'notSent',
      reason: 'connection_refused',
    });
  }
});

test.each([
  ['ECONNRESET', 'read'],
  ['EPIPE', 'write'],
  ['ETIMEDOUT', 'read'],
  // The network went away under a connection that stood: the request may have arrived.
  ['EHOSTUNREACH', 'read'],
  ['ENETUNREACH', 'write'],
])('%s of %s may have been after the request was sent', (code, syscall) => {
  for (const outcomeOf of both) {
    expect(outcomeOf({ error: connectionError(system(code, syscall)) })).toMatchObject({
      kind: 'unknown',
      keySpent: false,
    });
  }
});

test.each([[undefined], [null], ['text'], [7], [new Error('a bug')], [{ statusCode: 402 }]])(
  'what no Stripe call throws (%p) says nothing about the money',
  (error) => {
    for (const outcomeOf of both)
      expect(outcomeOf({ error })).toMatchObject({ kind: 'unknown', keySpent: false });
  },
);
