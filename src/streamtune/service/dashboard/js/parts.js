// Small pieces that several pages use.
import { duration, moment, share } from "./format.js";
import { html, useEffect, useRef, useState, useCallback } from "./lib.js";
import { nowMs, tick } from "./state.js";

const GLYPHS = {
  check: "M3 8.5 6.5 12 13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  alert: "M8 2.5 14.5 13.5H1.5zM8 6.5v3.2M8 11.6v.2",
  wait: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 5v3.2l2.2 1.4",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  play: "M5 3.5 12 8l-7 4.5z",
  back: "M6.5 4 3 7.5 6.5 11M3 7.5h6.5a3.2 3.2 0 0 1 0 6.4H7",
  eye: "M1.5 8S4 3.8 8 3.8 14.5 8 14.5 8 12 12.2 8 12.2 1.5 8 1.5 8zM8 6.2a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6z",
  spin: "M8 2a6 6 0 1 1-5.6 3.9M2.2 2.4v3.4h3.4",
  off: "M3 3l10 10M5 5.2a4.6 4.6 0 0 0 6.2 6.2M8 2.4a5.6 5.6 0 0 1 5 7.8",
  dot: "M8 5.4a2.6 2.6 0 1 0 0 5.2 2.6 2.6 0 0 0 0-5.2z",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8 13 13M13 3l-1.2 1.2M4.2 11.8 3 13",
  moon: "M13 9.6A5.6 5.6 0 0 1 6.4 3 5.6 5.6 0 1 0 13 9.6z",
  half: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 2v12",
};

export const Icon = ({ name }) =>
  html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false"><path d=${GLYPHS[name] ?? GLYPHS.dot} /></svg>`;

export const Chevron = () => html`<svg class="icon chevron" viewBox="0 0 16 16" aria-hidden="true"><path d="M6 3.5 10.5 8 6 12.5" /></svg>`;

export const Chip = ({ kind = "plain", icon, children, title }) =>
  html`<span class=${`chip ${kind}`} title=${title}>${icon && html`<${Icon} name=${icon} />`}${children}</span>`;

const STATES = {
  running: ["calm", "dot"],
  restarting: ["busy", "spin"],
  failed: ["alarm", "cross"],
  finished: ["plain", "check"],
  unreachable: ["alarm", "off"],
};

export function StateChip({ state }) {
  const [kind, icon] = STATES[state] ?? ["plain", "dot"];
  return html`<${Chip} kind=${kind} icon=${icon}>${state}<//>`;
}

const STATUSES = {
  observed: ["plain", "eye", "observed"],
  proposed: ["ask", "wait", "waits for approval"],
  recommended: ["ask", "dot", "recommended"], // the page's own: proposed where nothing may be applied
  approved: ["busy", "check", "approved"],
  rejected: ["plain", "cross", "rejected"],
  applying: ["busy", "spin", "being applied"],
  applied: ["good", "check", "applied"],
  failed: ["alarm", "cross", "failed"],
  rolled_back: ["warn", "back", "rolled back"],
  expired: ["plain", "wait", "expired"],
  refused: ["warn", "cross", "refused"],
};

/** ``past``: as a step that a decision went through, not as how it stands. */
export function StatusChip({ status, past = false }) {
  const [kind, icon, text] = STATUSES[status] ?? ["plain", "dot", status];
  return html`<${Chip} kind=${past ? "plain" : kind} icon=${icon}>${past ? status.replaceAll("_", " ") : text}<//>`;
}

/** A share as a bar with its number; the number is what a screen reader reads. */
export function Meter({ value, alarm = false }) {
  const width = Math.max(0, Math.min(1, value ?? 0)) * 40;
  return html`<span class=${`meter ${alarm ? "alarm" : ""}`}>
    <svg viewBox="0 0 40 8" aria-hidden="true"><rect class="track" width="40" height="8" rx="1.5" /><rect class="bar" width=${width} height="8" rx="1.5" /></svg>
    <span class=${`number ${value > 0.005 ? "" : "soft"}`}>${share(value)}</span>
  </span>`;
}

