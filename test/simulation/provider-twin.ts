import { canonicalJson } from '../../lambdas/operation/digest';
import type { Operation } from '../../lambdas/operation/operation';
import type { EffectResult, Finding, Outcome } from '../../lambdas/operation/outcome';
import { keyOf } from '../../lambdas/operation/ports';
import type { Behaviour } from './plan';
import type { VirtualTime } from './virtual-time';

const hourMs = 3_600_000;

/** A PaymentIntent or a refund in the provider's ledger. */
export interface Effect {
  readonly id: string;
  readonly key: string;
  readonly providerKey: string;
  readonly type: 'charge' | 'refund';
  readonly amountMinor: number;
  readonly chargeRef: string | undefined;
  readonly createdMs: number;
  state: 'succeeded' | 'processing' | 'failed';
}

/** Stands for the operation of what somebody did in the provider's dashboard. */
export const byHand = 'by hand';

interface KnownKey {
  readonly firstMs: number;
  readonly params: string;
  /** Undefined while the first request is under way. */
  saved: Outcome | undefined;
}

export interface ProviderEvents {
  landed(operation: Operation, what: string): void;
  reached(situation: 'keyForgotten' | 'keyInUse' | 'keySpent' | 'effectExists' | 'refundPending'): void;
}

/** What a request does when it lands beside what it asks for. */
export type Landing = 'well' | 'invalid' | 'savedErrorBefore' | 'savedErrorAfter' | 'unsavedErrorAfter';

/**
 * The provider in memory, by its documented contract: one key and one set of parameters is one effect for 24 hours, errors
 * 500 are saved and repeated, refusals are not. https://docs.stripe.com/api/idempotent_requests
 */
export class ProviderTwin {
  readonly effects: Effect[] = [];
  readonly #keys = new Map<string, KnownKey>();

  constructor(
    private readonly time: VirtualTime,
    private readonly events: ProviderEvents,
  ) {}

  /** Of one operation: what moved money, or may yet. */
  effectsOf(key: string): Effect[] {
    return this.effects.filter((effect) => effect.key === key && effect.state !== 'failed');
  }

  /** A request arrives. `answer` is called when the provider has its answer, if the sender still listens or not. */
  land(operation: Operation, workMs: number, landing: Landing, answer: (outcome: Outcome) => void): void {
    const params = paramsOf(operation);
    const atOnce = this.#answerAtOnce(operation, params, landing);
    if (atOnce) {
      answer(atOnce);
    } else if (landing === 'unsavedErrorAfter') {
      // A gateway's error: the request went on, and its answer is saved.
      this.#run(operation, params, workMs, 'well', () => {});
      answer({ kind: 'unknown', reason: 'status_502', keySpent: false });
    } else {
      this.#run(operation, params, workMs, landing, answer);
    }
  }

