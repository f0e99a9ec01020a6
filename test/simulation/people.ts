import { accept } from '../../lambdas/operation/accept';
import { cancel } from '../../lambdas/operation/cancel';
import type { Message } from '../../lambdas/operation/message';
import { operate, reconcileOne } from '../../lambdas/operation/operate';
import { messageOf, type OperationId } from '../../lambdas/operation/operation';
import type { OperatorRequest } from '../../lambdas/operation/operator-request';
import { keyOf } from '../../lambdas/operation/ports';
import { bodyOf, chargeOf, idOf, jobOf, oldestBodyOf, refundOf, withOtherInputs } from './jobs';
import type { Action, Ambush, PlannedOperation, ProviderFault } from './plan';
import type { World } from './world';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const by = 'a person';

/** What producers, callers of the API and operators do: the parts of a plan that come from outside. */
export class People {
  constructor(private readonly world: World) {}

  begin(index: number, planned: PlannedOperation): void {
    const message = jobOf(this.world.plan, index);
    if (planned.by === 'api') this.#accept(message);
    else this.#send(message);
    this.world.time.after(planned.rivalAfterMs, () => this.#rival(message, planned));
  }

  #rival(message: Message, { rival }: PlannedOperation): void {
    switch (rival) {
      case 'none':
        return;
      case 'same':
        this.#send(message);
        return;
      case 'otherInputs':
        this.#send(withOtherInputs(message));
        return;
      case 'accept':
        this.#accept(message);
    }
  }

  act(action: Action): void {
    const { world } = this;
    if (world.isStopped()) return;
    world.reached(action.kind);
    world.say(`action: ${action.kind}`);
    const message = jobOf(world.plan, action.operation % world.plan.operations.length);
    switch (action.kind) {
      case 'sendAgain':
        this.#send(message);
        break;
      case 'sendInOtherVersion':
        this.#send(message, oldestBodyOf(message));
        break;
      case 'sendOtherInputs':
        this.#send(withOtherInputs(message));
        break;
      case 'sendMalformed':
        world.queue.send('{"version":1');
        break;
      case 'sendFutureVersion':
        world.queue.send(JSON.stringify({ ...message, version: 99, operationId: 'future' }));
        break;
      case 'accept':
        this.#accept(message);
        break;
      case 'acceptOtherInputs':
        this.#accept(withOtherInputs(message));
        break;
      case 'refund':
        this.#refund(message, Math.max(1, Math.round(action.amount * 1000)));
        break;
      case 'refundsAtOnce':
        this.#refundsAtOnce(message, action.amount);
        break;
      case 'redriveOften':
        for (let round = 1; round <= 8; round++)
          world.time.after(round * 10 * minuteMs, () => {
            if (!world.isOver()) world.queue.redrive();
          });
        break;
      case 'burst':
        this.#burst(message, action.amount);
        break;
      case 'refundByHand':
        world.provider.refundByHand(keyOf(message));
        break;
      case 'redrive':
        world.queue.redrive();
        break;
      case 'outage':
        world.beginOutage(outages[action.operation] ?? 'refused', action.amount * 3 * hourMs, action.amount);
        break;
      case 'deploy':
        world.deploy();
        break;
      case 'pause':
        this.#pause(action.amount * 2 * hourMs);
        break;
      case 'cancel':
      case 'retry':
      case 'settleAbsent':
      case 'settleSucceeded':
      case 'reconcileOne':
        this.#askFor(action, this.#chosen(message, action.amount));
    }
  }

  /** Somebody acts on the very operation that a process has in hand. */
  ambush({ kind, amount }: Ambush, id: OperationId | undefined): void {
    const { world } = this;
    world.say(`ambush: ${kind} ${id ? keyOf(id) : ''}`);
    const { plan } = world;
    const index = plan.operations.findIndex(
      (_, one) => id !== undefined && keyOf(idOf(plan, one)) === keyOf(id),
    );
    const message = jobOf(plan, Math.max(0, index));
    switch (kind) {
      case 'sendAgain':
        if (index < 0 && id) this.#sendRecorded(id);
        else this.#send(message);
        break;
      case 'sendOtherInputs':
        this.#send(withOtherInputs(message));
        break;
      case 'accept':
        this.#accept(message);
        break;
      case 'refundsAtOnce':
        this.#refundsAtOnce(message, amount);
        break;
      case 'redrive':
        world.queue.redrive();
        break;
      case 'pause':
        this.#pause(amount * 60_000);
        break;
      case 'burst':
        this.#burst(message, amount);
        break;
      case 'cancel':
      case 'retry':
      case 'settleAbsent':
      case 'settleSucceeded':
      case 'reconcileOne':
        this.#askFor({ kind, amount }, id ?? message);
    }
  }

