package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// A simNode is one process of the simulation: a machine and its clock, the shell
// around it, and its place in the network.
type simNode struct {
	s       *sim
	i       int
	id      string
	rate    float64 // of its clock
	life    int     // incarnation; what belongs to an earlier one is dropped
	up      bool
	m       *machine
	b       backend.Backend
	elecs   []*elec
	belief  []simBelief          // by election
	wakeAt  time.Duration        // true time of the one pending wake event
	limits  [calls]time.Duration // true time at which the call under way is given up; 0: none
	stopped bool
	backlog []func()
	cut     bool // no request arrives
	deaf    bool // no answer comes back
	slow    time.Duration
	listens []*call
	sick    bool
}

// simBelief is what the shell would keep for an election.
type simBelief struct {
	leading bool
	until   time.Duration // by the node's clock
	term    uint64
	running uint64 // term of the lead function that has not returned
	last    Event
}

func (n *simNode) local() time.Duration { return time.Duration(float64(n.s.now) * n.rate) }

// start begins a new incarnation.
func (n *simNode) start() {
	s := n.s
	n.life++
	n.up, n.stopped, n.backlog = true, false, nil
	n.wakeAt, n.limits = 0, [calls]time.Duration{}
	n.b = s.store.Backend()
	options := Options{ID: n.id}
	if s.pace < time.Minute {
		options.Health = func(context.Context) error { return nil }
	}
	switch s.seed % 8 { // they hide what is too tight, so most seeds have none
	case 3:
		options.Silence = 5 * time.Second
	case 5:
		options.Priority = 3 * time.Second
	}
	o, err := options.withDefaults(n.b.Guarantees())
	if err != nil {
		panic(err)
	}
	nonce := fmt.Sprintf("%s-%d", n.id, n.life)
	n.m = newMachine(o, n.b.Guarantees(), backend.Candidate{ID: n.id, Nonce: nonce}, s.rnd, n.local())
	n.elecs, n.listens = nil, nil
	n.belief = make([]simBelief, s.elections)
	for i := range n.belief {
		e := &elec{name: fmt.Sprint("e", i)}
		n.elecs = append(n.elecs, e)
		n.input(join{e})
		n.input(campaign{e, modeAlways, true, false})
	}
	s.trace(n, "starts, life %d", n.life)
}

// in runs do on the node, if it is still the same incarnation; later if it stands still.
func (n *simNode) in(life int, do func()) {
	switch {
	case n.life != life || !n.up:
	case n.stopped:
		n.backlog = append(n.backlog, do)
	default:
		do()
	}
}

func (n *simNode) resume() {
	if !n.stopped {
		return
	}
	n.s.trace(n, "continues")
	n.stopped = false
	backlog := n.backlog
	n.backlog = nil
	for _, do := range backlog {
		do()
	}
	n.input(tick{})
}

// input steps the machine and carries out what it says.
func (n *simNode) input(in any) {
	for _, a := range n.m.step(n.local(), in) {
		n.do(a)
	}
	n.plan()
}

// plan makes sure that the node wakes when its machine wants to, or when a call
// is to be given up. There is one such event at a time, unless a sooner one is
// needed.
func (n *simNode) plan() {
	s := n.s
	at := never
	if next := n.m.next(); next != never {
		at = s.now + max(time.Duration(float64(next-n.local())/n.rate), 0) + 1
	}
	for _, limit := range n.limits {
		if limit > 0 {
			at = min(at, limit)
		}
	}
	if at == never || n.wakeAt > s.now && n.wakeAt <= at {
		return
	}
	n.wakeAt = at
	life := n.life
	s.after(at-s.now, func() {
		if n.life == life && n.wakeAt == s.now {
			n.in(life, n.wakes)
		}
	})
}

func (n *simNode) wakes() {
	n.wakeAt = 0
	for k, limit := range n.limits {
		if c := n.m.flying[k]; c != nil && limit > 0 && limit <= n.s.now {
			n.limits[k] = 0
			n.input(reply{call: c, err: context.DeadlineExceeded})
		}
	}
	if n.m.next() <= n.local() {
		n.input(tick{})
	} else {
		n.plan()
	}
}

func (n *simNode) do(a action) {
	s := n.s
	var b *simBelief
	if a.e != nil {
		b = &n.belief[a.e.seq]
	}
	switch a.kind {
	case doCall:
		n.call(a.call)
	case doCancel:
		n.ends(a.call, reply{call: a.call, err: context.Canceled})
	case doTrust:
		n.trust(a, b)
	case doLose:
		s.trace(n, "e%d lost term %d: %s", a.e.seq, a.term, a.reason)
		b.leading = false
		n.returns(a.e, b, a.term)
	case doTell:
		n.told(a, b)
	}
}

