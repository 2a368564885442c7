package electionhttp

import (
	"net/http"
	"strconv"
)

type leaderJSON struct {
	Election string `json:"election"`
	Leading  bool   `json:"leading"`
	Leader   string `json:"leader"` // an id; empty if there is no leader, or if it is not known
	Term     string `json:"term"`
}

// leader answers a load balancer: 200 if this process leads, 503 if not. It looks at the clock last.
func (h *Handler) leader(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	e := h.manager.Election(name)
	if e == nil {
		fail(w, http.StatusNotFound, "this process has not joined this election")
		return
	}
	if h.observer {
		fail(w, http.StatusNotFound, "this process only observes; ask the leader's own process")
		return
	}
	ev := e.Current()
	if l := e.Leadership(); l != nil && l.Leading() {
		reply(w, http.StatusOK, leaderJSON{name, true, h.manager.ID(), term(l.Term)})
		return
	}
	if ev.Leading {
		ev.Leader.ID = "" // this process, which has just stopped leading
	}
	reply(w, http.StatusServiceUnavailable, leaderJSON{name, false, ev.Leader.ID, term(ev.Term)})
}

// term is a string in JSON: many readers of JSON keep only 53 bits of a number.
func term(t uint64) string { return strconv.FormatUint(t, 10) }
