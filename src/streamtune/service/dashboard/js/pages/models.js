// Models: which one decides, how the others score, what changed; promote and roll back.
import { mayChange, promote, rollBackModel } from "../actions.js";
import { get } from "../api.js";
import { count, day, fine, many, score } from "../format.js";
import { html, useEffect, useRef, useState } from "../lib.js";
import { Age, Chip, Empty, Figure, Icon, Loading, Modal, Problem, Scroll, useLoaded } from "../parts.js";
import { service, title } from "../state.js";

const STATUS = { running: ["good", "check"], candidate: ["ask", "wait"], retired: ["plain", "dot"], rejected: ["warn", "cross"] };
const range = (data) => (data?.from ? `${day(data.from)} – ${day(data.until)}` : "–");

/** Lower is better for all three scores; how a version compares with the running one is said, not only coloured. */
function Score({ value, against, format }) {
  if (value == null) return "–";
  const delta = against == null ? 0 : value - against;
  const worse = delta > Math.abs(against ?? 0) * 0.005, better = delta < -Math.abs(against ?? 0) * 0.005;
  return html`${format(value)} ${(worse || better) && html`<span class=${`delta ${worse ? "worse" : "better"}`}>${worse ? "worse" : "better"}</span>`}`;
}

const ratio = (value) => (value == null ? "–" : `${value.toFixed(3)} ×`);

function Running({ model, models, ask }) {
  if (!model) {
    return html`<${Empty} title="No model decides yet"><p>Decisions come from rules and from what each job itself shows. A model of the whole fleet is learnt from the history: <code>streamtune learn</code>, or the service's schedule.</p><//>`;
  }
  const before = models.find((other) => other.status === "retired");
  return html`<section class="card" aria-labelledby="running">
    <header><h2 id="running">Running: <code>${model.version}</code></h2><span class="soft">made <${Age} since=${model.created} /> from ${many(model.data?.runs ?? 0, "run")}, ${range(model.data)}</span>
      <span class="push"><button type="button" disabled=${!mayChange() || !before} title=${before ? undefined : "There is no earlier model to go back to"} onClick=${() => ask({ rollback: before })}><${Icon} name="back" />Roll back</button></span></header>
    <dl class="figures">
      <${Figure} label="Threshold error" note="median |ln(advised / needed)|; 0 is perfect">${score(model.scores?.threshold_error)}<//>
      <${Figure} label="Would-be backpressure" note="operators with too few instances, replayed">${fine(model.scores?.backpressure)}<//>
      <${Figure} label="Parallelism" note="advised against needed">${ratio(model.scores?.parallelism)}<//>
    </dl>
    ${model.changed && html`<p><b>What changed:</b> ${model.changed}</p>`}
  </section>`;
}

/** What the schedule of learning does now, or how its last round ended. */
function Learning() {
  const learning = service.value?.learning;
  if (!learning) return null;
  const { state, step, text, every_hours: every } = learning;
  const rhythm = every ? `every ${every} h` : "by hand";
  if (state === "learning") return html`<p class="learning" role="status"><${Chip} kind="busy" icon="spin">learning<//> <b>${step ?? "starting"}</b> ${text} <span class="soft">(${rhythm})</span></p>`;
  if (state === "failed") return html`<div class="problem"><${Icon} name="alert" /><div><p><b>The last round of learning failed.</b> ${text}</p><p class="soft">The running model stays. <code>streamtune learn</code> goes on where it stopped.</p></div></div>`;
  return html`<p class="learning soft">Learns ${rhythm}.${text ? ` Last round: ${text}` : ""}</p>`;
}

