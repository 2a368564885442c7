// One election in full, and what can be done about it.

import { $, make, icon, id, signOf, chip, span, moment, why, ask } from "./kit.js";

let status = () => null; // the page's newest answer
let refreshPage = () => {};
let serverNow = () => Date.now();
let open = ""; // the election that is shown
let shown = null;
let timer = 0;

export function setUpDetail(newest, refresh, now) {
  status = newest;
  refreshPage = refresh;
  serverNow = now;
  const dialog = $("detail");
  dialog.addEventListener("close", () => {
    if (dialog.open) return; // this is told later: it was opened again meanwhile
    open = "";
    shown = null;
    clearTimeout(timer);
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // beside it
  });
}

export async function openDetail(name) {
  open = name;
  shown = null;
  $("detail").replaceChildren(make("div", { class: "sheet" }, head(name, null), make("p", { class: "quiet" }, "Reading …")));
  if (!$("detail").open) $("detail").showModal();
  load(name);
}

export function refreshDetail(name) {
  if (open !== "" && open === name) load(name);
}

async function load(name) {
  clearTimeout(timer);
  let e;
  try {
    e = await ask("elections/" + encodeURIComponent(name));
  } catch (err) {
    if (open === name && !shown) $("detail").replaceChildren(make("div", { class: "sheet" }, head(name, null), make("p", { class: "said", "data-level": "bad" }, `It cannot be read: ${err.message}`)));
    return;
  }
  if (open !== name) return;
  // While somebody types or is about to press, nothing moves under the hand.
  const busy = shown && $("detail").contains(document.activeElement) && document.activeElement.closest(".actions, #candidates");
  if (!busy) show(e);
  timer = setTimeout(() => load(name), 5000);
}

function head(name, e) {
  const close = make("button", { type: "button", class: "icon", "aria-label": "Close", onclick: () => $("detail").close() }, icon("close"));
  return make("header", null, make("div", null, make("h2", { id: "detail-title" }, id(name)), e ? chip(signOf(e)) : null), close);
}

function show(e) {
  const focusOnClose = shown && document.activeElement && document.activeElement.classList.contains("icon");
  shown = e;
  const facts = make("dl", { class: "facts" });
  const fact = (key, ...value) => facts.append(make("dt", null, key), make("dd", null, ...value));
  if (e.leader) {
    fact("Leader", id(e.leader.id), e.leading ? " (this process)" : "");
    if (e.leader.address) fact("Address", id(e.leader.address));
    if (e.leader.metadata) fact("Metadata", id(e.leader.metadata));
  } else {
    fact("Leader", e.kind === "vacant" ? "nobody" : "cannot be told");
  }
  if (why(e.reason) && e.kind !== "elected") fact("Because", why(e.reason), e.detail ? make("span", { class: "aside" }, id(e.detail)) : "");
  fact("Since", `${moment(new Date(e.since))} (${span(serverNow() - Date.parse(e.since))})`);
  fact("Term", e.term === "0" ? "–" : e.term);
  if (e.remaining_ms !== null) fact(e.leading ? "Lease lasts" : "May be taken over in", `${Math.round(e.remaining_ms / 1000)} s, unless it is renewed`);
  if (e.previous && !e.leader) fact("Led before", id(e.previous.id));
  const request = e.request || (e.record && e.record.request);
  if (request) fact("Asked for", request.kind === "depose" ? "that the leader goes" : "that ", request.kind === "depose" ? "" : id(request.id || ""), request.kind === "depose" ? "" : " leads next");
  if (!status()?.observer) fact("This process", e.paused ? "is paused" : e.leading ? "leads" : e.campaigning ? "is a candidate" : "watches");
  if (e.record && e.record.moved_to) fact("Moved to", id(e.record.moved_to));
  $("detail").replaceChildren(make("div", { class: "sheet" }, head(e.election, e), facts, ...[candidates(e), e.actions ? actions(e) : null].filter(Boolean), history(e)));
  if (focusOnClose) $("detail").querySelector(".icon").focus();
}

// candidates is who could take over, as far as the store knows.
function candidates(e) {
  if (!e.candidates) return null;
  const alone = e.candidates.some((c) => !c.leads) ? null : make("p", { class: "said alone", "data-level": e.idle ? "" : "warn" },
    e.leader ? "No standby: if this leader fails, nobody takes over." : "No process campaigns for this election.");
  const entry = (c) => make("li", null,
    make("span", null, make("strong", null, id(c.id)), c.leads ? " leads" : "",
      make("span", { class: "aside" }, id(c.address), c.address ? ", " : "", c.announced_ms_ago < 1000 ? "is there now" : `announced itself ${span(c.announced_ms_ago)} ago`)),
    e.actions && e.leader && !c.leads ? make("button", { type: "button", class: "button", "aria-label": `Nominate ${c.id}`, onclick: () => confirmAction({ election: e.election, action: "nominate", id: c.id }) }, "Nominate") : null);
  return make("section", null, make("h3", null, "Candidates"), alone,
    make("ol", { id: "candidates", class: "leaders" }, ...e.candidates.map(entry)));
}

