package connections

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// most are how many connections a process may have to a store: idle, and at any moment. docs/bench.md has the table.
var most = map[string]struct{ idle, ever int }{
	"mysql":     {2, 3},
	"postgres":  {2, 3},
	"redis":     {3, 6},
	"zookeeper": {1, 2},
	"etcd":      {1, 2},
	"consul":    {3, 6},
}

// A counted process reaches the store through a proxy of its own, which counts its connections.
type counted struct {
	name  string
	proxy *testbed.Proxy
	*election.Election
}

// A process has few connections, whatever it does: while nothing happens, through a handover, and while its connections
// are replaced because they are old.
func TestAProcessHasFewConnections(t *testing.T) {
	testbed.Full(t, "waits until connections are old")
	t.Parallel()
	each(t, func(t *testing.T, s store) {
		var all []*counted
		for _, name := range []string{"leader", "follower", "observer"} {
			p := &counted{name: name, proxy: testbed.NewProxy(t, s.addr)}
			b, err := s.open(p.proxy.Addr())
			p.Election = join(t, name, 6*time.Second, b, err)
			all = append(all, p)
		}
		first := lead(t, all[0].Election)
		if err := all[1].Lead(nil); err != nil {
			t.Fatal(err)
		}
		knowsLeader(t, all, "leader")
		count(t, "start", all, 10*time.Second)
		count(t, "idle", all, 10*time.Second)
		if err := first.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		knowsLeader(t, all, "follower")
		count(t, "handover", all, 10*time.Second)
		count(t, "renewal", all, 75*time.Second)
		count(t, "idle", all, 10*time.Second)
	})
}

// knowsLeader waits until all processes know who leads.
func knowsLeader(t *testing.T, all []*counted, id string) {
	t.Helper()
	for _, p := range all {
		testbed.Eventually(t, patience, p.name+" knows the leader", func() error {
			if who, _, known := p.Leader(); !known || who.ID != id {
				return fmt.Errorf("%+v", p.Current())
			}
			return nil
		})
	}
}

// count notes for a while how many connections the processes have.
func count(t *testing.T, phase string, all []*counted, while time.Duration) {
	t.Helper()
	text := ""
	ever := make([]int, len(all))
	for end := time.Now().Add(while); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		for i, p := range all {
			ever[i] = max(ever[i], p.proxy.Stats().Open)
		}
	}
	for i, p := range all {
		text += fmt.Sprintf("  %s %d, at most %d", p.name, p.proxy.Stats().Open, ever[i])
	}
	t.Logf("%-9s%s", phase, text)
}
