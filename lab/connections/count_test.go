package connections

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/postgres"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// most are how many connections a process may have to a store: while nothing happens, and at any moment. docs/bench.md
// has what was measured.
var most = map[string]struct{ idle, ever int }{
	"mysql":     {2, 4}, // a successor for a moment, and another one while the server is slow
	"postgres":  {1, 3},
	"redis":     {4, 8},
	"etcd":      {1, 2},
	"consul":    {4, 6},
	"zookeeper": {1, 2},
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
		_, name, _ := strings.Cut(t.Name(), "/")
		most, known := most[name]
		if !known {
			t.Skip("other programs' tables and nodes have their own pages")
		}
		var all []*counted
		for _, name := range []string{"leader", "follower", "observer"} {
			p := &counted{name: name, proxy: testbed.NewProxy(t, s.addr)}
			b, err := s.open(p.proxy.Addr())
			p.Election = join(t, name, 6*time.Second, b, err)
			all = append(all, p)
		}
		first := lead(t, all[0].Election)
		testbed.NoError(t, all[1].Lead(nil))
		knowsLeader(t, all, "leader")
		count(t, "start", all, 10*time.Second, most.ever)
		count(t, "idle", all, 10*time.Second, most.ever)
		fewWhenIdle(t, all, most.idle)
		testbed.NoError(t, first.Resign(t.Context()))
		knowsLeader(t, all, "follower")
		count(t, "handover", all, 15*time.Second, most.ever)
		count(t, "renewal", all, 75*time.Second, most.ever)
		fewWhenIdle(t, all, most.idle)
	})
}

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

// fewWhenIdle waits until no process has more connections than it needs: what a busy moment has opened is closed.
func fewWhenIdle(t *testing.T, all []*counted, most int) {
	t.Helper()
	for _, p := range all {
		testbed.Eventually(t, patience, p.name+" has few connections", func() error {
			if n := p.proxy.Open(); n > most {
				return fmt.Errorf("it has %d, want at most %d", n, most)
			}
			return nil
		})
	}
}

// count counts connections for a while, and fails if there are too many at the end: on a busy machine a slow call may
// open another one before.
func count(t *testing.T, phase string, all []*counted, while time.Duration, most int) {
	t.Helper()
	text := ""
	ever := make([]int, len(all))
	for end := time.Now().Add(while); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		for i, p := range all {
			ever[i] = max(ever[i], p.proxy.Open())
		}
	}
	for i, p := range all {
		text += fmt.Sprintf("  %s %d, at most %d", p.name, p.proxy.Open(), ever[i])
		if n := p.proxy.Open(); n > most {
			t.Errorf("%s: the %s has %d connections, want at most %d", phase, p.name, n, most)
		}
	}
	t.Logf("%-9s%s", phase, text)
}

// Forty-five processes fit on a PostgreSQL with the default of 100 connections: at their start, in handovers, and while
// connections are replaced. The server refuses none.
func TestAFleetFitsOnADefaultPostgres(t *testing.T) {
	testbed.Full(t, "waits until connections are old")
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.Options{Args: []string{"--max_connections=100"}})
	db := server.Database(t)
	var all []*election.Election
	for i := range 45 {
		b, err := postgres.Open(postgres.Options{DSN: db.DSN("")})
		e := join(t, fmt.Sprint("process ", i), 10*time.Second, b, err)
		testbed.NoError(t, e.Lead(nil))
		all = append(all, e)
	}
	leads := func() (l *election.Leadership) {
		testbed.Eventually(t, patience, "one leads, and all know it", func() error {
			for _, e := range all {
				if e.Leading() {
					l = e.Leadership()
				}
				if _, _, known := e.Leader(); !known {
					return errors.New(e.Current().String())
				}
			}
			return nil
		})
		return l
	}
	for range 3 {
		if l := leads(); l != nil {
			l.Resign(t.Context())
		}
	}
	most := 0
	for end := time.Now().Add(75 * time.Second); time.Now().Before(end); <-time.After(500 * time.Millisecond) {
		var n int
		fmt.Sscan(server.Value(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = '"+db.Name+"'"), &n)
		most = max(most, n)
	}
	t.Logf("45 processes had %d connections at most", most)
	log, err := os.ReadFile(filepath.Join(server.Dir(), "log"))
	testbed.NoError(t, err)
	for _, refusal := range []string{"too many clients", "too many connections", "remaining connection slots"} {
		if n := strings.Count(string(log), refusal); n > 0 {
			t.Errorf("the server has refused %d connections: %s", n, refusal)
		}
	}
}
