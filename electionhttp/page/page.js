// The page shows the answer of GET elections. It requests a new answer when the stream of
// events reports a change, and as often as leases are renewed.

import { $, make, icon, text, id, states, stateOf, signOf, chip, count, span, clock, moment, zone, why, fetchJSON } from "./kit.js";
import { setUpDetail, openDetail, openAddressed, refreshDetail, confirmAction } from "./detail.js";

const pageSize = 50;
const shown = { state: "", search: "", offset: 0 };
let last = null; // the newest answer
let receivedAt = 0; // on the browser's monotonic clock
let clockOffset = 0; // the server's clock minus the browser's
let reached = true;
let pending = null;
let again = false;
let timer = 0;

const serverNow = () => Date.now() + clockOffset;

// refresh requests the elections that the page shows. Calls during a request are combined
// into one request after it.
async function refresh() {
  if (pending) {
    again = true;
    return;
  }
  clearTimeout(timer);
  const query = new URLSearchParams({ order: "attention", limit: pageSize, offset: shown.offset });
  if (shown.state) query.set("state", shown.state);
  if (shown.search) query.set("q", shown.search);
  pending = fetchJSON(`elections?${query}`);
  try {
    const answer = await pending;
    last = answer;
    receivedAt = performance.now();
    clockOffset = Date.parse(answer.now) - Date.now();
    reached = true;
    if (answer.offset >= answer.matching && answer.offset > 0) {
      shown.offset = 0;
      again = true;
    }
  } catch {
    reached = false;
  }
  pending = null;
  render();
  if (again) {
    again = false;
    setTimeout(refresh, 150);
    return;
  }
  if (!document.hidden) timer = setTimeout(refresh, Math.min(Math.max(last ? last.renew_ms : 0, 1000), 5000));
}

function render() {
  document.body.classList.toggle("offline", !reached);
  renderVerdict();
  if (!last) return;
  text($("me"), last.id);
  text($("place"), last.store.location ? `${last.backend} ${last.store.location}` : "");
  const zoneNow = zone(new Date());
  text($("zone"), zoneNow === "UTC" ? "times in UTC" : `local times (${zoneNow})`);
  states.others = last.observer ? "Has a leader" : "Led elsewhere";
  renderTiles();
  renderRows();
  renderStore();
  renderLeaders();
  const pause = $("pause");
  pause.hidden = !last.actions || last.observer;
  text(pause, last.paused ? "Resume this process" : "Pause this process");
  tick();
}

// renderVerdict shows the answer to the page's first question: who leads, and is anything
// wrong?
function renderVerdict() {
  const [level, sign, headline, more] = verdict();
  const box = $("verdict");
  if (box.dataset.level !== level) box.dataset.level = level;
  if ($("verdict-icon").getAttribute("href") !== "#" + sign) $("verdict-icon").setAttribute("href", "#" + sign);
  text($("verdict-text"), headline);
  text($("verdict-more"), more);
  const title = (level === "ok" ? "" : level === "wait" ? "… " : "⚠ ") + headline + " · Elections";
  if (document.title !== title) document.title = title;
}

