package connections

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	first, second := startGalera(t)
	proxy := startHAProxy(t, first.Addr(), second.Addr())
	db := withTable(t, first)
	var members []*election.Election
	for _, id := range []string{"a", "b"} {
		b, err := mysql.Open(mysql.Options{Config: at(db.User, proxy.Addr()), MaxTTL: greatest})
		e := join(t, id, ttl, b, err)
		testbed.NoError(t, e.Lead(nil))
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

// startGalera starts two nodes of a Galera cluster of MariaDB. The first one may end in order, and come back: it gets from
// the second what it has missed.
func startGalera(t *testing.T) (first, second *testbed.Server) {
	t.Helper()
	providers, _ := filepath.Glob("/usr/lib*/galera*/libgalera_smm.so")
	if len(providers) == 0 {
		testbed.Unavailable(t, "Galera", "Debian: galera-4")
	}
	group := []string{testbed.FreeAddr(t), testbed.FreeAddr(t)}
	args := func(i int) []string {
		return []string{
			"--wsrep-on=ON", "--wsrep-provider=" + providers[0], "--wsrep-cluster-address=gcomm://" + strings.Join(group, ","),
			"--wsrep-provider-options=gcache.size=8M;gmcast.listen_addr=tcp://" + group[i] + ";ist.recv_addr=" + testbed.FreeAddr(t),
			"--wsrep-node-address=" + group[i], "--wsrep-sst-method=mysqldump", "--wsrep-sst-auth=root:", "--wsrep-sst-receive-address=AUTO",
			"--binlog-format=ROW", "--default-storage-engine=InnoDB", "--innodb-autoinc-lock-mode=2",
		}
	}

	// The second node begins with what the first one has, so that nothing has to be transferred.
	first = testbed.Start(t, testbed.MariaDB, testbed.Options{Args: append(args(0), "--wsrep-new-cluster")})
	second = testbed.Start(t, testbed.MariaDB, testbed.Options{Args: []string{"--wsrep-on=OFF"}})
	first.Terminate(t)
	second.Terminate(t)
	second.ReplaceData(t, first.SaveData(t))
	first.Start(t)
	second.SetArgs(t, args(1))
	second.Start(t)
	testbed.Eventually(t, patience, "the second node has joined", func() error {
		var name, state string
		err := second.Admin().QueryRowContext(t.Context(), "SHOW STATUS LIKE 'wsrep_local_state_comment'").Scan(&name, &state)
		if err == nil && state != "Synced" {
			err = fmt.Errorf("it is %s", state)
		}
		return err
	})
	first.SetArgs(t, args(0)) // when it comes back, it joins the cluster that is there
	return first, second
}

// startHAProxy starts an HAProxy that leads each new connection to the first server that takes one. A connection that
// is open stays where it is.
func startHAProxy(t *testing.T, servers ...string) *testbed.Daemon {
	return testbed.StartProgram(t, "haproxy", "haproxy", func(program string, d *testbed.Daemon) []string {
		text := "defaults\n mode tcp\n timeout connect 2s\n timeout client 1h\n timeout server 1h\n option redispatch\n" +
			"listen servers\n bind " + d.Addr() + "\n"
		for i, addr := range servers {
			text += fmt.Sprintf(" server s%d %s check inter 500ms fall 2 rise 2", i, addr)
			if i > 0 {
				text += " backup"
			}
			text += "\n"
		}
		config := filepath.Join(d.Dir(), "haproxy.cfg")
		testbed.NoError(t, os.WriteFile(config, []byte(text), 0o644))
		return []string{program, "-db", "-f", config}
	})
}
