// The fleet: every job, those in trouble first, with the reason in plain sight.
import { count, hours, many, rate, share, signed } from "../format.js";
import { Component, html, signal, useEffect, useMemo, useRef, useState } from "../lib.js";
import { Age, Bullet, Empty, Figure, Icon, jobHref, Loading, Meter, StateChip } from "../parts.js";
import { fleet, inTrouble, loaded, service, severity, title } from "../state.js";

const FIRST_ROWS = 120;
const MORE_ROWS = 120;
const RESORT_MS = 12_000; // rows sorted by a number that moves must not dance

const VIEWS = [
  ["all", "All", () => true],
  ["trouble", "Trouble", inTrouble],
  ["waiting", "Plans waiting", (job) => Boolean(job.pending)],
  ["change", "Would change", (job) => job.recommended_instances != null && job.recommended_instances !== job.instances],
  ["auto", "Automatic", (job) => job.mode === "auto" && !job.paused],
  ["paused", "Paused", (job) => job.paused],
];

const COLUMNS = [
  ["name", "Job", "text", (job) => job.name.toLowerCase()],
  ["state", "State", "text", (job) => job.state],
  ["rate", "Records/s", "number", (job) => -(job.rate ?? -1)],
  ["backpressure", "Backpressure", "number", (job) => -(job.backpressure ?? -1)],
  ["instances", "Instances", "number", (job) => -(job.instances ?? -1)],
  ["recommended", "Recommended", "number", (job) => -Math.abs((job.recommended_instances ?? job.instances) - job.instances)],
  ["autoscaler", "Autoscaler", "number wide", (job) => -(job.autoscaler_instances ?? -1)],
  ["restarts", "Restarts today", "number wide", (job) => -(job.restarts_today ?? 0)],
  ["savings", "Saved today", "number wide", (job) => -(job.savings_today ?? -1e9)],
  ["seen", "Seen", "number wide", (job) => job.last_observed ?? ""],
];

const GROUPS = [
  ["Trouble", (job) => severity(job) <= 2],
  ["Plans that wait for you", (job) => severity(job) === 3],
  ["Restarting", (job) => severity(job) === 4],
  ["Paused", (job) => severity(job) === 5],
  ["Running", () => true],
];

function fromHash() {
  const query = new URLSearchParams(location.hash.split("?")[1] ?? "");
  return { text: query.get("q") ?? "", view: query.get("show") ?? "all", cluster: query.get("cluster") ?? "", policy: query.get("policy") ?? "", sort: query.get("sort") ?? "trouble" };
}

const choice = signal(fromHash());

function choose(change) {
  choice.value = { ...choice.value, ...change };
  const { text, view, cluster, policy, sort } = choice.value;
  const query = new URLSearchParams();
  if (text) query.set("q", text);
  if (view !== "all") query.set("show", view);
  if (cluster) query.set("cluster", cluster);
  if (policy) query.set("policy", policy);
  if (sort !== "trouble") query.set("sort", sort);
  history.replaceState(null, "", `#/${query.size ? `?${query}` : ""}`);
}

const headline = (jobs) => {
  const troubled = jobs.filter(inTrouble).length;
  const waiting = jobs.filter((job) => job.pending).length;
  const parts = [];
  if (troubled) parts.push(`${many(troubled, "job")} in trouble`);
  if (waiting) parts.push(`${many(waiting, "plan")} ${waiting === 1 ? "waits" : "wait"} for approval`);
  if (!parts.length) return `All ${many(jobs.length, "job")} run as they should`;
  return parts.join(", ");
};

const sum = (jobs, field) => jobs.reduce((total, job) => total + (job[field] ?? 0), 0);

