package lease_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// listens begins to listen to a lease, and returns what reports whether Listen has returned.
func (p *process) listens(seen backend.Lease) (returned func() bool) {
	ctx, cancel := context.WithCancel(p.w.Context())
	done := false
	p.w.meanwhile(func() {
		p.b.Listen(ctx, []backend.Lease{seen})
		done = ctx.Err() == nil
	})
	return func() bool {
		synctest.Wait()
		cancel()
		synctest.Wait()
		return done
	}
}

// What b remembers of one election is old when it begins to listen to another one.
func TestListenMissesNoChangeBeforeTheCall(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		b.b = lease.New(w.store.Driver()) // which listens
		a.releases(a.leads("one"))
		a.releases(a.leads("two"))
		one, two := b.sees("one"), b.sees("two")
		a.leads("one")
		time.Sleep(time.Minute)
		w.want(!b.listens(two)(), "Listen returns, though nothing has changed in that election")
		w.want(b.listens(one)(), "Listen waits, though the election has a leader since: rule violated: Listen must not miss a change of a record")
	})
}
