package electionhttp

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-election/go-election/election"
)

// leader answers a load balancer: 200 if this process leads, 503 if not. The
// answer is made ready first, and the clock compared with the deadline last.
func (h *Handler) leader(w http.ResponseWriter, r *http.Request, name string) {
	if !allow(w, r, http.MethodGet, http.MethodHead, http.MethodOptions) {
		return
	}
	e := h.manager.Election(name)
	if e == nil {
		fail(w, http.StatusNotFound, "this process has not joined this election")
		return
	}
	if h.observer {
		h.leaderFor(w, name)
		return
	}
	ev := e.Current()
	follower := marshal(leaderJSON{Election: name, Leader: ev.Leader.ID, Term: term(ev.Term)})
	if ev.Leading { // no longer, if it turns out so below
		follower = marshal(leaderJSON{Election: name, Term: term(ev.Term)})
	}
	w.Header().Set("Content-Type", "application/json")
	if l := e.Leadership(); l != nil {
		body := marshal(leaderJSON{Election: name, Leading: true, Leader: h.manager.ID(), Term: term(l.Term)})
		if l.Leading() {
			w.WriteHeader(http.StatusOK)
			w.Write(body)
			return
		}
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	w.Write(follower)
}

// leaderFor answers for another process, by what the store has said. A picture may
// be a moment old; that is less than the store's word is.
func (h *Handler) leaderFor(w http.ResponseWriter, name string) {
	if h.options.For == "" {
		fail(w, http.StatusNotFound, "this process only watches, and is told of no candidate to answer for; ask the leader's own")
		return
	}
	s, _ := h.picture()
	status, j := http.StatusServiceUnavailable, leaderJSON{Election: name}
	for i := range s.Elections {
		e := &s.Elections[i]
		if e.Election != name {
			continue
		}
		j.Leader, j.Term = e.Leader.ID, term(e.Term)
		// Left is 0 once the leader should have renewed, though nobody has said so yet.
		if j.Leading = e.Kind == election.Elected && e.Leader.ID == h.options.For && e.Left != 0; j.Leading {
			status = http.StatusOK
		}
	}
	reply(w, status, j)
}

type leaderJSON struct {
	Election string `json:"election"`
	Leading  bool   `json:"leading"`
	Leader   string `json:"leader"` // an id; empty if nobody leads or it cannot be told
	Term     string `json:"term"`
}

// healthz says that this process runs: that the manager's loop answers. A store
// that is away is no reason to restart a process.
func (h *Handler) healthz(w http.ResponseWriter, r *http.Request) {
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	answer := make(chan election.Status, 1)
	go func() { answer <- h.manager.Status() }()
	select {
	case s := <-answer:
		probe(w, !s.Closed, "the manager is closed")
	case <-time.After(5 * time.Second):
		probe(w, false, "the manager's loop does not answer")
	}
}

// readyz says that this process can take part, leading or not.
func (h *Handler) readyz(w http.ResponseWriter, r *http.Request) {
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	s := h.manager.Status()
	known := slices.ContainsFunc(s.Elections, func(e election.ElectionStatus) bool { return e.Kind != election.Unknown })
	switch {
	case s.Closed:
		probe(w, false, "the manager is closed")
	case s.Unhealthy:
		probe(w, false, "the health check fails")
	case s.Unreachable, len(s.Elections) == 0 && s.Err != nil:
		probe(w, false, "the store does not answer")
	case len(s.Elections) > 0 && !known:
		probe(w, false, "nothing is known of any election yet")
	default:
		probe(w, true, "")
	}
}

func probe(w http.ResponseWriter, ok bool, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if ok {
		io.WriteString(w, "ok\n")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, why+"\n")
}

// term is text in JSON: a term has up to 62 bits, and many readers of JSON have
// only 53.
func term(t uint64) string { return strconv.FormatUint(t, 10) }

func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil { // only a time out of range could fail, and none is written
		return []byte(`{"error":"cannot be written as JSON"}`)
	}
	return append(data, '\n')
}

// reply writes JSON. It escapes <, > and &, so that the text is harmless also to a
// reader that takes it for HTML.
func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(marshal(v))
}

func fail(w http.ResponseWriter, status int, text string) {
	reply(w, status, errorJSON{text})
}

type errorJSON struct {
	Error string `json:"error"`
}
