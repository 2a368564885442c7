package lease_test

import (
	"context"
	"slices"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
)

// plain is a lease without what may differ in the two stores, or depends on the reader.
func plain(l backend.Lease) backend.Lease {
	l.Version, l.Age, l.ObserveFor = "", 0, 0
	return l
}

// compare compares a lease as it is in the stores now, and remembers it as what the client has seen.
func (d *differential) compare(c *client, call string, m, l backend.Lease) pair {
	d.Helper()
	if plain(m) != plain(l) {
		d.Errorf("%s: %s:\nmemory has       %+v\nthe protocol has %+v", call, m.Election, plain(m), plain(l))
	}
	if m.ObserveFor != l.ObserveFor {
		d.Errorf("%s: %s must be watched for %v in memory, and %v in the protocol", call, m.Election, m.ObserveFor, l.ObserveFor)
	}
	p := pair{m, l, len(d.states[m.Election]) - 1}
	d.compareVersions(call, p)
	if old, ok := c.seen[m.Election]; ok && c != d.watcher {
		c.old[m.Election] = append(c.old[m.Election], old)
	}
	c.seen[m.Election] = p
	return p
}

func (d *differential) compareVersions(call string, p pair) {
	d.Helper()
	m, l := p.memory.Election+" m "+p.memory.Version, p.lease.Election+" l "+p.lease.Version
	for _, v := range [][2]string{{m, l}, {l, m}} {
		if was, ok := d.versions[v[0]]; ok && was != v[1] {
			d.Errorf("%s: Version %q stood for %q, and now for %q: rule violated: each grant, renewal and release changes it, and nothing else", call, v[0], was, v[1])
		}
		d.versions[v[0]] = v[1]
	}
}

// answers compares the answers of Acquire, Renew and Mark.
func (d *differential) answers(c *client, call string, m, l []backend.Answer, errM, errL error) {
	d.Helper()
	d.errors(call, errM, errL)
	if len(m) != len(l) {
		d.Fatalf("%s: %d answers of memory, %d of the protocol", call, len(m), len(l))
	}
	for i := range m {
		if m[i].Outcome != l[i].Outcome || m[i].ValidFor != l[i].ValidFor {
			d.Errorf("%s: %s is %v for %v in memory, and %v for %v (%v) in the protocol", call, m[i].Election, m[i].Outcome, m[i].ValidFor, l[i].Outcome, l[i].ValidFor, l[i].Err)
		}
		d.errors(call, m[i].Err, l[i].Err)
		if m[i].Outcome == backend.Unknown {
			continue
		}
		d.trace(c, "  %s is %v in term %d", m[i].Election, m[i].Outcome, m[i].Term)
		p := d.compare(c, call, m[i].Lease, l[i].Lease)
		switch {
		case m[i].Outcome == backend.Granted:
			c.held[m[i].Election] = p
		case call != "Acquire":
			delete(c.held, m[i].Election)
		}
	}
}

func (d *differential) observe(c *client, names []string) {
	var seen [2][]backend.Lease
	for _, name := range names {
		p, ok := c.seen[name]
		if !ok || d.random.IntN(5) == 0 {
			p = nothing(name)
		}
		seen[0], seen[1] = append(seen[0], p.memory), append(seen[1], p.lease)
	}
	m, errM := c.memory.Observe(d.Context(), seen[0])
	l, errL := c.lease.Observe(d.Context(), seen[1])
	d.trace(c, "observes %v: %d are changed", names, len(l))
	d.errors("Observe", errM, errL)
	for _, name := range names {
		is := func(l backend.Lease) bool { return l.Election == name }
		i, j := slices.IndexFunc(m, is), slices.IndexFunc(l, is)
		switch {
		case i < 0 && j < 0:
		case j < 0:
			d.Errorf("Observe: %s has changed in memory, but the protocol says that it has not: rule violated: that a lease is unchanged is true at the call", name)
		case i >= 0 && plain(m[i]) == plain(l[j]) && d.mayBe(m[i], l[j]):
			d.compare(c, "Observe", m[i], l[j])
		default:
			d.heard(c, l[j])
		}
	}
}

// mayBe reports whether a lease of the protocol may be this lease of memory.
func (d *differential) mayBe(m, l backend.Lease) bool {
	of, to := m.Election+" m "+m.Version, l.Election+" l "+l.Version
	_, m1 := d.versions[of]
	_, l1 := d.versions[to]
	return !m1 && !l1 || d.versions[of] == to
}

// heard checks an answer that may be older than the call: memory had its record since the client saw
// the lease last, and the same heartbeat with it or later.
func (d *differential) heard(c *client, l backend.Lease) {
	d.Helper()
	last, of := c.seen[l.Election], d.versions[l.Election+" l "+l.Version]
	version := " never " + l.Version // the record of one moment and the heartbeat of another: no store grants a bid by it
	found := of == "" || of == l.Election+" m "+version
	states := d.states[l.Election]
	for i := len(states) - 1; i >= max(last.at, 0); i-- {
		m := states[i]
		if of == l.Election+" m "+m.Version {
			version, found = m.Version, true
		}
		if found && plain(m) == plain(l) {
			if m.Version = version; l.ObserveFor == 0 { // a leftover of the reader's own
				m.ObserveFor = 0
			}
			p := d.compare(c, "Observe", m, l)
			p.at = i
			c.seen[l.Election] = p
			return
		}
	}
	d.Errorf("Observe: the protocol says %+v, which was not so since the client saw %+v", l, last.lease)
}

