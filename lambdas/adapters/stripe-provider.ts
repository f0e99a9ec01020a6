import * as z from 'zod/mini';
import type { Operation } from '../operation/operation';
import type { Finding, OperationError, Outcome } from '../operation/outcome';
import type { Check, Clock, EffectsPage, EffectsRequest, Inspection, Provider } from '../operation/ports';
import { answerOf, type StripeCall, StripeClients } from './stripe-client';
import { effectsPage } from './stripe-effects';
import type { ApiKey } from './stripe-key';
import { cancelIntent, checkKey, findCharge, findRefund, inspectEffect } from './stripe-lookup';
import { chargeOutcomeOf, intentIn, refundOutcomeOf } from './stripe-outcome';
import { paramsByVersion, paramsVersionOf } from './stripe-params';

/** Charges and refunds through Stripe's PaymentIntents and Refunds. */
export class StripeProvider implements Provider {
  readonly paramsVersionOf = paramsVersionOf;
  readonly #clients: StripeClients;

  /** @param baseUrl another base URL than Stripe's own: the stand-in on a laptop */
  constructor(
    private readonly apiKey: ApiKey,
    private readonly clock: Clock,
    baseUrl?: URL,
    private readonly checksCustomers = false,
  ) {
    this.#clients = new StripeClients(clock, baseUrl);
  }

  async charge(operation: Operation & { readonly type: 'charge' }, timeoutMs: number): Promise<Outcome> {
    // Stored by a newer build, before a roll-back: a newer worker will make them.
    const params = paramsByVersion[operation.providerParamsVersion]?.charge(operation);
    if (!params) return { kind: 'notSent', reason: 'params_version_unknown' };
    return this.#withKey(timeoutMs, async (call) => {
      const refused = this.checksCustomers ? await refusedCustomer(call, operation) : undefined;
      if (refused) return refused;
      const options = call.options(operation.providerKey);
      if (!options) return outOfTime;
      const answer = await answerOf(() => call.stripe.paymentIntents.create(params, options));
      const intent = 'object' in answer ? intentIn(answer.object) : undefined;
      if (intent?.status !== 'requires_action') return chargeOutcomeOf(answer);
      return cancelIntent(call, operation, intent.id);
    });
  }

  async refund(operation: Operation & { readonly type: 'refund' }, timeoutMs: number): Promise<Outcome> {
    const params = paramsByVersion[operation.providerParamsVersion]?.refund(operation);
    if (!params) return { kind: 'notSent', reason: 'params_version_unknown' };
    return this.#withKey(timeoutMs, async (call) => {
      const options = call.options(operation.providerKey);
      if (!options) return outOfTime;
      const outcome = refundOutcomeOf(await answerOf(() => call.stripe.refunds.create(params, options)));
      return outcome.kind === 'effectExists' ? ownRefund(call, operation, outcome.error) : outcome;
    });
  }

  async find(operation: Operation, timeoutMs: number): Promise<Finding> {
    const finding = await this.#withKey<Finding>(timeoutMs, (call) =>
      operation.type === 'charge' ? findCharge(call, operation) : findRefund(call, operation),
    );
    return finding.kind === 'notSent' ? { kind: 'unavailable', reason: finding.reason } : finding;
  }

  async inspect(operation: Operation, providerRef: string, timeoutMs: number): Promise<Inspection> {
    const inspected = await this.#withKey(timeoutMs, (call) => inspectEffect(call, operation, providerRef));
    return 'owner' in inspected
      ? inspected
      : { finding: { kind: 'unavailable', reason: inspected.reason }, owner: 'unmarked' };
  }

  async effects(request: EffectsRequest, timeoutMs: number): Promise<EffectsPage> {
    const page = await this.#withKey<EffectsPage>(timeoutMs, (call) => effectsPage(call, request));
    return page.kind === 'notSent' ? { kind: 'unavailable', reason: page.reason } : page;
  }

  async check(timeoutMs: number): Promise<readonly Check[]> {
    const key = await this.apiKey.reread();
    if (key === undefined)
      return [{ name: 'the key', ok: false, said: 'nobody has set one, or the secret cannot be read' }];
    const mode = /^[a-z]+_live_/.test(key) ? 'live' : 'test';
    const set = { name: 'the key', ok: true, said: `is set, for ${mode} mode` };
    return [
      set,
      ...(await checkKey(this.#clients.call(key, this.clock() + timeoutMs), this.checksCustomers)),
    ];
  }

  async #withKey<T extends object>(
    timeoutMs: number,
    run: (call: StripeCall) => Promise<T>,
  ): Promise<T | NotSent> {
    const deadlineMs = this.clock() + timeoutMs;
    const key = await this.apiKey.current();
    if (key === undefined) return { kind: 'notSent', reason: 'provider_key_missing' };
    const outcome = await run(this.#clients.call(key, deadlineMs));
    if (!('reason' in outcome) || outcome.reason !== 'unauthorized') return outcome;
    // A rotated key: read the secret once more. The same key again would only be refused again.
    const fresh = await this.apiKey.reread();
    return fresh === undefined || fresh === key ? outcome : run(this.#clients.call(fresh, deadlineMs));
  }
}

type NotSent = Extract<Outcome, { kind: 'notSent' }>;

const outOfTime: Outcome = { kind: 'notSent', reason: 'out_of_time' };

/** Tenants that call the API themselves may charge their own customers only, which Stripe knows by their metadata. */
async function refusedCustomer(
  call: StripeCall,
  { tenantId, input }: Operation & { readonly type: 'charge' },
): Promise<Outcome | undefined> {
  const options = call.options();
  if (!options) return outOfTime;
  const answer = await answerOf(() => call.stripe.customers.retrieve(input.customerId, {}, options));
  if ('error' in answer) {
    const outcome = chargeOutcomeOf(answer);
    // Nothing was asked for yet that could move money.
    return outcome.kind === 'unknown' ? { kind: 'notSent', reason: 'customer_unknown' } : outcome;
  }
  const parsed = customerSchema.safeParse(answer.object);
  if (parsed.success && parsed.data.metadata?.tenantId === tenantId) return undefined;
  const message = "The customer does not carry the tenant's id in its metadata.";
  return { kind: 'invalid', error: { code: 'customer_of_another_tenant', message } };
}

const customerSchema = z.object({ metadata: z.nullish(z.record(z.string(), z.string())) });

/** "Already refunded" may be our own refund, whose answer was lost. Not ours: the refund can never succeed. */
async function ownRefund(
  call: StripeCall,
  operation: Operation & { readonly type: 'refund' },
  error: OperationError,
): Promise<Outcome> {
  const finding = await findRefund(call, operation);
  switch (finding.kind) {
    case 'found':
      return finding.outcome;
    case 'absent':
      return { kind: 'declined', error };
    case 'unknown':
    case 'unavailable':
      return { kind: 'unknown', reason: 'refunds_not_listed', keySpent: false };
  }
}
