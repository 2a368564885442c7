package electionshard

import (
	"cmp"
	"hash/fnv"
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
	late       []bool // shards that this process bids for beyond its share, until somebody leads them

	// given has the shards that this process has given up, until somebody leads them: when their
	// functions were last seen to run. always: not given up.
	given []time.Duration

	begun, alone    bool          // the store has told of some shard, and nobody led then
	quiet           time.Duration // when nobody led any shard
	quietSince      time.Duration // since when that is so; always: it is not
	keepFor         time.Duration // how long it gave up nothing when that was last in vain
	keepUntil       time.Duration // it gives up nothing before
	beyond, givenUp int           // shards taken beyond the share, and given up, since the start
}

// newPlanner returns a planner for the process me. All fields of o must be set, but for Weight.
func newPlanner(me string, shards []string, o Options, renewEvery time.Duration) *planner {
	n := len(shards)
	p := &planner{
		Options: o, renewEvery: renewEvery, roster: newRoster(me, n),
		preferred: make([]int, n), late: make([]bool, n), given: slices.Repeat([]time.Duration{always}, n), quiet: always, quietSince: always, keepUntil: always,
	}
	hashes := make([]uint64, n)
	for i, name := range shards {
		h := fnv.New64a()
		h.Write([]byte(me + "\n" + name))
		p.preferred[i], hashes[i] = i, mix(h.Sum64())
	}
	slices.SortFunc(p.preferred, func(a, b int) int { return cmp.Compare(hashes[a], hashes[b]) })
	return p
}

// mix spreads what differs in the last bytes over all bits (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// decide returns what this process is to do now.
func (p *planner) decide(v *view) decision {
	p.noteQuiet(v)
	p.settle(v)
	p.roster.update(v)
	d := decision{members: p.roster.members(v.now, always)}
	setShares(d.members, len(v.shards))
	if p.tooEarly(v) || v.idle {
		return d
	}
	p.bid(v, &d)
	p.giveUp(v, &d)
	return d
}

// tooEarly reports whether this process does not know enough yet. If nobody led when it began, the
// whole fleet may be starting: it waits until the others have announced themselves.
func (p *planner) tooEarly(v *view) bool {
	if !p.begun && slices.ContainsFunc(v.shards, func(s shard) bool { return s.known }) {
		p.begun, p.alone = true, !anyLed(v)
	}
	return !v.read || !p.begun || p.alone && v.now < p.renewEvery
}

// noteQuiet notes when nobody leads any shard. Then nobody can: the store was restarted, or away. What
// is vacant since then says nothing about the members, for a while.
func (p *planner) noteQuiet(v *view) {
	switch {
	case anyLed(v):
		p.quietSince = always
	case p.quietSince == always:
		p.quietSince = v.now
	}
	if p.quietSince != always && v.now-p.quietSince < 8*p.Patience {
		p.quiet = v.now
	}
}

func anyLed(v *view) bool {
	return slices.ContainsFunc(v.shards, func(s shard) bool { return s.leader != "" })
}

// settle looks at what has become of the shards that were given up or bid for.
func (p *planner) settle(v *view) {
	for i := range v.shards {
		s := &v.shards[i]
		given := p.given[i] != always
		switch {
		case s.leader != "":
			if p.late[i] && s.leader == p.roster.me {
				p.keep(v.now)
				p.beyond++
			}
			p.given[i], p.late[i] = always, false
		case given && s.running:
			p.given[i] = v.now
		case given && p.vacantFor(v, i) >= p.Patience:
			p.keep(v.now)
		}
	}
}

// keep makes this process give up nothing for a while, since nobody took what was vacant, whatever
// the shares say.
func (p *planner) keep(now time.Duration) {
	if now >= p.keepUntil {
		p.keepFor = min(max(2*p.keepFor, 8*p.Settle), 128*p.Settle)
	}
	p.keepUntil = now + p.keepFor
}

// vacantFor is how long others could have taken shard i, which is vacant.
func (p *planner) vacantFor(v *view, i int) time.Duration {
	return v.now - max(v.shards[i].since, p.given[i], p.quiet)
}

// bid chooses the vacant shards for which this process bids.
func (p *planner) bid(v *view, d *decision) {
	me := find(d.members, p.roster.me)
	ceiling := roundedUp(me, d.members, len(v.shards))
	own := 0
	for i := range v.shards {
		if s := &v.shards[i]; s.running || s.leader == me.ID {
			own++
		}
	}

	clear(p.late)
	beyond := 0
	for _, i := range p.preferred {
		s := &v.shards[i]
		if !s.known || s.leader != "" || s.running || own >= p.Limit {
			continue
		}
		vacant := p.vacantFor(v, i)
		switch {
		case own < me.Share:
		case own < ceiling && vacant >= p.renewEvery && p.given[i] == always:
		case beyond < p.Moves && vacant >= p.Patience:
			beyond++
			p.late[i] = true
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
	me := find(d.members, p.roster.me)
	lacking, moving := 0, 0
	for _, m := range d.members {
		if m.ID != me.ID {
			lacking += max(0, m.Share-m.Leads)
		}
	}
	for i := range v.shards {
		switch s := &v.shards[i]; {
		case p.given[i] != always:
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
	if v.now < p.keepUntil {
		return
	}
	for _, i := range slices.Backward(p.preferred) {
		if excess <= 0 {
			return
		}
		if v.shards[i].leader == me.ID {
			p.given[i] = v.now
			p.givenUp++
			d.giveUp = append(d.giveUp, i)
			excess--
		}
	}
}

// find returns the member with this id, who is there.
func find(members []Member, id string) Member {
	return members[slices.IndexFunc(members, func(m Member) bool { return m.ID == id })]
}
