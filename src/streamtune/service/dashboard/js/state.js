// What every page shares: the service, all jobs, and the stream of changes.
import { address, allJobs, get, keepCsrf, renew } from "./api.js";
import { batch, computed, effect, signal } from "./lib.js";

export const service = signal(null);
export const jobs = signal(new Map());
export const loaded = signal(false);
export const failed = signal(null); // the ApiError of the last attempt to load, if it failed
export const live = signal("connecting"); // connecting | live | away
export const lastDecision = signal(null); // the last decision that the stream brought
export const lastJobs = signal(new Set()); // the ids that the last batch changed

const FLUSH_MS = 400; // jobs change many times a second in a large fleet; the page follows at a calm pace
const SERVICE_MS = 15_000;
const RETRY_MS = 3_000;
const HIDDEN_MS = 30_000;
const OPENING_MS = 1_000; // what is loaded before the stream is open may miss a change; so long the first load waits for it
let fetchedAt = Date.now();
let waiting = new Map();
let timer = null;
let newer = new Map(); // jobs that changed since the list of them was last asked for

/** The service's time, which runs faster than ours in a demo. */
export function nowMs() {
  const known = service.value;
  if (!known?.now) return Date.now();
  return new Date(known.now).getTime() + (Date.now() - fetchedAt) * (known.speed || 1);
}

export const tick = signal(0); // grows every few seconds, for "seen 12 s ago"
setInterval(() => (tick.value += 1), 5_000);

export async function loadService() {
  const known = await get("service");
  fetchedAt = Date.now();
  service.value = known;
  if (known.identity) await renew().catch(() => {});
  else keepCsrf(null);
  return known;
}

export async function loadAll() {
  const since = new Map();
  newer = since;
  try {
    const [, list] = await Promise.all([loadService(), allJobs()]);
    batch(() => {
      jobs.value = new Map(list.map((job) => [job.id, { ...job, ...since.get(job.id) }]));
      loaded.value = true;
      failed.value = null;
    });
  } catch (error) {
    failed.value = error;
  }
}

function take(job) {
  waiting.set(job.id, job);
  newer.set(job.id, job);
  timer ??= setTimeout(flush, FLUSH_MS);
}

function flush() {
  timer = null;
  const changed = waiting;
  waiting = new Map();
  batch(() => {
    const next = new Map(jobs.value);
    for (const [id, job] of changed) next.set(id, { ...next.get(id), ...job });
    jobs.value = next;
    lastJobs.value = new Set(changed.keys());
  });
}

/** Put one job into the list at once, after a change that this page made. */
export function keepJob(job) {
  const next = new Map(jobs.value);
  next.set(job.id, { ...next.get(job.id), ...job });
  jobs.value = next;
}

function parsed(event) {
  try {
    return JSON.parse(event.data);
  } catch {
    return null; // a damaged event is not worth more than the next one
  }
}

let stream = null;
let hidden = null;

/** A tab that nobody sees lets go of its stream: a browser has only six connections to one HTTP/1.1 server. */
function watchVisibility() {
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) {
      hidden = setTimeout(() => {
        stream?.close();
        stream = null;
        live.value = "away";
      }, HIDDEN_MS);
    } else if (stream === null) {
      follow();
    }
  });
}

export function follow(answered = () => {}) {
  const source = new EventSource(address("events"));
  stream = source;
  source.addEventListener("open", () => {
    live.value = "live";
    loadAll(); // after the stream is open, so that no change falls between the two
    answered();
  });
  source.addEventListener("error", () => {
    live.value = "away";
    answered();
    if (source.readyState !== EventSource.CLOSED || stream !== source) return;
    setTimeout(() => stream === source && follow(), RETRY_MS);
  });
  source.addEventListener("job", (event) => {
    const job = parsed(event);
    if (job?.id) take(job);
  });
  source.addEventListener("decision", (event) => {
    const decision = parsed(event);
    if (decision?.id) lastDecision.value = decision;
  });
  source.addEventListener("service", (event) => {
    const news = parsed(event);
    if (!news) return;
    if (news.now) fetchedAt = Date.now();
    service.value = { ...service.value, ...news };
  });
}

export async function begin() {
  await Promise.race([new Promise(follow), new Promise((late) => setTimeout(late, OPENING_MS))]);
  if (live.value !== "live") await loadAll();
  watchVisibility();
  setInterval(() => loadService().catch(() => {}), SERVICE_MS);
}

const AWAY = new Set(["failed", "unreachable"]);

/** 0 is the worst: trouble, then plans that wait for a person, then the rest. */
export function severity(job) {
  if (AWAY.has(job.state)) return 0;
  if (job.trouble?.length) return 1;
  if (job.backpressured) return 2;
  if (job.pending) return 3;
  if (job.state === "restarting") return 4;
  return job.paused ? 5 : 6;
}

export const inTrouble = (job) => severity(job) <= 2;
export const fleet = computed(() => [...jobs.value.values()]);

/** The page's name; a tab that nobody looks at still says how many jobs are in trouble. */
export const title = signal("Fleet");
effect(() => {
  const troubled = fleet.value.filter(inTrouble).length;
  document.title = `${troubled ? `(${troubled}) ` : ""}${title.value} – StreamTune`;
});
