package election

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// A simStore is the store of one world. It follows the contract of package backend: a challenger takes
// a lease after it has observed it for long enough, or, on a store with sessions, after the store's
// clock has ended it. simulation_server_test.go has its servers and what they lose.
type simStore struct {
	s        *sim
	kind     storeKind
	push     bool          // Listen learns of every change
	notifier bool          // Listen learns of some changes, and nodes also poll
	maxTTL   time.Duration // the greatest TTL, and so the longest observation
	servers
	items *simItems // of a store for package lease; nil: it is another one

	offset    time.Duration // how far the store's clock is ahead of true time
	wrong     bool          // it is hours ahead until it is set, or until the store is damaged for the first time
	rate      float64       // of the clock that ends sessions
	down      time.Duration // no answers before that time
	denied    time.Duration // every request is denied before that time
	locked    []time.Duration
	listeners []simListener
	members   []announced
}

type storeKind uint8

const (
	durable      storeKind = iota // one server that keeps what it has acknowledged
	failingOver                   // fails over to a replica that lags behind
	losesCommits                  // one server that loses its last commits when it crashes
	endsSessions                  // ends leases itself
)

// storeKinds are the stores of the seeds, in turn.
var storeKinds = []storeKind{durable, failingOver, losesCommits, failingOver, durable, failingOver, endsSessions}

// An announced member is known to the store since its last announcement.
type announced struct {
	backend.Member
	at time.Duration
}

type simListener struct {
	n    *simNode
	life int
	c    *call
}

func newSimStore(s *sim, k storeKind) *simStore {
	st := &simStore{s: s, kind: k, maxTTL: 15 * time.Second, rate: s.randomRate(), locked: make([]time.Duration, s.elections)}
	notifies := s.random.IntN(2) == 0
	st.push = k == endsSessions || k == durable && notifies
	st.notifier = (k == failingOver || k == losesCommits) && notifies
	st.begin(s.elections)
	if k.overLease() {
		st.items = newSimItems(st)
	}
	switch k {
	case failingOver, losesCommits, leaseFailingOver, leaseLosesCommits:
		if st.wrong = s.oneIn(2); st.wrong {
			st.offset = s.upTo(24 * time.Hour)
		}
	}
	return st
}

func (st *simStore) guarantees() backend.Guarantees {
	if st.items != nil {
		return st.leaseGuarantees()
	}
	return backend.Guarantees{Name: "simulated", MinTTL: time.Millisecond, Push: st.push || st.notifier, Poll: !st.push, Exclusive: true}
}

// clock is the store's wall clock. It affects only ages and terms.
func (st *simStore) clock() time.Duration { return st.s.now + st.offset }

var epoch = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

// admit returns an error if a request cannot be executed. If the server to which it was sent is no longer
// the primary, some proxies forward the request, and some connections break.
func (st *simStore) admit(server int) error {
	switch s := st.s; {
	case s.now < st.down, server != st.primary && s.oneIn(2):
		return errGone
	case s.now < st.denied:
		return errRevoked
	}
	return nil
}

var (
	errRevoked = fmt.Errorf("%w: rights revoked", backend.ErrDenied)
	errLocked  = fmt.Errorf("%w: the row is locked", backend.ErrUnavailable)
)

func (st *simStore) serve(n *simNode, life int, nonce backend.Nonce, c *call, server int) (r reply) {
	r.call = c
	if r.err = st.admit(server); r.err != nil {
		return r
	}
	switch c.kind {
	case callAcquire:
		r.answers = make([]backend.Answer, len(c.bids))
		for i := range c.bids {
			// A row is created in several steps, which stop when the caller has given up.
			waits := n.life == life && n.m.inFlight[callAcquire] == c
			st.acquire(n, life, &c.bids[i], &r.answers[i], waits)
		}
	case callRenew:
		r.answers = make([]backend.Answer, len(c.held))
		for i := range c.held {
			st.renew(&c.held[i], &r.answers[i])
		}
	case callObserve:
		for i := range c.leases {
			l := &c.leases[i]
			if now := st.leaseFor(st.row(l.Election), nonce); l.Version == "" || differs(&now, l) {
				now.Election = l.Election
				r.changed = append(r.changed, now)
			}
		}
	case callAnnounce:
		m := backend.Member{Candidate: backend.Candidate{ID: n.id, Nonce: nonce}, TTL: n.ttl, Elections: c.names}
		st.members = slices.DeleteFunc(st.members, func(a announced) bool { return a.Nonce == nonce || st.s.now-a.at > 4*a.TTL })
		st.members = append(st.members, announced{m, st.s.now})
	case callMembers:
		for _, a := range st.members {
			a.Age = st.s.now - a.at
			r.members = append(r.members, a.Member)
		}
	case callRequest:
		for _, w := range c.requests {
			if err := st.request(w); err != nil {
				r.err = err
			}
		}
	}
	return r
}

