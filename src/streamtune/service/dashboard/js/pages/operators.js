// The dataflow of a job: the drawing by load, the same as a table, and the bounds of each operator.
import { mayChange, setBounds } from "../actions.js";
import { count, rate, signed } from "../format.js";
import { html, useState } from "../lib.js";
import { Chip, Empty, Meter, Modal, Problem, Scroll } from "../parts.js";

const BUSY_ALARM = 0.9;

/** One picture per theme; the style sheet shows the one that fits. */
function Drawing({ job, drawing }) {
  const slow = job.operators.filter((operator) => operator.bottleneck).map((operator) => operator.id);
  const text = `Dataflow of ${job.name}: ${job.operators.length} operators, ${slow.length ? `bottleneck ${slow.join(", ")}` : "no bottleneck"}; the table below has the figures`;
  return html`<${Scroll} label="Drawing of the dataflow" className="drawing">
    <img class="for-light" src=${drawing("light")} alt=${text} loading="lazy" />
    <img class="for-dark" src=${drawing("dark")} alt=${text} loading="lazy" />
  <//>`;
}

function OperatorRow({ operator, bounds }) {
  const delta = operator.recommended == null ? 0 : operator.recommended - operator.parallelism;
  return html`<tr class=${operator.bottleneck ? "troubled" : ""}>
    <th scope="row" class="text">${operator.id} <span class="where">${operator.type}</span>${operator.bottleneck && html` <${Chip} kind="alarm" icon="alert">bottleneck<//>`}${operator.excluded && html` <${Chip} title="The policy or the engine keeps this operator as it is">excluded<//>`}</th>
    <td><b>${count(operator.parallelism)}</b></td>
    <td>${operator.recommended == null ? "–" : html`${count(operator.recommended)} <span class=${`delta ${delta > 0 ? "up" : delta < 0 ? "down" : ""}`}>${delta ? signed(delta) : ""}</span>`}</td>
    <td><${Meter} value=${operator.busy} alarm=${operator.busy > BUSY_ALARM} /></td>
    <td><${Meter} value=${operator.backpressured} alarm=${operator.backpressured > 0.1} /></td>
    <td>${rate(operator.rate_in)}</td>
    <td>${rate(operator.rate_out)}</td>
    <td class="bounds">${bounds ? `${bounds.min ?? 1} – ${bounds.max ?? count(operator.max_parallelism)}` : html`<span class="soft">1 – ${count(operator.max_parallelism)}</span>`}</td>
  </tr>`;
}

function asked(fields, operators) {
  const bounds = {};
  for (const { id, max_parallelism: limit } of operators) {
    const low = fields[id]?.min, high = fields[id]?.max;
    const min = low === "" || low == null ? null : Number(low);
    const max = high === "" || high == null ? null : Number(high);
    if (min === null && max === null) continue;
    for (const value of [min, max]) {
      if (value !== null && (!Number.isInteger(value) || value < 1)) return { error: `${id}: a bound is a whole number from 1 on` };
    }
    if (min !== null && max !== null && min > max) return { error: `${id}: the least (${min}) is above the most (${max})` };
    if (limit && max !== null && max > limit) return { error: `${id}: the most (${max}) is above the job's limit of ${limit}` };
    bounds[id] = { min: min ?? 1, max: max ?? limit };
  }
  return { bounds };
}

function BoundsDialog({ job, close, done }) {
  const given = Object.fromEntries(Object.entries(job.bounds ?? {}).map(([id, { min, max }]) => [id, { min: min ?? "", max: max ?? "" }]));
  const [fields, setFields] = useState(given);
  const [error, setError] = useState(null);
  const set = (id, side) => (event) => setFields({ ...fields, [id]: { ...fields[id], [side]: event.target.value } });
  const submit = async (event) => {
    event.preventDefault();
    const { bounds, error: wrong } = asked(fields, job.operators);
    if (wrong) return setError({ message: wrong, next: "" });
    const answer = await setBounds(job.id, bounds);
    if (!answer) return undefined;
    close();
    return done();
  };
  const field = (operator, side, name) => html`<input type="number" min="1" max=${operator.max_parallelism ?? undefined} inputmode="numeric" aria-label=${`${name} of ${operator.id}`} placeholder=${side === "min" ? "1" : String(operator.max_parallelism ?? "")} value=${fields[operator.id]?.[side] ?? ""} onInput=${set(operator.id, side)} />`;
  return html`<${Modal} title="Bounds" close=${close}>
    <form onSubmit=${submit}>
      <p class="soft">No plan goes below or above these. Empty fields leave the job's own limits.</p>
      <div class="scroll tall"><table>
        <thead><tr><th scope="col" class="text">Operator</th><th scope="col">Now</th><th scope="col">Least</th><th scope="col">Most</th></tr></thead>
        <tbody>${job.operators.map((operator) => html`<tr><th scope="row" class="text">${operator.id}</th><td>${operator.parallelism}</td><td>${field(operator, "min", "Least")}</td><td>${field(operator, "max", "Most")}</td></tr>`)}</tbody>
      </table></div>
      ${error && html`<${Problem} error=${error} />`}
      <div class="buttons"><button type="submit" class="primary">Save bounds</button><button type="button" onClick=${close}>Cancel</button></div>
    </form>
  <//>`;
}

const KEY = [
  ["load0", "up to 35 %"],
  ["load1", "to 70 %"],
  ["load2", "to 90 %"],
  ["load3", "more"],
];

const Key = () => html`<ul class="loads" aria-label="Colours of the drawing">
  <li class="soft">busy</li>
  ${KEY.map(([name, text]) => html`<li><span class=${`box ${name}`}></span>${text}</li>`)}
  <li><span class="box backpressured"></span>bottleneck or backpressured</li>
</ul>`;

export function Dataflow({ job, drawing, done }) {
  const [editing, setEditing] = useState(false);
  const allowed = mayChange();
  if (!job.operators?.length) {
    return html`<section class="card"><h2>Dataflow</h2><${Empty} title="Not seen yet">The operators appear with the first observation.<//></section>`;
  }
  return html`<section class="card" aria-labelledby="dataflow">
    <header><h2 id="dataflow">Dataflow by load</h2><${Key} /></header>
    <${Drawing} job=${job} drawing=${drawing} />
    <${Scroll} label="Operators"><table class="operators">
      <thead><tr><th scope="col" class="text">Operator</th><th scope="col">Parallelism</th><th scope="col">Recommended</th><th scope="col">Busy</th><th scope="col">Backpressured</th><th scope="col">Records/s in</th><th scope="col">out</th>
        <th scope="col" class="bounds">Bounds <button type="button" class="link" disabled=${!allowed} title=${allowed ? undefined : "Your role is viewer"} onClick=${() => setEditing(true)}>Set bounds</button></th></tr></thead>
      <tbody>${job.operators.map((operator) => html`<${OperatorRow} key=${operator.id} operator=${operator} bounds=${job.bounds?.[operator.id]} />`)}</tbody>
    </table><//>
    ${editing && html`<${BoundsDialog} job=${job} close=${() => setEditing(false)} done=${done} />`}
  </section>`;
}
