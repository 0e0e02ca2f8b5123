// Policies: what StreamTune may do with which job, and who changed what.
import { get } from "../api.js";
import { count, fine, many } from "../format.js";
import { html, useEffect } from "../lib.js";
import { Chip, Empty, Loading, Problem, Scroll, Time, useLoaded } from "../parts.js";
import { fleet, title } from "../state.js";

const MODES = {
  observe: ["plain", "eye", "watches, proposes nothing"],
  recommend: ["plain", "dot", "shows what it would do"],
  approve: ["ask", "wait", "asks before it acts"],
  auto: ["good", "play", "acts by itself, within its guards"],
};
const clock = (time) => String(time).slice(0, 5);

function window(one) {
  const days = one.days?.length === 7 || !one.days ? "daily" : one.days.join(", ");
  return `${days} ${clock(one.start)}–${clock(one.end)} ${one.timezone ?? ""}: ${one.allow === "scale_up" ? "only scaling up" : "nothing is changed"}`;
}

/** What a setting says, in words; null leaves it out because it says nothing. */
const SENTENCES = {
  tuner: (value) => ["Decides", value],
  model: (value) => value && ["Model", value],
  max_per_hour: (value, policy) => ["Changes at most", `${value} an hour, ${policy.max_per_day} a day`],
  max_per_day: () => null,
  min_gain: (value) => value > 0 && ["Scales down for", `${fine(value)} fewer instances or more`],
  rate_change: (value) => ["Looks again when rates move", fine(value)],
  min_parallelism: (value, policy) => (value > 1 || policy.max_parallelism) && ["Instances of an operator", `${value} to ${policy.max_parallelism ?? "the job's limit"}`],
  max_parallelism: () => null,
  tune_sources: (value) => value && ["Sources", "changed too"],
  exclude: (value) => value?.length && ["Never touches", value.join(", ")],
  maintenance: (value) => value?.length && ["Maintenance", value.map(window).join("; ")],
  group: (value, policy) => value && ["Budget", `${count(policy.budget)} instances for the group ${value}`],
  budget: () => null,
};

const plain = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));

function settingsOf(policy) {
  return Object.entries(policy)
    .filter(([key]) => key !== "pattern" && key !== "mode")
    .map(([key, value]) => (key in SENTENCES ? SENTENCES[key](value, policy) : value != null && [key.replaceAll("_", " "), plain(value)]))
    .filter(Boolean);
}

function Policy({ policy, place, jobs }) {
  const [kind, icon, text] = MODES[policy.mode] ?? ["plain", "dot", ""];
  const mine = jobs.filter((job) => job.policy === policy.pattern).length;
  return html`<li class="card policy">
    <header><span class="place soft">${place}</span><h3><code>${policy.pattern}</code></h3><${Chip} kind=${kind} icon=${icon}>${policy.mode}<//><span class="soft">${text}</span>
      <span class="push"><a href=${`#/?policy=${encodeURIComponent(policy.pattern)}`}>${many(mine, "job")}</a></span></header>
    <dl class="settings">${settingsOf(policy).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
  </li>`;
}

const detailText = (detail) => (typeof detail === "string" ? detail : Object.entries(detail ?? {}).map(([key, value]) => `${key}: ${plain(value)}`).join(", "));

function Audit() {
  const { data, error, reload } = useLoaded(() => get("audit", { limit: 100 }), []);
  return html`<section class="card" aria-labelledby="audit"><header><h2 id="audit">Who changed what</h2><span class="soft">the newest 100 entries of the audit trail</span></header>
    ${error && html`<${Problem} error=${error} retry=${reload} />`}
    ${data && !data.entries.length && html`<${Empty} title="No change yet">Approvals, roll-backs, pauses, bounds, promotions and reloads are written here with who did them.<//>`}
    ${data?.entries.length > 0 && html`<${Scroll} label="Audit trail"><table>
      <thead><tr><th scope="col" class="text">Time</th><th scope="col" class="text">Who</th><th scope="col" class="text">What</th><th scope="col" class="text">On</th><th scope="col" class="text">Detail</th></tr></thead>
      <tbody>${data.entries.map((entry) => html`<tr><td class="text"><${Time} at=${entry.time} /></td><td class="text">${entry.who}</td><td class="text">${entry.what.replaceAll("_", " ")}</td><td class="text">${entry.target}</td><td class="text detail">${detailText(entry.detail)}</td></tr>`)}</tbody>
    </table><//>`}
  </section>`;
}

export function Policies() {
  const { data, error, reload } = useLoaded(() => get("policies"), []);
  useEffect(() => {
    title.value = "Policies";
  }, []);
  const jobs = fleet.value;
  const others = jobs.filter((job) => !data?.policies.some((policy) => policy.pattern === job.policy)).length;
  return html`<h1 tabindex="-1">Policies</h1>
    <p class="intro soft">The first pattern that fits a job rules it; a job that none fits is observed. They are read from ${data?.source ? html`<code>${data.source}</code>` : html`<code>streamtune.yaml</code>`}: edit it and send the service a SIGHUP. A bad file is refused and the old one stays.</p>
    ${error && html`<${Problem} error=${error} retry=${reload} />`}
    ${!data && !error && html`<${Loading} what="policies" />`}
    ${data && !data.policies.length && html`<${Empty} title="No policy yet">
      <p>Every job is only observed. To let StreamTune propose plans, name jobs by pattern in <code>streamtune.yaml</code>:</p>
      <pre>${'service:\n  policies:\n    - {pattern: "orders-*", mode: approve}\n    - {pattern: "*", mode: observe}'}</pre><//>`}
    ${data?.policies.length > 0 && html`<ol class="policies">${data.policies.map((policy, place) => html`<${Policy} key=${policy.pattern} policy=${policy} place=${place + 1} jobs=${jobs} />`)}</ol>
      ${others > 0 && html`<p class="soft aside">${many(others, "job")} matched by none: only observed.</p>`}`}
    <${Audit} />`;
}
