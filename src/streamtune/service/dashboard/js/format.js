// Numbers and times as people read them. Nothing here knows about the page.
const EM = "–";

export function rate(value) {
  if (value === null || value === undefined) return EM;
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(size < 1e10 ? 2 : 1)} G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(size < 1e7 ? 2 : 1)} M`;
  if (size >= 1e3) return `${(value / 1e3).toFixed(size < 1e4 ? 2 : 1)} k`;
  return size < 10 && size > 0 ? value.toFixed(1) : String(Math.round(value));
}

export function share(value) {
  if (value === null || value === undefined) return EM;
  const percent = value * 100;
  return `${percent > 0 && percent < 1 ? "<1" : Math.round(percent)} %`;
}

/** A share with one more digit, where small ones are compared. */
export const fine = (value) => (value == null ? EM : `${(value * 100).toFixed(Math.abs(value) < 0.0995 ? 1 : 0)} %`);

export function count(value) {
  return value === null || value === undefined ? EM : Math.round(value).toLocaleString("en-GB");
}

export function hours(value) {
  if (value === null || value === undefined) return EM;
  const size = Math.abs(value);
  const text = size < 10 ? size.toFixed(1) : Math.round(size).toLocaleString("en-GB");
  return `${value < 0 && Number(text) !== 0 ? "−" : ""}${text === "0.0" ? "0" : text} h`;
}

export function score(value) {
  if (value === null || value === undefined) return EM;
  return Math.abs(value) >= 10 ? value.toFixed(1) : value.toPrecision(3);
}

export function signed(value) {
  if (value === 0) return "±0";
  return value > 0 ? `+${value}` : `−${-value}`;
}

/** 95 → "2 min", in the largest unit that leaves at least one whole. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return EM;
  const size = Math.max(0, seconds);
  if (size < 60) return `${Math.round(size)} s`;
  if (size < 5400) return `${Math.round(size / 60)} min`;
  if (size < 129600) return `${Math.round(size / 3600)} h`;
  return `${Math.round(size / 86400)} d`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const clockSeconds = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayAndClock = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const dayOnly = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

export function moment(iso, nowMs) {
  const when = new Date(iso);
  if (Number.isNaN(when.getTime())) return EM;
  const sameDay = nowMs !== undefined && new Date(nowMs).toDateString() === when.toDateString();
  return (sameDay ? clock : dayAndClock).format(when);
}

export const precise = (ms) => clockSeconds.format(new Date(ms));
export const day = (iso) => (iso ? dayOnly.format(new Date(iso)) : EM);

/** "1 job", "3 jobs". */
export function many(number, one, several = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : several}`;
}

export const total = (plan) => Object.values(plan ?? {}).reduce((sum, value) => sum + value, 0);