// note compares what the stores have now, and checks that Listen has returned if it had to.
func (d *differential) note() {
	d.Helper()
	synctest.Wait()
	var names []backend.Lease
	for _, name := range elections {
		names = append(names, backend.Lease{Election: name})
	}
	present, errM := d.watcher.memory.Observe(d.Context(), names)
	shown, errL := d.watcher.lease.Observe(d.Context(), names)
	if errM != nil || errL != nil {
		d.Fatal(errM, errL)
	}
	for i, m := range present {
		d.compare(d.watcher, "after that", m, shown[i])
		states := d.states[m.Election]
		if n := len(states); n == 0 || states[n-1].Differs(m) {
			d.states[m.Election] = append(states, m)
		}
		for _, c := range d.clients {
			d.checkListening(c, m)
		}
	}
}

// checkListening checks that Listen has returned if a lease has changed otherwise than by a renewal.
func (d *differential) checkListening(c *client, m backend.Lease) {
	d.Helper()
	if c.listening == nil {
		return
	}
	select {
	case <-c.listening:
		return
	default:
	}
	if seen, ok := c.listens[m.Election]; ok && plain(seen) != plain(m) {
		d.Errorf("Listen: %s waits, though %s has changed from %+v to %+v: rule violated: Listen must not miss a change of a record", c.me.ID, m.Election, plain(seen), plain(m))
	}
}

// listen begins to listen, unless an earlier call is still under way.
func (d *differential) listen(c *client, names []string) {
	if c.stop != nil {
		c.stop()
		<-c.listening
	}
	var seen []backend.Lease
	c.listens = map[string]backend.Lease{}
	for _, name := range names {
		if p, ok := c.seen[name]; ok {
			seen = append(seen, p.lease)
			c.listens[name] = p.memory
		}
	}
	if seen == nil {
		c.listening, c.stop = nil, nil
		return
	}
	d.trace(c, "listens to %d", len(seen))
	ctx, cancel := context.WithCancel(d.Context())
	done := make(chan struct{})
	c.listening, c.stop = done, cancel
	go func() {
		defer close(done)
		if err := c.lease.Listen(ctx, seen); err != nil && ctx.Err() == nil {
			d.Errorf("Listen: %v", err)
		}
	}()
}

func (d *differential) list(c *client) {
	from, limit := elections[d.random.IntN(len(elections))][:d.random.IntN(3)], 1+d.random.IntN(6)
	m, errM := c.memory.List(d.Context(), from, limit)
	l, errL := c.lease.List(d.Context(), from, limit)
	d.trace(c, "lists %d from %q", len(l), from)
	d.errors("List", errM, errL)
	if len(m) != len(l) {
		d.Fatalf("List from %q, at most %d: %d records in memory, %d in the protocol", from, limit, len(m), len(l))
	}
	for i := range m {
		d.compare(d.watcher, "List", m[i].Lease, l[i].Lease) // Observe may answer with what was so before
		if !m[i].Elected.Equal(l[i].Elected) || len(m[i].History) != len(l[i].History) {
			d.Errorf("List: %s was elected %v and has %d leaderships in memory, %v and %d in the protocol", m[i].Election, m[i].Elected, len(m[i].History), l[i].Elected, len(l[i].History))
			return
		}
		for k := range m[i].History {
			a, b := m[i].History[k], l[i].History[k]
			if a.Term != b.Term || a.ID != b.ID || a.End != b.End || !a.From.Equal(b.From) {
				d.Errorf("List: %s: leadership %d is %+v in memory, %+v in the protocol", m[i].Election, k, a, b)
			}
		}
	}
}

func (d *differential) announce(c *client, names []string) {
	m := backend.Member{Candidate: c.me, Stage: []string{"", "one", "two"}[d.random.IntN(3)], Elections: backend.ElectionList(0, slices.Values(names)), TTL: c.ttl}
	d.trace(c, "announces %v", names)
	d.errors("Announce", c.memory.Announce(d.Context(), m), c.lease.Announce(d.Context(), m))
}

// members checks that the protocol lists whom memory lists, apart from those that have closed.
func (d *differential) members(c *client) {
	m, errM := c.memory.Members(d.Context(), "", 100)
	l, errL := c.lease.Members(d.Context(), "", 100)
	d.trace(c, "lists %d members", len(l))
	d.errors("Members", errM, errL)
	for _, o := range m {
		i := slices.IndexFunc(l, func(m backend.Member) bool { return m.Nonce == o.Nonce })
		running := slices.ContainsFunc(d.clients, func(c *client) bool { return c.me.Nonce == o.Nonce })
		switch {
		case i < 0 && running:
			d.Errorf("Members: %s is missing in the protocol", o.ID)
		case i < 0:
		case l[i].Age < 0 || l[i].Age > o.Age:
			d.Errorf("Members: %s announced itself %v ago, not %v", o.ID, o.Age, l[i].Age)
		default:
			l[i].Age, o.Age = 0, time.Duration(0)
			if l[i] != o {
				d.Errorf("Members: %+v in memory, %+v in the protocol", o, l[i])
			}
		}
	}
}
