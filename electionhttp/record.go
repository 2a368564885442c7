package electionhttp

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
)

type recordJSON struct {
	electionJSON
	ID      string           `json:"id"`
	Now     time.Time        `json:"now"`
	Store   storeJSON        `json:"store"`
	Record  *storedJSON      `json:"record"`
	History []leadershipJSON `json:"history"`
	Actions bool             `json:"actions"`

	Candidates []contenderJSON `json:"candidates"` // null: not known
}

// storedJSON is the election's record in the store, by the store's clock.
type storedJSON struct {
	Leader  *candidateJSON `json:"leader"`
	Term    string         `json:"term"`
	Elected *time.Time     `json:"elected"`
	Request *requestJSON   `json:"request"`
	MovedTo string         `json:"moved_to,omitempty"`
}

type leadershipJSON struct {
	backend.Leadership
	Term string `json:"term"`
}

// contenderJSON is a member that could lead.
type contenderJSON struct {
	candidateJSON
	Stage string `json:"stage,omitempty"`
	TTL   int64  `json:"ttl_ms"`
	Ago   int64  `json:"announced_ms_ago"`
	Leads bool   `json:"leads"`
}

// election answers with everything about one election: the state that this process knows,
// and the store's record.
func (h *Handler) election(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	e := h.manager.Election(name)
	s, now := h.snapshot()
	i := slices.IndexFunc(s.Elections, func(e election.ElectionStatus) bool { return e.Election == name })
	if e == nil || i < 0 {
		fail(w, http.StatusNotFound, "this process has not joined this election")
		return
	}
	c := h.campaigns()
	process := h.describe(s, now, c)
	members, membersErr := h.members.get("", h.readMembers)
	j := recordJSON{electionJSON: h.describeElection(&s.Elections[i], now, c), ID: s.ID, Now: process.Now, Store: process.Store, Actions: process.Actions, History: []leadershipJSON{}}
	rec, err := h.records.get(name, func() (backend.Record, error) { return e.Record(h.ctx) })
	if err != nil {
		j.Store.errorJSON = h.describeError(err)
		reply(w, http.StatusOK, j)
		return
	}
	j.Record = h.describeRecord(rec)
	for _, past := range clean.History(rec.History) {
		j.History = append(j.History, leadershipJSON{past, term(past.Term)})
	}
	if membersErr == nil {
		j.Candidates = []contenderJSON{}
		for _, m := range candidates(name, rec, members.list) {
			if c := h.candidate(m.Candidate); c != nil && len(j.Candidates) < 1000 {
				j.Candidates = append(j.Candidates, contenderJSON{*c, clean.Text(m.Stage, 64, false), m.TTL.Milliseconds(), max(0, m.Age).Milliseconds(), leads(rec, m)})
			}
		}
	}
	reply(w, http.StatusOK, j)
}

func (h *Handler) describeRecord(rec backend.Record) *storedJSON {
	j := &storedJSON{
		Leader:  h.candidate(rec.Holder),
		Term:    term(rec.Term),
		Request: pending(rec.Request, rec.Term),
		MovedTo: rec.MovedTo,
	}
	if t := clean.Time(rec.Elected); !t.IsZero() {
		j.Elected = &t
	}
	return j
}

// candidates returns the members that could lead an election: those that have announced
// within two of their TTLs that they campaign for it. The leader comes first, the others
// follow by id.
func candidates(name string, rec backend.Record, members []backend.Member) []backend.Member {
	list := slices.DeleteFunc(slices.Clone(members), func(m backend.Member) bool {
		return !m.CampaignsFor(name) && !leads(rec, m) || m.TTL > 0 && m.Age > 2*m.TTL
	})
	rank := func(m backend.Member) int { return map[bool]int{true: 0, false: 1}[leads(rec, m)] }
	slices.SortStableFunc(list, func(a, b backend.Member) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a.ID, b.ID)) })
	return list
}

// leads reports whether a member holds the lease. A holder without a nonce is known by its id.
func leads(rec backend.Record, m backend.Member) bool {
	holder := clean.Candidate(rec.Holder)
	if holder.Nonce == "" {
		return holder.ID != "" && m.ID == holder.ID
	}
	return m.Nonce == holder.Nonce
}
