// Everything that changes something: asks for a token when one is missing, says how it went.
import { jobPath, keepCsrf, login, post, put } from "./api.js";
import { signal } from "./lib.js";
import { loadAll, service } from "./state.js";

export const toast = signal(null); // {text, next, kind}
export const signIn = signal(null); // {reason, next, done} while the dialog is open
let hide = null;

/** Say what happened, on the page and to a screen reader. */
export function say(text, { kind = "good", next = "" } = {}) {
  toast.value = { text, next, kind };
  const said = document.getElementById("said");
  if (said) said.textContent = next ? `${text}. ${next}` : text;
  clearTimeout(hide);
  hide = setTimeout(() => (toast.value = null), kind === "alarm" ? 12_000 : 6_000);
}

function askForToken(reason, next) {
  return new Promise((done) => {
    signIn.value = { reason, next, done };
  });
}

/** Run one change. Without a session it asks for a token first and then goes on; returns the answer, or null. */
export async function change(what, run) {
  try {
    const answer = await run();
    say(what);
    return answer ?? {};
  } catch (error) {
    const mayHelp = error.status === 401 || error.code === "csrf";
    if (mayHelp && (await askForToken(error.message, error.next))) return change(what, run);
    if (!mayHelp) say(error.message, { kind: "alarm", next: error.next });
    return null;
  }
}

export async function enter(token) {
  const answer = await login(token);
  await loadAll();
  return answer;
}

export async function leave() {
  try {
    await post("logout");
  } finally {
    keepCsrf(null);
    await loadAll();
  }
}

/** Whether this person may change things, or would if they signed in. */
export const mayChange = () => service.value?.identity?.role !== "viewer";

const decided = (job, decision, verb) => post(jobPath(job, `/decisions/${encodeURIComponent(decision)}/${verb}`));
export const approve = (job, decision) => change("Plan approved", () => decided(job, decision, "approve"));
export const reject = (job, decision) => change("Plan rejected", () => decided(job, decision, "reject"));
export const rollBack = (job) => change("Rolling back", () => post(jobPath(job, "/rollback")));
export const pause = (job) => change("Paused: StreamTune only observes this job", () => post(jobPath(job, "/pause")));
export const resume = (job) => change("Resumed", () => post(jobPath(job, "/resume")));
export const setBounds = (job, bounds) => change("Bounds saved", () => put(jobPath(job, "/bounds"), bounds));
export const promote = (version) => change(`Model ${version} promoted`, () => post(`models/${encodeURIComponent(version)}/promote`));
export const rollBackModel = () => change("Model rolled back", () => post("models/rollback"));
