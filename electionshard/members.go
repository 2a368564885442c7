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
	known   map[string]*known
	leaders []string // of each shard, when it was last known
}

// A known process is one that this process has heard of.
type known struct {
	Member
	nonce backend.Nonce
	there bool          // it takes part
	since time.Duration // when it began to, as seen from here
	ended time.Duration // when a leadership of it was last seen to end
}

// always is known.since of this process, and of those that were there before it.
const always = time.Duration(math.MinInt64 / 2)

func newRoster(me string, shards int) roster {
	self := &known{Member: Member{ID: me, Weight: 1}, there: true, since: always}
	return roster{me: me, known: map[string]*known{me: self}, leaders: make([]string, shards)}
}

// get returns the process with this id, and adds it if it is new.
func (r *roster) get(id string, weight int) *known {
	k := r.known[id]
	if k == nil {
		k = &known{Member: Member{ID: id, Weight: weight}, ended: always}
		r.known[id] = k
	}
	return k
}

// update takes in a view.
func (r *roster) update(v *view) {
	for _, k := range r.known {
		k.Leads = 0
	}
	for i := range v.shards {
		s := &v.shards[i]
		if !s.known {
			continue
		}
		if before := r.known[r.leaders[i]]; before != nil && s.leader != before.ID {
			before.ended = v.now
		}
		r.leaders[i] = s.leader
		if s.leader != "" {
			r.get(s.leader, s.weight).Leads++
		}
	}

	announced := r.latest(v.announced)
	for id, k := range r.known {
		a, ok := announced[id]
		r.place(k, a, ok, v)
		if !k.there && !ok {
			delete(r.known, id)
		}
	}
	r.read = r.read || v.read
}

// latest returns one announcement for each id: a process that was restarted under its id is one
// member. It adds those that are new.
func (r *roster) latest(all []announcement) map[string]announcement {
	latest := make(map[string]announcement, len(all))
	for _, a := range all {
		if other, ok := latest[a.id]; !ok || a.at > other.at {
			latest[a.id] = a
		}
		r.get(a.id, a.weight)
	}
	return latest
}

// place decides whether k takes part, and since when. An announcement outlasts its process by two
// TTLs, but a leadership ends sooner: whoever leads nothing any more must announce itself again.
func (r *roster) place(k *known, a announcement, announced bool, v *view) {
	was := k.there
	k.there = k.ID == r.me || k.Leads > 0 || announced && a.at > k.ended
	if announced {
		if k.ID != r.me && k.nonce != "" && k.nonce != a.nonce {
			was = false // another process
		}
		k.nonce, k.Weight = a.nonce, a.weight
	}

	switch {
	case !k.there || was:
	case r.read:
		k.since = v.now
	default:
		k.since = always
	}
}

// members returns those who have taken part for at least this long, in the order of their ids.
func (r *roster) members(now, atLeast time.Duration) (list []Member) {
	for _, k := range r.known {
		if k.there && now-k.since >= atLeast {
			list = append(list, k.Member)
		}
	}
	slices.SortFunc(list, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
