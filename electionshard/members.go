package electionshard

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// An announcement says that a process takes part.
type announcement struct {
	id     string
	nonce  backend.Nonce
	weight int
	at     time.Duration // when it was made
}

// A roster keeps who takes part, as one process sees it.
type roster struct {
	me      string
	read    bool // announcements have been read before
	peers   map[string]*peer
	leaders []string // of each shard, when it was last known
}

// A peer is a process that this process has heard of, and itself.
type peer struct {
	Member
	nonce     backend.Nonce
	takesPart bool
	since     time.Duration // when it began to, as seen from here
	ended     time.Duration // when a leadership of it was last seen to end
}

// always is peer.since of this process, and of those that were there before it.
const always = time.Duration(math.MinInt64 / 2)

func newRoster(me string, shards int) roster {
	self := &peer{Member: Member{ID: me, Weight: 1}, takesPart: true, since: always}
	return roster{me: me, peers: map[string]*peer{me: self}, leaders: make([]string, shards)}
}

// peer returns the process with this id, and adds it if it is new.
func (r *roster) peer(id string, weight int) *peer {
	p := r.peers[id]
	if p == nil {
		p = &peer{Member: Member{ID: id, Weight: weight}, ended: always}
		r.peers[id] = p
	}
	return p
}

// update takes in a view.
func (r *roster) update(v *view) {
	r.updateLeaders(v)
	announced := latest(v.announced)
	for id, a := range announced {
		r.peer(id, a.weight)
	}
	for id, p := range r.peers {
		a := announced[id]
		r.updatePeer(p, a, v)
		if !p.takesPart && a == nil {
			delete(r.peers, id)
		}
	}
	r.read = r.read || v.read
}

func (r *roster) updateLeaders(v *view) {
	for _, p := range r.peers {
		p.Leads = 0
	}
	for i := range v.shards {
		s := &v.shards[i]
		if !s.known {
			continue
		}
		if before := r.peers[r.leaders[i]]; before != nil && s.leader != before.ID {
			before.ended = v.now
		}
		r.leaders[i] = s.leader
		if s.leader != "" {
			r.peer(s.leader, s.weight).Leads++
		}
	}
}

// latest returns one announcement for each id: a process that was restarted under its id is one member.
func latest(all []announcement) map[string]*announcement {
	latest := make(map[string]*announcement, len(all))
	for i := range all {
		a := &all[i]
		if other := latest[a.id]; other == nil || a.at > other.at {
			latest[a.id] = a
		}
	}
	return latest
}

// updatePeer decides whether p takes part, and since when. a is its announcement, or nil. That outlasts its
// process by two TTLs, but a leadership ends sooner: whoever leads nothing any more must announce itself
// again.
func (r *roster) updatePeer(p *peer, a *announcement, v *view) {
	restarted := a != nil && p.ID != r.me && p.nonce != "" && p.nonce != a.nonce
	before := p.takesPart && !restarted
	p.takesPart = p.ID == r.me || p.Leads > 0 || a != nil && a.at > p.ended
	if a != nil {
		p.nonce, p.Weight = a.nonce, a.weight
	}

	switch {
	case before || !p.takesPart:
	case r.read:
		p.since = v.now
	default:
		p.since = always
	}
}

// members returns those who have taken part for at least this long, in the order of their ids.
func (r *roster) members(now, atLeast time.Duration) (list []Member) {
	for _, p := range r.peers {
		if p.takesPart && now-p.since >= atLeast {
			list = append(list, p.Member)
		}
	}
	slices.SortFunc(list, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
