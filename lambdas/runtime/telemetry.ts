import type { Logger } from '@aws-lambda-powertools/logger';
import type { BroughtOn } from '../operation/bring-on';
import type { Census } from '../operation/census';
import type { Disposition } from '../operation/delivery';
import type { Ids } from '../operation/message';
import type { Intervention, Operation, OperationId } from '../operation/operation';
import type { Finding, Outcome } from '../operation/outcome';
import type { OperationTelemetry, ProviderTelemetry } from '../operation/ports';
import type { Breaker, ProviderState } from '../operation/provider-state';
import { isTerminal, type State } from '../operation/state';
import { LineLogger } from './line-logger';
import { MetricBuffer } from './metric-buffer';
import type { MetricName } from './metrics';
import { codeShown, failureShown, idShown, redacted, referenceShown } from './redact';

/** Where a log line comes from, for correlation. What an API request does has no message. */
export interface Source {
  readonly messageId?: string;
  readonly receiveCount?: number;
  readonly requestId: string;
}

export interface TelemetryOptions {
  /** Tells this service from others of the same stage in the account. */
  readonly service: string;
  readonly stage: string;
  /** The delivery after which SQS moves a message to the dead-letter queue. */
  readonly maxReceiveCount: number;
  /** The published version that runs: a gradual deployment counts its failures by it. */
  readonly functionVersion?: string | undefined;
}

/** What an API request was about. */
export interface RequestAbout extends Partial<OperationId> {
  readonly requestId: string;
  readonly route?: string | undefined;
  readonly httpStatus?: number;
}

/**
 * One log line and one count, by job type, for everything that happens to an operation or a message. Never a body, a
 * secret, or what an error quotes of either. What is counted is printed by `flush`, at the end of an invocation.
 */
export class Telemetry implements ProviderTelemetry {
  readonly #logger: Logger;
  readonly #metrics: MetricBuffer;
  readonly #maxReceiveCount: number;

  constructor({ service, stage, maxReceiveCount, functionVersion }: TelemetryOptions) {
    const persistentKeys = { stage, ...(functionVersion !== undefined && { functionVersion }) };
    this.#logger = new LineLogger(persistentKeys);
    this.#metrics = new MetricBuffer(service, stage);
    this.#maxReceiveCount = maxReceiveCount;
  }

  /** The log and counts of one delivery, request or reconciliation. */
  of(source: Source): DeliveryTelemetry {
    return new DeliveryTelemetry(this.#logger, this.#metrics, source, this.#maxReceiveCount);
  }

  /** Prints the metrics of an invocation. */
  flush(): void {
    this.#metrics.flush();
  }

  /** @param ageMs since the message was sent, or sent again by a redrive */
  delivered({ type = 'unknown' }: Ids, ageMs: number): void {
    this.#metrics.add('QueueAgeMs', Math.max(0, ageMs), { type });
  }

  /** An API request that was answered with a problem. */
  refused(about: RequestAbout, problem: string): void {
    this.#logger.warn('request refused', { ...about, ...idsOf(about), problem });
    const of = { type: typeOf(about), reason: codeShown(problem) };
    this.#metrics.add('RequestRefused', 1, of);
    if (problem === 'inputs-conflict') this.#metrics.add('Conflict', 1, of);
  }

  /** An API request that an earlier one had done. */
  replayed(about: RequestAbout): void {
    this.#logger.info('request replayed', { ...about, ...idsOf(about) });
    this.#metrics.add('RequestReplayed', 1, { type: typeOf(about) });
  }

  provider({ breaker, retryTokens, windowCalls, windowFailures }: ProviderState): void {
    this.#metrics.add('BreakerOpen', breaker === undefined ? 0 : 1);
    this.#metrics.add('RetryTokens', retryTokens);
    this.#metrics.add('WindowCalls', windowCalls);
    this.#metrics.add('WindowFailures', windowFailures);
  }

  breaker(change: keyof typeof breakerChanges, reason: Breaker['reason'], details: object = {}): void {
    const { level, metric, isOpen } = breakerChanges[change];
    this.#logger[level](`breaker ${change}`, { ...details, reason });
    this.#metrics.add(metric);
    this.#metrics.add('BreakerOpen', isOpen);
  }

  /** The reconciler's heartbeat, and what it did. */
  ran(done: BroughtOn): void {
    this.#metrics.add('ReconcilerRun');
    this.#metrics.add('DueSent', done.sent);
    this.#metrics.add('DueSettled', done.settled);
    this.#metrics.add('DueLeft', done.left);
    this.#metrics.add('DueFailed', done.failed);
    if (done.failed > 0) this.#logger.warn('due operations could not be brought on', { ...done });
    else if (Object.values(done).some((count) => count > 0)) this.#logger.info('due operations', { ...done });
  }

  /**
   * How many operations are open that no message brings back by itself, and how old the oldest are; and how the provider
   * stands, for a service that has no batches to tell it.
   */
  census({ open, oldestMs, isWhole, unreadable, isStopped }: Census): void {
    this.#metrics.add('BreakerOpen', isStopped ? 1 : 0);
    for (const [type, states] of Object.entries(open)) {
      this.#metrics.add('OpenQueued', states.queued, { type });
      this.#metrics.add('OpenRunning', states.running, { type });
      this.#metrics.add('OpenSettling', states.settling, { type });
      this.#metrics.add('OpenParked', states.parked, { type });
    }
    this.#metrics.add('OldestWaitingMs', oldestMs.waiting);
    this.#metrics.add('OldestSettlingMs', oldestMs.settling);
    this.#metrics.add('OldestParkedMs', oldestMs.parked);
    this.#metrics.add('OldestDueMs', oldestMs.due);
    if (isWhole && unreadable === 0) this.#logger.info('open operations', { open, oldestMs });
    else
      this.#logger.warn('open operations, as far as they were counted', {
        open,
        oldestMs,
        isWhole,
        unreadable,
      });
  }

  info(message: string, details: Readonly<Record<string, unknown>>): void {
    this.#logger.info(message, details);
  }

  warn(message: string, details: Readonly<Record<string, unknown>> = {}): void {
    this.#logger.warn(message, details);
  }

  failed(message: string, error: unknown, source: Partial<Source> & Ids = {}): void {
    this.#logger.error(message, { ...source, ...idsOf(source), ...failureShown(error) });
    this.#metrics.add('CaughtError');
  }
}

