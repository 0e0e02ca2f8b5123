// Talks to /api/v1. Every failure is an ApiError with one sentence, and what to do next where the service says so.
const BASE = new URL("api/v1/", document.baseURI);
const CSRF_KEY = "streamtune-csrf";

export class ApiError extends Error {
  constructor(status, code, message, next) {
    super(message);
    this.status = status;
    this.code = code;
    this.next = next;
  }
}

function csrf() {
  try {
    return sessionStorage.getItem(CSRF_KEY) ?? "";
  } catch {
    return "";
  }
}

export function keepCsrf(token) {
  try {
    if (token) sessionStorage.setItem(CSRF_KEY, token);
    else sessionStorage.removeItem(CSRF_KEY);
  } catch {
    // Without storage, changes ask for the token again after a reload.
  }
}

export function address(path, query = {}) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  return url;
}

async function failure(answer) {
  const fallback = `the service answered ${answer.status}`;
  try {
    const { error } = await answer.json();
    return new ApiError(answer.status, error?.code ?? "error", error?.message ?? fallback, error?.next ?? "");
  } catch {
    return new ApiError(answer.status, "error", fallback, "look at the service's log");
  }
}

async function request(method, path, { query, body, signal } = {}) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-CSRF-Token"] = csrf();
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(address(path, query), {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "away", "the service does not answer", "check that streamtune serve runs; this page goes on trying");
  }
  if (!answer.ok) throw await failure(answer);
  return answer.status === 204 ? null : answer.json();
}

export const get = (path, query, signal) => request("GET", path, { query, signal });
export const post = (path, body) => request("POST", path, { body: body ?? {} });
export const put = (path, body) => request("PUT", path, { body });

/** After a reload the session is still there, but not its token for changes: ask for it again. */
export async function renew() {
  if (csrf()) return;
  keepCsrf((await request("GET", "login")).csrf);
}

export async function login(token) {
  const answer = await request("POST", "login", { body: { token } });
  keepCsrf(answer.csrf);
  return answer;
}

export const jobPath = (id, rest = "") => `jobs/${encodeURIComponent(id)}${rest}`;

const PAGE = 500;

export async function allJobs() {
  const jobs = [];
  for (;;) {
    const { total, jobs: page } = await get("jobs", { limit: PAGE, offset: jobs.length });
    jobs.push(...page);
    if (page.length === 0 || jobs.length >= total) return jobs;
  }
}
