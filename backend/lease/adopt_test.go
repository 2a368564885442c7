package lease_test

import (
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// guards adopts a lease that another process holds, and has read it before.
func (w *world) guards(holder *process, l backend.Lease) (guard *process, d *requests) {
	w.Helper()
	guard, d = w.start("guard"), &requests{Driver: w.store.Driver()}
	guard.b = lease.New(d)
	guard.sees(l.Election)
	testbed.NoError(w, guard.b.Adopt(holder.me.Nonce, []backend.Held{l.Held()}))
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