class DeliveryTelemetry implements OperationTelemetry {
  #claimedAtMs: number | undefined;
  #providerMs: number | undefined;

  constructor(
    private readonly logger: Logger,
    private readonly metrics: MetricBuffer,
    private readonly source: Source,
    private readonly maxReceiveCount: number,
  ) {}

  attempted({ type }: Operation, outcome: Outcome, elapsedMs: number): void {
    this.#providerMs = Math.round(elapsedMs);
    this.metrics.add('ProviderCallMs', this.#providerMs, { type, reason: nameOf(outcome) });
    if (outcome.kind === 'conflict') this.metrics.add('Conflict', 1, { type, reason: 'provider-conflict' });
  }

  changed(operation: Operation, from: State | 'new', outcome?: Outcome): void {
    const { state, type, attemptCount, error, parkedReason, providerRef, dueAtMs, updatedAtMs } = operation;
    const errorCode = error && codeShown(error.code);
    const named = outcome && nameOf(outcome);
    const executionMs = state === 'running' ? undefined : this.#executionMs(operation);
    const doneAfterMs = isTerminal(state) ? updatedAtMs - operation.createdAtMs : undefined;
    // Kept in the table by the settle itself: its message is acknowledged, and no deferral of it is told.
    const keptUntilMs = state === 'queued' && from === 'running' ? dueAtMs : undefined;
    const level = state === 'parked' || state === 'failed' ? 'warn' : 'info';
    this.logger[level](`operation ${state}`, {
      ...this.source,
      ...idsOf(operation),
      type,
      from,
      to: state,
      attempt: attemptCount,
      outcome: named,
      providerRef: referenceShown(providerRef),
      errorCode,
      parkedReason,
      providerMs: outcome && this.#providerMs,
      executionMs,
      doneAfterMs,
      ...(keptUntilMs === undefined ? {} : { dueAt: new Date(keptUntilMs).toISOString() }),
    });
    if (executionMs !== undefined) this.metrics.add('ExecutionMs', executionMs, { type });
    if (doneAfterMs !== undefined) this.metrics.add('DoneAfterMs', doneAfterMs, { type });
    const reason = errorCode ?? parkedReason ?? named ?? 'none';
    if (state === 'running') {
      this.#claimedAtMs = updatedAtMs;
      this.#count(attemptCount > 1 ? 'Retried' : 'FirstAttempt', type);
    } else if (state === 'queued' && from === 'new') this.#count('Accepted', type);
    else this.#count(stateMetrics[state], type, reason);
    if (keptUntilMs !== undefined) this.#count('Deferred', type, reason);
  }

  contradicted(operation: Operation, providerRef: string): void {
    const { state, providerRef: recorded } = operation;
    this.logger.error('the provider proved an effect that the record denies', {
      ...this.source,
      ...idsOf(operation),
      state,
      recorded: referenceShown(recorded),
      providerRef: referenceShown(providerRef),
    });
    this.#count('Contradicted', operation.type);
  }

  reconciled(operation: Operation, finding: Finding['kind'], reason?: string): void {
    const found = reason === undefined ? finding : codeShown(`${finding}:${reason}`);
    this.logger.info('operation reconciled', {
      ...this.source,
      ...idsOf(operation),
      type: operation.type,
      state: operation.state,
      parkedReason: operation.parkedReason,
      found,
    });
    this.#count('Reconciled', operation.type, found);
  }

  intervened(operation: Operation, { action, by, evidence }: Intervention): void {
    this.logger.warn(`operation ${action} by a person`, {
      ...this.source,
      ...idsOf(operation),
      type: operation.type,
      by,
      evidence: evidence === undefined ? undefined : redacted(evidence),
    });
    this.#count('Intervened', operation.type, action);
  }

  escalated(operation: Operation): void {
    const { state, type, attemptCount, parkedReason, providerRef } = operation;
    // No failure of this build: level ERROR would roll a gradual deployment back.
    this.logger.warn('an operation is open for long, and what happened cannot be told', {
      ...this.source,
      ...idsOf(operation),
      type,
      state,
      attempt: attemptCount,
      parkedReason,
      providerRef: referenceShown(providerRef),
    });
    this.#count('Escalated', type);
  }

  tolerated(what: string, id: OperationId, error: unknown): void {
    this.logger.warn(what, { ...this.source, ...idsOf(id), ...failureShown(error) });
    this.metrics.add('Tolerated');
  }

  kept(operation: Operation, reason: string, dueAtMs: number): void {
    const dueAt = new Date(dueAtMs).toISOString();
    this.logger.info('wait kept in the table', {
      ...this.source,
      ...idsOf(operation),
      reason: codeShown(reason),
      dueAt,
    });
    this.#count('Deferred', operation.type, reason);
  }

  /**
   * What becomes of a message. What a settle did was told by `changed`. A message on its way to the dead-letter queue
   * comes several times: it is told at its first delivery and, as dead-lettered, at its last.
   */
  disposed(disposition: Disposition, ids: Ids): void {
    const { kind } = disposition;
    const { receiveCount = 1 } = this.source;
    const { type = 'unknown' } = ids;
    const reason = codeShown(disposition.reason);
    const log = { ...this.source, ...idsOf(ids), type, reason, ...detailsOf(disposition) };
    if (kind === 'defer' || (kind === 'acknowledge' ? reason === 'replay' : receiveCount === 1)) {
      const { level, message, metric } = dispositionNames[kind];
      this.logger[level](message, log);
      this.#count(metric, type, reason);
      if (reason === 'input_conflict') this.#count('Conflict', type, reason);
    }
    if (kind !== 'acknowledge' && receiveCount >= this.maxReceiveCount) {
      this.logger.warn('message dead-lettered: this was its last delivery', log);
      this.#count('DeadLettered', type, reason);
    }
  }

  /** From the claim to the write that settled it, by the times that both stored. */
  #executionMs({ updatedAtMs }: Operation): number | undefined {
    const claimedAtMs = this.#claimedAtMs;
    this.#claimedAtMs = undefined;
    return claimedAtMs === undefined ? undefined : Math.max(0, updatedAtMs - claimedAtMs);
  }

