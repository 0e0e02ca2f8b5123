// History: runs per day and engine, and what was set aside with its reason.
import { get } from "../api.js";
import { useWidth } from "../charts.js";
import { count, day, many } from "../format.js";
import { html, useEffect, useRef } from "../lib.js";
import { Chevron, Empty, Figure, Loading, Problem, Scroll, useLoaded } from "../parts.js";
import { title } from "../state.js";

const HEIGHT = 180;
const LEFT = 46;
const MOST_DAYS = 400;
const WIDEST = 72;

function byDay(rows) {
  const engines = [...new Set(rows.map((row) => row.engine))].sort();
  const days = new Map();
  for (const { day: name, engine, runs } of rows) {
    const found = days.get(name) ?? new Map();
    found.set(engine, (found.get(engine) ?? 0) + runs);
    days.set(name, found);
  }
  return { engines, days: withGaps([...days.entries()].sort(([one], [other]) => (one < other ? -1 : 1))) };
}

/** A day on which nothing was kept is shown as such. */
function withGaps(days) {
  const whole = [];
  for (const [name, runs] of days) {
    const last = whole.at(-1)?.[0];
    for (let next = dayAfter(last); last && next < name && whole.length < MOST_DAYS; next = dayAfter(next)) whole.push([next, new Map()]);
    whole.push([name, runs]);
  }
  return whole;
}

function dayAfter(name) {
  const time = Date.parse(`${name}T00:00:00Z`);
  return Number.isNaN(time) ? "9999" : new Date(time + 86_400_000).toISOString().slice(0, 10);
}

function niceTop(most) {
  const size = 10 ** Math.floor(Math.log10(Math.max(1, most)));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * size).find((top) => top >= most) ?? most;
}

function Bars({ engines, days }) {
  const box = useRef(null);
  const width = Math.max(320, useWidth(box));
  const sums = days.map(([, runs]) => [...runs.values()].reduce((sum, value) => sum + value, 0));
  const top = niceTop(Math.max(...sums));
  const step = Math.min(WIDEST, (width - LEFT) / days.length);
  const y = (value) => HEIGHT - 20 - (value / top) * (HEIGHT - 30);
  const every = Math.ceil(days.length / (width / 90));
  const text = `Runs per day from ${days[0][0]} to ${days.at(-1)[0]}: at most ${count(Math.max(...sums))}, ${count(sums.at(-1))} on the last day`;
  return html`<div ref=${box} class="bars-box"><svg class="bars" viewBox=${`0 0 ${width} ${HEIGHT}`} role="img" aria-label=${text}>
    ${[0, 0.5, 1].map((part) => html`<path class="gridline" d=${`M${LEFT} ${y(top * part)}H${width}`} /><text class="y" x=${LEFT - 6} y=${y(top * part) + 4}>${count(top * part)}</text>`)}
    ${days.map(([name, runs], place) => {
      let below = 0;
      const x = LEFT + place * step + step * 0.12;
      return html`<g><title>${`${name}: ${[...runs.entries()].map(([engine, number]) => `${engine} ${number}`).join(", ")}`}</title>
        ${engines.map((engine, index) => {
          const number = runs.get(engine) ?? 0;
          const bar = html`<rect class=${`engine${index}`} x=${x} width=${Math.min(step * 0.76, 60)} y=${y(below + number)} height=${Math.max(0, y(below) - y(below + number))} />`;
          below += number;
          return bar;
        })}
        ${(days.length - 1 - place) % every === 0 && html`<text class="x" x=${Math.min(width - 16, x + Math.min(step * 0.76, 60) / 2)} y=${HEIGHT - 4}>${name.slice(5)}</text>`}</g>`;
    })}
  </svg></div>`;
}

function Runs({ days: rows }) {
  if (!rows.length) {
    return html`<${Empty} title="No run kept yet"><p>What the service observes is appended to the history folder as soon as jobs are watched. Older runs can be brought in: <code>streamtune collect --url http://jobmanager:8081 --out runs</code>, then <code>streamtune history ingest HISTORY runs</code>.</p><//>`;
  }
  const { engines, days } = byDay(rows);
  return html`<ul class="legend">${engines.map((engine, index) => html`<li><span class=${`swatch engine${index}`}></span>${engine}</li>`)}</ul>
    <${Bars} engines=${engines} days=${days} />
    <details><summary>The same figures as a table</summary><${Scroll} label="Runs per day and engine"><table><thead><tr><th scope="col" class="text">Day</th>${engines.map((engine) => html`<th scope="col">${engine}</th>`)}</tr></thead>
      <tbody>${[...days].reverse().map(([name, runs]) => html`<tr><th scope="row" class="text">${name}</th>${engines.map((engine) => html`<td>${count(runs.get(engine) ?? 0)}</td>`)}</tr>`)}</tbody></table><//></details>`;
}

function Quarantine({ quarantine }) {
  if (!quarantine?.total) {
    return html`<${Empty} title="Nothing in quarantine">No record was set aside so far. One that breaks the run schema comes here with its reason when the history is ingested; none is dropped.<//>`;
  }
  const most = Math.max(...quarantine.reasons.map((reason) => reason.count));
  return html`<ul class="reasons">${quarantine.reasons.map(
    (reason) => html`<li><details>
      <summary><${Chevron} /><span class="what">${reason.reason}</span><svg class="amount" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect width=${(reason.count / most) * 100} height="8" /></svg><b>${count(reason.count)}</b></summary>
      ${reason.samples?.length ? html`<ul class="samples">${reason.samples.map((sample) => html`<li><pre>${sample}</pre></li>`)}</ul>` : html`<p class="soft">No sample kept.</p>`}
    </details></li>`,
  )}</ul>`;
}

export function History() {
  const { data, error, reload } = useLoaded(() => get("history"), []);
  useEffect(() => {
    title.value = "History";
  }, []);
  const runs = (data?.days ?? []).reduce((sum, row) => sum + row.runs, 0);
  const aside = data?.quarantine?.total ?? 0;
  const days = new Set((data?.days ?? []).map((row) => row.day)).size;
  return html`<h1 tabindex="-1">History</h1>
    <p class="intro soft">What models learn from: one record per job and window, checked before it counts.</p>
    ${error && html`<${Problem} error=${error} retry=${reload} />`}
    ${!data && !error && html`<${Loading} what="the history" />`}
    ${data && html`<dl class="figures">
      <${Figure} label="Runs" note=${`on ${many(days, "day")}`}>${count(runs)}<//>
      <${Figure} label="Newest day" note=${data.days.length ? "in the service's time" : ""}>${data.days.length ? day(data.days.map((row) => row.day).sort().at(-1)) : "–"}<//>
      <${Figure} label="In quarantine" note=${runs + aside ? `${((aside / (runs + aside)) * 100).toFixed(2)} % of all records` : ""}>${count(aside)}<//>
    </dl>
    <section class="card" aria-labelledby="runs"><header><h2 id="runs">Runs per day</h2></header><${Runs} days=${data.days} /></section>
    <section class="card" aria-labelledby="quarantine"><header><h2 id="quarantine">Quarantine</h2>${aside > 0 && html`<span class="soft">Open a reason to see samples</span>`}</header><${Quarantine} quarantine=${data.quarantine} /></section>`}`;
}
