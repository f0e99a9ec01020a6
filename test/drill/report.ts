import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { DrillResult } from './drill';
import { isKept, p99AllowedMs, secondsToBaselineAllowed } from './judge';
import { lineOf, short } from './text';

const uplot = dirname(require.resolve('uplot/dist/uPlot.iife.min.js'));
const partOf = (file: string): string => readFileSync(join(__dirname, 'page', file), 'utf8');

/** One page with everything inside: it needs no network and no server. */
export function reportPage(results: readonly DrillResult[]): string {
  const broken = results.filter(({ ok }) => !ok).length;
  const verdict =
    broken === 0
      ? `All ${results.length} ended ok.`
      : `${broken} of ${results.length} broke a guarantee or a bar.`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Drill report</title>
<style>${readFileSync(join(uplot, 'uPlot.min.css'), 'utf8')}${partOf('report.css')}</style>
</head>
<body>
<header>
<h1>Drill report</h1>
<p>The service ran as real processes on one machine and was put under pressure in ${results.length} ways, ${new Date().toISOString().slice(0, 10)}. <strong>${verdict}</strong></p>
<p>In each drill the service first runs calmly, then under pressure (shaded), and is then watched until nothing is left of it: no message, no call, no place held, no connection and no temporary file more than before. The rules are judged from the provider's own books, the table and the queues.</p>
</header>
<nav aria-label="Drills">
<table>
<thead><tr><th>drill</th><th></th><th class="number">provider calls</th><th class="number">others' p99</th><th class="number">in calm</th><th class="number">back to baseline</th></tr></thead>
<tbody>${results.map(summaryRow).join('')}</tbody>
</table>
</nav>
${results.map(section).join('\n')}
<script type="application/json" id="drills">${embedded(results.map(plotted))}</script>
<script>${readFileSync(join(uplot, 'uPlot.iife.min.js'), 'utf8')}</script>
<script>${partOf('report.js')}</script>
</body>
</html>
`;
}

const summaryRow = ({ name, title, ok, figures }: DrillResult): string =>
  `<tr><td><a href="#${name}">${text(title)}</a></td><td>${badge(ok)}</td><td class="number">${figures.providerCalls}</td><td class="number">${short(figures.p99Ms)} ms</td><td class="number">${short(figures.calmP99Ms)} ms</td><td class="number">${baseline(figures.secondsToBaseline)}</td></tr>`;

const badge = (ok: boolean): string => `<span class="${ok ? 'ok' : 'broken'}">${ok ? 'ok' : 'broken'}</span>`;

const baseline = (seconds: number | undefined): string =>
  seconds === undefined ? 'never' : `${short(seconds)} s`;

function section(result: DrillResult): string {
  const { name, title, what, ok, checks } = result;
  const broken = checks.filter((check) => !isKept(check));
  return `<section id="${name}">
<h2>${text(title)} ${badge(ok)}</h2>
<p>${text(what)}</p>
${broken.length === 0 ? '' : `<ul class="why">${broken.map((check) => `<li>${text(lineOf(check))}</li>`).join('')}</ul>`}
<dl>${figuresOf(result)
    .map(([term, value]) => `<div><dt>${text(term)}</dt><dd>${text(value)}</dd></div>`)
    .join('')}</dl>
<div class="plots"></div>
<details${ok ? '' : ' open'}><summary>${checks.length} rules, ${broken.length} broken</summary>
<table><thead><tr><th></th><th>rule</th><th class="number">got</th><th class="number">at most</th><th></th></tr></thead><tbody>
${checks
  .map(
    (check) =>
      `<tr><td>${text(check.guarantee)}</td><td>${text(check.rule)}</td><td class="number">${withUnit(check.got, check.unit)}</td><td class="number">${withUnit(check.allowed, check.unit)}</td><td>${badge(isKept(check))}</td></tr>`,
  )
  .join('\n')}
</tbody></table></details>
</section>`;
}

const withUnit = (value: number, unit = ''): string => `${short(value)}${unit && ` ${unit}`}`;

function figuresOf({ figures, evidence }: DrillResult): readonly [string, string][] {
  const { areOthersBarred, limits } = evidence;
  const bar = areOthersBarred ? `, at most ${short(p99AllowedMs(figures.calmP99Ms))} ms` : '';
  return [
    ['operations', `${figures.operations}, ${figures.effects} effects`],
    ['provider calls', `${figures.providerCalls}: ${figures.retries} retries, ${figures.probes} probes`],
    [
      'provider calls at once',
      `${figures.maxConcurrentProviderCalls}, of one tenant ${figures.maxConcurrentProviderCallsOfOneTenant}`,
    ],
    ['workers', `${figures.maxWorkers} at most`],
    ['open connections', `${figures.maxOpenConnections} at most`],
    ['temporary files', `${figures.maxTemporaryFiles} at most`],
    ['queue depth', `${figures.maxQueueDepth} at most`],
    ['dead letters', `${figures.deadLetters}, ${evidence.poison.length} of them on purpose`],
    ["others' p50", `${short(figures.p50Ms)} ms, in calm ${short(figures.calmP50Ms)} ms`],
    ["others' p99", `${short(figures.p99Ms)} ms, in calm ${short(figures.calmP99Ms)} ms${bar}`],
    [
      'back to baseline',
      `${baseline(figures.secondsToBaseline)}, at most ${secondsToBaselineAllowed(limits)} s`,
    ],
  ];
}

/** What the page draws of a drill: seconds from its first sample. */
function plotted({ name, evidence }: DrillResult) {
  const { samples, jobs, pressureFromMs, pressureToMs, baselineAtMs } = evidence;
  const startMs = samples[0]?.atMs ?? pressureFromMs;
  const seconds = (atMs: number) => Math.round((atMs - startMs) / 10) / 100;
  const others = jobs
    .filter(({ isMeasured, doneAtMs }) => isMeasured && doneAtMs !== undefined)
    .map(({ sentAtMs, doneAtMs = sentAtMs }) => [seconds(sentAtMs), doneAtMs - sentAtMs] as const)
    .sort(([one], [other]) => one - other);
  return {
    name,
    at: samples.map(({ atMs }) => seconds(atMs)),
    pressure: [seconds(pressureFromMs), seconds(pressureToMs)],
    ...(baselineAtMs !== undefined && { baseline: seconds(baselineAtMs) }),
    workers: samples.map(({ workers }) => workers),
    busyWorkers: samples.map(({ busyWorkers }) => busyWorkers),
    providerCalls: samples.map(({ providerCalls }) => providerCalls),
    connections: samples.map(({ connections }) => connections),
    queueDepth: samples.map(({ queueDepth }) => queueDepth),
    temporaryFiles: samples.map(({ temporaryFiles }) => temporaryFiles),
    others: [others.map(([at]) => at), others.map(([, ms]) => ms)],
  };
}

/** JSON that cannot end the script element that it is in. */
const embedded = (value: unknown): string => JSON.stringify(value).replaceAll('<', '\\u003c');

const text = (value: string): string =>
  value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
