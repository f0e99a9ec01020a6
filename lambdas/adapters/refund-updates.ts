import type { Limits } from '../operation/limits';
import type { Operation, RefundPart } from '../operation/operation';
import { retention } from './operation-parts';
import type { ConditionalUpdate } from './table-client';

/** A refund's part of its charge, once per refund; the sum of the parts stays within the charge. */
export function refundReservationUpdate(
  charge: Operation,
  refundId: string,
  part: RefundPart,
  limits: Limits,
): ConditionalUpdate {
  const succeeded = '#state = :succeeded';
  const { amountMinor } = part;
  // A charge outlives its refunds.
  const kept = retention(limits, part.reservedAtMs);
  if (charge.refunds === undefined) {
    return {
      condition: `${succeeded} AND attribute_not_exists(#refunds) AND #input.#amountMinor >= :refundedMinor`,
      assign: { refunds: { [refundId]: part }, refundedMinor: amountMinor, ...kept },
      values: { succeeded: 'succeeded' },
    };
  }
  return {
    condition: `${succeeded} AND attribute_not_exists(#refunds.#refund) AND #refundedMinor <= :mostBefore`,
    assign: kept,
    set: ['#refunds.#refund = :part', '#refundedMinor = #refundedMinor + :amountMinor'],
    values: { succeeded: 'succeeded', part, amountMinor, mostBefore: charge.input.amountMinor - amountMinor },
    names: { refund: refundId },
  };
}

/**
 * Gives back a refund's part of its charge, if the charge still holds it: a second release changes nothing.
 * @param part its amount in minor units; with `reservedAtMs` only the part that was reserved then, not a later one of that id
 */
export function refundReleaseUpdate(
  refundId: string,
  { amountMinor, reservedAtMs }: Pick<RefundPart, 'amountMinor'> & Partial<RefundPart>,
): ConditionalUpdate {
  const isSeen = reservedAtMs === undefined ? '' : ' AND #refunds.#refund.#reservedAtMs = :reservedAtMs';
  return {
    condition: `#refunds.#refund.#amountMinor = :amountMinor${isSeen}`,
    set: ['#refundedMinor = #refundedMinor - :amountMinor'],
    remove: ['refunds.#refund'],
    values: { amountMinor, reservedAtMs },
    names: { refund: refundId },
  };
}