  /** What is known of the key, or wrong with the request. */
  #answerAtOnce(operation: Operation, params: string, landing: Landing): Outcome | undefined {
    const known = this.#known(operation.providerKey);
    if (known) {
      this.events.landed(operation, known.saved ? 'repeated' : 'in use');
      if (known.params !== params) return conflict;
      if (known.saved) return this.#repeated(known.saved);
      this.events.reached('keyInUse');
      return { kind: 'unknown', reason: 'key_in_use', keySpent: false };
    }
    const behaviour = behaviourOf(operation);
    if (behaviour === 'forbidden') {
      this.events.landed(operation, behaviour);
      return { kind: 'forbidden', error: { code: 'forbidden', message: 'Not this customer.' } };
    }
    // For a time, say: the customer's card was detached, and is attached again.
    if (behaviour !== 'invalid' && landing !== 'invalid') return undefined;
    this.events.landed(operation, 'invalid');
    return { kind: 'invalid', error: { code: 'resource_missing', message: 'No such customer.' } };
  }

  #known(providerKey: string): KnownKey | undefined {
    const known = this.#keys.get(providerKey);
    if (!known || this.time.nowMs() - known.firstMs < 24 * hourMs) return known;
    this.events.reached('keyForgotten');
    this.#keys.delete(providerKey);
    return undefined;
  }

  /** An answer under its key, as it was given, save that a saved error is now known to be one. */
  #repeated(saved: Outcome): Outcome {
    if (saved.kind !== 'unknown') return saved;
    this.events.reached('keySpent');
    return { ...saved, keySpent: true };
  }

  #run(
    operation: Operation,
    params: string,
    workMs: number,
    landing: Landing,
    answer: (outcome: Outcome) => void,
  ): void {
    const known: KnownKey = { firstMs: this.time.nowMs(), params, saved: undefined };
    this.#keys.set(operation.providerKey, known);
    this.events.landed(operation, landing);
    this.time.after(workMs, () => {
      const done = landing === 'savedErrorBefore' ? undefined : this.#do(operation);
      if (done?.kind === 'effectExists') {
        // A refusal is not saved.
        this.#keys.delete(operation.providerKey);
        answer(this.#ownRefund(operation, done));
        return;
      }
      const isSaid = done !== undefined && landing === 'well';
      known.saved = isSaid ? done : { kind: 'unknown', reason: 'status_500', keySpent: false };
      answer(known.saved);
    });
  }

  #do(operation: Operation): Outcome {
    const { type, input, providerKey } = operation;
    const chargeRef = operation.type === 'refund' ? operation.chargeRef : undefined;
    if (type === 'refund' && !this.#mayRefund(chargeRef, input.amountMinor)) {
      this.events.reached('effectExists');
      const error = { code: 'charge_already_refunded', message: 'Too little of the charge is left.' };
      return { kind: 'effectExists', error };
    }
    const behaviour = behaviourOf(operation);
    const isLater = behaviour === 'processing' || behaviour === 'processingFails';
    const effect: Effect = {
      id: `${type === 'charge' ? 'pi' : 're'}_${this.effects.length + 1}`,
      key: keyOf(operation),
      providerKey,
      type,
      amountMinor: input.amountMinor,
      chargeRef,
      createdMs: this.time.nowMs(),
      state: isLater ? 'processing' : behaviour === 'declined' ? 'failed' : 'succeeded',
    };
    this.effects.push(effect);
    if (isLater) {
      if (type === 'refund') this.events.reached('refundPending');
      // Seconds, hours or days.
      const { createdMs } = effect;
      const laterMs = createdMs % 3 === 0 ? 1000 + (createdMs % 40_000) : (1 + (createdMs % 4000)) * 60_000;
      this.time.after(laterMs, () => {
        effect.state = behaviour === 'processing' ? 'succeeded' : 'failed';
      });
    }
    return outcomeOf(effect);
  }

  /** Somebody refunds a charge in the dashboard. */
  refundByHand(key: string): void {
    const [charge] = this.effectsOf(key);
    if (charge?.state !== 'succeeded' || charge.type !== 'charge') return;
    if (!this.#mayRefund(charge.id, charge.amountMinor)) return;
    const { id, amountMinor } = charge;
    const createdMs = this.time.nowMs();
    const type = 'refund';
    const own = { id: `re_${this.effects.length + 1}`, key: byHand, providerKey: byHand, chargeRef: id };
    this.effects.push({ ...own, type, amountMinor, createdMs, state: 'succeeded' });
  }

  #mayRefund(chargeRef: string | undefined, amountMinor: number): boolean {
    const charge = this.effects.find(({ id }) => id === chargeRef);
    if (charge?.state !== 'succeeded') return false;
    const refunded = this.effects
      .filter((effect) => effect.chargeRef === chargeRef && effect.state !== 'failed')
      .reduce((sum, effect) => sum + effect.amountMinor, 0);
    return refunded + amountMinor <= charge.amountMinor;
  }

  /** As the adapter does: what was done before may be our own. */
  #ownRefund(operation: Operation, refused: Outcome & { readonly kind: 'effectExists' }): Outcome {
    const [own] = this.effectsOf(keyOf(operation));
    return own ? outcomeOf(own) : { kind: 'declined', error: refused.error };
  }

  /** By its reference, else by the list of what was created in the time that matters. */
  find(operation: Operation): Finding {
    const key = keyOf(operation);
    const { providerRef } = operation;
    const referred = this.effects.find(({ id }) => id === providerRef);
    if (referred) return found(referred);
    const since = operation.effectPossibleSinceMs ?? operation.absentProvenAtMs ?? operation.createdAtMs;
    const isListed = (effect: Effect) => operation.type === 'refund' || effect.createdMs >= since - hourMs;
    const own = this.effects.filter((effect) => effect.key === key && isListed(effect));
    const rank = { succeeded: 0, processing: 1, failed: 2 };
    const [first] = own.sort((a, b) => rank[a.state] - rank[b.state]);
    return first ? found(first) : { kind: 'absent' };
  }
}

const found = (effect: Effect): Finding => {
  const outcome = outcomeOf(effect);
  return outcome.kind === 'succeeded' || outcome.kind === 'accepted' || outcome.kind === 'declined'
    ? { kind: 'found', outcome }
    : { kind: 'unknown', reason: outcome.kind };
};

function outcomeOf({ id: providerRef, state, amountMinor }: Effect): Outcome {
  switch (state) {
    case 'succeeded': {
      const result: EffectResult = { amountMinor, currency: 'usd' };
      return { kind: 'succeeded', providerRef, result };
    }
    case 'processing':
      return { kind: 'accepted', providerRef };
    case 'failed':
      return { kind: 'declined', providerRef, error: { code: 'card_declined', message: 'Declined.' } };
  }
}

const conflict: Outcome = {
  kind: 'conflict',
  error: { code: 'idempotency_error', message: 'The key was used with other parameters.' },
};

/** What is sent: nothing but what the record has. */
const paramsOf = ({ type, input, inputDigest, providerParamsVersion, ...operation }: Operation): string =>
  canonicalJson([
    type,
    input,
    inputDigest,
    providerParamsVersion,
    'chargeRef' in operation && operation.chargeRef,
  ]);

/** The input says what its card does. */
export function behaviourOf({ type, input }: Operation): Behaviour {
  if (type === 'refund') {
    const { reason } = input;
    return reason === 'duplicate' ? 'processing' : reason === 'fraudulent' ? 'processingFails' : 'ok';
  }
  switch (input.paymentMethodId) {
    case 'pm_declined':
      return 'declined';
    case 'pm_processing':
      return 'processing';
    case 'pm_processingFails':
      return 'processingFails';
    case 'pm_invalid':
      return 'invalid';
    case 'pm_forbidden':
      return 'forbidden';
    default:
      return 'ok';
  }
}
