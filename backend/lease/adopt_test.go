package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// counting counts the readings of a driver.
type counting struct {
	lease.Driver
	reads int
}

func (d *counting) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	d.reads++
	return d.Driver.Read(ctx, keys)
}

// guards adopts a lease that another process holds, and has read it before.
func (w *world) guards(holder *process, l backend.Lease) (guard *process, d *counting) {
	w.Helper()
	guard, d = w.start("guard"), &counting{Driver: w.store.Driver()}
	guard.b = lease.New(d)
	guard.sees(l.Election)
	if err := guard.b.Adopt(holder.me.Nonce, []backend.Held{l.Held()}); err != nil {
		w.Fatal(err)
	}
	d.reads = 0
	return guard, d
}

// A guard has read its program's record before the program ended. It releases by one write.
func TestAGuardReleasesWithoutAReading(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		guard, d := w.guards(a, l)
		a.distrusts("jobs")
		guard.releases(l)
		w.want(d.reads == 0, "%d readings before the release", d.reads)
		b.leads("jobs")
	})
}

// What the guard has read is old: another process leads.
func TestALateGuardLeavesAnothersLeaseAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		guard, d := w.guards(a, l)
		a.releases(l)
		m := b.leads("jobs")
		guard.releases(l)
		w.want(d.reads > 0, "it has not read what it was refused")
		b.goesOn(20*time.Second, "a guard's release is pinned to a term", m)
	})
}
