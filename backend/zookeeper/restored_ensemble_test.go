package zookeeper

import (
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// Three servers are restored from copies that were made while they ran. The next leader of the ensemble
// begins another epoch of zxids, greater than all that was lost, and sessions go on, so that nobody notices. A
// lease whose grant is lost is not renewed although the record of another has the same number.
func TestALostGrantIsNotRenewedInARestoredEnsemble(t *testing.T) {
	t.Parallel()
	servers := testbed.StartZooKeeperEnsemble(t, 3)
	o := Options{Servers: testbed.Addrs(servers)}
	a, b := start(t, "a", o), start(t, "b", o)
	a.driver.session.Length, b.driver.session.Length = 4*time.Second, 4*time.Second
	held := a.lead("jobs")
	b.lead("other")
	var saved []string
	for _, s := range servers {
		saved = append(saved, s.SaveData(t))
	}
	if err := a.Release(t.Context(), []backend.Held{held.Held()}); err != nil {
		t.Fatal(err)
	}
	lost := b.lead("jobs") // the copies do not have it
	for range 100 {
		b.renews(lost)
	}
	for _, s := range servers {
		s.Kill(t)
	}
	for i, s := range servers {
		s.ReplaceData(t, saved[i])
	}
	done := make(chan bool, 3)
	for _, s := range servers {
		go func() { s.Start(t); done <- true }()
	}
	for range servers {
		<-done
	}
	c := start(t, "c", o)
	now := c.lead("jobs")
	if err := c.Request(t.Context(), []backend.Request{{Election: "jobs", Term: now.Term, Kind: backend.Nominate, ID: "x"}}); err != nil {
		t.Fatal(err) // the record has now been written as often as b remembers
	}
	for range 2 {
		if got := b.renews(lost); got.Outcome != backend.Refused {
			t.Errorf("b renews a lease whose grant is lost, and which c holds: %v", got.Outcome)
		}
	}
}
