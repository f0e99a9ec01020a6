import type { Measured, Path } from './measure';
import { assumed, type CostName, limits, type Plan, planOf, sizes } from './model';
import { type Price, prices, pricesOf } from './prices';

/** The page with every table worked out again from the counts: what is between two marks of a table's name is replaced. */
export function withTables(page: string, measured: Measured): string {
  return Object.entries(tablesOf(measured)).reduce((text, [name, table]) => {
    const marks = new RegExp(`(<!-- ${name} -->\n)[^]*?(\n<!-- /${name} -->)`);
    if (!marks.test(text)) throw new Error(`The page has no place for the table ${name}`);
    return text.replace(marks, (_, from: string, to: string) => `${from}\n${table}\n${to}`);
  }, page);
}

const whatOf: Readonly<Record<Path, string>> = {
  direct: 'a charge from the queue, alone in its batch',
  directFull: 'the same in a full batch, each',
  accept: 'a charge accepted by the API',
  accepted: 'its delivery',
  status: 'a status request',
  refundAccept: 'a refund accepted by the API',
  refund: 'its delivery',
  replay: 'a delivery after the end',
  unknown: 'an attempt whose outcome is unknown',
  deferred: 'a delivery that Stripe answers with 429',
  reconcile: 'a run of the reconciler that finds nothing',
  sentAgain: 'an operation that it sends again',
};

/** By name, each as Markdown. */
export function tablesOf(measured: Measured): Readonly<Record<string, string>> {
  const plans = sizes.map((size) => planOf(measured, size));
  return {
    counts: countsTable(measured),
    assumptions: assumptionsTable(),
    load: bySize(plans, [
      ['operations a second, average', ({ averagePerSecond }) => figure(averagePerSecond)],
      ['operations a second at the peak', ({ peakPerSecond }) => figure(peakPerSecond)],
      ['calls of Stripe a second at the peak', ({ stripePerSecond }) => figure(stripePerSecond)],
      ["of Stripe's default limit", ({ stripePerSecond }) => times(stripePerSecond / limits.stripePerSecond)],
      ['tenants at work at once, at least', ({ tenants }) => figure(tenants)],
    ]),
    lambda: bySize(plans, [
      ['messages of a batch', ({ size }) => figure(size.isBatchFull ? measured.fullBatch : 1)],
      ['a batch takes', ({ batchMs }) => `${figure(batchMs)} ms`],
      ['batches a second', ({ batchesPerSecond }) => figure(batchesPerSecond)],
      ['workers at once', ({ workers }) => figure(workers)],
      ['operations a second that one stack takes', ({ stackPerSecond }) => figure(stackPerSecond)],
      ['stacks', ({ stacks }) => figure(stacks)],
      ['API requests a second', ({ apiRequestsPerSecond }) => figure(apiRequestsPerSecond)],
      ['API invocations at once', ({ apiConcurrency }) => figure(apiConcurrency)],
      ['messages in flight', ({ inFlight }) => figure(inFlight)],
      [
        'a standstill of Stripe fills the queue in flight in',
        ({ standstillSeconds }) => `${figure(standstillSeconds)} s`,
      ],
      ['one run of the reconciler sends again', ({ sentAgainPerMinute }) => figure(sentAgainPerMinute)],
    ]),
    table: bySize(plans, [
      ['write units a second', ({ writesPerSecond }) => figure(writesPerSecond)],
      ['read units a second', ({ readsPerSecond }) => figure(readsPerSecond)],
      ['write units of the index a second', ({ indexWritesPerSecond }) => figure(indexWritesPerSecond)],
      [
        'writes of the provider item a second',
        ({ providerWritesPerSecond }) => figure(providerWritesPerSecond),
      ],
      ['stored', ({ storedGb }) => `${figure(storedGb)} GB`],
      ['partitions', ({ tablePartitions }) => figure(tablePartitions)],
      ['`openShards`, of each stack', ({ openShards }) => figure(openShards)],
      ['`providerShards`, of each stack', ({ providerShards }) => figure(providerShards)],
    ]),
    quotas: quotasTable(plans),
    cost: costTable(plans),
    prices: pricesTable(),
  };
}

function countsTable({ paths, measuredOn, node, fullBatch, recordBytes }: Measured): string {
  const rows = Object.entries(whatOf).map(([path, what]) => {
    const counts = paths[isPath(path) ? path : 'direct'];
    return [
      what,
      counts.tableCalls,
      counts.readUnits,
      counts.writeUnits,
      counts.indexWriteUnits,
      counts.providerWriteUnits,
      counts.sqsCalls,
      counts.stripeCalls,
      counts.logBytes,
      counts.cpuMs,
    ];
  });
  const table = markdown(
    [
      'what',
      'table calls',
      'read units',
      'write units',
      'of the index',
      'of the provider item',
      'SQS calls',
      'Stripe calls',
      'log bytes',
      'processor ms',
    ],
    rows,
  );
  return `${table}\n\nMeasured on ${measuredOn} with Node ${node.replace(/^v/, '')}; a full batch has ${fullBatch} messages, and a charge that has ended ${recordBytes} bytes.`;
}

const isPath = (name: string): name is Path => Object.hasOwn(whatOf, name);

