package election

import (
	"math"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

const (
	maxPriority = math.MaxInt32 // of Options.Priority
	maxClaims   = 6             // the wait before a claim is at most Reclaim << maxClaims
)

// priorities is what this process knows of the other members' priorities. They decide only who bids
// when, and who asks for a leadership: docs/design/election.md, "Priority".
type priorities struct {
	readAt   time.Duration         // when the members are read next; never: priorities are not used
	asOf     time.Duration         // when the last reading was sent
	of       map[backend.Nonce]int // by member; nil: not read yet
	higher   map[string][]string   // ids of those of a higher priority, by election, three at most
	outranks bool                  // a member of a higher priority is there, whatever it campaigns for
}

// membersReplied handles the announcements of all members.
func (m *machine) membersReplied(now time.Duration, r reply) {
	p := &m.priorities
	if r.err != nil { // retryAt says when to read again
		m.each(nil, func(e *elec) { e.claimAt = 0 })
	} else {
		p.readAt, p.asOf, p.outranks = now+m.TTL, r.call.sent, false
		p.of, p.higher = map[backend.Nonce]int{}, map[string][]string{}
		for _, v := range r.members {
			if v.Age <= 2*v.TTL {
				p.add(v, v.Priority() > m.Priority && v.ID != m.me.ID)
			}
		}
	}

	m.each(nil, func(e *elec) {
		switch {
		case e.phase == phaseLeading && now-e.electedAt > m.Reclaim<<e.claims:
			e.claims = 0
		case m.claimDue(now, e):
			e.claims = min(e.claims+1, maxClaims)
			e.claimAt = now + m.Reclaim<<e.claims
			m.enqueue(callRequest, e)
		}
		m.advance(now, e)
	})
}

func (p *priorities) add(v backend.Member, higher bool) {
	p.of[v.Nonce], p.outranks = v.Priority(), p.outranks || higher
	for name := range v.Campaigns() {
		if ids := p.higher[name]; higher && len(ids) < 3 && !slices.Contains(ids, v.ID) {
			p.higher[name] = append(ids, v.ID)
		}
	}
}

// outrankedBy returns how many others of a higher priority campaign for e, two at most. It does not count the
// one with the id gone.
func (m *machine) outrankedBy(e *elec, gone string) int {
	ids := slices.Concat(m.priorities.higher[e.name], m.priorities.higher[""])
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == gone })
	slices.Sort(ids)
	return min(len(slices.Compact(ids)), 2) // one may be in both
}

// deferral returns how long this process lets those of a higher priority bid first, once it could
// bid itself: each of them needs one reading and one bid. Until the members have been read, it lets
// anybody. It does not wait for the last leader, whose announcement outlasts it, or for the nominee
// for whom that one has stepped down: this one has had its time.
func (m *machine) deferral(e *elec) time.Duration {
	l, each := e.observed, m.RenewEvery+m.CallTimeout
	gone := lastLeader(l)
	switch {
	case m.priorities.readAt == never, e.mode == modeTry, l.Request.Nonce == m.me.Nonce,
		m.IncumbentGrace > 0 && gone == m.me.ID:
		return 0
	case m.priorities.of == nil:
		return each
	case awaitsNominee(l):
		gone = l.Request.ID
	}
	others := m.outrankedBy(e, gone)
	if m.unsure(e) {
		others = max(others, 1)
	}
	return time.Duration(others) * each
}

// unsure reports whether those of a higher priority may have become candidates together with this process,
// since the members were read: each announces that within RenewEvery/2.
func (m *machine) unsure(e *elec) bool {
	return m.priorities.outranks && m.priorities.asOf < e.readySince+m.RenewEvery*3/4
}

// noteReady begins the waits before a bid and before a claim when this process becomes a candidate.
func (m *machine) noteReady(now time.Duration, e *elec) {
	p := &m.priorities
	if p.readAt != never && (e.phase == phaseLeading || m.isCandidate(e)) {
		if now-e.readyAt >= m.TTL {
			e.readySince = now
		}
		e.readyAt = now
		if m.unsure(e) {
			p.readAt = min(p.readAt, max(e.readySince, p.asOf)+m.RenewEvery)
		}
	}
	switch {
	case m.Reclaim == 0:
	case e.phase != phaseFollowing || !m.isCandidate(e):
		e.claimAt = 0
	case e.claimAt == 0:
		e.claimAt = max(now, e.noBidBefore) + m.Reclaim<<e.claims
	}
}

// claimDue reports whether this process has been ready for so long that it asks for the leadership.
// If one of a higher priority is there as well, that one asks first.
func (m *machine) claimDue(now time.Duration, e *elec) bool {
	others := time.Duration(m.outrankedBy(e, e.observed.Holder.ID))
	return e.claimAt > 0 && now >= e.claimAt+others*m.Reclaim && m.mayClaim(e)
}

// mayClaim reports whether a process of a lower priority leads, and nobody has asked for anything.
func (m *machine) mayClaim(e *elec) bool {
	l := e.observed
	priority, known := m.priorities.of[l.Holder.Nonce]
	lower := !l.Vacant() && known && priority < m.Priority
	requested := l.Request.Kind != "" && l.Request.Term == l.Term
	return m.Reclaim > 0 && lower && !requested && m.isCandidate(e) && e.mode != modeTry
}