/** Instances now as a bar, with marks for what is recommended and what the autoscaler would run. */
export function Bullet({ now, recommended, autoscaler }) {
  const most = Math.max(now ?? 0, recommended ?? 0, autoscaler ?? 0, 1);
  const at = (value) => (value / most) * 78 + 1;
  return html`<svg class="bullet" viewBox="0 0 80 12" aria-hidden="true">
    <rect class="track" x="1" y="3" width="78" height="6" rx="1.5" />
    <rect class="now" x="1" y="3" width=${Math.max(0, at(now ?? 0) - 1)} height="6" rx="1.5" />
    ${autoscaler != null && html`<path class="autoscaler" d=${`M${at(autoscaler)} 1.5v9`} />`}
    ${recommended != null && html`<path class="recommended" d=${`M${at(recommended)} 0v12`} />`}
  </svg>`;
}

export function Age({ since, prefix = "", suffix = " ago" }) {
  tick.value; // read, so that the text grows old
  if (!since) return html`<span class="soft">never</span>`;
  const seconds = (nowMs() - new Date(since).getTime()) / 1000;
  return html`<time dateTime=${since} title=${since}>${prefix}${seconds < 5 ? "just now" : duration(seconds) + suffix}</time>`;
}

export const Time = ({ at }) => html`<time dateTime=${at} title=${at}>${moment(at, nowMs())}</time>`;

export const Figure = ({ label, children, note, alarm }) => html`<div class=${`figure ${alarm ? "alarmed" : ""}`}>
  <dt>${label}</dt>
  <dd><span class="value">${children}</span>${note && html`<span class="note">${note}</span>`}</dd>
</div>`;

export const Empty = ({ title, children }) => html`<div class="empty"><h3>${title}</h3><div>${children}</div></div>`;

export const Problem = ({ error, retry }) => html`<div class="problem" role="alert">
  <${Icon} name="alert" />
  <div>
    <p><b>${error.message}</b></p>
    ${error.next && html`<p>${error.next}</p>`}
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>
</div>`;

export const Loading = ({ what }) => html`<p class="loading" aria-busy="true">Loading ${what} …</p>`;

/** Loads again when a dependency changes; an older answer never overwrites a newer one. */
export function useLoaded(load, dependencies) {
  const [state, setState] = useState({ data: null, error: null });
  const turn = useRef(0);
  const reload = useCallback(async () => {
    const mine = ++turn.current;
    try {
      const data = await load();
      if (mine === turn.current) setState({ data, error: null });
    } catch (error) {
      if (mine === turn.current && error.name !== "AbortError") setState((old) => ({ data: old.data, error }));
    }
  }, dependencies);
  useEffect(() => {
    reload();
    return () => {
      turn.current += 1;
    };
  }, dependencies);
  const change = useCallback((change) => setState((old) => (old.data ? { ...old, data: change(old.data) } : old)), []);
  return { ...state, reload, change };
}

/** A modal dialog: focus stays inside, Escape closes, focus returns to where it was. */
export function Modal({ title, close, children }) {
  const dialog = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    return () => before?.focus?.();
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    close();
  };
  return html`<dialog ref=${dialog} aria-labelledby="dialog-title" onCancel=${cancel}>
    <h2 id="dialog-title">${title}</h2>
    ${children}
  </dialog>`;
}

/** A table that scrolls sideways where it must, reachable by keyboard when it does. */
export const Scroll = ({ label, children, className = "" }) =>
  html`<div class=${`scroll ${className}`} role="region" aria-label=${label} tabindex="0">${children}</div>`;

export const jobHref = (id, decision) => `#/jobs/${encodeURIComponent(id)}${decision ? `/${encodeURIComponent(decision)}` : ""}`;
export const modelHref = (version) => `#/models/${encodeURIComponent(version)}`;
