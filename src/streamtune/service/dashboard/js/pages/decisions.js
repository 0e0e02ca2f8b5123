// Decisions of one job: the plan, why, how sure, what came of it; and the buttons that decide.
import { approve, mayChange, reject } from "../actions.js";
import { Curve, probability } from "../charts.js";
import { count, share, signed, total } from "../format.js";
import { html, useEffect, useRef, useState } from "../lib.js";
import { Chevron, Empty, Icon, modelHref, Scroll, StatusChip, Time } from "../parts.js";

const CURVES_AT_FIRST = 4;

function operatorsOf(decision) {
  const names = [...new Set([...Object.keys(decision.to ?? {}), ...Object.keys(decision.from ?? {})])];
  const changed = (name) => decision.from?.[name] !== decision.to?.[name];
  return { names, changed: names.filter(changed), same: names.filter((name) => !changed(name)) };
}

/** "hot_items 4 → 7, join 9 → 6". */
export function planText(decision) {
  const { changed } = operatorsOf(decision);
  if (!changed.length) return "no change";
  return changed.map((name) => `${name} ${decision.from?.[name] ?? "–"} → ${decision.to?.[name] ?? "–"}`).join(", ");
}

function PlanRow({ decision, name, reason }) {
  const from = decision.from?.[name], to = decision.to?.[name];
  const curve = decision.curves?.[name];
  const delta = (to ?? 0) - (from ?? 0);
  return html`<tr class=${delta ? "" : "same"}>
    <th scope="row" class="text">${name}</th>
    <td>${count(from)}</td>
    <td><b>${count(to)}</b></td>
    <td><span class=${`delta ${delta > 0 ? "up" : delta < 0 ? "down" : ""}`}>${delta ? signed(delta) : "="}</span></td>
    <td>${curve?.length ? html`${share(probability(curve, from))}${delta !== 0 && html` → ${share(probability(curve, to))}`}` : "–"}</td>
    <td class="text reason">${reason ?? (delta ? "" : html`<span class="soft">stays</span>`)}</td>
  </tr>`;
}

function Plan({ decision }) {
  const { changed, same } = operatorsOf(decision);
  const reasons = new Map();
  for (const { operator, text } of decision.reasons ?? []) {
    reasons.set(operator, reasons.has(operator) ? `${reasons.get(operator)}; ${text}` : text);
  }
  const whole = (decision.reasons ?? []).filter(({ operator }) => !operator);
  return html`<div>${whole.map(({ text }) => html`<p>${text}</p>`)}
    <${Scroll} label="The plan, operator by operator"><table class="plan">
      <thead><tr><th scope="col" class="text">Operator</th><th scope="col">From</th><th scope="col">To</th><th scope="col">Change</th><th scope="col">Bottleneck probability</th><th scope="col" class="text">Why</th></tr></thead>
      <tbody>${[...changed, ...same].map((name) => html`<${PlanRow} key=${name} decision=${decision} name=${name} reason=${reasons.get(name)} />`)}</tbody>
      <tfoot><tr><th scope="row" class="text">Total</th><td>${count(total(decision.from))}</td><td><b>${count(total(decision.to))}</b></td><td>${signed(total(decision.to) - total(decision.from))}</td><td></td><td></td></tr></tfoot>
    </table><//></div>`;
}

function Curves({ decision }) {
  const [all, setAll] = useState(false);
  const { changed, same } = operatorsOf(decision);
  const known = [...changed, ...same].filter((name) => decision.curves?.[name]?.length > 1);
  if (!known.length) return null;
  const first = Math.max(CURVES_AT_FIRST, changed.length);
  const shown = all ? known : known.slice(0, first);
  return html`<div><h4>How likely each operator is a bottleneck, by instances</h4>
    <div class="curves">${shown.map((name) => html`<${Curve} key=${name} operator=${name} curve=${decision.curves[name]} from=${decision.from?.[name]} to=${decision.to?.[name]} />`)}</div>
    ${known.length > first && html`<button type="button" class="link" aria-expanded=${all} onClick=${() => setAll(!all)}>${all ? "Show fewer" : `Show all ${known.length} operators`}</button>`}</div>`;
}

function Outcome({ outcome }) {
  if (!outcome) return null;
  return html`<p class=${`outcome ${outcome.backpressured ? "bad" : "good"}`}><${Icon} name=${outcome.backpressured ? "alert" : "check"} /><span><b>Outcome</b> <${Time} at=${outcome.time} />: ${outcome.text}${outcome.instances != null && html` <span class="soft">(${count(outcome.instances)} instances${outcome.backpressured ? ", still backpressured" : ", no backpressure"})</span>`}</span></p>`;
}

function Steps({ history }) {
  if (!history?.length) return null;
  return html`<ol class="steps" aria-label="What happened to this decision">${history.map(
    (step) => html`<li><${Time} at=${step.time} /> <${StatusChip} status=${step.status} past=${true} /> <span class="soft">${step.by ? `by ${step.by}` : ""}</span> ${step.text}</li>`,
  )}</ol>`;
}

function Meta({ decision }) {
  return html`<p class="meta soft">
    tuner <b>${decision.tuner ?? "–"}</b>
    ${decision.model && html` · model <a href=${modelHref(decision.model)}>${decision.model}</a>`}
    ${decision.policy && html` · policy <a href="#/policies">${decision.policy}</a>`}
    ${decision.by && html` · decided by <b>${decision.by}</b>`} · <code>${decision.id}</code>
  </p>`;
}

