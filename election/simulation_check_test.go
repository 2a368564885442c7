package election

import (
	"time"

	"github.com/go-election/go-election/backend"
)

// granted returns the answer Granted that the machine is being told of, if it is
// about this election.
func (n *simNode) granted(e *elec) *backend.Answer {
	if n.answer.call == nil || n.answer.call.kind != callAcquire && n.answer.call.kind != callRenew {
		return nil
	}
	for i, other := range n.answer.call.elecs {
		if other == e && i < len(n.answer.answers) && n.answer.answers[i].Outcome == backend.Granted {
			return &n.answer.answers[i]
		}
	}
	return nil
}

// trust begins a leadership, or extends it.
func (n *simNode) checkTrust(a action, p *simPlace) {
	s, state := n.s, &n.s.state[a.e.name[0]-'0']
	answer := n.granted(a.e)
	if answer == nil {
		s.fail(n.id, "S8: leads %s in term %d though nothing was granted just now", a.e.name, a.term)
		return
	}
	until := a.until + n.aheadTold
	if most := n.answered.sent + n.answered.ahead + answer.ValidFor - n.opts.ClockMargin; until > most {
		s.fail(n.id, "S2: trusts %s in term %d for %v longer than from the sending", a.e.name, a.term, until-most)
	}
	if p.leading && p.term == a.term {
		if n.latest() >= p.until {
			s.fail(n.id, "S6: leads %s in term %d again, which had run out %v before", a.e.name, a.term, n.latest()-p.until)
		}
	} else {
		n.beginLeadership(a, p, state)
	}
	p.leading, p.until, p.term, p.lost = true, until, a.term, false
	for _, o := range s.nodes {
		if op := &o.places[a.e.name[0]-'0']; o != n && o.trusts(op) {
			s.fail(n.id, "S1: leads %s in term %d while %s does in term %d for %v more", a.e.name, a.term, o.id, op.term, op.until-o.latest())
		}
	}
}

// leaderships is the beginning of a leadership.
func (n *simNode) beginLeadership(a action, p *simPlace, state *simElection) {
	s := n.s
	s.figures.leaderships++
	if s.tracing {
		s.trace(n.id, "%s: leads in term %d for %v", a.e.name, a.term, a.until-n.local())
	}
	if a.term <= state.term {
		s.fail(n.id, "S4: leads %s in term %d, which does not exceed %d", a.e.name, a.term, state.term)
	}
	if p.running != 0 {
		s.fail(n.id, "S11: leads %s in term %d while the function of term %d runs", a.e.name, a.term, p.running)
	}
	if s.settled {
		s.fail(n.id, "L4: leads %s in term %d though there was no fault for %v", a.e.name, a.term, s.now-s.healed)
	}
	if s.calm {
		s.figures.slowest = max(s.figures.slowest, s.now-s.healed)
	}
	if state.leader != n {
		s.figures.changes++
	}
	state.term, state.leader = a.term, n
	n.expectEvent(p)
	if p.style != withoutFunction {
		p.running = a.term
	}
	if p.style == withCampaign || p.style == withTry || s.oneIn(20) { // it comes back by itself
		life, e, term, why := n.life, p.e, a.term, ReasonReturned
		if a.e.work == workCaller {
			why = ReasonResigned
		}
		s.after(s.exponential(10*time.Minute), func() {
			if !s.calm && n.life == life && p.e == e && p.running == term {
				n.count(functionReturns)
				n.functionReturnsAfter(p, term, why, 0)
			}
		})
	}
	n.writeWhileLeading(p, a.e.name[0]-'0', n.life, a.term)
}

// works writes to the fenced resource now and then, for as long as it leads. Only
// then does it look; what was on its way when it was stopped arrives all the same.
func (n *simNode) writeWhileLeading(p *simPlace, i byte, life int, term uint64) {
	s := n.s
	s.after(s.exponential(20*time.Second), func() {
		n.run(life, func() {
			if !n.trusts(p) || p.term != term {
				return
			}
			s.after(s.exponential(2*time.Millisecond), func() {
				n.run(life, func() { s.after(n.delay(), func() { s.resourceWrite(n, i, life, term) }) })
			})
			n.writeWhileLeading(p, i, life, term)
		})
	})
}

// written is what the resource does: it refuses terms below the highest.
func (s *sim) resourceWrite(n *simNode, i byte, life int, term uint64) {
	s.figures.writes++
	state := &s.state[i]
	for _, o := range s.nodes {
		if p := &o.places[i]; o.trusts(p) && p.term != term {
			s.figures.overlaps++ // a resource without a fence has just been spoilt
			break
		}
	}
	p := &n.places[i]
	switch {
	case term < state.fence:
		s.figures.refused++
		if n.life == life && p.term == term && n.trusts(p) {
			s.fail(n.id, "S9: leads %s in term %d and the resource, which has seen %d, refuses it", names[i], term, state.fence)
		}
	case term == state.fence && (state.writer != n || state.writing != life):
		s.fail(n.id, "S5: writes in term %d of %s, and so did %s", term, names[i], state.writer.id)
	default:
		state.fence, state.writer, state.writing = term, n, life
	}
}

// expect notes that watchers must be told before the step is over.
func (n *simNode) expectEvent(p *simPlace) {
	if !p.eventDue {
		p.eventDue = true
		n.unreported++
	}
}

// checkLost is the end of a leadership.
func (n *simNode) checkLost(a action, p *simPlace) {
	n.expectEvent(p)
	switch a.reason {
	case ReasonRefused, ReasonUnreachable, ReasonDeadline:
		p.lost = true
	}
	if !p.leading || p.term != a.term {
		n.s.fail(n.id, "S10: %s: loses term %d, in which it does not lead", a.e.name, a.term)
	}
}