func (n *simNode) trust(a action, b *simBelief) {
	s := n.s
	if !b.leading || b.term != a.term {
		s.reigns++
		s.trace(n, "e%d leads in term %d for %v", a.e.seq, a.term, a.until-n.local())
		if a.term <= s.terms[a.e.name] {
			s.fail(n, "S4: term %d of e%d does not exceed %d", a.term, a.e.seq, s.terms[a.e.name])
		}
		if b.running != 0 {
			s.fail(n, "S11: e%d leads in term %d while the function of term %d runs", a.e.seq, a.term, b.running)
		}
		s.terms[a.e.name] = a.term
		b.running = a.term
		if s.rnd.IntN(20) == 0 { // this function comes back by itself
			life, e, term := n.life, a.e, a.term
			s.after(s.exp(10*time.Minute), func() {
				if !s.calm {
					n.in(life, func() { n.function(e, b, term) })
				}
			})
		}
	}
	s.grants++
	b.leading, b.until, b.term = true, a.until, a.term
	for _, o := range s.nodes {
		if ob := &o.belief[a.e.seq]; o != n && o.up && ob.leading && o.local() < ob.until {
			s.fail(n, "S1: leads e%d in term %d while %s does in term %d for %v more", a.e.seq, a.term, o.id, ob.term, ob.until-o.local())
		}
	}
}

// returns makes the lead function return some time after its context was cancelled.
func (n *simNode) returns(e *elec, b *simBelief, term uint64) {
	wait := n.s.exp(100 * time.Millisecond)
	if n.s.rnd.IntN(10) == 0 {
		wait = n.s.span(time.Minute) // lingers; past StepDownTimeout at times
	}
	life := n.life
	n.s.after(wait, func() { n.in(life, func() { n.function(e, b, term) }) })
}

func (n *simNode) function(e *elec, b *simBelief, term uint64) {
	if b.running == term {
		b.running = 0
		n.input(returned{e, term, ReasonReturned})
	}
}

func (n *simNode) told(a action, b *simBelief) {
	ev := a.event
	if ev.Kind == Notice {
		return
	}
	if ev.Term < b.last.Term {
		n.s.fail(n, "S10: event %v after term %d", ev, b.last.Term)
	}
	if ev.Kind == Elected && b.last.Kind == Elected && b.last.Leading {
		n.s.fail(n, "S10: %v without having been told of the loss of term %d", ev, b.last.Term)
	}
	if ev.Kind == Elected && ev.Term == b.last.Term && ev.Leader.Nonce != b.last.Leader.Nonce && b.last.Kind == Elected {
		n.s.fail(n, "S10: two leaders named in term %d", ev.Term)
	}
	b.last = *ev
}

// call sends a request over the network, and its answer back.
func (n *simNode) call(c *call) {
	s := n.s
	s.calls++
	life := n.life
	n.limits[c.kind] = 0
	if c.timeout > 0 {
		n.limits[c.kind] = s.now + time.Duration(float64(c.timeout)/n.rate)
	}
	switch c.kind {
	case callHealth:
		var err error
		if n.sick {
			err = errors.New("sick")
		}
		n.ends(c, reply{call: c, err: err})
		return
	case callListen:
		n.listens = append(n.listens, c)
		return
	}
	b := n.b
	n.send(life, func() {
		if c.kind == callRelease && c.leases[0].Term == 0 || c.kind == callRelease && hasZero(c) {
			// First find what this nonce holds, then end exactly that: two
			// requests, the second only if the caller still waits.
			n.answer(life, func() { n.releaseFound(life, b, c) })
			return
		}
		r := execute(b, c)
		n.news(c)
		n.answer(life, func() { n.ends(c, r) })
	})
}

func hasZero(c *call) bool {
	for _, l := range c.leases {
		if l.Term == 0 {
			return true
		}
	}
	return false
}

func (n *simNode) releaseFound(life int, b backend.Backend, c *call) {
	if n.m.flying[callRelease] != c {
		return // given up meanwhile
	}
	found := &call{kind: callRelease}
	for _, l := range c.leases {
		now, _, _ := b.Observe(context.Background(), []backend.Lease{{Election: l.Election}}, "")
		if l.Term == 0 && now[0].Holder.Nonce == n.m.me.Nonce {
			l.Term = now[0].Term
		}
		if l.Term != 0 {
			found.leases = append(found.leases, l)
		}
	}
	n.send(life, func() {
		r := reply{call: c}
		if len(found.leases) > 0 {
			r.err = execute(b, found).err
			n.news(c)
		}
		n.answer(life, func() { n.ends(c, r) })
	})
}