func (st *simStore) row(election string) *simRow { return &st.table.rows[election[0]-'0'] }

func (st *simStore) isLocked(election string) bool { return st.s.now < st.locked[election[0]-'0'] }

// differs reports whether Observe must return now to a reader that has l.
func differs(now, l *backend.Lease) bool {
	return now.Term != l.Term || now.Version != l.Version || now.ObserveFor != l.ObserveFor || now.Request != l.Request || now.Holder.Nonce != l.Holder.Nonce
}

func (st *simStore) acquire(n *simNode, life int, b *backend.Bid, a *backend.Answer, waits bool) {
	st.s.figures.bids++
	r := st.row(b.Election)
	now := st.leaseFor(r, b.Candidate.Nonce)
	now.Election = b.Election
	mine := r.found && now.Holder.Nonce == b.Candidate.Nonce && st.wroteLast(r) && !st.uncleanRestart()
	if !mine && (!now.Unchanged(b.Expected) || now.ObserveFor < 0) || !r.found && !waits {
		*a = backend.Answer{Lease: now, Outcome: backend.Refused}
		return
	}
	if st.isLocked(b.Election) {
		a.Err = errLocked
		return
	}
	term, err := st.nextTerm(r, b)
	if err != nil {
		st.s.fail(n.id, "S4: %v", err)
		return
	}
	st.s.checkGrant(n, life, b.Election)
	r.vacate(backend.Failed)
	r.lease.Holder, r.lease.Term, r.lease.TTL, r.lease.Renew, r.lease.Request = b.Candidate, term, b.TTL, b.Renew, backend.Request{}
	r.lastTerm, r.run, r.elected = term, st.restarts, st.clock()
	st.write(r, true)
	if st.notifier {
		st.wakeListeners()
	}
	now = st.leaseFor(r, b.Candidate.Nonce)
	now.Election = b.Election
	*a = backend.Answer{Lease: now, Outcome: backend.Granted, ValidFor: b.TTL}
	st.s.figures.grants++
	if st.s.tracing {
		st.s.trace("store", "grants %s to %s in term %d", b.Election, b.Candidate.Nonce, term)
	}
}

func (st *simStore) renew(l *backend.Held, a *backend.Answer) {
	r := st.row(l.Election)
	a.Outcome = backend.Refused
	if r.isHeld(l) && st.wroteLast(r) && r.lease.Request.Kind != backend.Depose {
		if st.isLocked(l.Election) {
			*a = backend.Answer{Err: errLocked}
			return
		}
		st.write(r, st.kind != endsSessions)
		a.Outcome, a.ValidFor = backend.Granted, r.lease.TTL
		st.s.figures.renewals++
	}
	a.Lease = st.leaseFor(r, l.Holder.Nonce)
	a.Election = l.Election
	if st.s.tracing && a.Outcome == backend.Refused {
		st.s.trace("store", "refuses to renew %s for %s in term %d", l.Election, l.Holder.Nonce, l.Term)
	}
}

// A pinned lease is to be released: that of a term, and if heartbeat is not 0, only if it is unchanged since it was read.
type pinned struct {
	backend.Held
	heartbeat uint64
}

func pin(held []backend.Held) (list []pinned) {
	for _, h := range held {
		list = append(list, pinned{Held: h})
	}
	return list
}

// find is the first half of a release of term 0: it returns what this nonce holds.
func (st *simStore) find(nonce backend.Nonce, held []backend.Held, server int) (found []pinned, err error) {
	if err := st.admit(server); err != nil {
		return nil, err
	}
	for _, l := range pin(held) {
		r := st.row(l.Election)
		if l.Term == 0 && r.lease.Holder.Nonce == nonce {
			l.Term, l.heartbeat = r.lease.Term, r.heartbeat
		}
		if l.Term != 0 {
			found = append(found, l)
		}
	}
	return found, nil
}

