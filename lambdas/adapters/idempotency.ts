import {
  IdempotencyConfig,
  IdempotencyItemAlreadyExistsError,
  IdempotencyRecordStatus,
  makeIdempotent,
} from '@aws-lambda-powertools/idempotency';
import { BasePersistenceLayer, IdempotencyRecord } from '@aws-lambda-powertools/idempotency/persistence';
import type { Context } from 'aws-lambda';

/** One operation's steps. `C` is a claim, `O` an outcome, `D` what becomes of the message. */
export interface Steps<C, O, D> {
  claim(): Promise<{ readonly claim: C } | { readonly disposition: D }>;
  attempt(claim: C): Promise<O>;
  settle(claim: C, outcome: O): Promise<D>;
}

/**
 * Runs claim, attempt and settle inside Powertools' `makeIdempotent`: put is the claim, update is the settle, and
 * delete deletes nothing, because a record that may stand for money outlives every failure.
 * @param key the operation's id, never empty
 * @throws when the wrapper ran the attempt without a claim (POWERTOOLS_IDEMPOTENCY_DISABLED), before any effect;
 *   and whatever the steps throw, from inside Powertools' error
 */
export async function runOnce<C, O, D>(key: string, context: Context, steps: Steps<C, O, D>): Promise<D> {
  const layer = new ClaimLayer(steps);
  const run = makeIdempotent((_key: string) => layer.attempt(), {
    persistenceStore: layer,
    config: configOf(context),
  });
  try {
    await run(key);
  } catch (error) {
    throw error instanceof Error && error.cause instanceof Error ? error.cause : error;
  }
  return layer.disposition();
}

/** One for an invocation's messages: each has its own table of JMESPath functions, none of which is used here. */
function configOf(context: Context): IdempotencyConfig {
  const known = configs.get(context);
  if (known) return known;
  const config = new IdempotencyConfig({ throwOnNoIdempotencyKey: true, lambdaContext: context });
  configs.set(context, config);
  return config;
}
const configs = new WeakMap<Context, IdempotencyConfig>();

/** One per message. The stock DynamoDB layer replaces and deletes records; this one leaves both to the claim's conditions. */
class ClaimLayer<C, O, D> extends BasePersistenceLayer {
  #claim: { readonly held: C } | undefined;
  #outcome: { readonly known: O } | undefined;
  #disposition: { readonly decided: D } | undefined;

  constructor(private readonly steps: Steps<C, O, D>) {
    super();
  }

  async attempt(): Promise<null> {
    if (!this.#claim)
      throw new Error(
        'Nothing is attempted without a claim: the idempotency wrapper ran the function without one',
      );
    this.#outcome = { known: await this.steps.attempt(this.#claim.held) };
    return null;
  }

  disposition(): D {
    if (!this.#disposition) throw new Error('The idempotency wrapper ended without settling or refusing');
    return this.#disposition.decided;
  }

  protected override async _putRecord(record: IdempotencyRecord): Promise<void> {
    const taken = await this.steps.claim();
    if ('claim' in taken) {
      this.#claim = { held: taken.claim };
      return;
    }
    this.#disposition = { decided: taken.disposition };
    const { idempotencyKey } = record;
    const decided = new IdempotencyRecord({ idempotencyKey, status: IdempotencyRecordStatus.COMPLETED });
    throw new IdempotencyItemAlreadyExistsError(`Nothing to run for ${idempotencyKey}`, decided);
  }

  protected override async _updateRecord(): Promise<void> {
    if (!this.#claim || !this.#outcome) throw new Error('Nothing is settled without a claim and an outcome');
    this.#disposition = { decided: await this.steps.settle(this.#claim.held, this.#outcome.known) };
  }

  protected override async _deleteRecord(): Promise<void> {}

  protected override async _getRecord(key: string): Promise<IdempotencyRecord> {
    throw new Error(`The refusal of ${key} carries its record; it is never read again`);
  }
}