function verdict() {
  if (!reached) return ["bad", "unknown", "This page cannot reach its process", "The page below shows the last answer. Trying again …"];
  if (!last) return ["wait", "all", "Connecting to this process …", ""];
  const c = last.counts;
  const used = c.total - c.idle;
  const vacant = c.vacant - c.idle;
  const idle = c.idle ? `${count(c.idle, "election is", "elections are")} idle: no leader so far, or no candidates.` : "";
  const alone = !c.alone ? "" : used === 1 ? "It has no standby." : c.alone === used ? "None has a standby." : `${count(c.alone, "election has", "elections have")} no standby.`;
  const who = [summary(), alone, idle].filter(Boolean).join(" ");
  const one = last.elections.length === 1 && c.total === 1 ? last.elections[0] : null;
  const elections = (n) => count(n, "election", "elections");
  const led = used > 1 ? `All ${elections(used)}${c.idle ? " in use" : ""} have a leader` : c.idle ? "The one election in use has a leader" : "The election has a leader";
  if (last.closed) return ["bad", "alarm", "This process has closed its elections", "It neither leads nor campaigns."];
  if (last.store.state === "unreachable") {
    const own = c.here ? ` It still leads ${elections(c.here)} until the leases end.` : "";
    return ["bad", "alarm", "The store cannot be reached", `${last.backend} has not answered for ${span(last.store.answered_ms_ago)}. This process does not know who leads${c.unknown === c.total ? "" : " " + elections(c.unknown)}.${own}`];
  }
  if (c.unknown) return ["bad", "unknown", `The leader of ${c.unknown === 1 ? "one election" : elections(c.unknown)} is unknown`, who];
  if (c.stuck) return ["bad", "alarm", "Work in this process does not stop", `This process no longer leads ${elections(c.stuck)}, but its work has not returned. It cannot be elected again until then. ${who}`];
  if (last.store.state === "failing") return ["warn", "alarm", "Calls to the store fail", `Leaders keep leading until their leases end.${vacant ? ` ${count(vacant, "election has", "elections have")} no leader.` : ""} ${who}`];
  if (vacant) {
    const names = last.elections.filter((e) => e.kind === "vacant" && !e.idle).map((e) => e.election);
    const none = vacant === used && used > 1;
    const head = none ? `None of the ${elections(used)} has a leader` : vacant > 1 ? `${elections(vacant)} of ${c.total.toLocaleString("en")} have no leader` : names.length ? `${names[0]} has no leader` : `1 election of ${c.total.toLocaleString("en")} has no leader`;
    return [none ? "bad" : "warn", "vacant", head, who];
  }
  if (last.unhealthy) return ["warn", "alarm", "The health check of this process fails", `This process does not lead until the check passes. ${who}`];
  if (!c.total) return ["wait", "all", "No election has been joined yet", ""];
  if (c.paused) return ["warn", "paused", last.paused ? "This process is paused" : `This process is paused in ${elections(c.paused)}`, used ? `${led}. ${who}` : who];
  if (!used) return ["wait", "vacant", "No election is in use", idle];
  if (one) return ["ok", one.leading ? "here" : "others", `${one.leader.id} leads ${one.election}`, [one.leading ? "The leader is this process." : "", one.alone ? "There is no standby." : "No problems."].filter(Boolean).join(" ")];
  return ["ok", "others", led, c.alone ? who : `No problems. ${who}`];
}

function summary() {
  const list = last.leaders;
  if (!list.length) return "";
  const parts = list.slice(0, 4).map((l, i) => `${l.id === last.id ? (i ? "this process" : "This process") : l.id} leads ${l.leads.toLocaleString("en")}`);
  const rest = last.counts.here + last.counts.others - list.slice(0, 4).reduce((sum, l) => sum + l.leads, 0);
  if (rest > 0) parts.push(`others lead ${rest.toLocaleString("en")}`);
  return parts.join(", ") + ".";
}

const filters = [["", "all", "All"], ["here", "here", "Led here"], ["others", "others", "Elsewhere"], ["vacant", "vacant", "No leader"], ["unknown", "unknown", "Unknown"], ["alone", "alarm", "No standby"], ["paused", "paused", "Paused"]];

function renderTiles() {
  const box = $("tiles");
  if (!box.children.length) {
    for (const [state, sign, label] of filters.filter(([state]) => !last.observer || (state !== "here" && state !== "paused"))) {
      const choose = () => {
        shown.state = shown.state === state ? "" : state;
        shown.offset = 0;
        refresh();
      };
      box.append(make("button", { type: "button", class: "tile", "data-state": state, onclick: choose },
        make("span", { class: "label" }, icon(sign), last.observer && state === "others" ? states.others : label), make("span", { class: "number" })));
    }
  }
  for (const tile of box.children) {
    const n = last.counts[tile.dataset.state || "total"];
    text(tile.querySelector(".number"), n.toLocaleString("en"));
    tile.toggleAttribute("data-zero", n === (tile.dataset.state === "vacant" ? last.counts.idle : 0)); // idle elections are not a problem
    tile.setAttribute("aria-pressed", String(shown.state === tile.dataset.state));
  }
}

const known = new Map(); // rows by election: a new answer keeps them, with focus and selection

