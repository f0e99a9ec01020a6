import type { Answer } from './stripe-answers';

/** Stripe may forget a key once it is 24 h old, https://docs.stripe.com/api/idempotent_requests. */
const KEY_LIFE_MS = 24 * 60 * 60 * 1000;

/** What makes two requests the same request. */
export interface KeyedRequest {
  readonly idempotencyKey: string | undefined;
  /** Method and path. */
  readonly endpoint: string;
  readonly paramsFingerprint: string;
  readonly requestId: string;
}

/** The first request of a key, and its answer once there is one to replay. */
export interface KeySlot {
  readonly request: KeyedRequest;
  readonly firstUsedAtMs: number;
  isOpen: boolean;
  answer: Answer | undefined;
}

/** What a request's key says before anything is done. */
export type KeyState =
  | { readonly kind: 'new' }
  | { readonly kind: 'saved'; readonly slot: KeySlot; readonly answer: Answer }
  | { readonly kind: 'inUse' }
  | { readonly kind: 'otherRequest' };

/** The memory of idempotency keys. */
export class KeyMemory {
  #slots = new Map<string, KeySlot>();

  constructor(private readonly now: () => number) {}

  look(request: KeyedRequest): KeyState {
    const slot = this.#slots.get(request.idempotencyKey ?? '');
    if (!slot || this.now() - slot.firstUsedAtMs >= KEY_LIFE_MS) return { kind: 'new' };
    const first = slot.request;
    if (first.endpoint !== request.endpoint || first.paramsFingerprint !== request.paramsFingerprint) {
      return { kind: 'otherRequest' };
    }
    return slot.answer && !slot.isOpen ? { kind: 'saved', slot, answer: slot.answer } : { kind: 'inUse' };
  }

  /** Takes a new key. A request without a key gets a slot that nobody finds. */
  claim(request: KeyedRequest): KeySlot {
    const slot = { request, firstUsedAtMs: this.now(), isOpen: true, answer: undefined };
    if (request.idempotencyKey !== undefined) this.#slots.set(request.idempotencyKey, slot);
    return slot;
  }

  /** The request is over: its answer can be replayed, or, when none was saved, the key is as good as new. */
  close(slot: KeySlot): void {
    slot.isOpen = false;
    const key = slot.request.idempotencyKey ?? '';
    if (slot.answer === undefined && this.#slots.get(key) === slot) this.#slots.delete(key);
  }

  forgetAll(): void {
    this.#slots.clear();
  }
}
