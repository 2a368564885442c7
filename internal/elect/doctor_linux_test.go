package elect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

func TestDoctorExplainsGoodAndUnreachableStores(t *testing.T) {
	t.Parallel()
	out, code := call(t, onFiles(t), "doctor", "--write")
	for _, want := range []string{"elected in term", "idle load", "directory", "the greatest TTL is"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("code %d; want %q in\n%s", code, want, out)
		}
	}
	env := environ("ELECTION_BACKEND=mysql", "ELECTION_MYSQL_DSN=app:secret-word@tcp(127.0.0.1:1)/app")
	for _, args := range [][]string{{"doctor"}, {"doctor", "--write"}} { // checks that need the store are not reported as ok
		out, code := call(t, env, args...)
		if code != exitVacant || !strings.Contains(out, "problem  store") || strings.Contains(out, "secret-word") {
			t.Errorf("%q: code %d:\n%s", args, code, out)
		}
		if strings.Count(out, "\nok ") > 0 || !strings.Contains(out, "Nothing else was checked.") {
			t.Errorf("%q: want ok for the configuration alone, and that nothing else was checked:\n%s", args, out)
		}
	}
	if out, code := call(t, environ("ELECTION_BACKEND=mysqll"), "doctor"); code != exitVacant || !strings.Contains(out, "problem  configuration") {
		t.Errorf("code %d:\n%s", code, out)
	}
}

func TestDoctorChecksMySQLAndMariaDB(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		env := environ(onServer(t, testbed.Shared(t, k))...)
		doctorSays(t, env, "elected in term", "server", "connections", "greatest TTL", "without a leader")
	})
}

// One server has the table of other programs, the tables of mysqltable beside it, and the tables of
// mysql, to which the elections move.
func TestDoctorChecksBothStoresOfAMigration(t *testing.T) {
	t.Parallel()
	d := testbed.Shared(t, testbed.MariaDB).Database(t)
	d.Exec(t, `CREATE TABLE leader_election (service_id varchar(50) NOT NULL PRIMARY KEY, leader_id varchar(50) NOT NULL DEFAULT '',
 update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)`)
	for _, store := range []string{"mysql", "mysqltable"} {
		if out, code := call(t, onDSN(t, store, d.Admin), "schema", "--apply"); code != 0 {
			t.Fatalf("code %d: %s", code, out)
		}
	}
	doctorSays(t, onDSN(t, "mysqltable", d.User), "elected in term", "server", "connections", "greatest TTL")
	moving := append(onDSN(t, "migration", d.User), "ELECTION_MIGRATION_FROM=mysqltable", "ELECTION_MIGRATION_TO=mysql", "ELECTION_MIGRATION_STAGE=both")
	doctorSays(t, moving, "elected in term", "greatest TTL   mysqltable: ", "greatest TTL   mysql: ")
}

func TestDoctorChecksEtcdConsulAndZooKeeper(t *testing.T) {
	t.Parallel()
	for store, wants := range map[string][]string{
		"etcd":      {"leads the cluster"},
		"consul":    {"servers", "nobody can lead while it is down"},
		"zookeeper": {"mode standalone", "rights"},
		"curator":   {"mode standalone", "rights"},
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			doctorSays(t, on(t, store), append(wants, "elected in term", "elections", "members", "without a leader")...)
		})
	}
}

// Two jobs of one host may both have the host's name as their id.
func TestStatusCountsTheCandidatesOfOneElection(t *testing.T) {
	t.Parallel()
	env := onFiles(t, "ELECTION_TTL=2s")
	for _, job := range []string{"billing", "mail"} {
		start(t, env, "run", job, "--id", "host-1", "--", "sleep", "300").says("elect: leads")
	}
	twin := start(t, env, "run", "mail", "--id", "host-1", "--", "sleep", "300")
	twin.says(`notice: same id ("another live process, with the address \"\", has the id \"host-1\" as well`)
	if out, _ := call(t, env, "status", "billing"); strings.Count(out, "host-1, ") != 1 {
		t.Errorf("status of a job with one candidate, beside another job on the store:\n%s", out)
	}
}

// doctorSays waits until elect doctor reports no problem and prints all these texts. It repeats
// the call, because a machine that is too busy to lead is a problem too.
func doctorSays(t *testing.T, env []string, wants ...string) {
	t.Helper()
	testbed.Eventually(t, patience, "elect doctor reports no problem", func() error {
		out, code := call(t, env, "doctor", "--write")
		for _, want := range wants {
			if code != 0 || !strings.Contains(out, want) {
				return fmt.Errorf("code %d; want %q in\n%s", code, want, out)
			}
		}
		t.Logf("\n%s", out)
		return nil
	})
}

// Two of three servers are dead, so that nothing can be read. The third one says why.
func TestDoctorSaysWhyNothingCanBeRead(t *testing.T) {
	t.Parallel()
	for store, c := range map[string]struct {
		start func(testing.TB, int) []*testbed.Daemon
		as    string
		want  string
	}{
		"consul":    {testbed.StartConsulCluster, "ELECTION_CONSUL_ADDRESS", "none leads: there is no majority"},
		"zookeeper": {testbed.StartZooKeeperEnsemble, "ELECTION_ZOOKEEPER_SERVERS", "not currently serving requests"},
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			servers := c.start(t, 3)
			servers[1].Kill(t)
			servers[2].Kill(t)
			env := environ("ELECTION_BACKEND="+store, c.as+"="+servers[0].Addr())
			testbed.Eventually(t, patience, "elect doctor says why", func() error {
				out, code := call(t, env, "doctor")
				if code != exitVacant || !strings.Contains(out, "problem  store") || !strings.Contains(out, c.want) {
					return fmt.Errorf("code %d; want a problem and %q in\n%s", code, c.want, out)
				}
				return nil
			})
		})
	}
}

// With a guard, a crash of the process costs milliseconds, and one of the machine what it costs without.
func TestTheDoctorSaysWhatACrashCostsWithAGuard(t *testing.T) {
	var list diagnostics
	list.addExpectations(election.Options{TTL: 10 * time.Second, RenewEvery: 3 * time.Second, CallTimeout: time.Second}, backend.Guarantees{Exclusive: true, DurableTerms: true}, true)
	if got := list[0].Text; !strings.HasPrefix(got, "of the process: milliseconds") || !strings.Contains(got, "of the machine: from 7s to 14s without a leader") {
		t.Errorf("the doctor says of a crash: %s", got)
	}
}