// send carries a request to the store, perhaps late, perhaps never. It arrives
// also when its sender has died or has given up.
func (n *simNode) send(life int, do func()) {
	if n.life == life && !n.cut && n.s.rnd.IntN(1000) > 0 {
		n.s.after(n.delay(), do)
	}
}

// answer carries an answer back.
func (n *simNode) answer(life int, do func()) {
	if n.life == life && !n.deaf && !n.cut && n.s.rnd.IntN(1000) > 0 {
		n.s.after(n.delay(), func() { n.in(life, do) })
	}
}

func (n *simNode) delay() time.Duration {
	d := 200*time.Microsecond + n.s.span(3*time.Millisecond)
	if n.slow > 0 {
		d += n.s.span(n.slow)
	}
	return d
}

// ends hands the machine the end of a call, unless it has ended already.
func (n *simNode) ends(c *call, r reply) {
	if n.m.flying[c.kind] == c {
		// Not at once: the machine may be in the middle of a step.
		life := n.life
		n.s.after(0, func() {
			n.in(life, func() {
				if n.m.flying[c.kind] == c {
					n.limits[c.kind] = 0
					n.input(r)
				}
			})
		})
	}
}

// news wakes all who listen, some time after something may have changed.
func (n *simNode) news(c *call) {
	if c.kind == callObserve || !n.s.push {
		return
	}
	for _, o := range n.s.nodes {
		listens := o.listens
		o.listens = nil
		for _, l := range listens {
			o.answer(o.life, func() { o.ends(l, reply{call: l}) })
		}
	}
}

func execute(b backend.Backend, c *call) (r reply) {
	ctx := context.Background()
	r.call = c
	switch c.kind {
	case callAcquire:
		r.answers, r.err = b.Acquire(ctx, c.bids)
	case callRenew:
		r.answers, r.err = b.Renew(ctx, c.leases)
	case callRelease:
		r.err = b.Release(ctx, c.leases)
	case callObserve:
		r.changed, r.next, r.err = b.Observe(ctx, c.leases, c.after)
	case callAsk:
		r.err = b.Ask(ctx, c.wishes)
	case callAnnounce:
	}
	return r
}

// fault does something bad to the node, or asks something of it.
func (n *simNode) fault() {
	s := n.s
	s.after(s.exp(s.pace), func() { n.fault() })
	if leads := slices.ContainsFunc(n.belief, func(b simBelief) bool { return b.leading }); s.calm || !n.up || n.stopped || !leads && s.rnd.IntN(3) > 0 {
		return
	}
	s.faults++
	life := n.life
	e := s.rnd.IntN(len(n.elecs))
	again := func(d time.Duration, do func()) { s.after(d, func() { n.in(life, do) }) }
	switch s.rnd.IntN(11) {
	case 0:
		s.trace(n, "crashes")
		n.up = false
		s.after(s.span(time.Minute), func() {
			if !n.up {
				n.start()
			}
		})
	case 1:
		s.trace(n, "stands still")
		n.stopped = true
		s.after(s.span(40*time.Second), func() {
			if n.life == life {
				n.resume()
			}
		})
	case 2:
		s.trace(n, "is cut off")
		n.cut = true
		again(s.span(time.Minute), func() { n.cut = false })
	case 3:
		s.trace(n, "hears no answers")
		n.deaf = true
		again(s.span(time.Minute), func() { n.deaf = false })
	case 4, 5:
		s.trace(n, "has a slow network")
		n.slow = s.span(20 * time.Second)
		again(s.span(2*time.Minute), func() { n.slow = 0 })
	case 6:
		s.trace(n, "resigns e%d", e)
		n.input(resign{n.elecs[e], n.elecs[e].term})
	case 7:
		s.trace(n, "is paused")
		n.input(suspend{n.elecs[e], true})
		again(s.span(time.Minute), func() { n.input(suspend{n.elecs[e], false}) })
	case 8, 9:
		n.operator(e)
	case 10:
		s.trace(n, "is sick")
		n.sick = true
		again(s.span(time.Minute), func() { n.sick = false })
	}
}

// operator writes a wish beside the lease.
func (n *simNode) operator(e int) {
	ctx := context.Background()
	l, _, _ := n.b.Observe(ctx, []backend.Lease{{Election: n.elecs[e].name}}, "")
	w := backend.Wish{Election: l[0].Election, Term: l[0].Term, Kind: backend.Depose}
	if n.s.rnd.IntN(2) == 0 {
		w.Kind, w.ID = backend.Nominate, n.s.nodes[n.s.rnd.IntN(len(n.s.nodes))].id
	}
	n.s.trace(n, "asks: e%d %s %s", e, w.Kind, w.ID)
	n.b.Ask(ctx, []backend.Wish{w})
}
