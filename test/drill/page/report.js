// Draws each drill's plots with uPlot, which the page defines before this.
const drills = JSON.parse(document.getElementById('drills').textContent);
const dark = matchMedia('(prefers-color-scheme: dark)');

/** The colours are the style sheet's: a canvas needs them resolved. */
function colour(name) {
  const probe = document.createElement('span');
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

const plotsOf = (drill) => [
  {
    title: 'Messages in the queue',
    data: [drill.at, drill.queueDepth],
    series: [{ label: 'messages' }],
  },
  {
    title: 'Workers and provider calls at once',
    data: [drill.at, drill.busyWorkers, drill.providerCalls],
    series: [{ label: 'busy workers' }, { label: 'provider calls' }],
  },
  {
    title: 'Worker processes and temporary files',
    data: [drill.at, drill.workers, drill.temporaryFiles],
    series: [{ label: 'processes' }, { label: 'temporary files' }],
  },
  {
    title: 'Open connections',
    data: [drill.at, drill.connections],
    series: [{ label: 'connections' }],
  },
  {
    title: "Other tenants' jobs: milliseconds from sent to done, by when they were sent",
    data: drill.others,
    series: [{ label: 'milliseconds', isPoints: true }],
  },
];

/** Shades the pressure, and marks where everything was as before. */
function phases(drill, shade, mark) {
  return (plot) => {
    const { ctx, bbox } = plot;
    const [from, to] = drill.pressure.map((at) => plot.valToPos(at, 'x', true));
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = shade;
    ctx.fillRect(from, bbox.top, to - from, bbox.height);
    if (drill.baseline !== undefined) {
      const at = plot.valToPos(drill.baseline, 'x', true);
      ctx.strokeStyle = mark;
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(at, bbox.top);
      ctx.lineTo(at, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  };
}

const seconds = (value) => (value == null ? '' : `${value.toFixed(1)} s`);

function draw(drill, { title, data, series }, place) {
  const [text, line, shade, good] = ['quiet', 'line', 'shade', 'good'].map(colour);
  const strokes = ['one', 'two'].map(colour);
  const figure = document.createElement('figure');
  const caption = document.createElement('figcaption');
  caption.textContent = title;
  figure.append(caption);
  place.append(figure);
  const axis = {
    stroke: text,
    font: '12px system-ui',
    grid: { stroke: line, width: 1 },
    ticks: { show: false },
  };
  const end = drill.at.at(-1) ?? 1;
  return new uPlot(
    {
      width: figure.clientWidth,
      height: 150,
      cursor: { drag: { x: false, y: false } },
      scales: {
        x: { time: false, range: [0, end] },
        y: { range: (_, _min, max) => [0, Math.max(max ?? 1, 4) * 1.05] },
      },
      axes: [
        { ...axis, size: 28, values: (_, values) => values.map((value) => `${value} s`) },
        {
          ...axis,
          size: 52,
          incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000],
        },
      ],
      series: [
        { label: 'at', value: (_, value) => seconds(value) },
        ...series.map(({ label, isPoints = false }, index) => ({
          label,
          value: (_, value) => value ?? '',
          stroke: strokes[index],
          width: 1.5,
          ...(isPoints
            ? { paths: () => null, points: { show: true, size: 4, fill: strokes[index], width: 0 } }
            : { points: { show: false } }),
        })),
      ],
      hooks: { drawClear: [phases(drill, shade, good)] },
    },
    data,
    figure,
  );
}

let plots = [];
function drawAll() {
  for (const { plot } of plots) plot.destroy();
  plots = [];
  for (const drill of drills) {
    const place = document.querySelector(`#${drill.name} .plots`);
    place.replaceChildren();
    for (const plot of plotsOf(drill)) plots.push({ plot: draw(drill, plot, place), place });
  }
}

drawAll();
dark.addEventListener('change', drawAll);
let width = innerWidth;
addEventListener('resize', () => {
  // A phone's address bar changes the height alone.
  if (innerWidth === width) return;
  width = innerWidth;
  for (const { plot } of plots) plot.setSize({ width: plot.root.parentElement.clientWidth, height: 150 });
});
