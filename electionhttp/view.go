package electionhttp

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// A view is the last picture of the manager, which requests share.
type view struct {
	mu     sync.Mutex
	taken  time.Time
	seq    uint64 // of the newest change then
	status election.Status

	sinces map[string]since // of those that others lead, or nobody
	want   []string         // elections of which the store is asked
	busy   bool             // readSinces runs

	counted    time.Time       // when the members were last read for deserted
	candidates map[string]bool // elections that have some; "": some member has no room to name all
	counting   bool            // they are being read
}

// fresh is how old a picture may be if nothing has changed since: taking one costs
// the manager's loop some time, and strangers may ask often.
const fresh = 100 * time.Millisecond

// picture returns the manager's status, with elections in byte order of names.
func (h *Handler) picture() (election.Status, time.Time) {
	v := &h.view
	v.mu.Lock()
	defer v.mu.Unlock()
	seq := h.hub.newest() // before: what comes later makes a new picture
	if now := time.Now(); v.taken.IsZero() || seq != v.seq || now.Sub(v.taken) > fresh {
		v.status, v.taken, v.seq = h.manager.Status(), now, seq
		slices.SortFunc(v.status.Elections, func(a, b election.ElectionStatus) int { return strings.Compare(a.Election, b.Election) })
	}
	return v.status, v.taken
}

// stale makes the next picture a new one: something was done that is no change.
func (v *view) stale() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.taken = time.Time{}
}

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
	Renewals  *renewalsJSON  `json:"renewals"`
	Counts    countsJSON     `json:"counts"`
	Leaders   []leadsJSON    `json:"leaders"`
	Matching  int            `json:"matching"`
	Offset    int            `json:"offset"`
	Elections []electionJSON `json:"elections"`
}