  #count(name: MetricName, type: string, reason?: string): void {
    this.metrics.add(name, 1, { type, ...(reason === undefined ? {} : { reason: codeShown(reason) }) });
  }
}

const dispositionNames = {
  acknowledge: { level: 'info', message: 'message replayed', metric: 'Replayed' },
  defer: { level: 'info', message: 'message deferred', metric: 'Deferred' },
  reject: { level: 'warn', message: 'message rejected', metric: 'Rejected' },
  giveUp: { level: 'warn', message: 'message given up', metric: 'GivenUp' },
} as const;

const detailsOf = (disposition: Disposition) => {
  switch (disposition.kind) {
    case 'defer':
      return { delaySeconds: disposition.delaySeconds };
    case 'reject':
      return { problem: redacted(disposition.problem) };
    case 'acknowledge':
    case 'giveUp':
      return {};
  }
};

const stateMetrics: Readonly<Record<Exclude<State, 'running'>, MetricName>> = {
  queued: 'Requeued',
  settling: 'Settling',
  parked: 'Parked',
  succeeded: 'Succeeded',
  failed: 'Failed',
  cancelled: 'Cancelled',
};

const breakerChanges = {
  opened: { level: 'warn', metric: 'BreakerOpened', isOpen: 1 },
  probed: { level: 'info', metric: 'BreakerProbed', isOpen: 1 },
  closed: { level: 'warn', metric: 'BreakerClosed', isOpen: 0 },
} as const;

const nameOf = (outcome: Outcome): string =>
  codeShown('reason' in outcome ? `${outcome.kind}:${outcome.reason}` : outcome.kind);

const idsOf = ({ tenantId, operationId }: Ids): Ids => ({
  ...(tenantId === undefined ? {} : { tenantId: idShown(tenantId) }),
  ...(operationId === undefined ? {} : { operationId: idShown(operationId) }),
});

/** The job type of an API request; a look or a cancel is of no type. */
const typeOf = ({ route }: RequestAbout): string =>
  route === 'charge' || route === 'refund' ? route : 'unknown';
