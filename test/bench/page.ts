import { starts } from './bundle';
import { type Results, type Row, rowsOf } from './rows';

/** The rows as a table in Markdown. */
export const table = (rows: readonly Row[]): string =>
  [
    '| metric | ours | stock | ratio | at most |',
    '|---|---|---|---|---|',
    ...rows.map(
      ({ metric, ours, stock, ratio, bar }) =>
        `| ${metric} | ${number(ours)} | ${number(stock)} | ${number(ratio)} | ${number(bar)} |`,
    ),
  ].join('\n');

const number = (value: number): string =>
  value >= 100 ? value.toFixed(0) : String(Math.round(value * 100) / 100);

/** What docs/benchmarks.md says. */
export const page = (results: Results): string => `# Benchmarks

Written by \`npm run bench\`, which exits with 1 when a ratio is above its bar. The bars and their reasons are in
\`test/bench/rows.ts\`.

## Against the stock consumer

The stock consumer is the one that most teams would write (\`test/bench/stock/handler.ts\`): Powertools' \`makeIdempotent\` with its
DynamoDB layer and payload validation around one \`paymentIntents.create\`, the operation's id as idempotency key, run by Powertools' batch
processor. It has no logs and no metrics; our worker writes two log lines for an operation and its metrics for a batch.

${table(rowsOf(results))}

Counts and times are for one operation or message of a full batch of ten. *Fresh* is a first delivery; *duplicate* is a second
one after the end; *crashed* is both deliveries of an operation whose worker dies after the provider's answer and before the write that
settles it. *With bounds* each tenant's place is taken and given back, as by default; otherwise \`tenantMaxRunning\` is 0, since the stock consumer
has nothing like it. Write units are worked out from the items' sizes, refused writes and index writes too.

Both run in one process, in turns, on a table and a provider in memory: requests end where the AWS SDK and Stripe's SDK would
give them to the network, so their own work is counted, and that of sockets and TLS is not, nor the stand-ins' own time. Times are medians, ratios are
medians of the ratios of neighbouring rounds, and of both the middle one of five processes. They say more than the times, which are of one machine that does other things too. A call of the table takes no
time here; on AWS a batch of ours waits for one read more, before the calls. The write that counts them runs beside those that settle.

## The bundles

| bundle | kB | kB gzip | load, ms |
|---|---|---|---|
${results.bundles
  .map(
    ({ title, kilobytes, gzipKilobytes, loadMs }) =>
      `| ${title} | ${kilobytes.toFixed(0)} | ${gzipKilobytes.toFixed(0)} | ${loadMs.toFixed(0)} |`,
  )
  .join('\n')}

Everything is inside, minified. Loads are medians of ${starts} fresh processes, in turns. CommonJS is what is deployed, because it loads
fastest; the packages' ES modules come first, because only from them can the bundler leave out what nobody uses. What else is left out says
[decision 15](decisions/0015-what-functions-leave-out-of-the-sdk.md).
`;
