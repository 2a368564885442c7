package lease_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

func longNames(n, size int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%0*d", size, i))
	}
	return names
}

func (p *process) leadsAll(names []string) (leases []backend.Lease) {
	p.w.Helper()
	var expected []backend.Lease
	for _, name := range names {
		expected = append(expected, p.sees(name))
	}
	answers, err := p.bids(expected...)
	testbed.NoError(p.w, err)
	for _, a := range answers {
		if a.Outcome != backend.Granted {
			p.w.Fatalf("%v %v", a.Outcome, a.Err)
		}
		leases = append(leases, a.Lease)
	}
	return leases
}

type slow struct {
	lease.Driver
	calls int
}

func (d *slow) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	time.Sleep(time.Millisecond)
	return d.Driver.Read(ctx, keys)
}

func (d *slow) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	time.Sleep(time.Millisecond)
	d.calls++
	return d.Driver.Write(ctx, epoch, wentBack, changes, verify)
}

// Two processes lead many new elections at the same time.
func TestTwoProcessesMakeManyElections(t *testing.T) {
	inWorld(t, func(w *world) {
		var all sync.WaitGroup
		for i := range 2 {
			p := w.start(fmt.Sprint(i))
			d := &slow{Driver: w.store.Driver()}
			p.b = lease.New(d)
			all.Go(func() {
				p.leadsAll(longNames(1000, 10+i))
				w.want(d.calls < 4*1000/39, "%d writes for 1000 elections", d.calls)
			})
		}
		all.Wait()
	})
}

// Processes come and go, on a store that tells of nothing.
func TestSessionsOfDeadProcessesAreForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.start("b")
		for range 200 {
			p := w.start("x")
			l := p.leads("jobs")
			b.sees("jobs")
			p.releases(l)
			w.store.Delete(p.session())
		}
		n := reflect.ValueOf(b.b).Elem().FieldByName("cache").FieldByName("items").Len()
		w.want(n < 150, "%d items are remembered of one election", n)
	})
}

// What List has read is never forgotten, and handed to each Listen.
func TestAListIsNotRemembered(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		heard := &listener{wire: b.wire}
		b.b = lease.New(heard)
		a.leadsAll(longNames(500, 10))
		l := b.sees("first")
		if _, err := b.b.List(w.Context(), "", 1000); err != nil {
			w.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		b.b.Listen(ctx, []backend.Lease{l})
		w.want(heard.known < 10, "Listen for one election is called with %d items", heard.known)
	})
}

// Each minute a process leads an election that nobody has heard of before, and another one observes it.
func TestElectionsOfThePastAreForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		for n := range 1000 {
			l := a.leads(fmt.Sprint("job ", n))
			b.sees(l.Election)
			a.releases(l)
			time.Sleep(time.Minute)
		}
		for _, p := range []*process{a, b} {
			of := reflect.ValueOf(p.b).Elem()
			known, items := of.FieldByName("known").Len(), of.FieldByName("cache").FieldByName("items").Len()
			w.want(known < 250 && items < 250, "%s remembers %d elections and %d items of an hour of 60 elections", p.me.ID, known, items)
		}
	})
}

type requests struct {
	lease.Driver
	reads, writes int
}

func (d *requests) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	d.reads++
	return d.Driver.Read(ctx, keys)
}

func (d *requests) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	d.writes++
	return d.Driver.Write(ctx, epoch, wentBack, changes, verify)
}

// A follower listens. The renewals that it is told of are not read, and a handover takes one write of each.
func TestWhatAListenerIsToldIsNotRead(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		d := w.store.Driver()
		sent := &requests{Driver: d}
		b.b = lease.New(struct {
			*requests
			lease.Listener
		}{sent, d.(lease.Listener)})
		testbed.NoError(w, b.b.Announce(w.Context(), backend.Member{Candidate: b.me, TTL: ttl})) // it has a session

		l := a.leads("jobs")
		seen := b.sees("jobs")
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		w.meanwhile(func() { b.b.Listen(ctx, []backend.Lease{seen}) })
		synctest.Wait()
		observes := func(changes, requests int, why string) {
			w.Helper()
			synctest.Wait()
			before := sent.reads + sent.writes
			changed, err := b.b.Observe(w.Context(), []backend.Lease{seen})
			n := sent.reads + sent.writes - before
			w.want(err == nil && len(changed) == changes && n == requests, "%v, %v, by %d requests: rule violated: %s", changed, err, n, why)
			if len(changed) == 1 {
				seen = changed[0]
			}
		}
		for range 3 {
			a.renews(l)
			observes(1, 0, "what was told is not read")
			time.Sleep(ttl / 6)
		}
		observes(0, 1, "if nothing was told, the store is asked")

		before := len(a.wire.history)
		a.releases(l)
		observes(1, 0, "what was told is not read")
		sent.reads, sent.writes = 0, 0
		answers, err := b.bids(seen)
		w.want(err == nil && answers[0].Outcome == backend.Granted, "a bid for what was released: %v, %v", answers, err)
		w.want(len(a.wire.history) == before+1 && sent.writes == 1 && sent.reads == 0,
			"a handover has taken %d writes of a, %d of b and %d readings", len(a.wire.history)-before, sent.writes, sent.reads)
	})
}