func (n *simNode) checkReported() {
	if *n.m.unobserved != (backend.Lease{}) {
		n.s.fail(n.id, "what stands for nothing seen was written to: %+v", *n.m.unobserved)
	}
	for i := range n.places {
		if p := &n.places[i]; p.eventDue {
			n.s.fail(n.id, "S10: %s: nobody was told of what became of term %d", names[i], p.term)
		}
	}
}

// told checks that events are a path of the state machine.
func (n *simNode) checkEvent(a action, p *simPlace) {
	s, ev, last := n.s, a.state.event(a.e.name), &p.lastEvent
	s.figures.events++
	if ev.Reason == ReasonWentBack && !s.store.wentBack {
		s.fail(n.id, "S10: %s: says that the store went back, and it did not: %v", a.e.name, ev)
	}
	if ev.Kind == Notice {
		return
	}
	if p.eventDue {
		p.eventDue = false
		n.unreported--
		if ev.Leading != p.leading || ev.Leading && ev.Term != p.term {
			s.fail(n.id, "S10: %s: event %v about term %d, leading: %v", a.e.name, ev, p.term, p.leading)
		}
	} else if ev.Leading || last.Leading {
		s.fail(n.id, "S10: %s: event %v, though nothing has happened to it", a.e.name, ev)
	}
	switch {
	case ev.Term < last.Term:
		s.fail(n.id, "S10: %s: event %v after term %d", a.e.name, ev, last.Term)
	case last.Reason != "" && same(&ev, last):
		s.fail(n.id, "S10: %s: told twice: %v", a.e.name, ev)
	case ev.Kind == Elected && last.Kind == Elected && last.Leading:
		s.fail(n.id, "S10: %s: %v without having been told of the loss of term %d", a.e.name, ev, last.Term)
	case ev.Kind == Elected && last.Kind == Elected && ev.Term == last.Term && ev.Leader.Nonce != last.Leader.Nonce:
		s.fail(n.id, "S10: %s: two leaders named in term %d", a.e.name, ev.Term)
	}
	p.lastEvent = ev
}

// same reports whether two events tell the same state. Who leads, and the term, matter
// only if somebody does.
func same(a, b *Event) bool {
	return a.Kind == b.Kind && (a.Kind != Elected || a.Leader.Nonce == b.Leader.Nonce && a.Leader.ID == b.Leader.ID && a.Term == b.Term)
}

// checkGrant: nobody may trust a lease that is given to another.
func (s *sim) checkGrant(n *simNode, life int, election string) {
	for _, o := range s.nodes {
		if p := &o.places[election[0]-'0']; o.trusts(p) && (o != n || n.life != life) {
			s.fail(n.id, "S13: is granted %s, which %s trusts for %v more in term %d", election, o.id, p.until-o.latest(), p.term)
		}
	}
}

// checkRelease: who releases trusts no longer, and its function has returned.
func (s *sim) checkRelease(n *simNode, life int, l *backend.Held) {
	p := &n.places[l.Election[0]-'0']
	if n.life != life || p.term != l.Term || p.e == nil {
		return
	}
	if n.trusts(p) {
		s.fail(n.id, "S11: releases %s in term %d while it trusts it", l.Election, l.Term)
	}
	if p.running == l.Term && p.style == withFunction && n.latest() < p.leaseEnds {
		s.fail(n.id, "S11: releases %s while the function of term %d runs, %v before it has run out", l.Election, l.Term, p.leaseEnds-n.latest())
	}
}

// most is how many calls a node may make in a minute by its clock.
const maxCallsPerMinute = 400

// checkCall: nothing is released before the deadline of a leadership that was lost;
// calls do not swarm; renewals come when followers expect them.
func (n *simNode) checkCall(c *call) {
	s := n.s
	if n.callsInMinute++; n.local() > n.minuteBegan+time.Minute {
		n.callsInMinute, n.minuteBegan = 0, n.local()
	}
	if n.callsInMinute > maxCallsPerMinute {
		s.fail(n.id, "Q1: more than %d calls in a minute", maxCallsPerMinute)
	}
	switch c.kind {
	case callRelease:
		for i, e := range c.elecs {
			if p := n.place(e); p.lost && c.held[i].Term == p.term && n.latest() < p.until {
				s.fail(n.id, "S11: releases %s %v before the end of term %d, which it has lost", e.name, p.until-n.latest(), p.term)
			}
		}
	case callRenew:
		if every := n.opts.RenewEvery; s.settled {
			if off := (n.local() - n.m.gridOffset) % every; off > time.Millisecond && off < every-time.Millisecond {
				s.fail(n.id, "Q1: renews %v off the grid that followers rely on", off)
			}
		}
	}
}

// live checks that each election has exactly one leader; if that has been so for
// a while, that everybody was told.
func (s *sim) checkLeaders() {
	for i := range s.elections {
		var leader *simNode
		for _, n := range s.nodes {
			if n.trusts(&n.places[i]) {
				if leader != nil {
					s.fail(n.id, "S1: leads %s, and so does %s", names[i], leader.id)
				}
				leader = n
			}
		}
		if leader == nil {
			if s.err == nil {
				s.fail("all", "L3: %v after the last fault nobody leads %s", s.now-s.healed, names[i])
			}
			continue
		}
		for _, n := range s.nodes {
			last := &n.places[i].lastEvent
			if s.settled && (last.Kind != Elected || last.Leader.Nonce != leader.nonce || last.Term != leader.places[i].term) {
				s.fail(n.id, "S10: %s: the last event is %v, but %s leads in term %d", names[i], last, leader.id, leader.places[i].term)
			}
		}
	}
}
