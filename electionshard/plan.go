package electionshard

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"
)

// A view is what this process sees at one moment. All times are since it began, on its own clock.
type view struct {
	now       time.Duration
	read      bool           // announced has been read from the store
	idle      bool           // this process may not lead now: it is paused, or not healthy
	announced []announcement // as last read
	shards    []shard        // always the same ones, in the same order
}

// A shard is the state of one election.
type shard struct {
	known   bool          // false: the store has not told yet, or cannot be reached
	leader  string        // id; empty: vacant
	weight  int           // of the leader
	since   time.Duration // when this process learned of the state
	running bool          // this process's function has not returned
	paused  bool          // this process does not bid
}

// A decision says what this process is to do now. It leads on with the shards that are not named.
type decision struct {
	bids    []int // vacant shards to bid for
	giveUp  []int // own shards to step down from
	members []Member
}

// A planner decides for one process. It has no clock and no goroutine, and makes no call: a
// decision follows from the view, and from those that the planner has seen before.
type planner struct {
	Options
	renewEvery time.Duration
	roster     roster
	preferred  []int  // all shards, those first for which this process bids first
	extra      []bool // shards that this process bids for beyond its share, until somebody leads them

	// givenUp has the shards that this process has given up, until somebody leads them: when their
	// functions were last seen to run. always: not given up.
	givenUp []time.Duration

	begun           bool          // the store has told of some shard
	bidFrom         time.Duration // it bids for nothing before
	leaderless      time.Duration // when nobody was last seen to lead any, for 8 Patience at most
	leaderlessSince time.Duration // since when nobody does; always: somebody does
	holdFor         time.Duration // for how long it has given up nothing, because to give up was in vain
	holdUntil       time.Duration // it gives up nothing before
}

// newPlanner returns a planner for the process me and n shards. All fields of o must be set, but for Weight.
func newPlanner(me string, n int, o Options, renewEvery time.Duration) *planner {
	own := fnv.New64a() // other processes prefer other shards
	own.Write([]byte(me))
	return &planner{
		Options: o, renewEvery: renewEvery, roster: newRoster(me, n),
		preferred: rand.New(rand.NewPCG(own.Sum64(), 1)).Perm(n),
		extra:     make([]bool, n), givenUp: slices.Repeat([]time.Duration{always}, n),
		leaderless: always, leaderlessSince: always, holdUntil: always,
	}
}

// decide returns what this process is to do now.
func (p *planner) decide(v *view) decision {
	p.noteStart(v)
	p.noteLeaderless(v)
	p.noteOutcomes(v)
	p.roster.update(v)
	d := decision{members: p.roster.members(v.now, always)}
	setShares(d.members, len(v.shards))
	knowsEnough := v.read && p.begun && v.now >= p.bidFrom
	if knowsEnough && !v.idle {
		p.bid(v, &d)
		p.giveUp(v, &d)
	}
	return d
}

// noteStart notes when the store first tells of a shard. If nobody leads then, the whole fleet may be
// starting: this process waits until the others have announced themselves.
func (p *planner) noteStart(v *view) {
	if p.begun || !slices.ContainsFunc(v.shards, func(s shard) bool { return s.known }) {
		return
	}
	p.begun = true
	if !anyLed(v) {
		p.bidFrom = p.renewEvery
	}
}

// noteLeaderless notes when nobody leads any shard. Then nobody can: the store was restarted, or is
// away. What was vacant then says nothing about the members, for a while.
func (p *planner) noteLeaderless(v *view) {
	switch {
	case anyLed(v):
		p.leaderlessSince = always
		return
	case p.leaderlessSince == always:
		p.leaderlessSince = v.now
	}
	if v.now-p.leaderlessSince < 8*p.Patience {
		p.leaderless = v.now
	}
}

func anyLed(v *view) bool {
	return slices.ContainsFunc(v.shards, func(s shard) bool { return s.leader != "" })
}

// noteOutcomes notes what has become of the shards that were given up or bid for.
func (p *planner) noteOutcomes(v *view) {
	for i := range v.shards {
		s := &v.shards[i]
		givenUp := p.givenUp[i] != always
		switch {
		case s.leader != "":
			if p.extra[i] && s.leader == p.roster.me {
				p.holdOn(v.now)
			}
			p.givenUp[i], p.extra[i] = always, false
		case givenUp && s.running:
			p.givenUp[i] = v.now
		case givenUp && p.vacantFor(v, i) >= p.Patience:
			p.holdOn(v.now)
		}
	}
}

// holdOn makes this process give up nothing for a while: nobody took what was vacant, whatever the
// shares say.
func (p *planner) holdOn(now time.Duration) {
	if now >= p.holdUntil {
		p.holdFor = min(max(2*p.holdFor, 8*p.Settle), 128*p.Settle)
	}
	p.holdUntil = now + p.holdFor
}

// vacantFor is how long others could have taken shard i, which is vacant.
func (p *planner) vacantFor(v *view, i int) time.Duration {
	return v.now - max(v.shards[i].since, p.givenUp[i], p.leaderless)
}

// bid chooses the vacant shards for which this process bids.
func (p *planner) bid(v *view, d *decision) {
	me := find(d.members, p.roster.me)
	total, own := totalWeight(d.members), 0
	ceiling := (len(v.shards)*me.Weight + total - 1) / total // its part of the shards, rounded up
	for i := range v.shards {
		if s := &v.shards[i]; s.running || s.leader == me.ID {
			own++
		}
	}

	clear(p.extra)
	extra := 0
	for _, i := range p.preferred {
		s := &v.shards[i]
		if !s.known || s.leader != "" || s.running || own >= p.Limit {
			continue
		}
		vacant := p.vacantFor(v, i)
		switch {
		case own < me.Share:
		case own < ceiling && vacant >= p.renewEvery && p.givenUp[i] == always:
		case extra < p.Moves && vacant >= p.Patience:
			extra++
			p.extra[i] = true
		default:
			continue
		}
		d.bids = append(d.bids, i)
		own++
	}
}

// giveUp chooses the shards from which this process steps down. Members count only when they have
// been there for Settle, but shards are given up only if others lack them now.
func (p *planner) giveUp(v *view, d *decision) {
	if v.now < p.holdUntil {
		return
	}
	me := find(d.members, p.roster.me)
	lacking, moving := 0, 0
	for _, m := range d.members {
		if m.ID != me.ID {
			lacking += max(0, m.Share-m.Leads)
		}
	}
	for i := range v.shards {
		switch s := &v.shards[i]; {
		case p.givenUp[i] != always:
			moving++
			lacking--
		case s.leader == "":
			lacking--
		}
	}

	settled := p.roster.members(v.now, p.Settle)
	setShares(settled, len(v.shards))
	keep := min(p.Limit, max(me.Share, find(settled, me.ID).Share))
	excess := min(me.Leads-keep, lacking, p.Moves-moving)
	for _, i := range slices.Backward(p.preferred) {
		if excess <= 0 {
			return
		}
		if v.shards[i].leader == me.ID {
			p.givenUp[i] = v.now
			d.giveUp = append(d.giveUp, i)
			excess--
		}
	}
}

// find returns the member with this id, who is there.
func find(members []Member, id string) Member {
	return members[slices.IndexFunc(members, func(m Member) bool { return m.ID == id })]
}
