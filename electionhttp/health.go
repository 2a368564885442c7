package electionhttp

import (
	"io"
	"net/http"
	"slices"

	"github.com/go-election/go-election/election"
)

// healthz answers whether the manager's loop runs: if it does not, the probe gets no answer. It does not fail
// while the store is away: restarting the process would not help.
func (h *Handler) healthz(w http.ResponseWriter, r *http.Request) {
	replyHealth(w, !h.manager.Status().Closed, "the manager is closed")
}

// readyz answers whether this process can take part, leading or not.
func (h *Handler) readyz(w http.ResponseWriter, r *http.Request) {
	s := h.manager.Status()
	known := slices.ContainsFunc(s.Elections, func(e election.ElectionStatus) bool { return e.Kind != election.Unknown })
	switch {
	case s.Closed:
		replyHealth(w, false, "the manager is closed")
	case s.Unhealthy:
		replyHealth(w, false, "the health check fails")
	case s.Unreachable, len(s.Elections) == 0 && s.Err != nil:
		replyHealth(w, false, "the store does not answer")
	case len(s.Elections) > 0 && !known:
		replyHealth(w, false, "no state of any election is known yet")
	default:
		replyHealth(w, true, "")
	}
}

func replyHealth(w http.ResponseWriter, ok bool, problem string) {
	if !ok {
		http.Error(w, problem, http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	io.WriteString(w, "ok\n")
}
