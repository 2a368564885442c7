package electionshard

import (
	"slices"
	"time"

	"github.com/go-election/go-election/election"
)

// shortest is the least time between two decisions, since events often come together.
const shortest = 10 * time.Millisecond

// loop decides after every event, and every RenewEvery.
func (g *Group) loop() {
	defer close(g.left)
	defer g.manager.Watch(func(election.Event) { g.wakeUp() })()
	timer, last := time.NewTimer(0), g.began
	defer timer.Stop()
	for {
		select {
		case <-g.wake:
			timer.Reset(time.Until(last.Add(shortest)))
			continue
		case <-timer.C:
		case <-g.ctx.Done():
			return
		case <-g.manager.Done():
			return
		}

		v := g.view()
		if g.readDue(&v) {
			g.readMembers()
			v = g.view()
		}
		g.apply(&v, g.planner.decide(&v))
		last = time.Now()
		timer.Reset(g.planner.renewEvery)
	}
}

// view returns what this process sees now.
func (g *Group) view() view {
	s := g.manager.Status()
	v := view{
		read: !g.readAt.IsZero(), idle: s.Paused || s.Unhealthy || s.Closed,
		announced: g.announced, shards: make([]shard, len(g.shards)),
	}
	for i := range s.Elections {
		e := &s.Elections[i]
		n, ok := g.index[e.Election]
		if !ok {
			continue
		}
		v.shards[n] = shard{known: e.Kind != election.Unknown, paused: e.Paused, since: e.Time.Sub(g.began)}
		if e.Kind == election.Elected {
			v.shards[n].leader, v.shards[n].weight = e.Leader.ID, g.options.weight(e.Leader)
		}
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range v.shards {
		v.shards[i].running = g.running[i]
	}
	v.now = time.Since(g.began)
	return v
}

// readDue reports whether the members must be read: once in a TTL, and before this process
// decides about a vacancy.
func (g *Group) readDue(v *view) bool {
	if time.Since(g.triedAt) < g.planner.renewEvery {
		return false
	}
	vacant := func(s shard) bool { return s.known && s.leader == "" }
	return time.Since(g.readAt) >= g.ttl || slices.ContainsFunc(v.shards, vacant)
}

// readMembers reads who takes part. After an error the last reading holds.
func (g *Group) readMembers() {
	g.triedAt = time.Now()
	list, err := g.manager.Members(g.ctx)
	if err != nil {
		return
	}
	g.readAt, g.announced = g.triedAt, g.announced[:0]
	for _, m := range list {
		if slices.Contains(slices.Collect(m.Campaigns()), g.name) {
			weight, at := g.options.weight(m.Candidate), g.readAt.Sub(g.began)-m.Age
			g.announced = append(g.announced, announcement{id: m.ID, nonce: m.Nonce, weight: weight, at: at})
		}
	}
}

// apply carries out a decision: an election that is paused does not bid, and one that leads and is
// paused steps down in order.
func (g *Group) apply(v *view, d decision) {
	g.mu.Lock()
	g.status = g.newStatus(v, d)
	g.mu.Unlock()
	if v.idle {
		return // whoever has paused the manager resumes it
	}

	for _, i := range d.giveUp {
		g.shards[i].Pause()
	}
	bids := make([]bool, len(v.shards))
	for _, i := range d.bids {
		bids[i] = true
	}
	for i := range v.shards {
		switch s := &v.shards[i]; {
		case s.leader == g.planner.roster.me:
		case bids[i] && s.paused:
			g.shards[i].Resume()
		case !bids[i] && !s.paused:
			g.shards[i].Pause()
		}
	}
}
