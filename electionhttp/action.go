package electionhttp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/go-election/go-election/backend"
)

// A Verb is what somebody wants done.
type Verb string

const (
	Pause    Verb = "pause"    // this process steps down and stays out, until Resume
	Resume   Verb = "resume"   // ends Pause
	Resign   Verb = "resign"   // this process steps down in order; anybody may be elected
	Nominate Verb = "nominate" // the leader, whoever it is, hands over to the candidate with this id
	Depose   Verb = "depose"   // the leader, whoever it is, loses its lease and stays out for one TTL
)

// An Action is what somebody asks for in POST /actions. Pause, Resume and Resign
// concern this process alone; Nominate and Depose are written to the store, and
// concern whoever leads.
type Action struct {
	Verb     Verb   `json:"action"`
	Election string `json:"election"` // of those joined; empty in Pause and Resume: all of them
	ID       string `json:"id"`       // Nominate: whom
}

const (
	maxBody  = 4096             // bytes of an action
	patience = 10 * time.Second // how long an answer waits for a resignation
)

// action does what is asked, if it may be.
func (h *Handler) action(w http.ResponseWriter, r *http.Request) {
	if !allow(w, r, http.MethodPost) {
		return
	}
	if h.options.Authorize == nil {
		fail(w, http.StatusForbidden, "this page can only be read")
		return
	}
	// Against pages of other sites: by the browser's own word, and by a content type
	// that no form can send.
	if err := h.csrf.Check(r); err != nil {
		h.log.Warn("electionhttp: refused an action from another site", "origin", r.Header.Get("Origin"), "remote", r.RemoteAddr)
		fail(w, http.StatusForbidden, "asked by another site's page")
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		fail(w, http.StatusUnsupportedMediaType, "the body must be application/json")
		return
	}
	var a Action
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			fail(w, http.StatusRequestEntityTooLarge, "the body is too long")
			return
		}
		fail(w, http.StatusBadRequest, "the body is not an action")
		return
	}
	if _, err := d.Token(); err != io.EOF {
		fail(w, http.StatusBadRequest, "the body is more than an action")
		return
	}
	if why := a.check(); why != "" {
		fail(w, http.StatusBadRequest, why)
		return
	}
	log := h.log.With("action", string(a.Verb), "election", a.Election, "id", a.ID, "remote", r.RemoteAddr)
	if err := h.options.Authorize(r, a); err != nil {
		log.Warn("electionhttp: refused an action", "error", err)
		fail(w, http.StatusForbidden, "not allowed")
		return
	}
	if h.observer && a.Verb != Nominate && a.Verb != Depose {
		fail(w, http.StatusConflict, "this process only watches: it has nothing to "+string(a.Verb))
		return
	}
	if a.Election != "" && h.manager.Election(a.Election) == nil {
		fail(w, http.StatusNotFound, "this process has not joined this election")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	err := h.do(ctx, a)
	h.view.stale()
	h.records.drop()
	switch {
	case err == nil:
		log.Info("electionhttp: did an action")
		reply(w, http.StatusOK, doneJSON{Done: true})
	case a.Verb == Resign && ctx.Err() != nil:
		log.Info("electionhttp: began an action")
		reply(w, http.StatusAccepted, doneJSON{Done: false})
	default:
		log.Warn("electionhttp: an action failed", "error", err)
		h.failed(w, err)
	}
}

type doneJSON struct {
	Done bool `json:"done"` // false: it goes on
}

// check says what is wrong with an action.
func (a Action) check() string {
	switch a.Verb {
	case Pause, Resume:
	case Resign, Nominate, Depose:
		if a.Election == "" {
			return "election is empty"
		}
	default:
		return "action must be pause, resume, resign, nominate or depose"
	}
	if a.Verb == Nominate {
		if err := backend.CheckID(a.ID); err != nil {
			return "id is not a candidate's id"
		}
	} else if a.ID != "" {
		return "only nominate has an id"
	}
	return ""
}

func (h *Handler) do(ctx context.Context, a Action) error {
	m := h.manager
	if a.Election == "" {
		if a.Verb == Pause {
			m.Pause()
		} else {
			m.Resume()
		}
		return nil
	}
	e := m.Election(a.Election)
	if e == nil {
		return backend.ErrClosed
	}
	switch a.Verb {
	case Pause:
		e.Pause()
	case Resume:
		e.Resume()
	case Resign:
		return e.Resign(ctx)
	case Nominate:
		return e.Nominate(ctx, a.ID)
	case Depose:
		return e.Depose(ctx)
	}
	return nil
}
