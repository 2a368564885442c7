package lease_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance/leasetest"
)

// ttl is the TTL of most processes, and greatestTTL that of the election that a world begins with.
const (
	ttl         = 9 * time.Second
	greatestTTL = 30 * time.Second
)

// A world is a store with processes that a test drives by hand, in virtual time. At each grant it
// checks that nobody else trusts that lease.
type world struct {
	*testing.T
	store *leasetest.Store

	background sync.WaitGroup
	mu         sync.Mutex // guards the following, and what processes trust
	processes  []*process
}

// meanwhile runs do beside the test, which ends after it.
func (w *world) meanwhile(do func()) { w.background.Go(do) }

// A process is one Backend, and what its manager would know.
type process struct {
	w      *world
	b      *lease.Backend
	wire   *wire
	me     backend.Candidate
	ttl    time.Duration
	trusts map[string]time.Time // by election: until when
	terms  map[string]uint64
}

// inWorld runs a test in virtual time, on a store in which an election was led with greatestTTL.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, store: leasetest.NewStore()}
		defer w.background.Wait() // also if the test has failed
		first := w.start("first")
		first.ttl = greatestTTL
		first.releases(first.leads("first"))
		test(w)
	})
}

func (w *world) start(id string) *process {
	p := &process{w: w, wire: &wire{Driver: w.store.Driver()}, ttl: ttl, trusts: map[string]time.Time{}, terms: map[string]uint64{}}
	p.b = lease.New(p.wire)
	p.me = backend.Candidate{ID: id, Nonce: backend.NewNonce()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes = append(w.processes, p)
	return p
}

// note notes a grant or renewal that was sent at a time, and checks that nobody else leads.
func (p *process) note(election string, a backend.Answer, sent time.Time, grant bool) {
	p.w.Helper()
	if a.Outcome != backend.Granted {
		return
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for _, o := range p.w.processes {
		if left := time.Until(o.trusts[election]); o != p && left > 0 {
			p.w.Errorf("%s is granted %s, which %s trusts for %v more: rule violated: two never lead at once", p.me.ID, election, o.me.ID, left)
		}
		if grant && o.terms[election] >= a.Term {
			p.w.Errorf("%s is granted %s in term %d, and %s was in term %d: rule violated: terms grow", p.me.ID, election, a.Term, o.me.ID, o.terms[election])
		}
	}
	p.trusts[election], p.terms[election] = sent.Add(a.ValidFor), a.Term
}

func (p *process) sees(election string) backend.Lease {
	p.w.Helper()
	got, err := p.b.Observe(p.w.Context(), []backend.Lease{{Election: election}})
	if err != nil || len(got) != 1 {
		p.w.Fatalf("%s reads %s: %v, %v", p.me.ID, election, got, err)
	}
	return got[0]
}

func (p *process) bids(expected ...backend.Lease) ([]backend.Answer, error) {
	var bids []backend.Bid
	for _, l := range expected {
		bids = append(bids, backend.Bid{Election: l.Election, Candidate: p.me, TTL: p.ttl, Renew: p.ttl / 3, Expected: l})
	}
	sent := time.Now()
	answers, err := p.b.Acquire(p.w.Context(), bids)
	for _, a := range answers {
		p.note(a.Election, a, sent, true)
	}
	return answers, err
}

// leads makes the process the leader of elections that are free.
func (p *process) leads(elections ...string) backend.Lease {
	p.w.Helper()
	var expected []backend.Lease
	for _, name := range elections {
		l := p.sees(name)
		if l.ObserveFor != 0 {
			p.w.Fatalf("%s must watch %s for %v, though it is free", p.me.ID, name, l.ObserveFor)
		}
		expected = append(expected, l)
	}
	answers, err := p.bids(expected...)
	if err != nil || slices.ContainsFunc(answers, func(a backend.Answer) bool { return a.Outcome != backend.Granted }) {
		p.w.Fatalf("%s bids for %v, which are free: %v, %v", p.me.ID, elections, answers, err)
	}
	return answers[0].Lease
}

func heldBy(leases []backend.Lease) (held []backend.Held) {
	for _, l := range leases {
		held = append(held, l.Held())
	}
	return held
}

func (p *process) renews(leases ...backend.Lease) []backend.Answer {
	p.w.Helper()
	sent := time.Now()
	answers, err := p.b.Renew(p.w.Context(), heldBy(leases))
	if err != nil {
		p.w.Fatalf("%s renews %s: %v", p.me.ID, leases[0].Election, err)
	}
	for _, a := range answers {
		p.note(a.Election, a, sent, false)
	}
	return answers
}

// goesOn renews leases for some time, and fails if one renewal is not granted.
func (p *process) goesOn(d time.Duration, why string, leases ...backend.Lease) {
	p.w.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(p.ttl / 3) {
		for _, a := range p.renews(leases...) {
			p.w.want(a.Outcome == backend.Granted, "%s: the renewal of %s is %v: rule violated: %s", p.me.ID, a.Election, a.Outcome, why)
		}
	}
}

func (p *process) isRefused(l backend.Lease, why string) {
	p.w.Helper()
	a := p.renews(l)[0]
	p.w.want(a.Outcome == backend.Refused, "%s: the renewal of %s is %v: rule violated: %s", p.me.ID, l.Election, a.Outcome, why)
}

func (p *process) releases(leases ...backend.Lease) {
	p.w.Helper()
	var held []backend.Held
	for _, l := range leases {
		h := l.Held()
		h.End = backend.Released
		held = append(held, h)
		p.distrusts(l.Election)
	}
	if err := p.b.Release(p.w.Context(), held); err != nil {
		p.w.Fatalf("%s releases: %v", p.me.ID, err)
	}
}

func (p *process) distrusts(election string) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	delete(p.trusts, election)
}

// challenges watches an election and bids for it as the contract demands, for at most as long as
// most. It returns whether the process was granted it, and after how long.
func (p *process) challenges(election string, most time.Duration) (l backend.Lease, after time.Duration, granted bool) {
	p.w.Helper()
	began := time.Now()
	watched, since := p.sees(election), time.Now()
	for ; time.Since(began) < most; time.Sleep(50 * time.Millisecond) {
		if now := p.sees(election); !now.Unchanged(watched) {
			watched, since = now, time.Now()
		}
		if time.Since(since) < watched.ObserveFor {
			continue
		}
		answers, err := p.bids(watched)
		if err != nil {
			p.w.Fatalf("%s bids for %s: %v", p.me.ID, election, err)
		}
		if a := answers[0]; a.Outcome == backend.Granted {
			return a.Lease, time.Since(began), true
		}
	}
	return l, time.Since(began), false
}

// waits takes an election over, and fails unless that takes about as long as wanted.
func (p *process) waits(election string, want time.Duration, why string) backend.Lease {
	p.w.Helper()
	l, after, granted := p.challenges(election, want+time.Second)
	switch {
	case !granted:
		p.w.Fatalf("%s was not granted %s within %v: rule violated: %s", p.me.ID, election, after, why)
	case after < want:
		p.w.Fatalf("%s was granted %s after %v, not %v: rule violated: %s", p.me.ID, election, after, want, why)
	}
	return l
}

// neverGets challenges for some time, and fails if the process is granted the election.
func (p *process) neverGets(election string, most time.Duration, why string) {
	p.w.Helper()
	_, after, granted := p.challenges(election, most)
	p.w.want(!granted, "%s was granted %s after %v: rule violated: %s", p.me.ID, election, after, why)
}

func (w *world) want(ok bool, format string, args ...any) {
	w.Helper()
	if !ok {
		w.Errorf(format, args...)
	}
}

func recordOf(election string) lease.Key { return lease.Key{Kind: lease.Records, Name: election} }

func (p *process) session() lease.Key {
	return lease.Key{Kind: lease.Sessions, Name: string(p.me.Nonce)}
}

// A wire is a Driver whose writes a test loses, doubles or keeps for later.
type wire struct {
	lease.Driver
	before    func()   // comes just before the next write
	unordered bool     // the store does not tell of items
	reading   func()   // comes between the next reading and its answer
	loses     fate     // what becomes of the next write
	write     func()   // writes the last one once more
	history   []func() // writes each of them once more
	last      lease.Written
	late      time.Time // until then no write tells which items of verify have changed
}

// A fate is what becomes of a write.
type fate uint8

const (
	arrives fate = iota
	request      // is lost, until the test sends it by write
	answer       // of it is lost
	twice        // two copies arrive, and the second is answered
)

// Read may read without the order of writes, as a store does that does not tell of items.
func (w *wire) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	reading := w.reading
	if reading != nil {
		w.reading = nil
	}
	v, err := w.Driver.Read(ctx, keys)
	if w.unordered {
		disorder(&v)
	}
	if reading != nil {
		reading()
	}
	return v, err
}

// disorder makes a reading that of a store that does not tell of items.
func disorder(v *lease.View) {
	v.Position = 0
	for i := range v.Items {
		v.Items[i].Order = 0
	}
}

func (w *wire) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	changes, verify = slices.Clone(changes), slices.Clone(verify)
	w.write = func() { w.last, _ = w.Driver.Write(context.Background(), epoch, wentBack, changes, verify) }
	w.history = append(w.history, w.write)
	loses, before := w.loses, w.before
	if w.loses, w.before = arrives, nil; before != nil {
		before()
	}
	switch loses {
	case request:
		return lease.Written{}, backend.ErrUnavailable
	case answer:
		w.write()
		return lease.Written{}, backend.ErrUnavailable
	case twice:
		w.write()
	}
	done, err := w.Driver.Write(ctx, epoch, wentBack, changes, verify)
	if time.Now().Before(w.late) {
		done.Stale = nil
	}
	return done, err
}
