package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// A simNode is one process of the simulation: a machine, its clock, the shell around it, and its connection to the network.
type simNode struct {
	s              *sim
	i              int
	id             string
	ttl            time.Duration
	observer       bool
	hasHealthCheck bool // has a health check
	life           int  // incarnation; events of an earlier one are dropped
	up             bool
	leaving        bool // its manager closes
	m              *machine
	opts           Options
	nonce          backend.Nonce
	places         []simPlace
	lease          leaseNode

	// Its clock shows ticked at the true time at. A boot-time clock, if boot is set, also counts
	// while the host is suspended.
	at, ticked time.Duration
	rate       float64
	boot       bool
	asleep     bool
	ahead      time.Duration
	aheadTold  time.Duration // as far as the machine has been told

	wakeAt     time.Duration // true time of the one pending wake event
	underWay   [callKinds]simCall
	answer     reply   // that the machine is handling
	answered   simCall // the call of answer
	stopped    bool
	backlog    []func()
	unreported int // own transitions without an event so far

	cutOff        bool          // no request arrives
	answersCut    bool          // no answer comes back
	slow          time.Duration // greatest delay of each message
	overrun       time.Duration // how long calls outlast their contexts
	unhealthy     bool          // the health check fails …
	healthHangs   bool          // … or hangs
	lingers       bool          // the next function returns late
	callsInMinute int           // calls in the present minute
	minuteBegan   time.Duration
}

type simCall struct {
	sent  time.Duration // by the node's clock
	ahead time.Duration // of the clock at that time
	limit time.Duration // true time at which it is given up; 0: none
}

type style uint8

const (
	withFunction    style = iota // Lead or Run, with a function
	withoutFunction              // Lead(nil), and calls Leading
	withCampaign                 // Campaign, again and again
	withTry                      // Try, at intervals
)

// simPlace is one node's part in one election.
type simPlace struct {
	e         *elec // nil: has left
	style     style
	leading   bool
	until     time.Duration // the deadline by the node's pessimistic clock
	term      uint64
	leaseEnds time.Duration // when the store ends the lease, by the same clock
	lost      bool          // the leadership of term was lost, not ended in order
	running   uint64        // term of the lead function that has not returned
	eventDue  bool          // an own transition has happened without an event so far
	lastEvent Event
}

func (n *simNode) local() time.Duration {
	if n.asleep {
		return n.ticked
	}
	return n.ticked + time.Duration(float64(n.s.now-n.at)*n.rate)
}

// latest is the time with which a holder compares its deadline. A suspended node reads no clock; this is what it would read.
func (n *simNode) latest() time.Duration {
	return n.ticked + time.Duration(float64(n.s.now-n.at)*n.rate) + n.ahead
}

func (n *simNode) setRate(rate float64) {
	n.ticked, n.at, n.rate = n.local(), n.s.now, rate
	n.scheduleWake(true)
}

// trusts reports whether Leading would be true now.
func (n *simNode) trusts(p *simPlace) bool { return n.up && p.leading && n.latest() < p.until }

func (n *simNode) start() {
	s := n.s
	n.life++
	n.up, n.leaving, n.stopped, n.backlog, n.unreported = true, false, false, nil, 0
	n.ticked, n.at, n.asleep, n.ahead, n.aheadTold = n.local(), s.now, false, 0, 0
	n.wakeAt, n.underWay = 0, [callKinds]simCall{}
	n.nonce = backend.Nonce(fmt.Sprint(n.id, "-", n.life))
	n.openLease()
	o := Options{ID: n.id, TTL: n.ttl, FailoverDelay: s.failoverDelay(), IncumbentGrace: s.incumbentGrace(), Observer: n.observer}
	if s.hasPriorities() {
		o.Priority, o.Reclaim = 1+n.i%3, s.reclaim()
	}
	if n.hasHealthCheck {
		o.Health = func(context.Context) error { return nil }
	}
	o, err := o.Complete(s.store.guarantees())
	if err != nil {
		panic(err)
	}
	n.opts = o
	n.m = newMachine(o, s.store.guarantees(), backend.Candidate{ID: n.id, Nonce: n.nonce}, s.random, n.local())
	n.m.impossible = panicIfImpossible
	s.trace(n.id, "starts, life %d, TTL %v, clock at %.2f", n.life, n.ttl, n.rate)
	n.places = make([]simPlace, s.elections)
	for i := range n.places {
		p := &n.places[i]
		if n.i > 0 { // the first is always a candidate
			p.style = []style{withFunction, withFunction, withFunction, withFunction, withoutFunction, withCampaign, withTry}[s.random.IntN(7)]
		}
		n.join(i)
	}
}