function renderRows() {
  const list = $("rows");
  const names = new Set(last.elections.map((e) => e.election));
  for (const [name, row] of known) {
    if (!names.has(name)) {
      row.remove();
      known.delete(name);
    }
  }
  last.elections.forEach((e, i) => {
    let row = known.get(e.election);
    if (!row) {
      row = make("li", { class: "row" },
        make("span", { class: "what" }),
        make("span", { class: "title" }, make("button", { type: "button", class: "name", "aria-haspopup": "dialog", onclick: () => openDetail(e.election) }, id(e.election))),
        make("span", { class: "lead" }),
        make("span", { class: "since num" }, make("span", { class: "key" }, "for "), make("time")),
        make("span", { class: "term" }, make("span", { class: "key" }, "term "), make("span")),
        make("span", { class: "time num" }, make("span", { class: "left" }), make("span", { class: "meter", "aria-hidden": "true" }, make("i"))));
      known.set(e.election, row);
    }
    fill(row, e);
    if (list.children[i] !== row) list.insertBefore(row, list.children[i] || null);
  });
  const c = last.counts;
  text($("count"), last.matching === c.total ? count(c.total, "election", "elections") : `${last.matching.toLocaleString("en")} of ${count(c.total, "election", "elections")}`);
  $("empty").hidden = last.elections.length > 0;
  text($("empty"), c.total ? "No election matches." : "This process has not joined any election.");
  $("pager").hidden = last.matching <= pageSize;
  text($("where"), `${(last.offset + 1).toLocaleString("en")}–${(last.offset + last.elections.length).toLocaleString("en")} of ${last.matching.toLocaleString("en")}`);
  $("back").disabled = last.offset === 0;
  $("forth").disabled = last.offset + last.elections.length >= last.matching;
}

function fill(row, e) {
  row.e = e;
  const state = stateOf(e);
  const sign = signOf(e);
  row.dataset.state = state;
  const what = row.querySelector(".what");
  const notes = [...(e.paused ? ["paused here"] : []), ...(e.alone ? ["no standby"] : [])];
  const marks = [sign, ...notes].join();
  if (what.dataset.marks !== marks) {
    what.dataset.marks = marks;
    what.replaceChildren(chip(sign), ...notes.map((note) => make("span", { class: "aside" }, note)));
  }
  const lead = row.querySelector(".lead");
  const said = JSON.stringify([state, e.leader, e.previous, e.reason, e.term, e.idle]);
  if (lead.dataset.said !== said) {
    lead.dataset.said = said;
    if (e.leader) {
      lead.replaceChildren(...[make("span", { class: e.leading ? "mine" : "" }, id(e.leader.id)),
        e.leading ? make("span", { class: "addr" }, "this process") : null,
        !e.leading && e.leader.address ? make("span", { class: "addr" }, id(e.leader.address)) : null].filter(Boolean));
    } else {
      const because = state === "unknown" && e.previous ? `last known: ${e.previous.id}` : e.idle ? (e.term === "0" ? "no leader so far" : "no candidates") : e.reason === "vacant" ? "" : why(e.reason);
      lead.replaceChildren(...[make("span", { class: "none" }, state === "vacant" ? "none" : "unknown"),
        because ? make("span", { class: "addr" }, because) : null].filter(Boolean));
    }
  }
  const term = row.querySelector(".term");
  text(term.lastChild, e.term === "0" ? "–" : e.term);
  const time = row.querySelector("time");
  time.dateTime = e.since;
  time.title = moment(new Date(e.since)) + (e.since_by === "store" ? ", by the store's clock" : "");
}

// tick updates the durations once a second.
function tick() {
  if (!last) return;
  const passed = performance.now() - receivedAt;
  const now = serverNow();
  for (const row of known.values()) {
    const e = row.e;
    text(row.querySelector("time"), span(now - Date.parse(e.since)));
    const has = e.remaining_ms !== null && reached;
    const left = has ? Math.max(0, e.remaining_ms - passed) : 0;
    text(row.querySelector(".left"), has ? `${(left / 1000).toFixed(0)} s` : "–");
    row.querySelector(".left").title = has ? (e.leading ? "until the lease ends unless renewed" : "until another process may take over unless the lease is renewed") : "";
    row.querySelector(".meter").hidden = !has;
    row.querySelector(".meter i").style.width = `${Math.min(100, (100 * left) / last.ttl_ms)}%`;
    row.toggleAttribute("data-low", has && left < last.ttl_ms / 4);
  }
  const ago = document.querySelector("#store-facts .ago");
  if (ago) text(ago, span(last.store.answered_ms_ago + passed) + " ago");
  for (const time of document.querySelectorAll("#changes time")) text(time, when(time.dateTime, now));
}

const when = (iso, now) => {
  const past = now - Date.parse(iso);
  return past < 3600_000 ? `${past < 1000 ? "just now" : span(past) + " ago"}` : clock(new Date(iso));
};

