package electionhttp

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
)

type statusJSON struct {
	ID        string         `json:"id"`
	Backend   string         `json:"backend"`
	Now       time.Time      `json:"now"`
	TTL       int64          `json:"ttl_ms"`
	Renew     int64          `json:"renew_ms"`
	Observer  bool           `json:"observer"`
	Paused    bool           `json:"paused"`
	Unhealthy bool           `json:"unhealthy"`
	Closed    bool           `json:"closed"`
	Actions   bool           `json:"actions"`
	Store     storeJSON      `json:"store"`
	Counts    map[string]int `json:"counts"` // by state, and total and idle
	Leaders   []leadsJSON    `json:"leaders"`
	Matching  int            `json:"matching"`
	Offset    int            `json:"offset"`
	Elections []electionJSON `json:"elections"`
}

type storeJSON struct {
	Location string `json:"location,omitempty"`
	State    string `json:"state"`
	Ago      int64  `json:"answered_ms_ago"`
	errorJSON
}

type leadsJSON struct {
	ID    string `json:"id"`
	Leads int    `json:"leads"`
}

// A State is the JSON of who leads an election, as a process knows it.
type State struct {
	Election string          `json:"election"`
	Kind     string          `json:"kind"`    // elected, vacant, unknown, or notice
	Leading  bool            `json:"leading"` // the process itself leads
	Leader   *Candidate      `json:"leader"`
	Previous *Candidate      `json:"previous"`
	Term     string          `json:"term"`
	Reason   election.Reason `json:"reason"`
	errorJSON
}

// stateOf returns the JSON of an event, with metadata and the text of an error only if details is true.
func stateOf(ev election.Event, details bool) State {
	if !details {
		ev.Leader.Metadata, ev.Previous.Metadata = "", ""
	}
	return State{
		Election:  ev.Election,
		Kind:      ev.Kind.String(),
		Leading:   ev.Leading,
		Leader:    candidate(ev.Leader),
		Previous:  candidate(ev.Previous),
		Term:      term(ev.Term),
		Reason:    ev.Reason,
		errorJSON: describe(ev.Err, details),
	}
}

type electionJSON struct {
	State
	Since       time.Time `json:"since"`
	SinceBy     string    `json:"since_by"`
	Remaining   *int64    `json:"remaining_ms"`
	Idle        bool      `json:"idle"`
	Alone       bool      `json:"alone"`
	Campaigning bool      `json:"campaigning"`
	Paused      bool      `json:"paused"`
	Stuck       bool      `json:"stuck"`
	Request     *Request  `json:"request"`
}

// An errorJSON is the class of an error, and its text if details are shown.
type errorJSON struct {
	Error  string `json:"error,omitempty"`
	Detail string `json:"detail,omitempty"`
}

func describe(err error, details bool) (j errorJSON) {
	if err == nil {
		return j
	}
	if details {
		j.Detail = clean.Text(err.Error(), 1000, true)
	}
	switch {
	case errors.Is(err, backend.ErrClosed):
		j.Error = "closed"
	case errors.Is(err, backend.ErrStale):
		j.Error = "stale"
	default:
		classes := map[error]string{backend.ErrDenied: "denied", backend.ErrInvalid: "invalid"}
		j.Error = cmp.Or(classes[backend.Class(err)], "unavailable")
	}
	return j
}

// A snapshot is the manager's status at a time, with elections in byte order of names.
type snapshot struct {
	status election.Status
	at     time.Time
}

func (h *Handler) snapshot() (election.Status, time.Time) {
	byName := func(a, b election.ElectionStatus) int { return strings.Compare(a.Election, b.Election) }
	s, _ := h.snapshots.get("", func() (snapshot, error) {
		s := snapshot{at: time.Now(), status: h.manager.Status()}
		slices.SortFunc(s.status.Elections, byName)
		return s, nil
	})
	return s.status, s.at
}

// elections answers with all elections, or those that the query selects.
func (h *Handler) elections(w http.ResponseWriter, r *http.Request) {
	limit, ok := number(w, r, "limit", 1<<30, 1<<30)
	if !ok {
		return
	}
	offset, ok := number(w, r, "offset", 0, 1<<30)
	if !ok {
		return
	}
	query := r.URL.Query()
	has := states[query.Get("state")]
	if has == nil && query.Get("state") != "" {
		fail(w, http.StatusBadRequest, "state must be here, others, vacant, unknown, paused, stuck or alone")
		return
	}
	s, now := h.snapshot()
	c := h.campaigns()
	j := h.describe(s, now, c)
	text := strings.ToLower(query.Get("q"))
	var selected []*election.ElectionStatus
	for i := range s.Elections {
		e := &s.Elections[i]
		named := strings.ToLower(e.Election + "\n" + e.Leader.ID + "\n" + e.Leader.Address)
		if (has == nil || has(e, c)) && strings.Contains(named, text) {
			selected = append(selected, e)
		}
	}
	if query.Get("order") == "attention" { // elections of equal urgency stay in order of names
		rank := make(map[*election.ElectionStatus]int)
		for _, e := range selected {
			rank[e] = h.urgency(e, c)
		}
		slices.SortStableFunc(selected, func(a, b *election.ElectionStatus) int { return rank[b] - rank[a] })
	}
	j.Matching, j.Offset = len(selected), min(offset, len(selected))
	for _, e := range selected[j.Offset:min(len(selected), j.Offset+limit)] {
		j.Elections = append(j.Elections, h.describeElection(e, now, c))
	}
	reply(w, http.StatusOK, j)
}

