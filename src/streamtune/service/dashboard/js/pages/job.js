// One job: what is wrong, the plan that waits, the dataflow by load, the past, every decision.
import { mayChange, pause, resume, rollBack } from "../actions.js";
import { address, get, jobPath } from "../api.js";
import { count, duration, hours, rate, share, signed } from "../format.js";
import { html, useEffect, useRef, useSignalEffect, useState } from "../lib.js";
import { Age, Chip, Figure, Icon, Loading, Modal, modelHref, Problem, StateChip, useLoaded } from "../parts.js";
import { jobs, keepJob, lastDecision, nowMs, service, title } from "../state.js";
import { DecisionBody, Decisions, planText } from "./decisions.js";
import { Dataflow } from "./operators.js";
import { Timeline } from "./timeline.js";

const DECISIONS_PER_PAGE = 30;
const REFRESH_MS = 2_000;

/** The newest decision that was applied and not taken back: what a roll-back undoes. */
const undoable = (decisions) => decisions?.find((decision) => decision.status === "applied");

function Head({ job, decisions, done }) {
  const [asking, setAsking] = useState(false);
  const allowed = mayChange();
  const why = allowed ? undefined : "Your role is viewer";
  const last = undoable(decisions);
  const act = async (action) => {
    const answer = await action(job.id);
    setAsking(false);
    if (answer) done();
  };
  return html`<nav class="crumbs" aria-label="Where you are"><a href="#/">Fleet</a> <span aria-hidden="true">/</span> ${job.cluster}</nav>
    <div class="job-head">
      <h1 tabindex="-1">${job.name}</h1>
      <div class="chips"><${StateChip} state=${job.state} />${job.paused && html`<${Chip} kind="warn" icon="pause">paused<//>`}<${Chip} title="What StreamTune may do with this job">${job.mode}<//></div>
      <div class="buttons">
        ${job.paused
          ? html`<button type="button" disabled=${!allowed} title=${why} onClick=${() => act(resume)}><${Icon} name="play" />Resume</button>`
          : html`<button type="button" disabled=${!allowed} title=${why ?? "StreamTune goes on observing, but changes nothing"} onClick=${() => act(pause)}><${Icon} name="pause" />Pause</button>`}
        <button type="button" disabled=${!allowed || !last} title=${why ?? (last ? undefined : "No applied plan to take back")} onClick=${() => setAsking(true)}><${Icon} name="back" />Roll back</button>
      </div>
    </div>
    <p class="meta soft">${job.engine} on ${job.cluster} · policy <a href="#/policies">${typeof job.policy === "string" ? job.policy : (job.policy?.pattern ?? job.policy?.name ?? "default")}</a>${job.model && html` · model <a href=${modelHref(job.model)}>${job.model}</a>`} · seen <${Age} since=${job.last_observed} />${job.lease && html` · held by <b>${job.lease.holder}</b>`}</p>
    ${asking && last && html`<${Modal} title="Roll back to the plan before?" close=${() => setAsking(false)}>
      <p>This takes back: <b>${planText(last)}</b>.</p>
      <p class="soft">The job is rescaled once more, and its guards count the restart. StreamTune does not propose the same plan again right away.</p>
      <div class="buttons"><button type="button" class="danger" onClick=${() => act(rollBack)}>Roll back</button><button type="button" onClick=${() => setAsking(false)}>Keep it</button></div>
    <//>`}`;
}

function Trouble({ job }) {
  const stale = job.last_observed && (nowMs() - new Date(job.last_observed).getTime()) / 1000;
  const lines = [...(job.trouble ?? [])];
  if (job.state === "unreachable" && !lines.length) lines.push(`no answer from ${job.cluster} for ${duration(stale)}`);
  if (job.state === "failed" && !lines.length) lines.push("the engine reports this job as failed");
  if (job.backpressured && !lines.length) {
    const slow = (job.operators ?? []).filter((operator) => operator.bottleneck).map((operator) => `${operator.id} (${share(operator.busy)} busy)`);
    lines.push(`backpressure ${share(job.backpressure)}: ${slow.length ? `the bottleneck is ${slow.join(", ")}` : "the bottleneck is not known yet"}`);
  }
  if (!lines.length) return null;
  return html`<ul class="troubles" aria-label="Trouble">${lines.map((line) => html`<li><${Icon} name="alert" /><span>${line}</span></li>`)}</ul>`;
}

function Figures({ job }) {
  const delta = job.recommended_instances == null ? null : job.recommended_instances - job.instances;
  const against = job.autoscaler_instances == null ? null : job.instances - job.autoscaler_instances;
  return html`<dl class="figures">
    <${Figure} label="Records/s" note="read by the sources">${rate(job.rate)}<//>
    <${Figure} label="Backpressure" alarm=${job.backpressured} note="worst operator">${share(job.backpressure)}<//>
    <${Figure} label="Instances" note="of all operators">${count(job.instances)}<//>
    <${Figure} label="Recommended" note=${delta === null ? "no recommendation yet" : delta === 0 ? "as it runs" : `${signed(delta)} against now`}>${count(job.recommended_instances)}<//>
    <${Figure} label="Autoscaler would run" note=${against === null ? "not known" : against === 0 ? "the same" : `${count(Math.abs(against))} ${against < 0 ? "more" : "fewer"} than now`}>${count(job.autoscaler_instances)}<//>
    <${Figure} label="Saved today" note="instance-hours vs autoscaler">${hours(job.savings_today)}<//>
    <${Figure} label="Restarts today" note="by any cause">${count(job.restarts_today)}<//>
  </dl>`;
}

function Recommended({ decision, mode }) {
  return html`<section class="card" aria-labelledby="recommended">
    <header><h2 id="recommended">What StreamTune would do</h2><span class="soft">since <${Age} since=${decision.time} /></span></header>
    <p class="lead">${decision.summary || planText(decision)}</p>
    <p class="soft">The mode of this job's policy is <b>${mode}</b>: nothing is applied. <a href="#/policies">Policies</a> says how to change that.</p>
    <${DecisionBody} decision=${decision} />
  </section>`;
}

/** Where the policy lets nothing be applied, what is proposed waits for nobody. */
const asItIs = (decision, mode) => (decision.status === "proposed" && (mode === "recommend" || mode === "observe") ? { ...decision, status: "recommended" } : decision);

function Pending({ decision, done }) {
  return html`<section class="card pending" aria-labelledby="pending">
    <header><h2 id="pending"><${Icon} name="wait" />A plan waits for your approval</h2><span class="soft">proposed <${Age} since=${decision.time} /></span></header>
    <p class="lead">${decision.summary || planText(decision)}</p>
    <${DecisionBody} decision=${decision} done=${done} />
  </section>`;
}

function useDecisions(id) {
  const loaded = useLoaded(() => get(jobPath(id, "/decisions"), { limit: DECISIONS_PER_PAGE }), [id]);
  useSignalEffect(() => {
    const news = lastDecision.value;
    if (news?.job !== id) return;
    loaded.change((data) => {
      const known = data.decisions.some((decision) => decision.id === news.id);
      const others = data.decisions.map((old) => {
        if (old.id === news.id) return { ...old, ...news };
        // A job has one plan at a time that waits: a new one has replaced the older.
        return !known && news.status === "proposed" && old.status === "proposed" ? { ...old, status: "expired" } : old;
      });
      return { ...data, decisions: known ? others : [news, ...others] };
    });
  });
  const more = async () => {
    const older = await get(jobPath(id, "/decisions"), { limit: DECISIONS_PER_PAGE, before: loaded.data.next });
    loaded.change((data) => ({ decisions: [...data.decisions, ...older.decisions], next: older.next }));
  };
  return { ...loaded, more };
}

/** The whole job: loaded once, then again when the stream says that it changed, at most every two seconds. */
function useJob(id) {
  const loaded = useLoaded(() => get(jobPath(id)), [id]);
  const seen = useRef(null);
  const last = useRef(0);
  const timer = useRef(null);
  useSignalEffect(() => {
    const news = jobs.value.get(id);
    if (!news || news === seen.current) return;
    seen.current = news;
    const wait = Math.max(0, last.current + REFRESH_MS - Date.now());
    timer.current ??= setTimeout(() => {
      timer.current = null;
      last.current = Date.now();
      if (!document.hidden) loaded.reload();
    }, wait);
  });
  useEffect(() => () => clearTimeout(timer.current), []);
  const news = jobs.value.get(id);
  const { policy, ...summary } = news ?? {}; // the summary has the policy's name only
  return { ...loaded, job: loaded.data && { ...loaded.data, ...summary, policy: loaded.data.policy ?? policy } };
}

/** A linked decision that is older than the first page is fetched on its own. */
function useLinked(id, wanted, list) {
  const missing = wanted && list && !list.some((decision) => decision.id === wanted);
  const { data } = useLoaded(async () => (missing ? get(jobPath(id, `/decisions/${encodeURIComponent(wanted)}`)) : null), [id, wanted, Boolean(missing)]);
  return missing && data ? [...list, data] : (list ?? []);
}

export function Job({ id, decision }) {
  const { job, error, reload } = useJob(id);
  const decisions = useDecisions(id);
  const list = useLinked(id, decision, decisions.data?.decisions);
  useEffect(() => {
    title.value = job?.name ?? "Job";
  }, [job?.name]);
  const done = async (answer) => {
    if (answer?.state) keepJob(answer);
    await Promise.all([reload(), decisions.reload()]);
  };
  if (!job) {
    return html`<nav class="crumbs" aria-label="Where you are"><a href="#/">Fleet</a></nav>
      <h1 tabindex="-1">${error ? "This job cannot be shown" : "Job"}</h1>
      ${error ? html`<${Problem} error=${error} retry=${reload} />` : html`<${Loading} what="the job" />`}`;
  }
  const shown = list.map((one) => asItIs(one, job.mode));
  const pending = shown.find((one) => one.status === "proposed");
  const recommended = shown.find((one) => one.status === "recommended");
  const drawing = (theme) => address(jobPath(id, "/drawing.svg"), { theme, at: job.last_observed }).href;
  return html`<${Head} job=${job} decisions=${list} done=${done} />
    <${Trouble} job=${job} />
    ${error && html`<${Problem} error=${error} retry=${reload} />`}
    <${Figures} job=${job} />
    ${pending && html`<${Pending} decision=${pending} done=${done} />`}
    ${recommended && html`<${Recommended} decision=${recommended} mode=${job.mode} />`}
    <${Dataflow} job=${job} drawing=${drawing} done=${done} demo=${service.value?.demo} />
    <${Timeline} id=${id} decisions=${shown} />
    ${decisions.error && html`<${Problem} error=${decisions.error} retry=${decisions.reload} />`}
    <${Decisions} job=${job} decisions=${shown} open=${decision !== pending?.id ? decision : undefined} older=${decisions.data?.next} more=${decisions.more} done=${done} />`;
}