function renderStore() {
  const s = last.store;
  const [level, words] = { ok: ["ok", `${last.backend} answers`], failing: ["warn", `calls to ${last.backend} fail`], unreachable: ["bad", `${last.backend} cannot be reached`] }[s.state];
  $("store-state").dataset.level = level;
  text($("store-text"), words);
  const facts = $("store-facts");
  const said = JSON.stringify([s.error, s.detail, last.ttl_ms, last.renew_ms, last.observer]);
  if (facts.dataset.said === said) return;
  facts.dataset.said = said;
  const fact = (key, ...value) => [make("dt", null, key), make("dd", null, ...value)];
  facts.replaceChildren(...fact("Last answer", make("span", { class: "ago" })),
    ...(s.error ? fact("Error", s.detail ? id(s.detail) : s.error) : []),
    ...fact("Lease TTL", `${last.ttl_ms / 1000} s`), ...fact("Renewed every", `${+(last.renew_ms / 1000).toFixed(1)} s`),
    ...(last.observer ? fact("This process", "only observes") : []));
}

function renderLeaders() {
  const list = last.leaders;
  $("leaders-card").hidden = list.length === 0 || last.counts.total < 2;
  const said = JSON.stringify([list, last.id]);
  if ($("leaders").dataset.said === said) return;
  $("leaders").dataset.said = said;
  $("leaders").replaceChildren(...list.map((l) => make("li", null,
    make("span", { class: "cut" }, id(l.id), l.id === last.id ? make("span", { class: "aside" }, "this process") : null),
    make("span", { class: "num" }, count(l.leads, "election", "elections")))));
}

// The timeline.

function sentence(c) {
  const name = make("strong", null, id(c.election));
  const words = why(c.reason);
  if (c.kind === "notice") return [name, ": ", words, c.detail ? make("span", { class: "aside" }, id(c.detail)) : null];
  if (c.kind === "elected") {
    const who = make("span", null, id(c.leader ? c.leader.id : "an unknown candidate"), c.leading ? " (this process)" : "");
    return [who, " leads ", name];
  }
  if (c.kind === "vacant") return [name, " lost its leader", words ? `: ${words}` : ""];
  return [name, ": the leader is unknown", words ? ` (${words})` : ""];
}

function addChange(c, atTop) {
  if (c.first) return; // the state that this process found is no change
  const state = c.kind === "notice" ? "alarm" : c.reason === "paused" ? "paused" : stateOf(c);
  const entry = make("li", { "data-state": state }, icon(state),
    make("div", null, make("p", null, ...sentence(c).filter((x) => x !== null && x !== "")), make("time", { datetime: c.time, title: moment(new Date(c.time)) }, when(c.time, serverNow()))));
  const list = $("changes");
  if (atTop) list.prepend(entry);
  else list.append(entry);
  while (list.children.length > 60) list.lastChild.remove();
  $("no-changes").hidden = true;
}

async function listen() {
  let since;
  try {
    const past = await fetchJSON("changes?limit=60");
    since = past.newest; // the stream resumes here, so it has the changes before it opens, even after an empty list
    clockOffset = Date.parse(past.now) - Date.now();
    $("changes").replaceChildren();
    $("no-changes").hidden = false; // addChange hides it
    for (const c of past.changes) addChange(c, false);
  } catch {
    live(false);
    setTimeout(listen, 3000);
    return;
  }
  const source = new EventSource(`events?states=no&since=${encodeURIComponent(since)}`);
  let seen = since;
  source.onopen = () => {
    live(true);
    refresh();
  };
  source.addEventListener("change", (message) => {
    const c = JSON.parse(message.data);
    if (c.id === seen) return;
    seen = c.id;
    addChange(c, true);
    refresh();
    refreshDetail(c.election);
  });
  source.addEventListener("reset", () => { // the stream has missed some changes
    source.close();
    listen();
  });
  source.onerror = () => {
    live(false);
    refresh();
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  };
}

function live(on) {
  $("live").dataset.state = on ? "on" : "off";
  text($("live-text"), on ? "Live" : "Reconnecting");
}

setUpDetail(() => last, refresh, serverNow);
$("search").addEventListener("input", () => {
  shown.search = $("search").value.trim();
  shown.offset = 0;
  refresh();
});
$("back").addEventListener("click", () => movePage(-pageSize));
$("forth").addEventListener("click", () => movePage(pageSize));
function movePage(by) {
  shown.offset = Math.max(0, shown.offset + by);
  refresh();
  $("rows").focus({ preventScroll: true });
  window.scrollTo({ top: 0 });
}
$("pause").addEventListener("click", () => confirmAction({ action: last.paused ? "resume" : "pause", election: "" }));
document.addEventListener("visibilitychange", () => document.hidden || refresh());
window.addEventListener("hashchange", openAddressed);
setInterval(tick, 1000);
refresh();
listen();
openAddressed();
