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
	if h.manager.Status().Closed {
		http.Error(w, "the manager is closed", http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, "ok\n")
}

// readyz answers whether this process can take part, leading or not.
func (h *Handler) readyz(w http.ResponseWriter, r *http.Request) {
	s := h.manager.Status()
	isKnown := func(e election.ElectionStatus) bool { return e.Kind != election.Unknown }
	problem := ""
	switch {
	case s.Unhealthy:
		problem = "the health check fails"
	case s.Unreachable, len(s.Elections) == 0 && s.Err != nil:
		problem = "the store does not answer"
	case len(s.Elections) > 0 && !slices.ContainsFunc(s.Elections, isKnown):
		problem = "no state of any election is known yet"
	}
	if problem != "" {
		http.Error(w, problem, http.StatusServiceUnavailable)
		return
	}
	h.healthz(w, r)
}