// history has a line for each leadership, and one for the time between two in which nobody
// led for a second or more.
function history(e) {
  if (!e.record) return make("p", { class: "said", "data-level": "bad" }, `The store cannot be read now${e.store.error ? ` (${e.store.error})` : ""}.`);
  const ends = { released: "stepped down in order", failed: "did not renew its lease: it failed, or could not reach the store", deposed: "was deposed by an operator", forgotten: "retired the election" };
  const lines = [];
  let next = e.record.elected; // when the one above began; null: the store does not know, or nobody leads
  for (const r of e.history) {
    const now = !next && !e.record.leader && lines.length === 0 && r.term === e.record.term;
    const gap = (now ? serverNow() : Date.parse(next)) - Date.parse(r.to);
    if (gap >= 1000) lines.push(make("li", { class: "gap" }, `${now ? "nobody leads, for" : "nobody led for"} ${span(gap)}`));
    lines.push(make("li", null, make("strong", null, id(r.id)), ` ${ends[r.end] || r.end}`,
      make("span", { class: "aside" }, `${moment(new Date(r.from))}, for ${span(Date.parse(r.to) - Date.parse(r.from))}, term ${r.term}`)));
    next = r.from;
  }
  return make("section", null, make("h3", null, "Past leaderships, by the store's clock"),
    lines.length === 0 ? make("p", { class: "quiet" }, "None is kept.") : make("ol", { class: "leaderships" }, ...lines));
}

function actions(e) {
  const button = (label, act, kind) => make("button", { type: "button", class: "button " + (kind || ""), onclick: () => confirmAction({ election: e.election, ...act() }) }, label);
  const box = make("div", { class: "actions" },
    status()?.observer ? null : e.paused ? button("Resume here", () => ({ action: "resume" })) : button("Pause here", () => ({ action: "pause" })),
    e.leading ? button("Resign", () => ({ action: "resign" })) : null,
    e.leader ? button("Depose the leader", () => ({ action: "depose" })) : null);
  return box.children.length ? make("section", null, make("h3", null, "Actions"), box) : null;
}

// What will happen, said before it does.
function warning(a) {
  const s = status();
  const ttl = s ? `${s.ttl_ms / 1000} s` : "one TTL";
  const here = s ? s.counts.here : 0;
  switch (a.action) {
    case "pause":
      return a.election ? ["Pause this process here?", "If it leads this election it steps down in order. It does not campaign until it is resumed.", "Pause", ""] :
        ["Pause this process everywhere?", `It steps down from ${here === 1 ? "the election" : `the ${here} elections`} that it leads, in order, and campaigns for nothing until it is resumed. Others take over at once, if there are any.`, "Pause", "danger"];
    case "resume":
      return ["Resume?", "This process campaigns again. Who leads now goes on leading.", "Resume", "first"];
    case "resign":
      return ["Resign?", "This process steps down: its work is told to stop, and when that has ended the lease is released. Others take over at once; this process waits for half a TTL.", "Resign", "danger"];
    case "nominate":
      return [`Nominate ${a.id}?`, `Nothing happens before that candidate accepts. Then the leader steps down in order, and for ${ttl} only the nominee is elected.`, "Nominate", "first"];
    default:
      return ["Depose the leader?", `Its next renewal is refused and it steps down by itself. For up to ${ttl} nobody leads, and for ${ttl} it is not elected again.`, "Depose", "danger"];
  }
}

export function confirmAction(a) {
  const dialog = $("confirm");
  const [title, what, label, kind] = warning(a);
  const said = make("p", { class: "said", role: "status" });
  const cancel = make("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel");
  const go = make("button", { type: "button", class: "button " + kind, onclick: async () => {
    go.disabled = true;
    said.textContent = "Asking …";
    said.dataset.level = "";
    try {
      const answer = await ask("actions", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ action: a.action, election: a.election || "", id: a.id || "" }) });
      if (answer.done) {
        dialog.close();
      } else {
        said.textContent = "It goes on: the work has not ended yet.";
        cancel.textContent = "Close";
      }
    } catch (err) {
      said.textContent = `Not done: ${err.message}.`;
      said.dataset.level = "bad";
      go.disabled = false;
    }
    refreshPage();
    if (open) {
      if (document.activeElement && document.activeElement.blur) document.activeElement.blur();
      load(open);
    }
  } }, label);
  dialog.replaceChildren(make("h2", { id: "confirm-title" }, title), a.election ? make("p", null, "Election ", make("strong", null, id(a.election))) : "", make("p", null, what), said, make("div", { class: "actions" }, cancel, go));
  dialog.showModal();
  cancel.focus();
}