type storeJSON struct {
	Location string `json:"location,omitempty"`
	State    string `json:"state"`
	Ago      int64  `json:"answered_ms_ago"`
	Error    string `json:"error,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

type countsJSON struct {
	Total   int `json:"total"`
	Here    int `json:"here"`
	Others  int `json:"others"`
	Vacant  int `json:"vacant"`
	Idle    int `json:"idle"` // of these
	Unknown int `json:"unknown"`
	Paused  int `json:"paused"`
	Stuck   int `json:"stuck"`
}

type leadsJSON struct {
	ID    string `json:"id"`
	Leads int    `json:"leads"`
}

type electionJSON struct {
	Election    string         `json:"election"`
	Kind        string         `json:"kind"`
	Leading     bool           `json:"leading"`
	Leader      *candidateJSON `json:"leader"`
	Previous    *candidateJSON `json:"previous"`
	Term        string         `json:"term"`
	Since       time.Time      `json:"since"`
	SinceBy     string         `json:"since_by"`
	Reason      string         `json:"reason"`
	Error       string         `json:"error,omitempty"`
	Detail      string         `json:"detail,omitempty"`
	Left        *int64         `json:"remaining_ms"`
	Idle        bool           `json:"idle"`
	Campaigning bool           `json:"campaigning"`
	Paused      bool           `json:"paused"`
	Stuck       bool           `json:"stuck"`
	Request     *requestJSON   `json:"request"`
}

type requestJSON struct {
	Kind string `json:"kind"`
	ID   string `json:"id,omitempty"`
}

type candidateJSON struct {
	ID       string `json:"id"`
	Address  string `json:"address"`
	Metadata string `json:"metadata,omitempty"`
}

func candidate(c election.Candidate, details bool) *candidateJSON {
	if c.ID == "" {
		return nil
	}
	c = backend.CleanCandidate(c)
	j := &candidateJSON{ID: c.ID, Address: c.Address}
	if details {
		j.Metadata = c.Metadata
	}
	return j
}

// describeError is the class of an error, and its text if details are shown.
func describeError(err error, details bool) (class, text string) {
	if err == nil {
		return "", ""
	}
	if details {
		text = backend.Clean(err.Error(), 1000, true)
	}
	switch {
	case errors.Is(err, backend.ErrClosed):
		class = "closed"
	case errors.Is(err, backend.ErrStale):
		class = "stale"
	default:
		class = map[error]string{backend.ErrDenied: "denied", backend.ErrInvalid: "invalid"}[backend.Class(err)]
	}
	return cmp.Or(class, "unavailable"), text
}

// elections answers with all elections, or those that the query chooses.
func (h *Handler) elections(w http.ResponseWriter, r *http.Request) {
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	limit, ok := number(w, r, "limit", 1<<30, 1<<30)
	if !ok {
		return
	}
	offset, ok := number(w, r, "offset", 0, 1<<30)
	if !ok {
		return
	}
	query := r.URL.Query()
	state := query.Get("state")
	if !slices.Contains([]string{"", "here", "others", "vacant", "unknown", "paused", "stuck"}, state) {
		fail(w, http.StatusBadRequest, "state must be here, others, vacant, unknown, paused or stuck")
		return
	}
	order := query.Get("order")
	if order != "" && order != "name" && order != "attention" {
		fail(w, http.StatusBadRequest, "order must be name or attention")
		return
	}
	s, now := h.picture()
	j := h.describe(s, now)
	text := strings.ToLower(query.Get("q"))
	var chosen []*election.ElectionStatus
	for i := range s.Elections {
		e := &s.Elections[i]
		if (state == "" || is(e, state)) && (text == "" || contains(e, text)) {
			chosen = append(chosen, e)
		}
	}
	if order == "attention" { // within that by name
		rank := make(map[*election.ElectionStatus]int)
		for _, e := range chosen {
			rank[e] = h.urgency(e)
		}
		slices.SortStableFunc(chosen, func(a, b *election.ElectionStatus) int { return rank[b] - rank[a] })
	}
	j.Matching, j.Offset = len(chosen), min(offset, len(chosen))
	for _, e := range chosen[j.Offset:min(len(chosen), j.Offset+limit)] {
		j.Elections = append(j.Elections, h.describeElection(e, now))
	}
	reply(w, http.StatusOK, j)
}

func is(e *election.ElectionStatus, state string) bool {
	switch state {
	case "here":
		return e.Leading
	case "others":
		return e.Kind == election.Elected && !e.Leading
	case "vacant":
		return e.Kind == election.Vacant
	case "unknown":
		return e.Kind == election.Unknown
	case "paused":
		return e.Paused
	}
	return e.Stuck
}

func contains(e *election.ElectionStatus, lower string) bool {
	return strings.Contains(strings.ToLower(e.Election), lower) || strings.Contains(strings.ToLower(e.Leader.ID), lower) ||
		strings.Contains(strings.ToLower(e.Leader.Address), lower)
}

// urgency is how much an election wants to be looked at.
func (h *Handler) urgency(e *election.ElectionStatus) int {
	switch {
	case h.idle(e):
		return -1
	case e.Stuck:
		return 4
	case e.Kind == election.Unknown:
		return 3
	case e.Kind == election.Vacant:
		return 2
	case e.Paused:
		return 1
	}
	return 0
}

// describe is all that is not about one election.
func (h *Handler) describe(s election.Status, now time.Time) statusJSON {
	j := statusJSON{
		ID: s.ID, Backend: s.Backend, Now: now.UTC(), TTL: s.TTL.Milliseconds(), Renew: s.RenewEvery.Milliseconds(),
		Observer: s.Observer, Paused: s.Paused, Unhealthy: s.Unhealthy, Closed: s.Closed, Actions: h.options.Authorize != nil,
		Store: storeJSON{Location: s.Location, State: "ok", Ago: s.Contact.Milliseconds()}, Leaders: []leadsJSON{}, Elections: []electionJSON{},
		Renewals: h.renewals(),
	}
	j.Store.Error, j.Store.Detail = describeError(s.Err, h.options.Details)
	switch {
	case s.Unreachable:
		j.Store.State = "unreachable"
	case s.Err != nil:
		j.Store.State = "failing"
	}
	leads := make(map[string]int)
	c := &j.Counts
	for i := range s.Elections {
		e := &s.Elections[i]
		c.Total++
		switch e.Kind {
		case election.Elected:
			leads[e.Leader.ID]++
			if e.Leading {
				c.Here++
			} else {
				c.Others++
			}
		case election.Vacant:
			c.Vacant++
			if h.idle(e) {
				c.Idle++
			}
		default:
			c.Unknown++
		}
		if e.Paused {
			c.Paused++
		}
		if e.Stuck {
			c.Stuck++
		}
	}
	for id, n := range leads {
		j.Leaders = append(j.Leaders, leadsJSON{backend.Clean(id, backend.MaxID, false), n})
	}
	slices.SortFunc(j.Leaders, func(a, b leadsJSON) int { return cmp.Or(b.Leads-a.Leads, strings.Compare(a.ID, b.ID)) })
	j.Leaders = j.Leaders[:min(len(j.Leaders), 10)]
	return j
}

func (h *Handler) describeElection(e *election.ElectionStatus, now time.Time) electionJSON {
	j := electionJSON{
		Election: e.Election, Kind: e.Kind.String(), Leading: e.Leading, Leader: candidate(e.Leader, h.options.Details), Previous: candidate(e.Previous, h.options.Details),
		Term: term(e.Term), Since: e.Time.UTC(), SinceBy: "process", Reason: string(e.Reason),
		Idle: h.idle(e), Campaigning: e.Campaigning, Paused: e.Paused, Stuck: e.Stuck,
	}
	j.Error, j.Detail = describeError(e.Err, h.options.Details)
	if e.Time.IsZero() { // nothing was heard yet
		j.Since = now.UTC()
	}
	if e.Left >= 0 {
		left := e.Left.Milliseconds()
		j.Left = &left
	}
	if e.Request.Kind != "" && e.Request.Term == e.Term {
		j.Request = &requestJSON{Kind: string(e.Request.Kind), ID: e.Request.ID}
	}
	if e.Kind != election.Unknown && !e.Leading {
		if since := h.since(e); !since.IsZero() && since.Before(j.Since) {
			j.Since, j.SinceBy = since, "store"
		}
	}
	return j
}
