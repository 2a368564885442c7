package electionshard

import (
	"fmt"
	"slices"
)

// A Status says how the shards are spread, as this process knows. Use it for pages, logs and metrics.
type Status struct {
	Name    string   // of the group
	Members []Member // in the order of their ids; this process is one of them

	Shards  int // all of them
	Vacant  int // nobody leads them
	Unknown int // the store has not told yet, or cannot be reached

	// Imbalance is the number of shards that would have to move until each member leads its
	// share. While it stays above 0 for longer than Options.Settle, somebody cannot lead.
	Imbalance int
}

// ID returns the id of this process, as it is in Status.Members.
func (g *Group) ID() string { return g.manager.ID() }

// Status returns the state at the last decision, which is RenewEvery old at most. It does not
// wait for the store. Before the first decision only Name and Shards are set.
func (g *Group) Status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.status
	s.Members = slices.Clone(s.Members)
	return s
}

func (g *Group) newStatus(v *view, d decision) Status {
	s := Status{Name: g.name, Members: d.members, Shards: len(v.shards)}
	for _, m := range d.members {
		s.Imbalance += max(0, m.Leads-m.Share)
	}
	for i := range v.shards {
		switch {
		case !v.shards[i].known:
			s.Unknown++
		case v.shards[i].leader == "":
			s.Vacant++
		}
	}
	return s
}

// Names returns n names of shards below a prefix, with as many digits as the last one needs:
// Names("shard", 64) returns shard/00 to shard/63.
func Names(prefix string, n int) []string {
	names, digits := make([]string, n), len(fmt.Sprint(n-1))
	for i := range names {
		names[i] = fmt.Sprintf("%s/%0*d", prefix, digits, i)
	}
	return names
}
