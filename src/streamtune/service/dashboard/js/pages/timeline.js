// What happened to one job over time: rate, backpressure, instances, parallelism, decisions.
import { get, jobPath } from "../api.js";
import { SERIES, TimeChart, ZoomButtons } from "../charts.js";
import { count, moment, rate, share } from "../format.js";
import { html, useCallback, useEffect, useMemo, useState } from "../lib.js";
import { Empty, Loading, Problem, Scroll, useLoaded } from "../parts.js";
import { lastJobs, nowMs } from "../state.js";

const RANGES = [
  ["1 h", 3600],
  ["6 h", 6 * 3600],
  ["24 h", 86400],
  ["7 d", 7 * 86400],
  ["all", null],
];
const MOST_LINES = 6;
const REFRESH_MS = 4_000;
const TABLE_ROWS = 24;
const STATUS_COLOUR = { applied: "--mark", failed: "--alarm", rolled_back: "--warn", proposed: "--accent", applying: "--accent", refused: "--warn" };

/** Operators whose parallelism changed get a line; the others are said in a sentence. */
function movers(parallelism) {
  const moved = [], steady = [];
  for (const [operator, values] of Object.entries(parallelism ?? {})) {
    const known = values.filter((value) => value != null);
    if (!known.length) continue;
    const spread = Math.max(...known) - Math.min(...known);
    (spread > 0 ? moved : steady).push({ operator, values, spread, now: known.at(-1) });
  }
  moved.sort((one, other) => other.spread - one.spread);
  return { moved: moved.slice(0, MOST_LINES), steady: [...steady, ...moved.slice(MOST_LINES)] };
}

const seconds = (iso) => new Date(iso).getTime() / 1000;
const extent = (values) => {
  const known = (values ?? []).filter((value) => value != null);
  return known.length ? [Math.min(...known), Math.max(...known)] : [0, 0];
};

function markersOf(decisions) {
  return (decisions ?? [])
    .filter((decision) => decision.status in STATUS_COLOUR)
    .map((decision) => ({ time: seconds(decision.time), colour: STATUS_COLOUR[decision.status], strong: decision.status === "failed" }));
}

function useSpan() {
  const [span, setSpan] = useState({ preset: 86400 });
  const zoomed = span.from !== undefined;
  const query = useCallback(() => {
    if (zoomed) return { since: iso(span.from), until: iso(span.to), points: 500 };
    return { since: span.preset ? iso(nowMs() / 1000 - span.preset) : undefined, points: 500 };
  }, [span]);
  return { span, setSpan, zoomed, query };
}

const iso = (seconds) => new Date(seconds * 1000).toISOString();

function TimeTable({ data }) {
  const step = Math.max(1, Math.ceil(data.time.length / TABLE_ROWS));
  const rows = data.time.map((time, place) => [time, place]).filter(([, place]) => place % step === 0).reverse();
  return html`<details><summary>The same figures as a table</summary>
    <${Scroll} label="Figures over time"><table>
      <thead><tr><th scope="col" class="text">Time</th><th scope="col">Records/s</th><th scope="col">Backpressure</th><th scope="col">Instances</th><th scope="col">Recommended</th><th scope="col">Autoscaler</th></tr></thead>
      <tbody>${rows.map(([time, at]) => html`<tr><th scope="row" class="text">${moment(time, nowMs())}</th><td>${rate(data.rate[at])}</td><td>${share(data.backpressure[at])}</td><td>${count(data.instances[at])}</td><td>${count(data.recommended?.[at])}</td><td>${count(data.autoscaler?.[at])}</td></tr>`)}</tbody>
    </table><//>
  </details>`;
}

