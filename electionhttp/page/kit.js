// What both halves of the page use. Text becomes part of the page only as text:
// nothing here, or elsewhere, reads HTML from a string, and the Content-Security-
// Policy would not let it.

export const $ = (id) => document.getElementById(id);

// make creates an element. Children are text or elements; what is null is left out.
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

// text sets what an element says, if it says something else: screen readers and
// selections are not disturbed for nothing.
export function text(el, value) {
  if (el.textContent !== value) el.textContent = value;
}

// id is text that others chose: isolated, so that its direction harms nobody.
export const id = (value) => make("bdi", null, value);

export const states = {
  here: "Leading here",
  others: "Led elsewhere",
  vacant: "No leader",
  idle: "No leader", // and that is no alarm
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

// span says how long, roughly.
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

// zone says by which clock a time is shown, as it was then: summer differs.
export function zone(date) {
  const east = -date.getTimezoneOffset();
  if (east === 0) return "UTC";
  const minutes = Math.abs(east) % 60;
  return `UTC${east < 0 ? "−" : "+"}${Math.floor(Math.abs(east) / 60)}${minutes ? ":" + String(minutes).padStart(2, "0") : ""}`;
}

// why puts a reason into words.
const reasons = {
  "elected": "elected", "vacant": "nobody leads", "released": "the leader stepped down in order", "expired": "the leader did not renew its lease",
  "deposed": "deposed by an operator", "forgotten": "retired by an operator", "store unreachable": "the store cannot be reached", "renewal refused": "the store refused the renewal",
  "deadline passed": "this process was stopped past its deadline", "moved": "moved to another store", "resigned": "resigned", "nominated": "made way for a nominee",
  "health check failed": "its health check failed", "paused": "paused", "function returned": "its work ended", "left": "left the election",
  "same id": "Another live process uses the id of this one", "store went back": "The store shows an older term than before",
  "function is stuck": "The work of this process ignores that it must stop", "store denied": "The store denies access", "invalid": "The store will never accept this candidate",
  "current state": "",
};
export const why = (reason) => (reason in reasons ? reasons[reason] : reason);

// ask gets JSON, relative to the page: it may be served under any prefix.
export async function ask(path, options) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(15000), ...options });
  let body = {};
  try {
    body = await answer.json();
  } catch {
    // a proxy's page
  }
  if (!answer.ok) throw new Error(body.detail || body.error || `HTTP ${answer.status}`);
  return body;
}
