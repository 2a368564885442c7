package lease_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/conformance/leasetest"
)

var (
	diffSeed  = flag.Uint64("diff.seed", 0, "replay this one history, with a trace")
	diffCount = flag.Int("diff.histories", 300, "random histories")
)

// Random histories of calls are made to backend/memory, which is the specification, and to the
// protocol, and the answers are compared. These differences are allowed:
//
//   - Version is opaque. But two leases of an election have the same Version in one store if and only
//     if they have the same in the other.
//   - Age and Leadership.To are hints for people. The protocol has one time for all leases of a
//     process, and an announcement counts, too.
//   - Observe may answer by what Listen has told, if all leases that are asked for have changed. So an
//     answer may be older than the call, but not older than what the caller was told, but by List, and may
//     combine a record with a later heartbeat of its session. That a lease is unchanged must be true at the
//     call, and nothing is granted by what was never so.
//   - Listen need not return for renewals (Guarantees.Poll), and may return without a reason.
//   - Members may list a process that has not announced itself for two TTLs, and leaves out one that
//     has closed its Backend.
//
// Memory loses nothing, so faults are not compared: other tests have them.
func TestTheProtocolAnswersAsMemoryDoes(t *testing.T) {
	first, last := uint64(1), uint64(*diffCount)
	if testing.Short() {
		last = min(last, 50)
	}
	if *diffSeed != 0 {
		first, last = *diffSeed, *diffSeed
	}
	for seed := first; seed <= last && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			d := newDifferential(t, seed)
			defer d.end()
			for range 300 {
				if d.step(); t.Failed() {
					t.Fatalf("replay: go test ./backend/lease -run TestTheProtocolAnswersAsMemoryDoes -v -diff.seed=%d", seed)
				}
			}
		})
	}
}

// A differential is one history on both stores.
type differential struct {
	*testing.T
	random   *rand.Rand
	memory   *memory.Store
	lease    *leasetest.Store
	watcher  *client // reads after each step
	clients  []*client
	states   map[string][]backend.Lease // by election: all that memory has had
	versions map[string]string          // Versions in one store by those in the other
}

// A client is a process with a Backend of each store.
type client struct {
	memory, lease backend.Backend
	me            backend.Candidate
	ttl           time.Duration
	seen          map[string]pair          // what it read last
	old           map[string][]pair        // what it read earlier
	held          map[string]pair          // what it was granted last
	listening     chan struct{}            // nil: Listen is not under way; closed: it has returned
	listens       map[string]backend.Lease // to what, as memory has it
	stop          context.CancelFunc
}

// A pair is a lease as the two stores show it.
type pair struct {
	memory, lease backend.Lease
	at            int // which of the states in memory it is, or the one before
}

func nothing(election string) pair {
	return pair{memory: backend.Lease{Election: election}, lease: backend.Lease{Election: election}}
}

func newDifferential(t *testing.T, seed uint64) *differential {
	d := &differential{
		T: t, random: rand.New(rand.NewPCG(seed, 3)), memory: memory.New(), lease: leasetest.NewStore(),
		clients: make([]*client, 3), states: map[string][]backend.Lease{}, versions: map[string]string{},
	}
	d.watcher = &client{memory: d.memory.Backend(), lease: lease.New(d.lease.Driver()), seen: map[string]pair{}}
	for i := range d.clients {
		d.start(i)
	}
	return d
}

// start starts a process, after it has closed an earlier one.
func (d *differential) start(i int) {
	if old := d.clients[i]; old != nil {
		d.close(old)
	}
	ttl := []time.Duration{5 * time.Second, 9 * time.Second, 20 * time.Second}[d.random.IntN(3)]
	c := &client{memory: d.memory.Backend(), lease: lease.New(d.lease.Driver()), ttl: ttl, seen: map[string]pair{}, old: map[string][]pair{}, held: map[string]pair{}}
	c.me = backend.Candidate{ID: fmt.Sprint("c", i), Nonce: backend.NewNonce(), Address: "host", Metadata: "text"}
	d.clients[i] = c
}

func (d *differential) close(c *client) {
	if c.stop != nil {
		c.stop()
		<-c.listening
	}
	c.memory.Close()
	c.lease.Close()
}

func (d *differential) end() {
	for _, c := range d.clients {
		d.close(c)
	}
}

var elections = []string{"alpha", "beta", "gamma", "delta", "epsilon"}

// step makes one random call to both stores.
func (d *differential) step() {
	i := d.random.IntN(len(d.clients))
	c := d.clients[i]
	names := slices.Clone(elections)
	d.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:1+d.random.IntN(3)]
	switch n := d.random.IntN(100); {
	case n < 15:
		time.Sleep(time.Duration(d.random.Int64N(int64(10 * time.Second))))
	case n < 35:
		d.observe(c, names)
	case n < 60:
		d.acquire(c, names)
	case n < 75:
		d.renew(c, names, false)
	case n < 79:
		d.renew(c, names, true)
	case n < 86:
		d.release(c, names)
	case n < 91:
		d.request(c, names)
	case n < 93:
		d.list(c)
	case n < 95:
		d.announce(c, names)
	case n < 97:
		d.listen(c, names)
	case n < 98:
		d.start(i)
	default:
		d.members(c)
	}
	d.note()
}