function Charts({ data, markers, zoom }) {
  const { moved, steady } = useMemo(() => movers(data.parallelism), [data]);
  const times = useMemo(() => data.time.map(seconds), [data]);
  const of = (...columns) => [times, ...columns.map((column) => column ?? times.map(() => null))];
  const rates = useMemo(() => of(data.rate), [data]);
  const pressures = useMemo(() => of(data.backpressure), [data]);
  const instances = useMemo(() => of(data.instances, data.recommended, data.autoscaler), [data]);
  const degrees = useMemo(() => of(...moved.map((line) => line.values)), [data]);
  const [slowest, fastest] = extent(data.rate);
  const [fewest, most] = extent(data.instances);
  const worst = extent(data.backpressure)[1];
  const shared = { markers, zoom };
  return html`
    <${TimeChart} ...${shared} title="Records/s" data=${rates} format=${rate} height=${110} spec=${[{ label: "read by the sources", colour: "--series0", fill: true }]}
      summary=${`Records per second over time: between ${rate(slowest)} and ${rate(fastest)}`} />
    <${TimeChart} ...${shared} title="Backpressure" data=${pressures} format=${share} height=${80} top=${1} spec=${[{ label: "worst operator", colour: "--alarm", fill: true, width: 1.4 }]}
      summary=${`Backpressured share of the worst operator over time: at most ${share(worst)}`} />
    <${TimeChart} ...${shared} title="Instances" data=${instances} format=${count} height=${130} last=${!moved.length} spec=${[
      { label: "running", colour: "--series0", stepped: true, width: 2.2 },
      { label: "recommended", colour: "--series2", stepped: true, index: 1 },
      { label: "autoscaler would run", colour: "--series1", stepped: true, index: 2 },
    ]} summary=${`Instances over time: between ${fewest} and ${most}`} />
    ${moved.length > 0 && html`<${TimeChart} ...${shared} title="Parallelism" data=${degrees} format=${count} height=${130} last=${true}
      spec=${moved.map((line, place) => ({ label: line.operator, colour: SERIES[place], stepped: true, index: place }))}
      summary=${`Parallelism over time of ${moved.map((line) => line.operator).join(", ")}`} />`}
    ${steady.length > 0 && html`<p class="steady">${moved.length ? "Other operators" : "No operator changed"}: ${steady.map((line, place) => html`${place ? ", " : ""}<b>${line.operator}</b> ${line.now}`)}</p>`}
    <${TimeTable} data=${data} />`;
}

export function Timeline({ id, decisions }) {
  const { span, setSpan, zoomed, query } = useSpan();
  const { data, error, reload } = useLoaded(() => get(jobPath(id, "/observations"), query()), [id, span]);
  useEffect(() => {
    if (zoomed) return undefined;
    const timer = setInterval(() => !document.hidden && lastJobs.value.has(id) && reload(), REFRESH_MS);
    return () => clearInterval(timer);
  }, [id, span]);
  const zoom = useCallback((from, to) => setSpan({ from, to }), []);
  const markers = useMemo(() => markersOf(decisions), [decisions]);
  const nudge = (shift, factor) => {
    const first = data?.time.length ? seconds(data.time[0]) : nowMs() / 1000 - 3600;
    const last = data?.time.length ? seconds(data.time.at(-1)) : nowMs() / 1000;
    const middle = (first + last) / 2 + shift * (last - first);
    const half = Math.max(30, ((last - first) / 2) * factor);
    setSpan({ from: middle - half, to: Math.min(middle + half, nowMs() / 1000) });
  };
  return html`<section class="card" aria-labelledby="over-time">
    <header><h2 id="over-time">Over time</h2>
      <div class="segments" role="group" aria-label="Range">${RANGES.map(([name, preset]) => html`<button type="button" aria-pressed=${!zoomed && span.preset === preset} onClick=${() => setSpan({ preset })}>${name}</button>`)}</div>
      <${ZoomButtons} zoomed=${zoomed} nudge=${nudge} reset=${() => setSpan({ preset: 86400 })} />
      <p class="hint soft">Drag to zoom. Vertical lines are decisions.</p>
    </header>
    ${error && html`<${Problem} error=${error} retry=${reload} />`}
    ${!data && !error && html`<${Loading} what="observations" />`}
    ${data && !data.time.length && html`<${Empty} title="Nothing observed in this time">Choose a longer range, or wait for the next window: the first observation of a job comes after one polling window.<//>`}
    ${data?.time.length > 0 && html`<${Charts} data=${data} markers=${markers} zoom=${zoom} />`}
  </section>`;
}
