import { randomUUID } from 'node:crypto';

/** String values by name, as Stripe keeps them on an object. */
export type Metadata = Readonly<Record<string, string>>;

/** A PaymentIntent on the wire, https://docs.stripe.com/api/payment_intents/object (the fields kept here). */
export interface PaymentIntentObject {
  readonly id: string;
  readonly object: 'payment_intent';
  readonly amount: number;
  readonly amount_capturable: number;
  readonly amount_received: number;
  readonly canceled_at: number | null;
  readonly cancellation_reason: string | null;
  readonly capture_method: string;
  readonly client_secret: string;
  readonly confirmation_method: string;
  readonly created: number;
  readonly currency: string;
  readonly customer: string | null;
  readonly description: string | null;
  readonly last_payment_error: LastPaymentError | null;
  readonly latest_charge: string | null;
  readonly livemode: false;
  readonly metadata: Metadata;
  readonly next_action: { readonly type: string } | null;
  readonly payment_method: string | null;
  readonly payment_method_types: readonly string[];
  readonly status: string;
}

/** Why the last try to pay failed: the same fields as the `error` of the 402. */
export interface LastPaymentError {
  readonly type: string;
  readonly code: string;
  readonly decline_code?: string;
  readonly message: string;
  readonly charge: string | null;
  readonly payment_method: { readonly id: string; readonly object: 'payment_method' };
}

/** A Charge on the wire: one try to take the money. */
export interface ChargeObject {
  readonly id: string;
  readonly object: 'charge';
  readonly amount: number;
  readonly amount_captured: number;
  readonly amount_refunded: number;
  readonly captured: boolean;
  readonly created: number;
  readonly currency: string;
  readonly customer: string | null;
  readonly failure_code: string | null;
  readonly failure_message: string | null;
  readonly livemode: false;
  readonly metadata: Metadata;
  readonly paid: boolean;
  readonly payment_intent: string;
  readonly payment_method: string | null;
  readonly refunded: boolean;
  readonly status: 'succeeded' | 'pending' | 'failed';
}

/** A Refund on the wire, https://docs.stripe.com/api/refunds/object. */
export interface RefundObject {
  readonly id: string;
  readonly object: 'refund';
  readonly amount: number;
  readonly charge: string;
  readonly created: number;
  readonly currency: string;
  readonly failure_reason?: string;
  readonly metadata: Metadata;
  readonly payment_intent: string;
  readonly reason: string | null;
  readonly status: 'succeeded' | 'pending' | 'failed';
}

/** A new id such as `pi_5f0c...`. */
export function newId(prefix: 'pi' | 'ch' | 'py' | 're' | 'req'): string {
  return `${prefix}_${randomUUID().replaceAll('-', '').slice(0, 24)}`;
}

/** `tenantId/operationId` from an object's or a request's metadata, undefined when either is absent. */
export function operationOf(metadata: Metadata): string | undefined {
  const { tenantId, operationId } = metadata;
  return tenantId && operationId ? `${tenantId}/${operationId}` : undefined;
}