// trace says what is done, in a replay.
func (d *differential) trace(c *client, format string, args ...any) {
	if *diffSeed != 0 {
		d.Helper()
		d.Logf("%v %s: %s", time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), c.me.ID, fmt.Sprintf(format, args...))
	}
}

// expected returns what a client bids by: mostly what it read last.
func (d *differential) expected(c *client, name string) pair {
	p, ok := c.seen[name]
	if old := c.old[name]; old != nil && d.random.IntN(5) == 0 {
		p = old[d.random.IntN(len(old))]
	}
	if !ok {
		p = nothing(name)
	}
	return p
}

func (d *differential) acquire(c *client, names []string) {
	var bids [2][]backend.Bid
	for _, name := range names {
		p := d.expected(c, name)
		minTerm := uint64(0)
		if d.random.IntN(4) == 0 {
			minTerm = p.memory.Term + uint64(d.random.IntN(1000))
		}
		for i, l := range []backend.Lease{p.memory, p.lease} {
			bids[i] = append(bids[i], backend.Bid{Election: name, Candidate: c.me, TTL: c.ttl, Renew: c.ttl / 3, MinTerm: minTerm, Expected: l})
		}
	}
	d.trace(c, "bids for %v", names)
	m, errM := c.memory.Acquire(d.Context(), bids[0])
	l, errL := c.lease.Acquire(d.Context(), bids[1])
	d.answers(c, "Acquire", m, l, errM, errL)
}

func (d *differential) renew(c *client, names []string, mark bool) {
	var held [2][]backend.Held
	to, from := []string{"", "", "there"}[d.random.IntN(3)], []string{"", "here"}[d.random.IntN(2)]
	for _, name := range names {
		p, ok := c.held[name]
		if !ok {
			continue
		}
		for i, l := range []backend.Lease{p.memory, p.lease} {
			l.MovedTo, l.MovedFrom = to, from
			held[i] = append(held[i], l.Held())
		}
	}
	if held[0] == nil {
		return
	}
	d.trace(c, "renews %d of %v, mark: %v", len(held[0]), names, mark)
	if mark {
		m, errM := c.memory.(backend.Marker).Mark(d.Context(), held[0])
		l, errL := c.lease.(backend.Marker).Mark(d.Context(), held[1])
		d.answers(c, "Mark", m, l, errM, errL)
		return
	}
	m, errM := c.memory.Renew(d.Context(), held[0])
	l, errL := c.lease.Renew(d.Context(), held[1])
	d.answers(c, "Renew", m, l, errM, errL)
}

func (d *differential) release(c *client, names []string) {
	var held [2][]backend.Held
	end := []backend.End{backend.Released, backend.Failed, backend.Deposed}[d.random.IntN(3)]
	for _, name := range names {
		p := c.held[name]
		for i, l := range []backend.Lease{p.memory, p.lease} {
			h := l.Held()
			if h.Election, h.End = name, end; d.random.IntN(4) == 0 {
				h.Term = 0
			}
			if i == 1 {
				h.Term = held[0][len(held[0])-1].Term
			}
			held[i] = append(held[i], h)
		}
		delete(c.held, name)
	}
	d.trace(c, "releases %v", names)
	d.errors("Release", c.memory.Release(d.Context(), held[0]), c.lease.Release(d.Context(), held[1]))
}

func (d *differential) request(c *client, names []string) {
	var requests []backend.Request
	for _, name := range names {
		q := backend.Request{Election: name, Term: c.seen[name].memory.Term, Kind: backend.RequestKind([]string{"", "nominate", "accept", "depose"}[d.random.IntN(4)])}
		if q.Kind == backend.Nominate || q.Kind == backend.Accept {
			q.ID = c.me.ID
		}
		requests = append(requests, q)
	}
	d.trace(c, "requests %v", requests)
	d.errors("Request", c.memory.Request(d.Context(), requests), c.lease.Request(d.Context(), requests))
}

func (d *differential) errors(call string, m, l error) {
	d.Helper()
	for _, class := range []error{backend.ErrUnavailable, backend.ErrDenied, backend.ErrInvalid, backend.ErrStale, backend.ErrClosed} {
		if errors.Is(m, class) != errors.Is(l, class) {
			d.Errorf("%s: memory says %v, the protocol %v: rule violated: errors have the same class", call, m, l)
		}
	}
	if (m == nil) != (l == nil) {
		d.Errorf("%s: memory says %v, the protocol %v: rule violated: both fail or none", call, m, l)
	}
}
