// Sparklines as SVG, built node by node. Time runs from five minutes ago to now, so that a gap stays a gap.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 300;
const HEIGHT = 56;
const SPAN_S = 300;
const GAP_S = 10;

function svg(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

// Runs of known values. A second without a sample is bridged, a silence is a hole.
function runsOf(points, column, now) {
  const runs = [];
  for (const point of points) {
    if (point[column] === null || point[0] < now - SPAN_S) continue;
    if (!runs.length || point[0] - runs.at(-1).at(-1)[0] > GAP_S) runs.push([]);
    runs.at(-1).push([point[0], point[column]]);
  }
  return runs;
}

function pathOf(run, now, top, isStep) {
  const x = (at) => (((at - now + SPAN_S) / SPAN_S) * WIDTH).toFixed(1);
  const y = (value) => (HEIGHT - 1.5 - (value / top) * (HEIGHT - 5)).toFixed(1);
  let path = `M${x(run[0][0])} ${y(run[0][1])}`;
  for (const [at, value] of run.slice(1)) path += isStep ? `H${x(at)}V${y(value)}` : `L${x(at)} ${y(value)}`;
  return { line: path, area: `${path}V${HEIGHT}H${x(run[0][0])}Z` };
}

export class Sparkline {
  // series: [{column, className, area, step}], drawn in this order.
  constructor(label, series) {
    this.label = label;
    this.series = series;
    this.node = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  }

  // Draws the points; returns the largest value in sight, or null when there is none.
  draw(points, now, say) {
    const drawn = this.series.map((one) => ({ ...one, runs: runsOf(points, one.column, now) }));
    const values = drawn.flatMap((one) => one.runs.flat().map(([, value]) => value));
    const most = values.length ? Math.max(...values) : null;
    const nodes = [svg("line", { class: "ground", x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 })];
    for (const { runs, className, area, step } of drawn) {
      for (const run of runs) {
        const paths = pathOf(run, now, most || 1, step);
        if (area) nodes.push(svg("path", { class: `area ${className}`, d: paths.area }));
        nodes.push(svg("path", { class: `line ${className}`, d: paths.line }));
      }
    }
    this.node.replaceChildren(...nodes);
    const peak = most === null ? "no samples" : `at most ${say(most)}`;
    this.node.setAttribute("aria-label", `${this.label} over the last five minutes: ${peak}`);
    return most;
  }
}