function Figures({ jobs }) {
  const known = jobs.filter((job) => job.autoscaler_instances != null);
  const now = sum(jobs, "instances");
  const wanted = jobs.reduce((total, job) => total + (job.recommended_instances ?? job.instances ?? 0), 0);
  const saved = jobs.some((job) => job.savings_today != null) ? sum(jobs, "savings_today") : null;
  return html`<dl class="figures">
    <${Figure} label="Jobs" note=${many(new Set(jobs.map((job) => job.cluster)).size, "cluster")}>${count(jobs.length)}<//>
    <${Figure} label="Records/s" note="read by all sources">${rate(sum(jobs, "rate"))}<//>
    <${Figure} label="Backpressured" alarm=${jobs.some((job) => job.backpressured)} note=${`of ${many(jobs.length, "job")}`}>${count(jobs.filter((job) => job.backpressured).length)}<//>
    <${Figure} label="Instances" note=${now === wanted ? "as recommended" : `recommended ${count(wanted)} (${signed(wanted - now)})`}>${count(now)}<//>
    <${Figure} label="Autoscaler would run" note=${known.length ? `where ${count(sum(known, "instances"))} run` : "not known yet"}>${known.length ? count(sum(known, "autoscaler_instances")) : "–"}<//>
    <${Figure} label="Saved today" note="instance-hours vs autoscaler">${hours(saved)}<//>
    <${Figure} label="Restarts today" note="by any cause">${count(sum(jobs, "restarts_today"))}<//>
  </dl>`;
}

function Clusters() {
  const clusters = service.value?.clusters ?? [];
  const down = clusters.filter((cluster) => cluster.error);
  if (!down.length) return null;
  return html`<ul class="notices">${down.map(
    (cluster) => html`<li><${Icon} name="off" /><span><b>${cluster.name}</b> ${cluster.error}</span></li>`,
  )}</ul>`;
}

function Filters({ jobs }) {
  const { text, view, cluster, policy } = choice.value;
  const clusters = [...new Set(jobs.map((job) => job.cluster))].sort();
  return html`<div class="filters" role="search">
    <label class="visually-hidden" for="find">Find a job</label>
    <input id="find" type="search" placeholder="Find a job  (press /)" value=${text} onInput=${(event) => choose({ text: event.target.value })} />
    <div class="segments" role="group" aria-label="Which jobs">
      ${VIEWS.map(([key, name, holds]) => {
        const number = jobs.filter(holds).length;
        if (!number && key !== "all" && key !== view) return null;
        return html`<button type="button" aria-pressed=${view === key} onClick=${() => choose({ view: key })}>${name} <span class="soft">${number}</span></button>`;
      })}
    </div>
    ${policy && html`<button type="button" onClick=${() => choose({ policy: "" })} title="Show jobs of all policies">policy ${policy} <${Icon} name="cross" /></button>`}
    ${clusters.length > 1 &&
    html`<label class="visually-hidden" for="cluster">Cluster</label>
      <select id="cluster" value=${cluster} onChange=${(event) => choose({ cluster: event.target.value })}>
        <option value="">all clusters</option>
        ${clusters.map((name) => html`<option value=${name}>${name}</option>`)}
      </select>`}
  </div>`;
}

function chosen(jobs) {
  const { text, view, cluster, policy } = choice.value;
  const holds = VIEWS.find(([key]) => key === view)?.[2] ?? (() => true);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return jobs.filter((job) => {
    const where = `${job.name} ${job.cluster} ${job.policy} ${job.mode} ${job.engine}`.toLowerCase();
    return holds(job) && (!policy || job.policy === policy) && (!cluster || job.cluster === cluster) && words.every((word) => where.includes(word));
  });
}

const byName = (one, other) => one.name.localeCompare(other.name);

function ordered(jobs, sort) {
  if (sort === "trouble") return jobs.sort((one, other) => severity(one) - severity(other) || byName(one, other));
  const key = COLUMNS.find(([name]) => name === sort.replace(/^-/, ""))?.[3] ?? COLUMNS[0][3];
  const way = sort.startsWith("-") ? -1 : 1;
  return jobs.sort((one, other) => {
    const a = key(one), b = key(other);
    return a === b ? byName(one, other) : (a < b ? -1 : 1) * way;
  });
}

