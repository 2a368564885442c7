// The dialog of one election, and the dialog that confirms an action.

import { $, make, icon, id, signOf, chip, span, moment, why, fetchJSON } from "./kit.js";

let status = () => null; // the page's newest answer
let refreshPage = () => {};
let serverNow = () => Date.now();
let open = ""; // the election in the dialog
let shown = null;
let timer = 0;

export function setUpDetail(newest, refresh, now) {
  status = newest;
  refreshPage = refresh;
  serverNow = now;
  const dialog = $("detail");
  dialog.addEventListener("close", () => {
    if (dialog.open) return; // it was opened again before this event came
    open = "";
    shown = null;
    clearTimeout(timer);
    window.history.replaceState(null, "", window.location.pathname + window.location.search);
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // a click outside the content
  });
}

// openAddressed opens the election that the page's address names.
export function openAddressed() {
  const named = /^#election\/(.+)$/.exec(window.location.hash);
  if (!named) return;
  try {
    openDetail(decodeURIComponent(named[1]));
  } catch { /* the address was not written by openDetail */ }
}

export function openDetail(name) {
  window.history.replaceState(null, "", "#election/" + encodeURIComponent(name));
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
    e = await fetchJSON("elections/" + encodeURIComponent(name));
  } catch (err) {
    if (open === name && !shown) $("detail").replaceChildren(make("div", { class: "sheet" }, head(name, null), make("p", { class: "said", "data-level": "bad" }, `This election cannot be read: ${err.message}`)));
    return;
  }
  if (open !== name) return;
  // Do not replace a button that has the focus: the user may be about to press it.
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
    fact("Leader", e.kind === "vacant" ? "none" : "unknown");
  }
  if (why(e.reason) && e.kind !== "elected") fact("Reason", why(e.reason), e.detail ? make("span", { class: "aside" }, id(e.detail)) : "");
  fact("Since", `${moment(new Date(e.since))} (${span(serverNow() - Date.parse(e.since))})`);
  fact("Term", e.term === "0" ? "–" : e.term);
  if (e.remaining_ms !== null) fact(e.leading ? "Lease ends in" : "Takeover possible in", `${Math.round(e.remaining_ms / 1000)} s unless renewed`);
  if (e.previous && !e.leader) fact("Previous leader", id(e.previous.id));
  const request = e.request || (e.record && e.record.request);
  if (request) fact("Pending request", request.kind === "depose" ? "depose the leader" : "nominate ", request.kind === "depose" ? "" : id(request.id || ""));
  if (!status()?.observer) fact("This process", e.paused ? "is paused" : e.leading ? "leads" : e.campaigning ? "is a candidate" : "observes");
  if (e.record && e.record.moved_to) fact("Moved to", id(e.record.moved_to));
  $("detail").replaceChildren(make("div", { class: "sheet" }, head(e.election, e), facts, ...[candidates(e), e.actions ? actions(e) : null].filter(Boolean), history(e)));
  if (focusOnClose) $("detail").querySelector(".icon").focus();
}

// candidates lists the processes that could take over, as far as the store knows.
function candidates(e) {
  const list = e.record?.candidates;
  if (!list) return null;
  const alone = list.some((c) => !c.leads) ? null : make("p", { class: "said alone", "data-level": e.idle ? "" : "warn" },
    e.leader ? "No standby: if this leader fails, no process takes over." : "No process campaigns for this election.");
  const entry = (c) => make("li", null,
    make("span", null, make("strong", null, id(c.id)), c.leads ? " leads" : "",
      make("span", { class: "aside" }, id(c.address), c.address ? ", " : "", c.announced_ms_ago < 1000 ? "alive now" : `last announcement ${span(c.announced_ms_ago)} ago`)),
    e.actions && e.leader && !c.leads ? make("button", { type: "button", class: "button", "aria-label": `Nominate ${c.id}`, onclick: () => confirmAction({ election: e.election, action: "nominate", id: c.id }) }, "Nominate") : null);
  return make("section", null, make("h3", null, "Candidates"), alone,
    make("ol", { id: "candidates", class: "leaders" }, ...list.map(entry)));
}

