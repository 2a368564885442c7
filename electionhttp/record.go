package electionhttp

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
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

// storedJSON is what the store has, by its own clock.
type storedJSON struct {
	Leader  *candidateJSON `json:"leader"`
	Term    string         `json:"term"`
	Elected *time.Time     `json:"elected"`
	Request *requestJSON   `json:"request"`
	MovedTo string         `json:"moved_to,omitempty"`
}

type leadershipJSON struct {
	ID   string    `json:"id"`
	Term string    `json:"term"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	End  string    `json:"end"`
}

// election answers with all about one election: what this process knows, and what
// the store has.
func (h *Handler) election(w http.ResponseWriter, r *http.Request, name string) {
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	e := h.manager.Election(name)
	s, now := h.picture()
	i := slices.IndexFunc(s.Elections, func(e election.ElectionStatus) bool { return e.Election == name })
	if e == nil || i < 0 {
		fail(w, http.StatusNotFound, "this process has not joined this election")
		return
	}
	all := h.describe(s, now)
	list, unknown := h.allMembers()
	j := recordJSON{electionJSON: h.describeElection(&s.Elections[i], now), ID: s.ID, Now: all.Now, Store: all.Store, Actions: all.Actions, History: []leadershipJSON{}}
	rec, err := h.records.get(name, func() (backend.Record, error) { return e.Record(h.ctx) })
	if err != nil {
		j.Store.Error, j.Store.Detail = describeError(err, h.options.Details)
		reply(w, http.StatusOK, j)
		return
	}
	j.Record = &storedJSON{Leader: candidate(rec.Holder, h.options.Details), Term: term(rec.Term), MovedTo: rec.MovedTo}
	if t := backend.CleanTime(rec.Elected); !t.IsZero() {
		j.Record.Elected = &t
	}
	if rec.Request.Kind != "" && rec.Request.Term == rec.Term {
		j.Record.Request = &requestJSON{Kind: string(rec.Request.Kind), ID: rec.Request.ID}
	}
	for _, past := range backend.CleanHistory(rec.History) {
		j.History = append(j.History, leadershipJSON{ID: past.ID, Term: term(past.Term), From: past.From, To: past.To, End: string(past.End)})
	}
	if unknown == nil {
		j.Candidates = []contenderJSON{}
		for _, m := range candidates(name, rec, list) {
			if one, ok := h.describeMember(m); ok && len(j.Candidates) < 1000 {
				j.Candidates = append(j.Candidates, contenderJSON{one, leads(rec, m)})
			}
		}
	}
	reply(w, http.StatusOK, j)
}

// candidates chooses those of the store's members that could lead an election: the leader
// first, then by id. They have announced within two of their TTLs that they campaign for it.
func candidates(name string, rec backend.Record, all []backend.Member) []backend.Member {
	list := slices.DeleteFunc(slices.Clone(all), func(m backend.Member) bool {
		return !m.CampaignsFor(name) && !leads(rec, m) || m.TTL > 0 && m.Age > 2*m.TTL
	})
	rank := func(m backend.Member) int { return map[bool]int{true: 0, false: 1}[leads(rec, m)] }
	slices.SortStableFunc(list, func(a, b backend.Member) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a.ID, b.ID)) })
	return list
}

// leads reports whether the lease is this member's. A leader of another program has no nonce.
func leads(rec backend.Record, m backend.Member) bool {
	who := backend.CleanCandidate(rec.Holder)
	if who.Nonce == "" {
		return who.ID != "" && m.ID == who.ID
	}
	return m.Nonce == who.Nonce
}

type contenderJSON struct {
	memberJSON
	Leads bool `json:"leads"`
}

type membersJSON struct {
	Now     time.Time    `json:"now"`
	Total   int          `json:"total"`
	Members []memberJSON `json:"members"`
}

type memberJSON struct {
	candidateJSON
	Stage string `json:"stage,omitempty"`
	TTL   int64  `json:"ttl_ms"`
	Ago   int64  `json:"announced_ms_ago"`
}

// listMembers answers with those who take part, in any election of the store.
func (h *Handler) listMembers(w http.ResponseWriter, r *http.Request) {
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	limit, ok := number(w, r, "limit", 1000, 100_000)
	if !ok {
		return
	}
	list, err := h.allMembers()
	if err != nil {
		h.failed(w, err)
		return
	}
	j := membersJSON{Now: time.Now().UTC(), Total: len(list), Members: []memberJSON{}}
	for _, m := range list {
		if one, ok := h.describeMember(m); ok && len(j.Members) < limit {
			j.Members = append(j.Members, one)
		}
	}
	slices.SortStableFunc(j.Members, func(a, b memberJSON) int { return strings.Compare(a.ID, b.ID) })
	reply(w, http.StatusOK, j)
}

func (h *Handler) allMembers() ([]backend.Member, error) {
	return h.members.get("", func() ([]backend.Member, error) { return h.manager.Members(h.ctx) })
}

func (h *Handler) describeMember(m backend.Member) (j memberJSON, ok bool) {
	c := candidate(m.Candidate, h.options.Details)
	if c == nil {
		return j, false
	}
	return memberJSON{*c, backend.Clean(m.Stage, 64, false), m.TTL.Milliseconds(), max(0, m.Age).Milliseconds()}, true
}

// failed answers for a store, or a manager, that has not done what it was asked.
func (h *Handler) failed(w http.ResponseWriter, err error) {
	class, text := describeError(err, h.options.Details)
	status := map[string]int{"denied": http.StatusBadGateway, "invalid": http.StatusConflict, "stale": http.StatusConflict}[class]
	reply(w, cmp.Or(status, http.StatusServiceUnavailable), struct {
		Error  string `json:"error"`
		Detail string `json:"detail,omitempty"`
	}{class, text})
}

// A memo keeps what the store has said for a moment, errors too, so that many who
// ask cost it no more than one. Keys are bounded by what has been joined.
type memo[T any] struct {
	mu   sync.Mutex
	said map[string]*said[T]
}

type said[T any] struct {
	mu    sync.Mutex
	at    time.Time
	value T
	err   error
}

const memoFor = time.Second

func (m *memo[T]) get(key string, read func() (T, error)) (T, error) {
	m.mu.Lock()
	if m.said == nil {
		m.said = make(map[string]*said[T])
	}
	s := m.said[key]
	if s == nil {
		s = new(said[T])
		m.said[key] = s
	}
	m.mu.Unlock()
	s.mu.Lock() // for one call of the store at most, which has a time limit
	defer s.mu.Unlock()
	if s.at.IsZero() || time.Since(s.at) > memoFor {
		s.value, s.err = read()
		s.at = time.Now()
	}
	return s.value, s.err
}

// drop forgets what was said.
func (m *memo[T]) drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said = nil
}

// A since is since when an election is as the store last said, by its clock.
type since struct {
	kind  election.Kind
	term  uint64
	time  time.Time // zero: the store was asked and does not know, or is about to be asked
	asked time.Time
}

// since returns since when others lead, or nobody, by the store's clock, if that is known.
// If not, the store is asked: once for each state, and only for what somebody looks at.
func (h *Handler) since(e *election.ElectionStatus) time.Time {
	v := &h.view
	v.mu.Lock()
	defer v.mu.Unlock()
	s, known := v.sinces[e.Election]
	if known && s.kind == e.Kind && s.term == e.Term && (!s.time.IsZero() || time.Since(s.asked) < time.Minute) {
		return s.time
	}
	if h.ctx.Err() != nil || e.Term == 0 || known && time.Since(s.asked) < time.Second {
		return time.Time{}
	}
	v.sinces[e.Election] = since{kind: e.Kind, term: e.Term, asked: time.Now()}
	v.want = append(v.want, e.Election)
	if !v.busy {
		v.busy = true
		h.reading.Go(h.readSinces)
	}
	return time.Time{}
}

// readSinces reads what is wanted, one after the other and not too fast.
func (h *Handler) readSinces() {
	v := &h.view
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for {
		v.mu.Lock()
		if len(v.want) == 0 || h.ctx.Err() != nil {
			v.want, v.busy = nil, false
			v.mu.Unlock()
			return
		}
		name := v.want[0]
		v.want = v.want[1:]
		v.mu.Unlock()
		if e := h.manager.Election(name); e == nil {
			v.mu.Lock()
			delete(v.sinces, name)
			v.mu.Unlock()
		} else if rec, err := e.Record(h.ctx); err == nil {
			kind := election.Elected
			if rec.Vacant() || rec.Lapsed() > 0 {
				kind = election.Vacant
			}
			v.mu.Lock()
			v.sinces[name] = since{kind, rec.Term, backend.CleanTime(rec.Since()), time.Now()}
			v.mu.Unlock()
		}
		select {
		case <-pace.C:
		case <-h.ctx.Done():
		}
	}
}