/** The order of ids: new when the question changes or jobs change groups, else every few seconds at most. */
function useOrder(jobs) {
  const [turn, setTurn] = useState(0);
  const hovered = useRef(false);
  useEffect(() => {
    const timer = setInterval(() => !hovered.current && setTurn((old) => old + 1), RESORT_MS);
    return () => clearInterval(timer);
  }, []);
  const { sort } = choice.value;
  const shape = jobs.map((job) => `${job.id}:${severity(job)}`).sort().join();
  const order = useMemo(() => ordered([...jobs], sort).map((job) => job.id), [shape, sort, turn]);
  return [order, hovered];
}

function Why({ job }) {
  if (job.trouble?.length) return html`<span class="why">${job.trouble.join("; ")}</span>`;
  if (job.backpressured) return html`<span class="why">backpressured: ${share(job.backpressure)} at the worst operator</span>`;
  return null;
}

class Row extends Component {
  shouldComponentUpdate(next) {
    return next.job !== this.props.job;
  }

  render({ job }) {
    const delta = job.recommended_instances == null ? 0 : job.recommended_instances - job.instances;
    return html`<tr class=${inTrouble(job) ? "troubled" : ""}>
      <th scope="row" class="text">
        <a href=${jobHref(job.id)}>${job.name}</a>
        <span class="where">${job.cluster} · ${job.mode}${job.paused ? " · paused" : ""}</span>
        ${job.pending && html`<a class="review" href=${jobHref(job.id, job.pending)}><${Icon} name="wait" />Review plan</a>`}
        <${Why} job=${job} />
      </th>
      <td class="text"><${StateChip} state=${job.state} /></td>
      <td>${rate(job.rate)}</td>
      <td><${Meter} value=${job.backpressure} alarm=${job.backpressured} /></td>
      <td><span class="instances"><${Bullet} now=${job.instances} recommended=${job.recommended_instances} autoscaler=${job.autoscaler_instances} /><b>${count(job.instances)}</b></span></td>
      <td>${job.recommended_instances == null ? "–" : html`${count(job.recommended_instances)} <span class=${`delta ${delta > 0 ? "up" : delta < 0 ? "down" : ""}`}>${delta ? signed(delta) : ""}</span>`}</td>
      <td class="wide">${count(job.autoscaler_instances)}</td>
      <td class="wide">${job.restarts_today ? count(job.restarts_today) : html`<span class="soft">0</span>`}</td>
      <td class=${`wide ${job.savings_today > 0 ? "" : "soft"}`}>${hours(job.savings_today)}</td>
      <td class="wide"><${Age} since=${job.last_observed} /></td>
    </tr>`;
  }
}

function Heading({ column: [key, name, kind] }) {
  const { sort } = choice.value;
  const here = sort.replace(/^-/, "") === key;
  const largestFirst = kind.includes("number") !== sort.startsWith("-");
  const way = here ? (largestFirst ? "descending" : "ascending") : undefined;
  const next = !here ? key : sort.startsWith("-") ? "trouble" : `-${key}`;
  return html`<th scope="col" class=${kind} aria-sort=${way}><button type="button" onClick=${() => choose({ sort: next })}>${name}${here && html`<span aria-hidden="true"> ${way === "ascending" ? "↑" : "↓"}</span>`}</button></th>`;
}

/** The default order in groups with a heading each; other orders as one plain list. */
function grouped(order, jobs, sort) {
  if (sort !== "trouble") return [[null, order]];
  const groups = GROUPS.map(([name]) => [name, []]);
  for (const id of order) {
    const place = GROUPS.findIndex(([, holds]) => holds(jobs.get(id)));
    groups[place][1].push(id);
  }
  return groups.filter(([, ids]) => ids.length);
}