// history has a line for each leadership, and a line for each time of a second or more
// without a leader.
function history(e) {
  if (!e.record) return make("p", { class: "said", "data-level": "bad" }, `The store cannot be read${e.store.error ? ` (${e.store.error})` : ""}.`);
  const ends = { released: "stepped down", failed: "did not renew its lease: it failed or could not reach the store", deposed: "was deposed by an operator", forgotten: "led until an operator retired the election" };
  const lines = [];
  let next = e.record.elected; // start of the leadership above; null: unknown, or there is no leader
  for (const r of e.record.history) {
    const now = !next && !e.record.leader && lines.length === 0 && r.term === e.record.term;
    const gap = (now ? serverNow() : Date.parse(next)) - Date.parse(r.to);
    if (gap >= 1000) lines.push(make("li", { class: "gap" }, `${now ? "no leader now, for" : "no leader for"} ${span(gap)}`));
    lines.push(make("li", null, make("strong", null, id(r.id)), ` ${ends[r.end] || r.end}`,
      make("span", { class: "aside" }, `${moment(new Date(r.from))}, for ${span(Date.parse(r.to) - Date.parse(r.from))}, term ${r.term}`)));
    next = r.from;
  }
  return make("section", null, make("h3", null, "Past leaderships, by the store's clock"),
    lines.length === 0 ? make("p", { class: "quiet" }, "The store has none.") : make("ol", { class: "leaderships" }, ...lines));
}

function actions(e) {
  const button = (label, act, kind) => make("button", { type: "button", class: "button " + (kind || ""), onclick: () => confirmAction({ election: e.election, ...act() }) }, label);
  const box = make("div", { class: "actions" },
    status()?.observer ? null : e.paused ? button("Resume here", () => ({ action: "resume" })) : button("Pause here", () => ({ action: "pause" })),
    e.leading ? button("Resign", () => ({ action: "resign" })) : null,
    e.leader ? button("Depose the leader", () => ({ action: "depose" })) : null);
  return box.children.length ? make("section", null, make("h3", null, "Actions"), box) : null;
}

// warning returns the title, text, button and class of the dialog that confirms an action.
function warning(a) {
  const s = status();
  const ttl = s ? `${s.ttl_ms / 1000} s` : "one TTL";
  const here = s ? s.counts.here : 0;
  switch (a.action) {
    case "pause":
      return a.election ? ["Pause this process in this election?", "If it leads the election, it steps down. It does not campaign until an operator resumes it.", "Pause", ""] :
        ["Pause this process in all elections?", `It ${here === 0 ? "leads none now" : `steps down from the ${here === 1 ? "election" : `${here} elections`} that it leads`}, and does not campaign until an operator resumes it. Other candidates take over at once, if there are any.`, "Pause", "danger"];
    case "resume":
      return ["Resume this process?", "It campaigns again. The current leader keeps leading.", "Resume", "first"];
    case "resign":
      return ["Resign?", "This process stops its work and then releases the lease. Other candidates take over at once. This process campaigns again after half a TTL.", "Resign", "danger"];
    case "nominate":
      return [`Nominate ${a.id}?`, `When the candidate accepts, the leader steps down, and for ${ttl} only the nominee can be elected.`, "Nominate", "first"];
    default:
      return ["Depose the leader?", `The store refuses its next renewal, and it steps down. The election has no leader for up to ${ttl}, and this leader is not elected again for ${ttl}.`, "Depose", "danger"];
  }
}

export function confirmAction(a) {
  const dialog = $("confirm");
  const [title, what, label, kind] = warning(a);
  const said = make("p", { class: "said", role: "status" });
  const cancel = make("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel");
  const go = make("button", { type: "button", class: "button " + kind, onclick: async () => {
    go.disabled = true;
    said.textContent = "Sending …";
    said.dataset.level = "";
    try {
      const answer = await fetchJSON("actions", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ action: a.action, election: a.election || "", id: a.id || "" }) });
      if (answer.done) {
        dialog.close();
      } else {
        said.textContent = "Under way: the work has not ended yet.";
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
