import { Logger } from '@aws-lambda-powertools/logger';
import { Metrics, MetricUnit } from '@aws-lambda-powertools/metrics';
import type { BroughtOn } from '../operation/bring-on';
import type { Disposition } from '../operation/delivery';
import type { Ids } from '../operation/message';
import type { Intervention, Operation, OperationId } from '../operation/operation';
import type { Finding, Outcome } from '../operation/outcome';
import type { OperationTelemetry, ProviderTelemetry } from '../operation/ports';
import type { Breaker, ProviderState } from '../operation/provider-state';
import type { State } from '../operation/state';

/** Where a log line comes from, for correlation. What an API request does has no message. */
export interface Source {
  readonly messageId?: string;
  readonly receiveCount?: number;
  readonly requestId: string;
}

/** One log line and one count, by job type, for everything that happens to an operation or a message. Never a body. */
export class Telemetry implements ProviderTelemetry {
  readonly #logger: Logger;
  readonly #metrics: Metrics;

  /**
   * @param maxReceiveCount the delivery after which SQS moves a message to the dead-letter queue
   * @param functionVersion the published version that runs; a gradual deployment counts its failures by it
   */
  constructor(
    stage: string,
    private readonly maxReceiveCount: number,
    functionVersion?: string,
  ) {
    const persistentKeys = { stage, ...(functionVersion !== undefined && { functionVersion }) };
    this.#logger = new Logger({ serviceName: 'charge-once', persistentKeys });
    this.#metrics = new Metrics({
      namespace: 'ChargeOnce',
      serviceName: 'charge-once',
      defaultDimensions: { stage },
    });
  }

  /** The log and counts of one delivery. */
  of(source: Source): DeliveryTelemetry {
    return new DeliveryTelemetry(this.#logger, this.#metrics, source, this.maxReceiveCount);
  }

  /** An API request that was answered with a problem. */
  refused(about: Readonly<Record<string, unknown>>, problem: string): void {
    this.#logger.warn('request refused', { ...about, problem });
    count(this.#metrics, 'RequestRefused', 'api', problem);
  }

  /** An API request that an earlier one had done. */
  replayed(about: Readonly<Record<string, unknown>>): void {
    this.#logger.info('request replayed', about);
    count(this.#metrics, 'RequestReplayed', 'api');
  }

  provider({ windowCalls, windowFailures, retryTokens, breaker }: ProviderState): void {
    const metric = this.#metrics.singleMetric();
    metric.addMetric('BreakerOpen', MetricUnit.Count, breaker ? 1 : 0);
    metric.addMetric('WindowCalls', MetricUnit.Count, windowCalls);
    metric.addMetric('WindowFailures', MetricUnit.Count, windowFailures);
    metric.addMetric('RetryTokens', MetricUnit.Count, retryTokens);
  }

  breaker(change: 'opened' | 'closed' | 'probed', reason: Breaker['reason'], details: object = {}): void {
    const level = change === 'opened' ? 'error' : 'info';
    this.#logger[level](`breaker ${change}`, { reason, ...details });
    count(this.#metrics, `Breaker${change[0]?.toUpperCase()}${change.slice(1)}`, 'provider', reason);
  }

  /** A run of the reconciler. */
  ran(done: BroughtOn): void {
    this.#logger[done.failed > 0 ? 'warn' : 'info']('reconciler ran', { ...done });
    count(this.#metrics, 'ReconcilerRan', 'reconciler');
  }

  info(message: string, details: Readonly<Record<string, unknown>>): void {
    this.#logger.info(message, details);
  }

  warn(message: string, details: Readonly<Record<string, unknown>> = {}): void {
    this.#logger.warn(message, details);
  }

  failed(message: string, error: unknown, source: Partial<Source> & Ids = {}): void {
    this.#logger.error(message, { ...source, ...failureOf(error) });
  }
}

class DeliveryTelemetry implements OperationTelemetry {
  constructor(
    private readonly logger: Logger,
    private readonly metrics: Metrics,
    private readonly source: Source,
    private readonly maxReceiveCount: number,
  ) {}

  attempted(operation: Operation, outcome: Outcome, elapsedMs: number): void {
    const metric = this.metrics.singleMetric();
    metric.addDimension('type', operation.type);
    metric.addDimension('outcome', nameOf(outcome));
    metric.addMetric('ProviderCalls', MetricUnit.Count, 1);
    metric.addMetric('ProviderLatency', MetricUnit.Milliseconds, elapsedMs);
  }

  reconciled(operation: Operation, finding: Finding['kind'], reason?: string): void {
    const { state, parkedReason } = operation;
    this.logger.info('operation reconciled', {
      ...this.source,
      ...idsOf(operation),
      state,
      parkedReason,
      finding,
      reason,
    });
    this.#count('Reconciled', operation.type, finding);
  }

  intervened(operation: Operation, { action, by, evidence }: Intervention): void {
    this.logger.warn(`operation ${action} by a person`, {
      ...this.source,
      ...idsOf(operation),
      by,
      evidence,
    });
    this.#count('Intervened', operation.type, action);
  }

  escalated(operation: Operation): void {
    const { parkedReason, parkedAtMs, providerRef } = operation;
    this.logger.error('operation parked for an hour, and it cannot be told what happened', {
      ...this.source,
      ...idsOf(operation),
      parkedReason,
      parkedAt: parkedAtMs === undefined ? undefined : new Date(parkedAtMs).toISOString(),
      providerRef,
    });
    this.#count('Escalated', operation.type, parkedReason);
  }

  changed(operation: Operation, from: State | 'new', outcome?: Outcome): void {
    const { state, attemptCount, error, parkedReason, providerRef } = operation;
    const details = { from, to: state, attempt: attemptCount, outcome: outcome && nameOf(outcome) };
    const level = state === 'parked' || state === 'failed' ? 'warn' : 'info';
    this.logger[level](`operation ${state}`, {
      ...this.source,
      ...idsOf(operation),
      ...details,
      providerRef,
      errorCode: error?.code,
      parkedReason,
    });
    if (state === 'running') this.#count(attemptCount > 1 ? 'Retried' : 'FirstAttempt', operation.type);
    else
      this.#count(
        state === 'queued' && from === 'new' ? 'Accepted' : stateMetrics[state],
        operation.type,
        error?.code ?? parkedReason ?? (outcome && nameOf(outcome)),
      );
  }

  contradicted(operation: Operation, providerRef: string): void {
    const { state, providerRef: recorded } = operation;
    this.logger.error('the provider proved an effect that the record denies', {
      ...this.source,
      ...idsOf(operation),
      state,
      recorded,
      providerRef,
    });
    this.#count('Contradicted', operation.type);
  }

  tolerated(what: string, { tenantId, operationId }: OperationId, error: unknown): void {
    this.logger.warn(what, { ...this.source, tenantId, operationId, ...failureOf(error) });
  }

  kept(operation: Operation, reason: string, dueAtMs: number): void {
    const dueAt = new Date(dueAtMs).toISOString();
    this.logger.info('wait kept in the table', { ...this.source, ...idsOf(operation), reason, dueAt });
    this.#count('Deferred', operation.type, reason);
  }

  /**
   * What becomes of a message. What a settle did was told by `changed`. A message on its way to the dead-letter queue
   * comes several times: it is told at its first delivery and, as dead-lettered, at its last.
   */
  disposed(disposition: Disposition, { tenantId, operationId, type = 'unknown' }: Ids): void {
    const { kind, ...details } = disposition;
    const { receiveCount = 1 } = this.source;
    const log = { ...this.source, tenantId, operationId, ...details };
    if (kind === 'defer' || (kind === 'acknowledge' ? disposition.reason === 'replay' : receiveCount === 1)) {
      const { level, message, metric } = dispositionNames[kind];
      this.logger[level](message, log);
      this.#count(metric, type, disposition.reason);
    }
    if (kind !== 'acknowledge' && receiveCount >= this.maxReceiveCount) {
      this.logger.warn('message dead-lettered: this was its last delivery', log);
      this.#count('DeadLettered', type, disposition.reason);
    }
  }

  #count(name: string, type: string, reason?: string): void {
    count(this.metrics, name, type, reason);
  }
}

/** One count by job type, and by reason where there is one. */
function count(metrics: Metrics, name: string, type: string, reason?: string): void {
  const metric = metrics.singleMetric();
  metric.addDimension('type', type);
  if (reason !== undefined) metric.addDimension('reason', reason);
  metric.addMetric(name, MetricUnit.Count, 1);
}

const dispositionNames = {
  acknowledge: { level: 'info', message: 'message replayed', metric: 'Replayed' },
  defer: { level: 'info', message: 'message deferred', metric: 'Deferred' },
  reject: { level: 'warn', message: 'message rejected', metric: 'Rejected' },
  giveUp: { level: 'warn', message: 'message given up', metric: 'GivenUp' },
} as const;

const stateMetrics: Readonly<Record<Exclude<State, 'running'>, string>> = {
  queued: 'Requeued',
  settling: 'Settling',
  parked: 'Parked',
  succeeded: 'Succeeded',
  failed: 'Failed',
  cancelled: 'Cancelled',
};

const nameOf = (outcome: Outcome): string =>
  'reason' in outcome ? `${outcome.kind}:${outcome.reason}` : outcome.kind;

const idsOf = ({ tenantId, operationId }: Operation): Ids => ({ tenantId, operationId });

const failureOf = (error: unknown) =>
  error instanceof Error
    ? { errorName: error.name, errorMessage: error.message, stack: error.stack }
    : { error };