// states are those that a query can select and that are counted. An election can be in several.
var states = map[string]func(e *election.ElectionStatus, c campaigns) bool{
	"here": func(e *election.ElectionStatus, _ campaigns) bool { return e.Leading },
	"others": func(e *election.ElectionStatus, _ campaigns) bool {
		return e.Kind == election.Elected && !e.Leading
	},
	"vacant":  func(e *election.ElectionStatus, _ campaigns) bool { return e.Kind == election.Vacant },
	"unknown": func(e *election.ElectionStatus, _ campaigns) bool { return e.Kind == election.Unknown },
	"paused":  func(e *election.ElectionStatus, _ campaigns) bool { return e.Paused },
	"stuck":   func(e *election.ElectionStatus, _ campaigns) bool { return e.Stuck },
	"alone":   alone,
}

// urgency ranks elections by how much they need attention.
func (h *Handler) urgency(e *election.ElectionStatus, c campaigns) int {
	switch {
	case h.idle(e, c):
		return -1
	case e.Stuck:
		return 5
	case e.Kind == election.Unknown:
		return 4
	case e.Kind == election.Vacant:
		return 3
	case e.Paused:
		return 2
	case alone(e, c):
		return 1
	}
	return 0
}

// describe returns the status of the process, without its elections.
func (h *Handler) describe(s election.Status, now time.Time, c campaigns) statusJSON {
	j := statusJSON{
		ID: s.ID, Backend: s.Backend, Now: now.UTC(),
		TTL: s.TTL.Milliseconds(), Renew: s.RenewEvery.Milliseconds(),
		Observer: s.Observer, Paused: s.Paused, Unhealthy: s.Unhealthy, Closed: s.Closed,
		Actions: h.options.Authorize != nil, Elections: []electionJSON{},
	}
	j.Store = storeJSON{s.Location, "ok", s.Contact.Milliseconds(), describe(s.Err, h.options.Details)}
	switch {
	case s.Unreachable:
		j.Store.State = "unreachable"
	case s.Err != nil:
		j.Store.State = "failing"
	}
	j.Counts, j.Leaders = h.count(s, c)
	return j
}

// count counts the elections by state, and those of the ten candidates that lead most.
func (h *Handler) count(s election.Status, known campaigns) (counts map[string]int, leaders []leadsJSON) {
	counts = map[string]int{"total": len(s.Elections), "idle": 0}
	for state := range states {
		counts[state] = 0
	}
	leads := make(map[string]int)
	for i := range s.Elections {
		e := &s.Elections[i]
		if e.Kind == election.Elected {
			leads[e.Leader.ID]++
		}
		if h.idle(e, known) {
			counts["idle"]++
		}
		for state, has := range states {
			if has(e, known) {
				counts[state]++
			}
		}
	}

	leaders = []leadsJSON{}
	for id, n := range leads {
		leaders = append(leaders, leadsJSON{clean.Text(id, backend.MaxID, false), n})
	}
	slices.SortFunc(leaders, func(a, b leadsJSON) int {
		return cmp.Or(b.Leads-a.Leads, strings.Compare(a.ID, b.ID))
	})
	return counts, leaders[:min(len(leaders), 10)]
}

func (h *Handler) describeElection(e *election.ElectionStatus, now time.Time, c campaigns) electionJSON {
	j := electionJSON{
		State: stateOf(e.Event, h.options.Details), Since: e.Time.UTC(), SinceBy: "process",
		Idle: h.idle(e, c), Alone: alone(e, c), Campaigning: e.Campaigning, Paused: e.Paused, Stuck: e.Stuck,
		Request: pending(e.Request, e.Term),
	}
	if e.Time.IsZero() { // the manager has no state of it yet
		j.Since = now.UTC()
	}
	if e.Remaining >= 0 {
		j.Remaining = new(e.Remaining.Milliseconds())
	}
	if e.Kind != election.Unknown && !e.Leading {
		if since := h.since(e); !since.IsZero() && since.Before(j.Since) {
			j.Since, j.SinceBy = since, "store"
		}
	}
	return j
}
