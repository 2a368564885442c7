package electionhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// A Verb names an action.
type Verb string

const (
	Pause    Verb = "pause"    // this process steps down and does not campaign until Resume
	Resume   Verb = "resume"   // ends Pause
	Resign   Verb = "resign"   // this process steps down in order; any candidate may be elected
	Nominate Verb = "nominate" // the leader of the election hands over to the candidate with this id
	Depose   Verb = "depose"   // the leader of the election loses its lease and does not campaign for one TTL
)

// An Action is the body of POST /actions. Pause, Resume and Resign concern only this process. Nominate and
// Depose are written to the store and concern any leader.
type Action struct {
	Verb     Verb   `json:"action"`
	Election string `json:"election"` // that this process has joined; empty: all, with Pause and Resume
	ID       string `json:"id"`       // of the nominee; only with Nominate
}

const (
	maxBody       = 4096             // bytes of an action
	resignTimeout = 10 * time.Second // how long an answer waits for a resignation
)

// action carries out the action in a request's body, if it is allowed.
func (h *Handler) action(w http.ResponseWriter, r *http.Request) {
	if h.options.Authorize == nil {
		fail(w, http.StatusForbidden, "this server allows no actions")
		return
	}
	a, status, problem := h.readAction(w, r)
	if problem != "" {
		fail(w, status, problem)
		return
	}
	log := h.log.With("action", string(a.Verb), "election", a.Election, "id", a.ID, "remote", r.RemoteAddr)
	if err := h.options.Authorize(r, a); err != nil {
		log.Warn("electionhttp: refused an action", "error", err)
		fail(w, http.StatusForbidden, "not allowed")
		return
	}
	if h.observer && a.Verb != Nominate && a.Verb != Depose {
		fail(w, http.StatusConflict, "this process only observes: it has nothing to "+string(a.Verb))
		return
	}
	e := h.manager.Election(a.Election)
	if a.Election != "" && e == nil {
		fail(w, http.StatusNotFound, "this process has not joined this election")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), resignTimeout)
	defer cancel()
	err := h.do(ctx, a, e)
	h.snapshots.clear() // an action may have no change
	h.records.clear()
	switch {
	case err == nil:
		log.Info("electionhttp: did an action")
		reply(w, http.StatusOK, map[string]bool{"done": true})
	case a.Verb == Resign && ctx.Err() != nil: // it is still under way
		log.Info("electionhttp: began an action")
		reply(w, http.StatusAccepted, map[string]bool{"done": false})
	default:
		log.Warn("electionhttp: an action failed", "error", err)
		e := describe(err, h.options.Details)
		status := map[string]int{
			"denied": http.StatusBadGateway, "invalid": http.StatusConflict, "stale": http.StatusConflict,
		}[e.Error]
		reply(w, cmp.Or(status, http.StatusServiceUnavailable), e)
	}
}

// readAction reads an action, or says why it is refused. It refuses requests from other sites' pages, by the
// headers that a browser sets and by a content type that no HTML form can send.
func (h *Handler) readAction(w http.ResponseWriter, r *http.Request) (a Action, status int, problem string) {
	if err := h.csrf.Check(r); err != nil {
		h.log.Warn("electionhttp: refused an action from another site",
			"origin", r.Header.Get("Origin"), "remote", r.RemoteAddr)
		return a, http.StatusForbidden, "the request comes from another site's page"
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return a, http.StatusUnsupportedMediaType, "the body must be application/json"
	}

	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err = d.Decode(&a)
	if _, end := d.Token(); err != nil || end != io.EOF {
		return a, http.StatusBadRequest, "the body is not one action"
	}
	return a, http.StatusBadRequest, a.check()
}

// check returns the problem with an action, or "".
func (a Action) check() string {
	switch a.Verb {
	case Pause, Resume:
		return ""
	case Resign, Nominate, Depose:
	default:
		return "action must be pause, resume, resign, nominate or depose"
	}
	if a.Election == "" {
		return "election is empty"
	}
	if a.Verb == Nominate && backend.CheckID(a.ID) != nil {
		return "id is not a valid candidate id"
	}
	return ""
}

// do does an action in e, or in all elections if that is nil.
func (h *Handler) do(ctx context.Context, a Action, e *election.Election) error {
	switch {
	case a.Verb == Resign:
		return e.Resign(ctx)
	case a.Verb == Nominate:
		return e.Nominate(ctx, a.ID)
	case a.Verb == Depose:
		return e.Depose(ctx)
	case a.Verb == Pause && e != nil:
		e.Pause()
	case a.Verb == Pause:
		h.manager.Pause()
	case e != nil:
		e.Resume()
	default:
		h.manager.Resume()
	}
	return nil
}