function Table({ jobs }) {
  const shown = chosen(jobs);
  const [order, hovered] = useOrder(shown);
  const [rows, setRows] = useState(FIRST_ROWS);
  const byId = new Map(shown.map((job) => [job.id, job]));
  const ids = order.filter((id) => byId.has(id));
  const groups = grouped(ids.slice(0, rows), byId, choice.value.sort);
  const totals = new Map(grouped(ids, byId, choice.value.sort).map(([name, all]) => [name, all.length]));
  if (!shown.length) {
    return html`<${Empty} title="No job fits">Nothing matches these filters. <button type="button" class="link" onClick=${() => choose({ text: "", view: "all", cluster: "", policy: "" })}>Show all ${many(jobs.length, "job")}</button><//>`;
  }
  return html`<div onMouseEnter=${() => (hovered.current = true)} onMouseLeave=${() => (hovered.current = false)}>
    <table class="fleet">
      <caption class="visually-hidden">Jobs, ${choice.value.sort === "trouble" ? "those in trouble first" : `sorted by ${choice.value.sort}`}</caption>
      <thead><tr>${COLUMNS.map((column) => html`<${Heading} column=${column} />`)}</tr></thead>
      ${groups.map(
        ([name, members]) => html`<tbody key=${name}>
          ${name && groups.length + (totals.size > 1 ? 1 : 0) > 1 && html`<tr class="group"><th scope="rowgroup" colspan="10">${name} <span class="soft">${count(totals.get(name))}</span></th></tr>`}
          ${members.map((id) => html`<${Row} key=${id} job=${byId.get(id)} />`)}
        </tbody>`,
      )}
    </table>
    ${ids.length > rows && html`<p class="more"><button type="button" onClick=${() => setRows(rows + MORE_ROWS)}>Show ${count(Math.min(MORE_ROWS, ids.length - rows))} more</button> <span class="soft">${count(rows)} of ${count(ids.length)} shown</span></p>`}
  </div>`;
}

function Nothing() {
  const clusters = service.value?.clusters ?? [];
  if (!clusters.length) {
    return html`<${Empty} title="No cluster yet">
      <p>Name one in <code>streamtune.yaml</code> and start <code>streamtune serve --config streamtune.yaml</code>:</p>
      <pre>${'service:\n  clusters:\n    - {name: production, engine: flink, url: "http://jobmanager:8081"}'}</pre>
      <p>Nothing is changed on it: every job starts in the mode <b>observe</b>. To look around first: <code>streamtune serve --demo</code>.</p>
    <//>`;
  }
  return html`<${Empty} title="No job yet">
    <p>${many(clusters.length, "cluster")} watched (${clusters.map((cluster) => cluster.name).join(", ")}), and no job runs there. A job appears here within one polling window of its start.</p>
  <//>`;
}

export function Fleet() {
  useEffect(() => {
    title.value = "Fleet";
    choice.value = fromHash();
    const find = (event) => {
      if (event.key === "/" && !event.target.closest("input, textarea, select, dialog")) {
        event.preventDefault();
        document.getElementById("find")?.focus();
      }
    };
    window.addEventListener("keydown", find);
    return () => window.removeEventListener("keydown", find);
  }, []);
  if (!loaded.value) return html`<h1 tabindex="-1">Fleet</h1><${Loading} what="the fleet" />`;
  const jobs = fleet.value;
  if (!jobs.length) return html`<h1 tabindex="-1">Fleet</h1><${Clusters} /><${Nothing} />`;
  return html`<h1 tabindex="-1" class="verdict">${headline(jobs)}</h1>
    <${Figures} jobs=${jobs} />
    <${Clusters} />
    <section class="card flush" aria-label="Jobs">
      <${Filters} jobs=${jobs} />
      <${Table} jobs=${jobs} />
      <p class="key"><svg viewBox="0 0 80 12" class="bullet" aria-hidden="true"><rect class="track" x="1" y="3" width="78" height="6" rx="1.5" /><rect class="now" x="1" y="3" width="44" height="6" rx="1.5" /><path class="autoscaler" d="M70 1.5v9" /><path class="recommended" d="M34 0v12" /></svg> bar: instances now · <span class="swatch recommended"></span> recommended · <span class="swatch autoscaler"></span> what the autoscaler would run</p>
    </section>`;
}
