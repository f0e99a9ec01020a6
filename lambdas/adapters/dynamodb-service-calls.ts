import type { ServiceCalls } from '../operation/ports';
import { dayOf } from '../operation/tenant';
import type { Table } from './table-client';

const partition = 'provider#stripe';

/** The provider calls of the whole service in one UTC day, in the provider's item. Written only where a limit is set. */
export class DynamoDbServiceCalls implements ServiceCalls {
  /** @param dailyCalls the most in one UTC day; no limit when undefined */
  constructor(
    private readonly client: Table,
    private readonly dailyCalls: number | undefined,
  ) {}

  async takeCall(nowMs: number): Promise<boolean> {
    if (this.dailyCalls === undefined) return true;
    const values = { today: dayOf(nowMs), one: 1, dailyCalls: this.dailyCalls };
    const counted = await this.client.update(partition, {
      condition: '#callsDay = :today AND #calls < :dailyCalls',
      set: ['#calls = #calls + :one'],
      values,
    });
    if (counted.applied) return true;
    // Used up; or this clock is behind at midnight, and another worker's day has begun.
    const day = counted.item?.callsDay;
    if (typeof day === 'string' && day >= values.today) return false;
    // The first call of the day. Whoever loses this race counts after the winner.
    const begun = await this.client.update(partition, {
      condition: 'attribute_not_exists(#callsDay) OR #callsDay < :today',
      set: ['#callsDay = :today', '#calls = :one'],
      values,
    });
    return begun.applied || this.takeCall(nowMs);
  }
}
