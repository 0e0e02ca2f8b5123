// Charts over time (uPlot) and probability curves (SVG).
import { precise, share } from "./format.js";
import { html, useEffect, useRef, useState } from "./lib.js";
import { Icon } from "./parts.js";

let library = null;
const fetchLibrary = () => import("../vendor/uplot.js").then((module) => module.default);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** The library is fetched when the first chart needs it, and once more if that failed. */
function uplot() {
  library ??= fetchLibrary().catch(() => pause(2000).then(fetchLibrary));
  return library;
}


/** A canvas knows no custom properties: ask the page what one comes out as in the theme of now. */
function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  probe.hidden = true;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const faded = (rgb, alpha) => rgb.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);
export const SERIES = ["--series0", "--series1", "--series2", "--series3", "--series4", "--series5"];
const DASHES = [[], [7, 3], [2.5, 2.5], [9, 3, 2, 3], [4, 4], [12, 4]];
export const dash = (index) => DASHES[index % DASHES.length];
const FONT = '11px Inter, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';

/** Vertical lines where decisions were made. */
function drawMarkers(chart, markers) {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.setLineDash([]);
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const marker of markers) {
    const x = Math.round(chart.valToPos(marker.time, "x", true)) + 0.5;
    ctx.strokeStyle = colour(marker.colour);
    ctx.lineWidth = devicePixelRatio * (marker.strong ? 2 : 1);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

function axes(last, format) {
  const text = colour("--soft");
  const grid = { stroke: colour("--grid"), width: 1 };
  const shared = { stroke: text, grid, ticks: { show: false }, font: FONT };
  const clock24 = [
    [86400, "{D} {MMM}", null, null, null, null, null, null, 1],
    [3600, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
    [60, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
  ];
  return [
    { ...shared, space: 70, size: last ? 34 : 6, values: last ? clock24 : () => [] },
    { ...shared, space: 28, size: 52, gap: 6, values: (_, ticks) => ticks.map((tick) => format(tick).replace(/\.0+(?= |$)/, "")) },
  ];
}

function seriesOf(spec, library) {
  return spec.map(({ label, colour: name, stepped, fill, index = 0, width = 1.8 }) => {
    const stroke = colour(name);
    return {
      label,
      stroke,
      width,
      dash: dash(index).map((part) => part * devicePixelRatio),
      fill: fill ? faded(stroke, 0.16) : undefined,
      paths: stepped ? library.paths.stepped({ align: 1 }) : undefined,
      points: { show: false },
      spanGaps: false,
    };
  });
}

/** The legend shows each line's value under the pointer, or its last one. */
function tell(box, chart, spec, format) {
  if (!box) return;
  const index = chart.cursor.idx;
  const last = chart.data[0].length - 1;
  spec.forEach((_, number) => {
    const target = box.querySelectorAll("b")[number];
    const value = chart.data[number + 1]?.[index ?? last];
    if (target) target.textContent = value == null ? "–" : format(value);
  });
  const when = box.querySelector(".when");
  if (when) when.textContent = index == null ? "" : precise(chart.data[0][index] * 1000);
}

export function useWidth(box) {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return width;
}

function useTheme() {
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const again = () => setTurn((old) => old + 1);
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", again);
    window.addEventListener("themechange", again);
    return () => {
      system.removeEventListener("change", again);
      window.removeEventListener("themechange", again);
    };
  }, []);
  return turn;
}

/**
 * One chart over time. ``spec`` has a line each: {label, colour, stepped, fill, index}; ``data`` is uPlot's
 * [times in seconds, values…]. Charts with the same page share cursor and zoom.
 */
export function TimeChart({ title, summary, data, spec, format, markers, zoom, height = 120, last = false, top }) {
  const box = useRef(null);
  const legend = useRef(null);
  const chart = useRef(null);
  const now = useRef({});
  const [missing, setMissing] = useState(false);
  const width = useWidth(box);
  const theme = useTheme();
  now.current = { markers, zoom, data };
  const shape = spec.map((line) => line.label + line.colour).join();
  useEffect(() => {
    if (!width) return undefined;
    let gone = false;
    uplot().then((library) => {
      if (gone) return;
      const options = {
        width,
        height,
        legend: { show: false },
        padding: [8, 10, 0, 0],
        cursor: { sync: { key: "job" }, drag: { x: true, y: false, setScale: false }, points: { size: 6 }, y: false },
        scales: { x: { time: true }, y: { range: (_, low, high) => [0, top ?? Math.max(high * 1.08, 1e-9)] } },
        axes: axes(last, format),
        series: [{}, ...seriesOf(spec, library)],
        hooks: {
          draw: [(self) => drawMarkers(self, now.current.markers)],
          setCursor: [(self) => tell(legend.current, self, spec, format)],
          setSelect: [
            (self) => {
              const { left, width: chosen } = self.select;
              if (chosen > 4) now.current.zoom(self.posToVal(left, "x"), self.posToVal(left + chosen, "x"));
              self.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            },
          ],
        },
      };
      chart.current = new library(options, now.current.data, box.current);
      tell(legend.current, chart.current, spec, format);
    }, () => setMissing(true));
    return () => {
      gone = true;
      chart.current?.destroy();
      chart.current = null;
    };
  }, [width, theme, shape, last, top]);
  useEffect(() => {
    chart.current?.setData(data);
    if (chart.current) tell(legend.current, chart.current, spec, format);
  }, [data]);
  useEffect(() => chart.current?.redraw(false), [markers]);
  return html`<figure class="chart">
    <figcaption ref=${legend}><span class="title">${title}</span>
      ${spec.map((line) => html`<span class="line"><${LineSwatch} line=${line} />${line.label} <b></b></span>`)}
      <span class="when soft"></span>
    </figcaption>
    ${missing && html`<p class="soft">The chart could not be loaded: reload the page. The table below has the figures.</p>`}
    <div ref=${box} class=${`plot h${height}`} role="img" aria-label=${summary}></div>
  </figure>`;
}

const LineSwatch = ({ line }) =>
  html`<svg class=${`swatch line-of${line.colour}`} viewBox="0 0 22 8" aria-hidden="true"><path d="M0 4h22" stroke-dasharray=${dash(line.index ?? 0).join(" ")} /></svg>`;

/** The probability that ``at`` instances are a bottleneck, between the points of a curve. */
export function probability(curve, at) {
  if (!curve?.length || at == null) return null;
  const points = [...curve].sort((one, other) => one[0] - other[0]);
  if (at <= points[0][0]) return points[0][1];
  for (let place = 1; place < points.length; place += 1) {
    const [x0, y0] = points[place - 1];
    const [x1, y1] = points[place];
    if (at <= x1) return y0 + ((y1 - y0) * (at - x0)) / (x1 - x0);
  }
  return points.at(-1)[1];
}

/** Probability of a bottleneck over instances, with what ran and what is planned. */
export function Curve({ operator, curve, from, to }) {
  const points = [...curve].sort((one, other) => one[0] - other[0]);
  const low = Math.min(points[0][0], from ?? Infinity, to ?? Infinity);
  const high = Math.max(points.at(-1)[0], from ?? 0, to ?? 0, low + 1);
  const x = (value) => 26 + ((value - low) / (high - low)) * 164;
  const y = (value) => 6 + (1 - value) * 58;
  const path = points.map(([p, chance], place) => `${place ? "L" : "M"}${x(p).toFixed(1)} ${y(chance).toFixed(1)}`).join("");
  const area = `${path}L${x(points.at(-1)[0]).toFixed(1)} 64L${x(points[0][0]).toFixed(1)} 64Z`;
  const before = probability(points, from);
  const after = probability(points, to);
  const text = `Probability of a bottleneck at ${operator}: ${share(before)} with ${from}, ${share(after)} with ${to} instances`;
  return html`<figure class="curve">
    <figcaption><b>${operator}</b> <span class="soft">${from === to ? `${to}: ${share(after)}` : `${from}: ${share(before)} → ${to}: ${share(after)}`}</span></figcaption>
    <svg viewBox="0 0 196 80" role="img" aria-label=${text}>
      <path class="gridline" d="M26 6h164M26 35h164M26 64h164" />
      <text x="22" y="9" class="y">1</text><text x="22" y="38" class="y">½</text><text x="22" y="67" class="y">0</text>
      <path class="area" d=${area} /><path class="probability" d=${path} />
      ${from != null && from !== to && html`<path class="from" d=${`M${x(from)} 6V64`} /><circle class="from" cx=${x(from)} cy=${y(before)} r="3" />`}
      ${to != null && html`<path class="to" d=${`M${x(to)} 6V64`} /><circle class="to" cx=${x(to)} cy=${y(after)} r="3.4" />`}
      <text x="26" y="77" class="x start">${low}</text><text x="190" y="77" class="x end">${high}</text><text x="108" y="77" class="x">instances</text>
    </svg>
  </figure>`;
}

export const ZoomButtons = ({ zoomed, nudge, reset }) => html`<div class="zoom" role="group" aria-label="Zoom of the charts">
  <button type="button" class="quiet" aria-label="Earlier" title="Earlier" onClick=${() => nudge(-0.5, 1)}>←</button>
  <button type="button" class="quiet" aria-label="Zoom in" title="Zoom in" onClick=${() => nudge(0, 0.5)}>+</button>
  <button type="button" class="quiet" aria-label="Zoom out" title="Zoom out" onClick=${() => nudge(0, 2)}>−</button>
  <button type="button" class="quiet" aria-label="Later" title="Later" onClick=${() => nudge(0.5, 1)}>→</button>
  ${zoomed && html`<button type="button" onClick=${reset}><${Icon} name="back" />Follow live</button>`}
</div>`;
