package connections

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// A node of a Galera cluster behind HAProxy comes back, and new connections lead to it again, while those to the node
// that stood in for it live on. Somebody leads again after about max_ttl, as after any change of server: nobody waits
// for connections to grow old.
func TestANodeOfGaleraThatComesBackCostsMaxTTL(t *testing.T) {
	t.Parallel()
	const ttl, greatest = 4 * time.Second, 8 * time.Second
	first, second := testbed.StartGalera(t)
	proxy := startHAProxy(t, first.Addr(), second.Addr())
	db := first.Database(t)
	maker, err := mysql.Open(mysql.Options{Config: db.Admin})
	if err == nil {
		defer maker.Close()
		err = maker.CreateTables(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	var members []*election.Election
	for _, id := range []string{"a", "b"} {
		b, err := mysql.Open(mysql.Options{Config: at(db.User, proxy.Addr()), MaxTTL: greatest})
		e := join(t, id, ttl, b, err)
		if err := e.Lead(nil); err != nil {
			t.Fatal(err)
		}
		members = append(members, e)
	}
	somebodyLeads(t, members)
	first.Terminate(t)
	testbed.Eventually(t, patience, "nobody leads", func() error {
		if members[0].Leading() || members[1].Leading() {
			return fmt.Errorf("%+v", members[0].Current())
		}
		return nil
	})
	somebodyLeads(t, members)
	first.Start(t)
	if gap := without(t, "the first node is back", members, 60*time.Second); gap > greatest+10*time.Second {
		t.Errorf("nobody led for %v after the first node came back", gap)
	}
}

func somebodyLeads(t *testing.T, members []*election.Election) {
	t.Helper()
	testbed.Eventually(t, patience, "somebody leads", func() error {
		if !members[0].Leading() && !members[1].Leading() {
			return fmt.Errorf("%+v", members[0].Current())
		}
		return nil
	})
}

// without watches members for a while, and returns for how long at a time none of them has led.
func without(t *testing.T, when string, members []*election.Election, while time.Duration) (longest time.Duration) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ended, led := time.Now().Add(while), time.Now()
	for now := led; now.Before(ended); now = <-tick.C {
		leaders := 0
		for _, e := range members {
			if e.Leading() {
				leaders++
			}
		}
		if leaders > 1 {
			t.Fatalf("%s: two lead", when)
		}
		if longest = max(longest, now.Sub(led)); leaders == 1 {
			led = now
		}
	}
	t.Logf("%s: nobody led for %v", when, longest.Round(time.Millisecond))
	return longest
}

// startHAProxy starts an HAProxy that leads each new connection to the first server that takes one. A connection that
// is open stays where it is.
func startHAProxy(t *testing.T, servers ...string) *testbed.Daemon {
	return testbed.StartProgram(t, "haproxy", "haproxy", func(program, dir, addr string) []string {
		text := "defaults\n mode tcp\n timeout connect 2s\n timeout client 1h\n timeout server 1h\n option redispatch\n" +
			"listen servers\n bind " + addr + "\n"
		for i, addr := range servers {
			text += fmt.Sprintf(" server s%d %s check inter 500ms fall 2 rise 2", i, addr)
			if i > 0 {
				text += " backup"
			}
			text += "\n"
		}
		config := filepath.Join(dir, "haproxy.cfg")
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return []string{program, "-db", "-f", config}
	})
}