function assumptionsTable(): string {
  const percent = (share: number) => `${share * 100} %`;
  return markdown(
    ['assumed', 'value'],
    [
      ['a create-and-confirm at Stripe', `${assumed.providerMs} ms`],
      ['a call of DynamoDB', `${assumed.tableMs} ms`],
      ['operations through the API, the others straight to the queue', percent(assumed.apiShare)],
      ['status requests for each of those', assumed.statusRequestsPerAccepted],
      ['refunds', percent(assumed.refundShare)],
      ['deliveries after the end', percent(assumed.replayShare)],
      ['attempts whose outcome is unknown', percent(assumed.unknownShare)],
      ['deliveries that wait', percent(assumed.deferredShare)],
      ['functions', `${assumed.memoryGb * 1024} MB, ${figure(assumed.processors * 100)} % of a processor`],
      [
        'busiest second against the average',
        sizes.map(({ title, peakFactor }) => `${peakFactor} (${title})`).join(', '),
      ],
      ['planned full', percent(assumed.fill)],
      ['custom metrics and alarms of a stack', `${assumed.metrics} and ${assumed.alarms}`],
    ],
  );
}

function quotasTable(plans: readonly Plan[]): string {
  const ask = (needed: number, quota: number) =>
    needed > quota * 0.8 ? `**${figure(needed / 0.8)}**` : 'default';
  const perStack = (of: (plan: Plan) => number) => (plan: Plan) => of(plan) / plan.stacks;
  return markdown(
    ['quota', 'default', ...titlesOf(plans)],
    [
      [
        'Stripe: requests a second of an account',
        figure(limits.stripePerSecond),
        ...plans.map(({ stripePerSecond }) => ask(stripePerSecond, limits.stripePerSecond)),
      ],
      [
        'Lambda: concurrent executions of the account',
        figure(limits.concurrency),
        ...plans.map(({ workers, apiConcurrency }) => ask(workers + apiConcurrency, limits.concurrency)),
      ],
      [
        'DynamoDB: write units of a table on demand',
        figure(limits.tableUnits),
        ...plans.map((plan) =>
          ask(perStack(({ writesPerSecond }) => writesPerSecond)(plan), limits.tableUnits),
        ),
      ],
      [
        'DynamoDB: read units of a table on demand',
        figure(limits.tableUnits),
        ...plans.map((plan) =>
          ask(perStack(({ readsPerSecond }) => readsPerSecond)(plan), limits.tableUnits),
        ),
      ],
      [
        'SQS: messages in flight of a queue',
        figure(limits.inFlight),
        ...plans.map((plan) => ask(perStack(({ inFlight }) => inFlight)(plan), limits.inFlight)),
      ],
      [
        'API Gateway: requests a second of the account',
        figure(limits.apiRequestsPerSecond),
        ...plans.map(({ apiRequestsPerSecond }) => ask(apiRequestsPerSecond, limits.apiRequestsPerSecond)),
      ],
    ],
  );
}

const costNames: readonly CostName[] = [
  'DynamoDB requests',
  'DynamoDB storage and backup',
  'Lambda',
  'SQS',
  'API Gateway',
  'Logs',
  'Metrics, alarms, secret',
];

function costTable(plans: readonly Plan[]): string {
  const total = ({ costs }: Plan) => Object.values(costs).reduce((sum, cost) => sum + cost, 0);
  return bySize(plans, [
    ...costNames.map((name): Row => [name, ({ costs }) => dollars(costs[name])]),
    ['**all of it**', (plan) => `**${dollars(total(plan))}**`],
    [
      'a thousand operations',
      (plan) => `$${((1000 * total(plan)) / plan.size.operationsPerMonth).toFixed(3)}`,
    ],
    ['writes alone, provisioned for the peak', ({ provisionedWrites }) => dollars(provisionedWrites)],
  ]);
}

function pricesTable(): string {
  const table = markdown(
    ['price', 'US dollars', 'for', 'source'],
    Object.values(prices).map(({ what, unit, tiers, source }: Price) => [
      what,
      tiers
        .map(({ usd, upTo }) => (upTo === undefined ? usd : `${usd} up to ${figure(upTo)}`))
        .join(', then '),
      unit,
      source,
    ]),
  );
  return `${table}\n\nList prices of us-east-1 as of ${pricesOf}, without free tiers, discounts and data transfer.`;
}

type Row = readonly [what: string, of: (plan: Plan) => string];

function bySize(plans: readonly Plan[], rows: readonly Row[]): string {
  return markdown(
    ['', ...titlesOf(plans)],
    rows.map(([what, of]) => [what, ...plans.map(of)]),
  );
}

const titlesOf = (plans: readonly Plan[]) => plans.map(({ size }) => size.title);

function markdown(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]) => `| ${cells.join(' | ')} |`;
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n');
}

/** Two digits that count, or whole thousands with spaces: more would say that these are not estimates. */
function figure(value: number): string {
  const rounded = Number(value.toPrecision(value >= 1000 ? 3 : 2));
  return rounded.toLocaleString('en-US', { maximumFractionDigits: 4 }).replaceAll(',', ' ');
}

const times = (value: number): string => `${figure(value)} x`;

function dollars(value: number): string {
  return `$${value < 100 ? value.toFixed(2) : figure(value)}`;
}