function Version({ model, running, ask, chosen }) {
  const row = useRef(null);
  useEffect(() => {
    if (chosen) row.current?.scrollIntoView({ block: "center" });
  }, [chosen]);
  const [kind, icon] = STATUS[model.status] ?? ["plain", "dot"];
  const base = model.version === running?.version ? undefined : running?.scores;
  return html`<tr ref=${row} class=${chosen ? "chosen" : ""} aria-current=${chosen ? "true" : undefined}>
    <th scope="row" class="text"><code>${model.version}</code><span class="where"><${Age} since=${model.created} /></span></th>
    <td class="text"><${Chip} kind=${kind} icon=${icon}>${model.status}<//></td>
    <td class="text">${range(model.data)}</td>
    <td>${count(model.data?.runs)}</td>
    <td><${Score} value=${model.scores?.threshold_error} against=${base?.threshold_error} format=${score} /></td>
    <td><${Score} value=${model.scores?.backpressure} against=${base?.backpressure} format=${fine} /></td>
    <td><${Score} value=${model.scores?.parallelism} against=${base?.parallelism} format=${ratio} /></td>
    <td class="text changed">${model.changed}${model.compared_with && html` <span class="soft">(compared with ${model.compared_with})</span>`}</td>
    <td>${model.status !== "running" && html`<button type="button" disabled=${!mayChange()} onClick=${() => ask({ promote: model })}>Promote<span class="visually-hidden"> ${model.version}</span></button>`}</td>
  </tr>`;
}

function Ask({ asked, close, done }) {
  const promoting = asked.promote;
  const run = async () => {
    const answer = await (promoting ? promote(promoting.version) : rollBackModel());
    close();
    if (answer) done();
  };
  const title = promoting ? `Promote ${promoting.version}?` : `Roll back to ${asked.rollback.version}?`;
  return html`<${Modal} title=${title} close=${close}>
    <p>${promoting?.status === "rejected" ? "It scored worse than the running model on the newest days. " : ""}New decisions of all jobs will come from it. Nothing is rescaled at once.</p>
    <div class="buttons"><button type="button" class=${promoting?.status === "rejected" ? "danger" : "primary"} onClick=${run}>${promoting ? "Promote" : "Roll back"}</button><button type="button" onClick=${close}>Cancel</button></div>
  <//>`;
}

export function Models({ chosen }) {
  const { data, error, reload } = useLoaded(() => get("models"), []);
  const [asked, ask] = useState(null);
  useEffect(() => {
    title.value = "Models";
    const timer = setInterval(() => !document.hidden && reload(), 20_000);
    return () => clearInterval(timer);
  }, []);
  const models = data?.models ?? [];
  const running = models.find((model) => model.status === "running") ?? models.find((model) => model.version === data?.running);
  return html`<h1 tabindex="-1">Models</h1>
    <p class="intro soft">Learnt from the history of all jobs. A new one is promoted only if it is not worse on the newest days.</p>
    ${error && html`<${Problem} error=${error} retry=${reload} />`}
    ${!data && !error && html`<${Loading} what="models" />`}
    ${data && chosen && !models.some((model) => model.version === chosen) && html`<p class="learning soft">The model <code>${chosen}</code> is not registered here: it was given by a policy, or removed.</p>`}
    <${Learning} />
    ${data && html`<${Running} model=${running} models=${models} ask=${ask} />`}
    ${models.length > 0 && html`<section class="card" aria-labelledby="versions"><header><h2 id="versions">Versions</h2><span class="soft">Lower is better in all three scores</span></header>
      <${Scroll} label="Versions of the model"><table class="models">
        <thead><tr><th scope="col" class="text">Version</th><th scope="col" class="text">Status</th><th scope="col" class="text">Data</th><th scope="col">Runs</th><th scope="col">Threshold error</th><th scope="col">Backpressure</th><th scope="col">Parallelism</th><th scope="col" class="text">What changed</th><th scope="col"><span class="visually-hidden">Action</span></th></tr></thead>
        <tbody>${models.map((model) => html`<${Version} key=${model.version} model=${model} running=${running} ask=${ask} chosen=${model.version === chosen} />`)}</tbody>
      </table><//></section>`}
    ${asked && html`<${Ask} asked=${asked} close=${() => ask(null)} done=${reload} />`}`;
}
