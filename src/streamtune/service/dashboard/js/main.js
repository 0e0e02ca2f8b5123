// The frame around the pages: navigation, theme, connection, sign-in.
import { enter, leave, signIn, toast } from "./actions.js";
import { html, render, signal, useEffect, useRef, useState } from "./lib.js";
import { Fleet } from "./pages/fleet.js";
import { History } from "./pages/history.js";
import { Job } from "./pages/job.js";
import { Models } from "./pages/models.js";
import { Policies } from "./pages/policies.js";
import { Icon, Modal, Problem } from "./parts.js";
import { begin, failed, fleet, inTrouble, live, loadAll, loaded, service } from "./state.js";

const TABS = [
  ["", "Fleet"],
  ["models", "Models"],
  ["history", "History"],
  ["policies", "Policies"],
];
const PAGES = { models: Models, history: History, policies: Policies };

function readRoute() {
  const [path] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return parts;
}

const route = signal(readRoute());
const theme = signal(document.documentElement.dataset.theme ?? "system");

function setTheme(next) {
  theme.value = next;
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    if (next === "system") localStorage.removeItem("streamtune-theme");
    else localStorage.setItem("streamtune-theme", next);
  } catch {
    // Kept for this page only.
  }
  window.dispatchEvent(new Event("themechange"));
}

const NEXT_THEME = { system: ["light", "half"], light: ["dark", "sun"], dark: ["system", "moon"] };

function ThemeButton() {
  const [next, icon] = NEXT_THEME[theme.value];
  const label = `Theme: ${theme.value}. Switch to ${next}`;
  return html`<button type="button" class="quiet" onClick=${() => setTheme(next)} aria-label=${label} title=${label}><${Icon} name=${icon} /></button>`;
}

const CONNECTION = { live: "live", connecting: "connecting", away: "reconnecting" };

function Connection() {
  return html`<span class=${`connection ${live.value}`}><span class="lamp" aria-hidden="true"></span>${CONNECTION[live.value]}</span>`;
}

function Who() {
  const who = service.value?.identity;
  if (!service.value) return null;
  if (!who) return html`<button type="button" class="quiet" onClick=${() => (signIn.value = { reason: "", next: "", done: () => {} })}>Sign in</button>`;
  return html`<span class="who" title=${`Signed in as ${who.name} (${who.role})`}>${who.name} <span class="soft">${who.role}</span></span>
    <button type="button" class="quiet" onClick=${leave}>Sign out</button>`;
}

function Header() {
  const here = route.value[0] === "jobs" ? "" : route.value[0];
  const troubled = fleet.value.filter(inTrouble).length;
  return html`<header class="top">
    <button type="button" class="skip" onClick=${() => document.getElementById("main")?.focus()}>Skip to content</button>
    <a class="brand" href="#/"><img src="static/favicon.svg" alt="" width="20" height="20" />StreamTune</a>
    <nav aria-label="Pages">
      ${TABS.map(([path, name]) => html`<a href=${`#/${path}`} aria-current=${here === path ? "page" : undefined}>${name}${path === "" && troubled > 0 && html` <span class="badge" title=${`${troubled} in trouble`}>${troubled}<span class="visually-hidden"> in trouble</span></span>`}</a>`)}
    </nav>
    <div class="status"><${Demo} /><${Connection} /><${Who} /><${ThemeButton} /></div>
  </header>`;
}

function Demo() {
  const known = service.value;
  if (!known?.demo) return null;
  const speed = known.speed && known.speed !== 1 ? ` · ${known.speed}× speed` : "";
  const what = known.demo === "simulated" ? "demo, simulated fleet" : "demo on a local Flink";
  return html`<span class="demo">${what}${speed}</span>`;
}

function SignIn() {
  const asked = signIn.value;
  const [token, setToken] = useState("");
  const [error, setError] = useState(null);
  const field = useRef(null);
  useEffect(() => field.current?.focus(), [asked]);
  if (!asked) return null;
  const close = (entered) => {
    signIn.value = null;
    setToken("");
    setError(null);
    asked.done(entered);
  };
  const submit = async (event) => {
    event.preventDefault();
    try {
      await enter(token.trim());
      close(true);
    } catch (problem) {
      setError(problem);
    }
  };
  return html`<${Modal} title="Sign in" close=${() => close(false)}>
    <form onSubmit=${submit}>
      <p>${asked.reason || "Reading needs no token on this machine; changes do."}</p>
      <p class="soft">${asked.next || html`An operator's token comes from <code>streamtune token create NAME --role operator</code>.`}</p>
      <label for="token">Token</label>
      <input id="token" ref=${field} type="password" autocomplete="off" spellcheck=${false} required value=${token} onInput=${(event) => setToken(event.target.value)} />
      ${error && html`<${Problem} error=${error} />`}
      <div class="buttons"><button type="submit" class="primary">Sign in</button><button type="button" onClick=${() => close(false)}>Cancel</button></div>
    </form>
  <//>`;
}

function Toast() {
  const said = toast.value;
  return said && html`<div class=${`toast ${said.kind}`}><${Icon} name=${said.kind === "alarm" ? "alert" : "check"} /><div><b>${said.text}</b>${said.next && html`<p>${said.next}</p>`}</div>
    <button type="button" class="quiet" aria-label="Dismiss" onClick=${() => (toast.value = null)}><${Icon} name="cross" /></button></div>`;
}

function NotFound() {
  return html`<h1 tabindex="-1">No such page</h1><p>Go to the <a href="#/">fleet</a>.</p>`;
}

function Page() {
  const [name, id, decision] = route.value;
  if (name === "jobs" && id) return html`<${Job} key=${id} id=${id} decision=${decision} />`;
  if (name === "") return html`<${Fleet} />`;
  const Found = PAGES[name] ?? NotFound;
  return html`<${Found} chosen=${id} />`;
}

function Away() {
  const error = failed.value;
  if (!error) return null;
  if (error.status === 401) {
    return html`<div class="problem" role="alert"><div><p><b>${error.message}</b></p><p>${error.next}</p>
      <button type="button" class="primary" onClick=${() => (signIn.value = { reason: error.message, next: error.next, done: () => {} })}>Sign in</button></div></div>`;
  }
  return html`<${Problem} error=${error} retry=${loadAll} />`;
}

function App() {
  return html`<${Header} />
    <main id="main" tabindex="-1"><${Away} />${(loaded.value || !failed.value) && html`<${Page} />`}</main>
    <${Toast} /><${SignIn} />`;
}

/** A new page starts at its top, with the focus on its heading; the first one leaves the focus alone. */
function arrive() {
  const before = route.value;
  route.value = readRoute();
  if (before[0] === route.value[0] && before[1] === route.value[1]) return;
  window.scrollTo(0, 0);
  requestAnimationFrame(() => document.querySelector("main h1")?.focus({ preventScroll: true }));
}

window.addEventListener("hashchange", arrive);
const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
begin();