// release ends leases, except those that another server wrote last.
func (st *simStore) release(n *simNode, life int, held []pinned, server int) (err error) {
	if err := st.admit(server); err != nil {
		return err
	}
	for i := range held {
		l := &held[i]
		r := st.row(l.Election)
		if !r.isHeld(&l.Held) || !st.wroteLast(r) || l.heartbeat != 0 && l.heartbeat != r.heartbeat {
			continue
		}
		if st.isLocked(l.Election) {
			err = errLocked
			continue
		}
		st.s.checkRelease(n, life, &l.Held)
		r.vacate(l.End)
		st.write(r, true)
		if st.s.tracing {
			st.s.trace("store", "%s is vacant after term %d of %s: %s", l.Election, l.Term, l.Holder.Nonce, l.End)
		}
	}
	return err
}

func (st *simStore) termOf(i int) uint64 {
	if st.items != nil {
		return st.items.termOf(names[i])
	}
	return st.table.rows[i].lease.Term
}

func (st *simStore) request(w backend.Request) error {
	if st.items != nil {
		return st.items.request(w)
	}
	r := st.row(w.Election)
	if !r.found || r.lease.Term != w.Term || w.Term == 0 {
		return fmt.Errorf("simulated: %w", backend.ErrStale)
	}
	if r.lease.Request = w; w.Kind == "" {
		r.lease.Request = backend.Request{}
	}
	st.commit(r)
	st.wakeListeners()
	return nil
}

func (r *simRow) isHeld(l *backend.Held) bool {
	return r.found && r.lease.Holder.Nonce == l.Holder.Nonce && r.lease.Term == l.Term && !r.lease.Vacant()
}

func (r *simRow) vacate(how backend.End) {
	if l := &r.lease; !l.Vacant() {
		l.End, l.LastID = how, l.Holder.ID
		l.Holder, l.TTL, l.Renew = backend.Candidate{}, 0, 0
	}
}

// write gives the row a fresh heartbeat and commits it. If notify is set, listeners learn of it.
func (st *simStore) write(r *simRow, notify bool) {
	r.found, r.writtenBy, r.written = true, st.primary, st.clock()
	if notify {
		r.heartbeat = st.s.random.Uint64() | 1
	}
	st.commit(r)
	if st.kind == endsSessions {
		st.session(r)
	}
	if notify && (st.push || st.notifier && r.lease.Vacant()) { // acquire tells of grants
		st.wakeListeners()
	}
}

// session ends the lease if it is not renewed for its TTL by the store's clock.
func (st *simStore) session(r *simRow) {
	if r.session++; r.lease.Vacant() {
		return
	}
	session := r.session
	st.s.after(time.Duration(float64(r.lease.TTL)/st.rate), func() {
		if r.session == session {
			st.s.trace("store", "session of %s in term %d has ended", r.lease.Holder.Nonce, r.lease.Term)
			r.vacate(backend.Failed)
			st.write(r, true)
		}
	})
}

// listen answers at the next change: at once if the change has come already.
func (st *simStore) listen(n *simNode, life int, nonce backend.Nonce, c *call, server int) {
	answer := func(err error) { n.sendBack(life, c, func() { n.endCall(c, reply{call: c, err: err}) }) }
	if err := st.admit(server); err != nil {
		answer(err)
		return
	}
	for i := range c.leases {
		l := &c.leases[i]
		now := st.leaseFor(st.row(l.Election), nonce)
		if st.push && differs(&now, l) || st.s.calm && (now.Term != l.Term || now.Vacant() != l.Vacant()) {
			answer(nil)
			return
		}
	}
	st.listeners = append(st.listeners, simListener{n, life, c})
}

// wakeListeners answers all listeners. Some miss a notification.
func (st *simStore) wakeListeners() {
	listeners := st.listeners
	st.listeners = nil
	for _, l := range listeners {
		switch {
		case l.n.life != l.life || l.n.m.inFlight[callListen] != l.c: // no longer waits
		case st.notifier && !st.s.calm && st.s.oneIn(5):
			st.listeners = append(st.listeners, l)
		default:
			l.n.sendBack(l.life, l.c, func() { l.n.endCall(l.c, reply{call: l.c}) })
		}
	}
}
