/** What one attempt established. Returned, never thrown: an exception is a bug, or AWS being down. */
export type Outcome =
  /** The provider says that the money moved. */
  | { readonly kind: 'succeeded'; readonly providerRef: string; readonly result: EffectResult }
  /** The provider took it and will say later how it ended. */
  | { readonly kind: 'accepted'; readonly providerRef: string }
  /** Refused by the card's issuer, or needs the customer: final, nothing moved. */
  | { readonly kind: 'declined'; readonly error: OperationError; readonly providerRef?: string }
  /** The request can never succeed. Says nothing about an earlier attempt. `other_mode`: our key is of the other mode than what it asks for. */
  | { readonly kind: 'invalid'; readonly error: OperationError; readonly reason?: 'other_mode' }
  /** The provider says that it was done before, perhaps not by us. */
  | { readonly kind: 'effectExists'; readonly error: OperationError }
  /** The same key with other parameters: a bug of ours, or somebody else's key. */
  | { readonly kind: 'conflict'; readonly error: OperationError }
  /** Refused for this operation's account or customer before anything was done. */
  | { readonly kind: 'forbidden'; readonly error: OperationError }
  /** Nothing was done and nothing will be: later is another first time. */
  | { readonly kind: 'notSent'; readonly reason: NotSentReason }
  /** It may have been done. `keySpent`: the provider will only repeat this answer under the same key. */
  | {
      readonly kind: 'unknown';
      readonly reason: string;
      readonly keySpent: boolean;
      readonly providerRef?: string;
    };

export type NotSentReason =
  | 'rate_limited'
  /** Another request works on the same object: this customer's, not everybody's. */
  | 'lock_timeout'
  | 'connection_refused'
  | 'unauthorized'
  /** Nobody has set the provider's key yet. */
  | 'provider_key_missing'
  /** Whose customer it is could not be found out. */
  | 'customer_unknown'
  /** Stored by a newer build, before a roll-back. */
  | 'params_version_unknown'
  | 'out_of_time';

/** A small fixed set of fields of the provider's answer, as far as it gave them. Amounts in the currency's minor unit. */
export interface EffectResult {
  readonly amountMinor?: number;
  readonly currency?: string;
  readonly chargeId?: string;
}

/** `code` is the provider's own where it gave one. `message` has at most 100 characters. */
export interface OperationError {
  readonly code: string;
  readonly message: string;
  /** The issuer's reason for a decline. */
  readonly declineCode?: string;
}

/** What the provider says when it is asked what became of an operation. */
export type Finding =
  /** Its effect, as it stands: moved, under way, or ended without money moving and for good. */
  | {
      readonly kind: 'found';
      readonly outcome: Extract<Outcome, { kind: 'succeeded' | 'accepted' | 'declined' }>;
    }
  /** The whole list of what it could be was read, and it is not in it. */
  | { readonly kind: 'absent' }
  /** It cannot be told: the list is not to be read, or not to be understood. With a reference: it exists, and its state says nothing. */
  | { readonly kind: 'unknown'; readonly reason: string; readonly providerRef?: string }
  /** The provider cannot be asked at the moment. */
  | { readonly kind: 'unavailable'; readonly reason: string };
