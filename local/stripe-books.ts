import type { ChargeObject, Metadata, PaymentIntentObject, RefundObject } from './stripe-objects';

/** One movement of money; declines, unfinished payments and answers are not in the ledger. */
export interface LedgerEntry {
  readonly kind: 'charge' | 'refund';
  /** The id of the charge or of the refund. */
  readonly id: string;
  readonly paymentIntentId: string;
  /** In the currency's smallest unit. */
  readonly amountMinor: number;
  readonly currency: string;
  readonly customerId: string | null;
  readonly metadata: Metadata;
  /** The key of the request that caused it; undefined when it had none. */
  readonly idempotencyKey: string | undefined;
  readonly atMs: number;
}

interface IntentVersion {
  readonly atMs: number;
  readonly intent: PaymentIntentObject;
}

/** Everything one Stripe account holds. Objects are replaced, never changed, so an old answer stays as it was. */
export class Books {
  readonly ledger: LedgerEntry[] = [];
  readonly charges = new Map<string, ChargeObject>();
  readonly refunds = new Map<string, RefundObject>();
  readonly #intents = new Map<string, PaymentIntentObject>();
  readonly #versions = new Map<string, IntentVersion[]>();
  readonly #keys = new Map<string, string | undefined>();

  constructor(readonly now: () => number) {}

  nowSeconds(): number {
    return Math.floor(this.now() / 1000);
  }

  intent(id: string): PaymentIntentObject | undefined {
    return this.#intents.get(id);
  }

  /** Oldest first. */
  intents(): readonly PaymentIntentObject[] {
    return [...this.#intents.values()];
  }

  /** The intents as the search index showed them at that time, oldest first. */
  intentsAsOf(atMs: number): readonly PaymentIntentObject[] {
    return [...this.#versions.values()].flatMap(
      (versions) => versions.findLast((version) => version.atMs <= atMs)?.intent ?? [],
    );
  }

  putIntent(intent: PaymentIntentObject): PaymentIntentObject {
    this.#intents.set(intent.id, intent);
    const versions = this.#versions.get(intent.id) ?? [];
    versions.push({ atMs: this.now(), intent });
    this.#versions.set(intent.id, versions);
    return intent;
  }

  /** Remembers which request made an object, for a ledger entry that is written when it settles. */
  rememberKey(objectId: string, idempotencyKey: string | undefined): void {
    this.#keys.set(objectId, idempotencyKey);
  }

  recordCharge(intent: PaymentIntentObject, chargeId: string): void {
    this.ledger.push({
      kind: 'charge',
      id: chargeId,
      paymentIntentId: intent.id,
      amountMinor: intent.amount,
      currency: intent.currency,
      customerId: intent.customer,
      metadata: intent.metadata,
      idempotencyKey: this.#keys.get(intent.id),
      atMs: this.now(),
    });
  }

  recordRefund(refund: RefundObject): void {
    this.ledger.push({
      kind: 'refund',
      id: refund.id,
      paymentIntentId: refund.payment_intent,
      amountMinor: refund.amount,
      currency: refund.currency,
      customerId: this.intent(refund.payment_intent)?.customer ?? null,
      metadata: refund.metadata,
      idempotencyKey: this.#keys.get(refund.id),
      atMs: this.now(),
    });
  }
}
