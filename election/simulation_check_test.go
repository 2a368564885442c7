package election

import (
	"time"

	"github.com/go-election/go-election/backend"
)

// granted returns the answer Granted that the machine is handling, if it is about this election.
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

// checkTrust checks the beginning or extension of a leadership, and records it.
func (n *simNode) checkTrust(a action, p *simPlace) {
	s, state := n.s, &n.s.state[a.e.name[0]-'0']
	answer := n.granted(a.e)
	if answer == nil {
		s.fail(n.id, "S8: leads %s in term %d without a grant in this step", a.e.name, a.term)
		return
	}
	until := a.until + n.aheadTold
	if most := n.answered.sent + n.answered.ahead + answer.ValidFor - n.opts.ClockMargin; until > most {
		s.fail(n.id, "S2: trusts %s in term %d for %v longer than from the sending", a.e.name, a.term, until-most)
	}
	if p.leading && p.term == a.term {
		if n.latest() >= p.until {
			s.fail(n.id, "S6: leads %s in term %d again, whose deadline was %v before", a.e.name, a.term, n.latest()-p.until)
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

// beginLeadership checks and records a new leadership, and starts its work.
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
	if p.style == withCampaign || p.style == withTry || s.oneIn(20) { // the function returns by itself
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

// writeWhileLeading writes to the fenced resource at random times while the node leads. A write that
// was under way when the node was stopped still arrives.
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

// resourceWrite is a write at the resource, which rejects terms below the highest.
func (s *sim) resourceWrite(n *simNode, i byte, life int, term uint64) {
	s.figures.writes++
	state := &s.state[i]
	for _, o := range s.nodes {
		if p := &o.places[i]; o.trusts(p) && p.term != term {
			s.figures.overlaps++ // this write would have damaged a resource without a fence
			break
		}
	}
	p := &n.places[i]
	switch {
	case term < state.fence:
		s.figures.refused++
		if n.life == life && p.term == term && n.trusts(p) {
			s.fail(n.id, "S9: leads %s in term %d, but the resource has seen %d and rejects the write", names[i], term, state.fence)
		}
	case term == state.fence && (state.writer != n || state.writing != life):
		s.fail(n.id, "S5: writes in term %d of %s, in which %s wrote", term, names[i], state.writer.id)
	default:
		state.fence, state.writer, state.writing = term, n, life
	}
}

// expectEvent records that watchers must get an event before the step ends.
func (n *simNode) expectEvent(p *simPlace) {
	if !p.eventDue {
		p.eventDue = true
		n.unreported++
	}
}

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

// checkReported checks that watchers got the event that this step owes them.
func (n *simNode) checkReported() {
	if *n.m.unobserved != (backend.Lease{}) {
		n.s.fail(n.id, "machine.unobserved was changed: %+v", *n.m.unobserved)
	}
	for i := range n.places {
		if p := &n.places[i]; p.eventDue {
			n.s.fail(n.id, "S10: %s: no event about the change of term %d", names[i], p.term)
		}
	}
}

// checkEvent checks that events follow each other as the state machine allows.
func (n *simNode) checkEvent(a action, p *simPlace) {
	s, ev, last := n.s, a.state.event(a.e.name), &p.lastEvent
	s.figures.events++
	if ev.Reason == ReasonWentBack && !s.store.wentBack {
		s.fail(n.id, "S10: %s: reports that the store went back, but it did not: %v", a.e.name, ev)
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
		s.fail(n.id, "S10: %s: event %v without a change", a.e.name, ev)
	}
	switch {
	case ev.Term < last.Term:
		s.fail(n.id, "S10: %s: event %v after term %d", a.e.name, ev, last.Term)
	case last.Reason != "" && same(&ev, last):
		s.fail(n.id, "S10: %s: reported twice: %v", a.e.name, ev)
	case ev.Kind == Elected && last.Kind == Elected && last.Leading:
		s.fail(n.id, "S10: %s: %v before an event about the loss of term %d", a.e.name, ev, last.Term)
	case ev.Kind == Elected && last.Kind == Elected && ev.Term == last.Term && ev.Leader.Nonce != last.Leader.Nonce:
		s.fail(n.id, "S10: %s: two leaders named in term %d", a.e.name, ev.Term)
	}
	p.lastEvent = ev
}

// same reports whether two events have the same state. The leader and the term count only if the kind is Elected.
func same(a, b *Event) bool {
	return a.Kind == b.Kind && (a.Kind != Elected || a.Leader.Nonce == b.Leader.Nonce && a.Leader.ID == b.Leader.ID && a.Term == b.Term)
}

// checkGrant checks that no other node trusts the lease that the store grants.
func (s *sim) checkGrant(n *simNode, life int, election string) {
	for _, o := range s.nodes {
		if p := &o.places[election[0]-'0']; o.trusts(p) && (o != n || n.life != life) {
			s.fail(n.id, "S13: is granted %s, which %s trusts for %v more in term %d", election, o.id, p.until-o.latest(), p.term)
		}
	}
}

// checkRelease checks that the node no longer trusts the lease that it releases, and that its function has returned.
func (s *sim) checkRelease(n *simNode, life int, l *backend.Held) {
	p := &n.places[l.Election[0]-'0']
	if n.life != life || p.term != l.Term || p.e == nil {
		return
	}
	if n.trusts(p) {
		s.fail(n.id, "S11: releases %s in term %d while it trusts it", l.Election, l.Term)
	}
	if p.running == l.Term && p.style == withFunction && n.latest() < p.leaseEnds {
		s.fail(n.id, "S11: releases %s while the function of term %d runs, %v before the lease expires", l.Election, l.Term, p.leaseEnds-n.latest())
	}
}

// maxCallsPerMinute is how many calls a node may make in a minute by its clock.
const maxCallsPerMinute = 400

// checkCall checks that no lost lease is released before its deadline, that there are not too many
// calls, and that renewals come when followers expect them.
func (n *simNode) checkCall(c *call) {
	s := n.s
	if n.callsInMinute++; n.local() > n.minuteBegan+time.Minute {
		n.callsInMinute, n.minuteBegan = 0, n.local()
	}
	if n.callsInMinute > maxCallsPerMinute-20 {
		s.trace(n.id, "makes call %d of kind %d in this minute", n.callsInMinute, c.kind)
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
				s.fail(n.id, "Q1: renews %v off the renewal grid", off)
			}
		}
	}
}

// checkLeaders checks that each election has exactly one leader, and later that all nodes know it.
func (s *sim) checkLeaders() {
	for i := range s.elections {
		var leader *simNode
		for _, n := range s.nodes {
			if n.trusts(&n.places[i]) {
				if leader != nil {
					s.fail(n.id, "S1: leads %s at the same time as %s", names[i], leader.id)
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