func (n *simNode) join(i int) {
	p := &n.places[i]
	p.e = &elec{name: names[i]}
	*p = simPlace{e: p.e, style: p.style}
	n.input(join{p.e})
	n.campaign(i)
}

// names are short, so that place finds them quickly.
var names = [...]string{"0", "1", "2"}

func (n *simNode) place(e *elec) *simPlace { return &n.places[e.name[0]-'0'] }

// campaign calls Lead, Campaign or Try, as the program of this style does.
func (n *simNode) campaign(i int) {
	p := &n.places[i]
	if n.observer || n.leaving || p.e == nil || p.e.leaving {
		return
	}
	switch p.style {
	case withFunction:
		n.input(campaign{p.e, modeAlways, workFunction})
	case withoutFunction:
		n.input(campaign{p.e, modeAlways, workNone})
	case withCampaign, withTry:
		mode := modeOnce
		if p.style == withTry {
			mode = modeTry
		}
		if p.e.mode == modeNone && p.e.phase != phaseLeading && !p.e.phase.draining() {
			n.input(campaign{p.e, mode, workCaller})
		}
		life, e := n.life, p.e
		n.s.after(2*time.Second+n.s.upTo(10*time.Second), func() {
			n.run(life, func() {
				if p.e == e {
					n.campaign(i)
				}
			})
		})
	}
}

// run runs do on the node if it is still the same incarnation: later, if the node is stopped.
func (n *simNode) run(life int, do func()) {
	switch {
	case n.life != life || !n.up:
	case n.stopped:
		n.backlog = append(n.backlog, do)
	default:
		do()
	}
}

// resume continues a stopped node. The events of the meantime arrive at once, in random order.
func (n *simNode) resume() {
	if !n.stopped || !n.up {
		return
	}
	s := n.s
	s.trace(n.id, "continues, with a backlog of %d", len(n.backlog))
	if n.asleep {
		n.ahead += time.Duration(float64(s.now-n.at) * n.rate)
		n.asleep, n.at = false, s.now
	}
	n.stopped = false
	backlog := n.backlog
	n.backlog = nil
	s.random.Shuffle(len(backlog), func(i, j int) { backlog[i], backlog[j] = backlog[j], backlog[i] })
	for _, do := range backlog {
		do()
	}
	n.input(tick{})
}

func (n *simNode) input(in input) {
	if by := n.ahead - n.aheadTold; by > 0 {
		n.aheadTold = n.ahead
		n.step(clockJumped{by})
	}
	n.step(in)
	if n.unreported > 0 {
		n.checkReported()
	}
	if n.leaving && len(n.m.elections) == 0 {
		n.s.trace(n.id, "has closed")
		n.closeLease(true)
		n.up = false
		wait := n.s.upTo(30 * time.Second)
		if n.s.calm {
			wait = 0
		}
		n.s.after(wait, n.restart)
		return
	}
	n.scheduleWake(false)
}

func (n *simNode) step(in input) {
	for _, a := range n.m.step(n.local(), in) {
		n.do(a)
	}
}

