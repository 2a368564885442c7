// Functions that page.js and detail.js share. Text enters the page only as text: no
// script of the page parses HTML from a string, and the Content-Security-Policy forbids it.

export const $ = (id) => document.getElementById(id);

// make creates an element. Children are text or elements; null children are left out.
export function make(tag, props, ...children) {
  const el = document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (key.startsWith("on")) el.addEventListener(key.slice(2), value);
    else if (value === true) el.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) el.setAttribute(key, value);
  }
  el.append(...children.filter((c) => c !== null && c !== undefined));
  return el;
}

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", "#" + name);
  svg.append(use);
  return svg;
}

// text sets an element's text only if it differs, so that screen readers and selections
// are not disturbed.
export function text(el, value) {
  if (el.textContent !== value) el.textContent = value;
}

// id isolates text that users or other processes have chosen, so that its direction does
// not change the text around it. A long name may break after a separator, before it breaks within a word.
export const id = (value) => make("bdi", null, ...String(value ?? "").split(/(?<=[/.:_-])/).flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part])));

export const states = {
  here: "Leading here",
  others: "Led elsewhere",
  vacant: "No leader",
  idle: "No leader", // and nothing is wrong
  unknown: "Unknown",
  paused: "Paused",
  alarm: "Stuck",
};

export function stateOf(e) {
  if (e.kind === "elected") return e.leading ? "here" : "others";
  return e.kind === "vacant" ? "vacant" : "unknown";
}

export const signOf = (e) => (e.stuck ? "alarm" : e.idle ? "idle" : stateOf(e));

export function chip(state) {
  return make("span", { class: "chip", "data-state": state }, icon(state === "idle" ? "vacant" : state), states[state]);
}

export const count = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

// span describes a duration roughly.
export function span(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 48 * 3600) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} days`;
}

export const clock = (date) => date.toLocaleTimeString("en-GB");

export function moment(date) {
  const day = date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
  return `${day}, ${clock(date)} ${zone(date)}`;
}

// zone returns the browser's offset from UTC at a time; daylight saving time changes it.
export function zone(date) {
  const east = -date.getTimezoneOffset();
  if (east === 0) return "UTC";
  const minutes = Math.abs(east) % 60;
  return `UTC${east < 0 ? "−" : "+"}${Math.floor(Math.abs(east) / 60)}${minutes ? ":" + String(minutes).padStart(2, "0") : ""}`;
}

// why describes a reason.
const reasons = {
  "elected": "elected", "vacant": "no leader", "released": "the leader stepped down", "expired": "the leader did not renew its lease",
  "failed": "the leader's process ended, and its lease was released",
  "deposed": "an operator deposed the leader", "forgotten": "an operator retired the election", "store unreachable": "the store cannot be reached", "renewal refused": "the store refused the renewal",
  "deadline passed": "this process did not run until its deadline had passed", "moved": "moved to another store", "resigned": "this process resigned", "nominated": "this process handed over to a nominee",
  "health check failed": "the health check of this process failed", "paused": "this process is paused", "function returned": "the work of this process ended", "left": "this process left the election",
  "same id": "another live process uses the id of this process", "store went back": "the store shows an older term than before",
  "function is stuck": "the work of this process has not stopped", "store denied": "the store denies access", "invalid": "the store will never accept this candidate",
  "current state": "",
};
export const why = (reason) => (reason in reasons ? reasons[reason] : reason);

// fetchJSON requests a path relative to the page, which may have any prefix.
export async function fetchJSON(path, options) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(15000), ...options });
  let body = {};
  try {
    body = await answer.json();
  } catch {
    // a proxy's error page
  }
  if (!answer.ok) throw new Error(body.detail || body.error || `HTTP ${answer.status}`);
  return body;
}