  #pause(forMs: number): void {
    this.#operate({ action: 'pause', by, reason: 'maintenance' });
    this.world.time.after(forMs, () => this.resume());
  }

  /** Many operations of one tenant at once, perhaps while the provider is away for a moment: all of them retry together. */
  #burst(message: Message, amount: number): void {
    const { world } = this;
    if (amount > 0.4) world.beginOutage('unsavedError', (1 + amount * 20) * 1000, amount - 0.4);
    for (let count = 0; count < 4; count++) {
      const operationId = `${message.operationId}-b${count}`;
      this.#send(chargeOf(message.tenantId, operationId, 'ok', false));
    }
  }

  /** Together they are more than the charge, and two of them are one. */
  #refundsAtOnce(charge: OperationId, amount: number): void {
    const part = 300 + Math.round(amount * 100) * 4;
    const asked = [part, part, part + 1, part + 2, 1003 + part];
    const first = Math.round(amount * 100) % asked.length;
    for (const amountMinor of [...asked.slice(first), ...asked.slice(0, first)])
      this.#accept(refundOf(charge, amountMinor));
  }

  #sendRecorded(id: OperationId): void {
    const record = this.world.guarantees.record(keyOf(id));
    if (record) this.world.queue.send(JSON.stringify(messageOf(record)));
  }

  resume(): void {
    this.#operate({ action: 'resume', by });
  }

  /** G12: nothing that was left behind blocks anyone. A new operation of each tenant is taken on, and has to succeed. */
  probe(tenantIds: Iterable<string>): void {
    const { world } = this;
    const { tenantDailyCalls, providerDailyCalls } = world.limits;
    const isLimited = tenantDailyCalls !== undefined || providerDailyCalls !== undefined;
    // Where days are limited one each day, so that none meets the limit.
    const delayMs = isLimited ? dayMs - (world.time.nowMs() % dayMs) + hourMs : 0;
    for (const [index, tenantId] of [...tenantIds].entries()) {
      world.time.after(delayMs + index * (isLimited ? dayMs : 1000), () => {
        this.#accept(chargeOf(tenantId, 'probe', 'ok', false), (kind) => {
          if (kind !== 'accepted')
            world.break(`G12 tenant ${tenantId} is blocked: a new operation is ${kind}`);
        });
      });
    }
  }

  /** About an operation, or sometimes about its refund. */
  #chosen({ tenantId, operationId }: OperationId, amount: number): OperationId {
    const refunds = [...this.world.guarantees.records()]
      .map(([, record]) => record)
      .filter((record) => record.type === 'refund' && record.input.chargeOperationId === operationId);
    const chosen = (amount > 0.7 ? refunds : []).find((record) => record.tenantId === tenantId);
    return { tenantId, operationId: chosen?.operationId ?? operationId };
  }

  #askFor({ kind, amount }: Pick<Action, 'kind' | 'amount'>, id: OperationId): void {
    const { world } = this;
    const key = keyOf(id);
    switch (kind) {
      case 'cancel':
        world.call('A', (ports) => cancel(ports, id));
        return;
      case 'reconcileOne':
        world.call('R', (ports) => reconcileOne(ports, id));
        return;
      case 'retry':
        this.#operate({ action: 'retry', ...id, by });
        return;
      case 'settleAbsent': {
        // A person who says so has looked.
        if (world.provider.effectsOf(key).length > 0) return;
        const evidence = 'looked in the dashboard';
        this.#operate({ action: 'settle', ...id, by, absent: true, evidence });
        return;
      }
      case 'settleSucceeded': {
        // Sometimes it is the effect of another operation.
        const isMeant = amount > 0.3;
        const effect = world.provider.effects.find((one) => (one.key === key) === isMeant);
        if (effect) this.#operate({ action: 'settle', ...id, by, succeeded: effect.id });
      }
    }
  }

  #refund(charge: OperationId, amountMinor: number): void {
    const message = refundOf(charge, amountMinor);
    if (amountMinor % 5 === 0) this.#send(message);
    else this.#accept(message);
  }

  #send(message: Message, body = bodyOf(message)): void {
    this.world.guarantees.promised.add(keyOf(message));
    this.world.queue.send(body);
  }

  #accept(message: Message, then: (kind: string) => void = () => {}): void {
    this.world.call(
      'A',
      (ports) => accept(ports, message),
      ({ kind }) => {
        if (kind === 'accepted' || kind === 'known') this.world.guarantees.promised.add(keyOf(message));
        then(kind);
      },
    );
  }

  #operate(request: OperatorRequest): void {
    this.world.call('O', (ports) => operate(ports, request));
  }
}

const outages: readonly ProviderFault[] = ['refused', 'stall', 'unsavedError', 'unauthorized'];