// scheduleWake schedules the time at which the machine asked to be stepped, or a call times out. There
// is one such event at a time, unless an earlier one is needed.
func (n *simNode) scheduleWake(anew bool) {
	s := n.s
	if !n.up {
		return
	}
	at := never
	if next := n.m.next(); next != never {
		at = s.now + max(time.Duration(float64(next-n.local())/n.rate), 0) + 1
	}
	for k := range n.underWay {
		if limit := n.underWay[k].limit; limit > 0 {
			at = min(at, max(limit, s.now))
		}
	}
	if at == never || !anew && n.wakeAt > s.now && n.wakeAt <= at {
		return
	}
	n.wakeAt = at
	life := n.life
	s.after(at-s.now, func() {
		if n.life == life && n.wakeAt == at {
			n.wakeAt = 0
			n.run(life, n.wakeUp)
		}
	})
}

func (n *simNode) wakeUp() {
	for k := range n.underWay {
		if limit := n.underWay[k].limit; limit > 0 && limit <= n.s.now {
			n.giveUp(callKind(k), errTimeout)
		}
	}
	if n.m.next() <= n.local() {
		n.input(tick{})
	} else {
		n.scheduleWake(false)
	}
}

var errTimeout = fmt.Errorf("%w: %w", backend.ErrUnavailable, context.DeadlineExceeded)

func (n *simNode) do(a action) {
	s := n.s
	switch a.kind {
	case doCall:
		n.call(a.call)
	case doCancel:
		life := n.life
		s.after(0, func() {
			n.run(life, func() {
				if n.m.inFlight[a.call.kind] == a.call {
					n.giveUp(a.call.kind, context.Canceled)
				}
			})
		})
	case doLead, doTrust:
		n.checkTrust(a, n.place(a.e))
	case doEnd:
		p := n.place(a.e)
		n.checkLost(a, p)
		if s.tracing {
			s.trace(n.id, "%s: lost term %d: %s", a.e.name, a.term, a.reason)
		}
		p.leading = false
		n.endFunction(p, a.term)
	case doEvent:
		n.checkEvent(a, n.place(a.e))
	case doRemoved:
		p := n.place(a.e)
		if p.running != 0 && p.style == withFunction {
			s.fail(n.id, "S11: has left %s while the function of term %d runs", a.e.name, p.running)
		}
		if s.tracing {
			s.trace(n.id, "%s: has left", a.e.name)
		}
		p.e = nil
		i, life, wait := int(a.e.name[0]-'0'), n.life, s.upTo(time.Minute)
		if s.calm {
			wait = 0
		}
		s.after(wait, func() {
			n.run(life, func() {
				if p.e == nil && !n.leaving {
					n.join(i)
				}
			})
		})
	}
}

// endFunction makes the lead function return some time after its context was cancelled.
func (n *simNode) endFunction(p *simPlace, term uint64) {
	s := n.s
	if p.running != term {
		return
	}
	wait := s.exponential(50 * time.Millisecond)
	if n.lingers {
		n.lingers = false
		wait = 5*time.Second + s.upTo(time.Minute) // sometimes longer than StepDownTimeout
		s.trace(n.id, "%s: the function of term %d returns after %v", p.e.name, term, wait)
	}
	n.functionReturnsAfter(p, term, ReasonReturned, wait)
}

// functionReturnsAfter makes the lead function of term return after wait.
func (n *simNode) functionReturnsAfter(p *simPlace, term uint64, why Reason, wait time.Duration) {
	life, e := n.life, p.e
	n.s.after(wait, func() {
		n.run(life, func() {
			if e != nil && p.e == e && p.running == term {
				p.running = 0
				n.input(returned{e, term, why, nil})
			}
		})
	})
}

func (n *simNode) heal() {
	n.cutOff, n.answersCut, n.slow, n.overrun, n.lingers = false, false, 0, 0, false
	n.unhealthy, n.healthHangs = false, false
	n.m.Reclaim = n.s.reclaim()
	n.resume()
	if !n.up {
		n.start()
	}
	n.input(pause{nil, false})
	for i := range n.places {
		switch p := &n.places[i]; {
		case p.e == nil && !n.leaving:
			n.join(i)
		case p.running != 0 && !p.leading:
			n.functionReturnsAfter(p, p.running, ReasonReturned, 0)
		}
	}
}

var errUnhealthy = errors.New("unhealthy")
