import * as z from 'zod/mini';

/** A line in the embedded metric format, as CloudWatch reads it. https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html */
const emf = z.looseObject({
  _aws: z.object({
    Timestamp: z.number(),
    CloudWatchMetrics: z.array(
      z.object({
        Namespace: z.string(),
        Dimensions: z.array(z.array(z.string())),
        Metrics: z.array(z.object({ Name: z.string(), Unit: z.string() })),
      }),
    ),
  }),
});

interface Datapoint {
  readonly namespace: string;
  readonly name: string;
  readonly dimensions: Readonly<Record<string, string>>;
  readonly atMs: number;
  readonly values: readonly number[];
}

/** The resources of the deployed stack that AWS's own metrics are of. */
export type Resource = 'queue' | 'deadLetterQueue' | 'worker' | 'api';

/** Which metric: as an alarm names it. */
interface Wanted {
  readonly Namespace: string;
  readonly MetricName: string;
  readonly Dimensions: readonly { readonly Name: string; readonly Value?: unknown }[];
}

/** What CloudWatch would have: the metrics that a laptop stack prints, and those of AWS's own services as seen from outside. */
export class RecordedMetrics {
  readonly #datapoints: Datapoint[] = [];

  /** Takes a log line that has metrics. @throws when it has an `_aws` that CloudWatch would not read */
  line(line: Readonly<Record<string, unknown>>): void {
    if (!('_aws' in line)) return;
    const { _aws: about, ...members } = emf.parse(line);
    for (const { Namespace: namespace, Dimensions: sets, Metrics: metrics } of about.CloudWatchMetrics) {
      for (const set of sets) {
        const dimensions = Object.fromEntries(set.map((name) => [name, z.string().parse(members[name])]));
        for (const { Name: name } of metrics) {
          const values = z.array(z.number()).parse([members[name]].flat());
          this.#datapoints.push({ namespace, name, dimensions, atMs: about.Timestamp, values });
        }
      }
    }
  }

  /** A metric that AWS itself would have of a resource. */
  aws(namespace: string, name: string, resource: Resource, value: number, atMs: number): void {
    this.#datapoints.push({ namespace, name, dimensions: { resource }, atMs, values: [value] });
  }

  /** The values in a period, of the metric with exactly those dimensions. */
  values({ Namespace, MetricName, Dimensions }: Wanted, fromMs: number, untilMs: number): number[] {
    const wanted = Namespace.startsWith('AWS/')
      ? { resource: resourceOf(Dimensions) }
      : Object.fromEntries(Dimensions.map(({ Name, Value }) => [Name, String(Value)]));
    return this.#datapoints
      .filter(
        ({ namespace, name, dimensions, atMs }) =>
          namespace === Namespace &&
          name === MetricName &&
          atMs >= fromMs &&
          atMs < untilMs &&
          isSame(dimensions, wanted),
      )
      .flatMap(({ values }) => values);
  }

  /** Names of the namespace's metrics that were recorded. */
  names(wanted: string): Set<string> {
    return new Set(this.#datapoints.filter(({ namespace }) => namespace === wanted).map(({ name }) => name));
  }
}

/** The resource that an intrinsic of the template names, by its logical id. */
function resourceOf(dimensions: Wanted['Dimensions']): Resource {
  const text = JSON.stringify(dimensions);
  const found = resources.find(([pattern]) => pattern.test(text));
  if (!found) throw new Error(`No resource of the laptop stands for ${text}`);
  return found[1];
}

const resources: readonly (readonly [RegExp, Resource])[] = [
  [/WorkQueueDeadLetterQueue/, 'deadLetterQueue'],
  [/WorkQueue/, 'queue'],
  [/WorkerServiceFunction/, 'worker'],
  [/"OperationsApi[0-9A-F]{8}"/, 'api'],
];

const isSame = (one: Readonly<Record<string, string>>, other: Readonly<Record<string, string>>): boolean =>
  Object.keys(one).length === Object.keys(other).length &&
  Object.entries(one).every(([name, value]) => other[name] === value);
