package electionhttp

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// A Record is the JSON of what a store knows of an election. The command elect prints it for status and
// history, and /elections/NAME answers with it in the field record. Times are UTC, by the store's clock.
type Record struct {
	Election   string       `json:"election"`
	Store      string       `json:"store"`          // the backend, and where its store is
	Leader     *Candidate   `json:"leader"`         // who holds the lease; null: nobody
	Silent     bool         `json:"silent"`         // it has not renewed for a TTL: nobody leads
	Term       string       `json:"term"`           // of the leader, or of the last one; "0": nobody has led
	Elected    *time.Time   `json:"elected"`        // null: nobody leads, or the store does not know it
	TTL        int64        `json:"ttl_ms"`         // how long the lease lasts when it is renewed
	Renewed    int64        `json:"renewed_ms_ago"` // 0: nobody leads
	LastID     string       `json:"last_leader,omitempty"`
	End        backend.End  `json:"last_end,omitempty"`   // of the last leadership that has ended
	Request    *Request     `json:"request"`              // of an operator, in this term; null: none
	MovedTo    string       `json:"moved_to,omitempty"`   // a store; nobody leads by this one
	MovedFrom  string       `json:"moved_from,omitempty"` // a store
	History    []Leadership `json:"history"`              // those that have ended, newest first
	Candidates []Member     `json:"candidates"`           // see [CandidatesFor]; null: they were not read
}

// A Candidate is the JSON of a candidate. The handler shows Metadata only with Options.Details.
type Candidate struct {
	ID       string `json:"id"`
	Address  string `json:"address"`
	Metadata string `json:"metadata,omitempty"`
}

// A Request is the JSON of what an operator has requested. ID is that of the nominee.
type Request struct {
	Kind backend.RequestKind `json:"kind"`
	ID   string              `json:"id,omitempty"`
}

// A Leadership is the JSON of a past leadership. Its term is a string.
type Leadership struct {
	backend.Leadership
	Term string `json:"term"`
}

// A Member is the JSON of a process that could lead an election. TTL is how often it announces itself, and
// Announced how long ago it last did, in milliseconds; 0: the store itself knows that it is alive.
type Member struct {
	Candidate
	Stage     string `json:"stage,omitempty"` // of a migration
	TTL       int64  `json:"ttl_ms"`
	Announced int64  `json:"announced_ms_ago"`
	Leads     bool   `json:"leads"`
}

// NewRecord returns the JSON of a record that was read from a store and cleaned, as election.Manager
// returns it. It does not set Candidates.
func NewRecord(store string, r backend.Record, silent bool) Record {
	j := Record{
		Election:  r.Election,
		Store:     store,
		Silent:    silent,
		Term:      term(r.Term),
		TTL:       r.TTL.Milliseconds(),
		LastID:    r.LastID,
		End:       r.End,
		Request:   pending(r.Request, r.Term),
		MovedTo:   r.MovedTo,
		MovedFrom: r.MovedFrom,
		History:   []Leadership{},
	}
	if !r.Vacant() {
		j.Leader = &Candidate{r.Holder.ID, r.Holder.Address, r.Holder.Metadata}
		j.Renewed = r.Age.Milliseconds()
		if !r.Elected.IsZero() {
			j.Elected = &r.Elected
		}
	}
	for _, past := range r.History {
		j.History = append(j.History, Leadership{past, term(past.Term)})
	}
	return j
}

// candidate returns the JSON of who leads, or nil if nobody does.
func candidate(c backend.Candidate) *Candidate {
	if c.ID == "" {
		return nil
	}
	return &Candidate{c.ID, c.Address, c.Metadata}
}

// pending returns the request of an operator that concerns the leadership in this term, if there is one.
func pending(r backend.Request, term uint64) *Request {
	if r.Kind == "" || r.Term != term {
		return nil
	}
	return &Request{r.Kind, r.ID}
}

// CandidatesFor returns the members that could lead an election: its leader, and those that have announced
// within two of their TTLs that they campaign for it. The leader comes first, then the others by id, at most
// 1,000.
func CandidatesFor(r backend.Record, members []backend.Member) []Member {
	list := []Member{}
	for _, m := range members {
		gone := m.TTL > 0 && m.Age > 2*m.TTL
		if gone || !m.CampaignsFor(r.Election) && !leads(r, m) {
			continue
		}
		list = append(list, Member{
			Candidate: Candidate{m.ID, m.Address, m.Metadata},
			Stage:     m.Stage,
			TTL:       m.TTL.Milliseconds(),
			Announced: max(0, m.Age).Milliseconds(),
			Leads:     leads(r, m),
		})
	}
	slices.SortStableFunc(list, func(a, b Member) int {
		switch {
		case a.Leads == b.Leads:
			return strings.Compare(a.ID, b.ID)
		case a.Leads:
			return -1
		}
		return 1
	})
	return list[:min(len(list), 1000)]
}

// leads reports whether a member holds the lease. A holder without a nonce is known by its id.
func leads(r backend.Record, m backend.Member) bool {
	if r.Holder.Nonce == "" {
		return r.Holder.ID != "" && m.ID == r.Holder.ID
	}
	return m.Nonce == r.Holder.Nonce
}

// An electionAnswer is the answer of /elections/NAME.
type electionAnswer struct {
	electionJSON
	ID      string    `json:"id"`
	Now     time.Time `json:"now"`
	Store   storeJSON `json:"store"`
	Actions bool      `json:"actions"`
	Record  *Record   `json:"record"` // null: the store could not be read
}

// election answers with what this process knows of one election, and the store's record.
func (h *Handler) election(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	e := h.manager.Election(name)
	s, now := h.snapshot()
	i := slices.IndexFunc(s.Elections, func(e election.ElectionStatus) bool { return e.Election == name })
	if e == nil || i < 0 {
		fail(w, http.StatusNotFound, "this process has not joined this election")
		return
	}
	state, c := &s.Elections[i], h.campaigns()
	process := h.describe(s, now, c)
	j := electionAnswer{
		electionJSON: h.describeElection(state, now, c),
		ID:           s.ID, Now: process.Now, Store: process.Store, Actions: process.Actions,
	}
	rec, err := h.records.get(name, func() (backend.Record, error) { return e.Record(h.ctx) })
	if err != nil {
		j.Store.errorJSON = describe(err, h.options.Details)
		reply(w, http.StatusOK, j)
		return
	}

	if !h.options.Details {
		rec.Holder.Metadata = ""
	}
	silent := state.Kind == election.Vacant && rec.ExpiredFor() > 0
	record := NewRecord(strings.TrimSpace(s.Backend+" "+s.Location), rec, silent)
	if members, err := h.members.get("", h.readMembers); err == nil {
		record.Candidates = CandidatesFor(rec, members.list)
	}
	j.Record = &record
	reply(w, http.StatusOK, j)
}