export function Decide({ decision, done }) {
  const [busy, setBusy] = useState(false);
  if (decision.status !== "proposed") return null;
  const allowed = mayChange();
  const run = async (action) => {
    setBusy(true);
    const answer = await action(decision.job, decision.id);
    setBusy(false);
    if (answer) done?.(answer);
  };
  const why = allowed ? undefined : "Your role is viewer: an operator can approve this";
  return html`<div class="buttons">
    <button type="button" class="primary" disabled=${busy || !allowed} title=${why} onClick=${() => run(approve)}><${Icon} name="check" />Approve plan</button>
    <button type="button" disabled=${busy || !allowed} title=${why} onClick=${() => run(reject)}><${Icon} name="cross" />Reject</button>
    ${why && html`<span class="soft">${why}.</span>`}
  </div>`;
}

export function DecisionBody({ decision, done }) {
  return html`<div class="decision-body">
    <${Outcome} outcome=${decision.outcome} />
    <div class=${`two ${Object.keys(decision.curves ?? {}).length ? "with-curves" : ""}`}><${Plan} decision=${decision} /><${Curves} decision=${decision} /></div>
    <${Decide} decision=${decision} done=${done} />
    <${Steps} history=${decision.history} />
    <${Meta} decision=${decision} />
  </div>`;
}

function Entry({ decision, open, done }) {
  const box = useRef(null);
  const [shown, setShown] = useState(open); // the body of a closed one is not drawn: a page has dozens
  useEffect(() => {
    if (open) box.current?.scrollIntoView({ block: "start" });
  }, []);
  const change = total(decision.to) - total(decision.from);
  return html`<li>
    <details ref=${box} open=${open} onToggle=${(event) => setShown(event.target.open)} id=${`decision-${decision.id}`}>
      <summary>
        <${Chevron} /><span class="time"><${Time} at=${decision.time} /></span>
        <${StatusChip} status=${decision.status} />
        <span class="what">${decision.summary || planText(decision)}</span>
        <span class="size">${count(total(decision.from))} → ${count(total(decision.to))} <span class=${`delta ${change > 0 ? "up" : change < 0 ? "down" : ""}`}>${change ? signed(change) : ""}</span></span>
      </summary>
      ${shown && html`<${DecisionBody} decision=${decision} done=${done} />`}
    </details>
  </li>`;
}

const SHOWN = [
  ["all", "All", () => true],
  ["acted", "Acted on", (decision) => !["observed", "refused", "expired"].includes(decision.status)],
  ["failed", "Failed or rolled back", (decision) => ["failed", "rolled_back"].includes(decision.status)],
];

const RUN = 3; // so many plans that nobody answered in a row are shown as one line

/** Decisions one by one, but plans that expired one after the other in one group. */
function inGroups(decisions, open) {
  const groups = [];
  for (const decision of decisions) {
    const last = groups.at(-1);
    const folds = decision.status === "expired" && decision.id !== open;
    if (folds && last?.expired) last.members.push(decision);
    else groups.push({ expired: folds, members: [decision] });
  }
  return groups.flatMap((group) => (group.expired && group.members.length >= RUN ? [group] : group.members.map((one) => ({ members: [one] }))));
}

function Expired({ members, done }) {
  const [shown, setShown] = useState(false);
  return html`<li><details onToggle=${(event) => setShown(event.target.open)}>
    <summary><${Chevron} /><span class="time"><${Time} at=${members[0].time} /></span><${StatusChip} status="expired" /><span class="what soft">${members.length} plans replaced by newer ones since <${Time} at=${members.at(-1).time} /></span><span class="size"></span></summary>
    ${shown && html`<ol class="decisions inner">${members.map((decision) => html`<${Entry} key=${decision.id} decision=${decision} done=${done} />`)}</ol>`}
  </details></li>`;
}

export function Decisions({ job, decisions, open, older, more, done }) {
  const [view, setView] = useState("all");
  const holds = SHOWN.find(([key]) => key === view)[2];
  const shown = decisions.filter(holds);
  return html`<section class="card" aria-labelledby="decisions">
    <header><h2 id="decisions">Decisions</h2>
      <div class="segments" role="group" aria-label="Which decisions">${SHOWN.map(([key, name]) => html`<button type="button" aria-pressed=${view === key} onClick=${() => setView(key)}>${name}</button>`)}</div>
    </header>
    ${!decisions.length && html`<${Empty} title="No decision yet">
      ${job.mode === "observe"
        ? html`<p>This job is only observed. To get plans, give its policy the mode <code>recommend</code>, <code>approve</code> or <code>auto</code> in <code>streamtune.yaml</code> and send the service a SIGHUP: see <a href="#/policies">Policies</a>.</p>`
        : html`<p>One is made when a source's rate changes or backpressure appears.</p>`}
    <//>`}
    ${decisions.length > 0 && !shown.length && html`<p class="soft">None of this kind among the ${decisions.length} shown.</p>`}
    <ol class="decisions">${inGroups(shown, open).map(({ expired, members }) => expired
      ? html`<${Expired} key=${`expired-${members.at(-1).id}`} members=${members} done=${done} />`
      : html`<${Entry} key=${members[0].id} decision=${members[0]} open=${members[0].id === open} done=${done} />`)}</ol>
    ${older && html`<p class="more"><button type="button" onClick=${more}>Load older decisions</button></p>`}
  </section>`;
}
