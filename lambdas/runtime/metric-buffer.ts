import { Metrics } from '@aws-lambda-powertools/metrics';
import { type Dimension, dimensionSets, type MetricName, metricNamespace, metrics } from './metrics';

/** Values of the dimensions that a metric has. */
export type Of = Readonly<Partial<Record<Dimension, string>>>;

/** CloudWatch takes 100 values of a metric in one document. */
const maxValues = 99;

interface Document {
  readonly sets: readonly (readonly Dimension[])[];
  readonly of: Of;
  readonly values: Map<MetricName, number[]>;
}

/**
 * Collects an invocation's metrics and prints them at its end, in one document of the embedded metric format for each set
 * of dimension values: a document costs more time and log than the number in it.
 */
export class MetricBuffer {
  readonly #metrics: Metrics;
  readonly #documents = new Map<string, Document>();

  /** @param service tells this service from others of the same stage in the account */
  constructor(service: string, stage: string) {
    this.#metrics = new Metrics({
      namespace: metricNamespace,
      serviceName: service,
      defaultDimensions: { stage },
      // Powertools warns of a dimension that is in two sets, which is what the sets are for.
      logger: { ...console, warn: () => {} },
    });
  }

  /** One event more, or one measurement. */
  add(name: MetricName, value = 1, of: Of = {}): void {
    const { by, isSum } = metrics[name];
    const values = this.#valuesOf(name, by, of);
    if (isSum) values[0] = (values[0] ?? 0) + value;
    else values.push(value);
    if (values.length >= maxValues) this.flush();
  }

  /** Prints what was collected, and nothing when there is nothing. */
  flush(): void {
    for (const { sets, of, values } of this.#documents.values()) {
      for (const set of sets) {
        this.#metrics.addDimensions(
          Object.fromEntries(set.map((dimension) => [dimension, of[dimension] ?? 'none'])),
        );
      }
      for (const [name, measured] of values) {
        for (const value of measured) this.#metrics.addMetric(name, metrics[name].unit, value);
      }
      this.#metrics.publishStoredMetrics();
    }
    this.#documents.clear();
  }

  #valuesOf(name: MetricName, by: keyof typeof dimensionSets, of: Of): number[] {
    // The first set has every dimension.
    const key = `${by} ${dimensionSets[by][0].map((dimension) => of[dimension]).join(' ')}`;
    let document = this.#documents.get(key);
    if (!document) {
      document = { sets: dimensionSets[by], of, values: new Map() };
      this.#documents.set(key, document);
    }
    let values = document.values.get(name);
    if (!values) {
      values = [];
      document.values.set(name, values);
    }
    return values;
  }
}
