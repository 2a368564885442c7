package config_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/lab/testbed"
)

// The test binary is also the program of the candidates that it starts, and of their guards.
const candidateArg = "GO_ELECTION_TEST_CANDIDATE"

func TestMain(m *testing.M) {
	config.RunGuard()
	if arg := os.Getenv(candidateArg); arg != "" {
		if err := candidate(arg); err != nil {
			fmt.Fprintln(os.Stderr, "candidate:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// candidate is the program of a [testbed.Member] with a configuration.
func candidate(arg string) error {
	os.Unsetenv(candidateArg)
	var text string
	if err := json.Unmarshal([]byte(arg), &text); err != nil {
		return err
	}
	c, err := config.Parse("test.yaml", []byte(text), config.Options{Environ: []string{}})
	if err != nil {
		return err
	}
	m, err := c.Open(context.Background())
	if err != nil {
		return err
	}
	e, err := m.Join("jobs")
	if err != nil {
		return err
	}
	if err := e.Lead(nil); err != nil {
		return err
	}
	testbed.Say(e.Leading, func() string {
		leader, _, _ := e.Leader()
		return leader.ID
	})
	return m.Close(context.Background())
}

// guardTTL is long beside what a guard takes.
const guardTTL = 10 * time.Second

// guardStores returns a configuration on each store that guards serve.
func guardStores(t *testing.T) map[string]string {
	return map[string]string{
		"MariaDB":   fmt.Sprintf("backend: mysql\nmysql: {dsn: %q}", testbed.Shared(t, testbed.MariaDB).Database(t).Admin.FormatDSN()),
		"postgres":  fmt.Sprintf("backend: postgres\npostgres: {dsn: %q}", testbed.SharedPostgres(t).Database(t).DSN("")),
		"redis":     fmt.Sprintf("backend: redis\nredis: {addresses: [%q]}", testbed.SharedRedis(t).Addr()),
		"etcd":      fmt.Sprintf("backend: etcd\netcd: {endpoints: [%s], prefix: guard/}", strings.Join(testbed.SharedEtcd(t), ",")),
		"consul":    fmt.Sprintf("backend: consul\nconsul: {address: %q, prefix: guard}", testbed.SharedConsul(t).Addr()),
		"zookeeper": fmt.Sprintf("backend: zookeeper\nzookeeper: {servers: [%s], root: /guard}", strings.Join(testbed.SharedZooKeeper(t), ",")),
		"curator":   fmt.Sprintf("backend: curator\ncurator: {servers: [%s], root: /guard-curator}", strings.Join(testbed.SharedZooKeeper(t), ",")),
	}
}

// startCandidate starts a process that campaigns.
func startCandidate(f *testbed.Fleet, id, store string, guard bool) *testbed.Member {
	return f.Program(id, true, candidateArg, fmt.Sprintf("id: %s\nttl: %v\nguard: %v\n%s\n", id, guardTTL, guard, store))
}

// guardOf returns the process that guards a candidate.
func guardOf(t *testing.T, m *testbed.Member) int {
	t.Helper()
	pid, err := testbed.GuardOf(m.Pid())
	testbed.NoError(t, err)
	return pid
}

// isSucceeded kills a leader, and returns after what time the next one leads.
func isSucceeded(f *testbed.Fleet, leader, next *testbed.Member) time.Duration {
	next.Follows(leader.ID)
	killed := time.Now()
	leader.Kill()
	f.Leads(next)
	return next.Led()[0].From.Sub(killed)
}

// After kill -9 of a leader with a guard, the next one leads long before the TTL has passed.
func TestAKilledLeaderWithAGuardIsSucceededAtOnce(t *testing.T) {
	testbed.Full(t, "kills processes")
	for name, store := range guardStores(t) {
		t.Run(name, func(t *testing.T) {
			f := testbed.NewFleet(t)
			leader := f.Leads(startCandidate(f, "p0", store, true))
			for i := range 5 {
				next := startCandidate(f, fmt.Sprint("p", i+1), store, true)
				if took := isSucceeded(f, leader, next); took > guardTTL/2 {
					t.Errorf("it took %v, with a TTL of %v", took, guardTTL)
				}
				leader = next
			}
			f.NeverTwo()
		})
	}
}

// migrations returns a configuration for each stage at which a guard can work, and beside which stores.
func migrations(t *testing.T) map[string]string {
	servers := map[string]string{
		"redis":   fmt.Sprintf("redis: {addresses: [%q], prefix: %%s}", testbed.SharedRedis(t).Addr()),
		"consul":  fmt.Sprintf("consul: {address: %q, prefix: %%s}", testbed.SharedConsul(t).Addr()),
		"curator": fmt.Sprintf("curator: {servers: [%s], root: /%%s}", strings.Join(testbed.SharedZooKeeper(t), ",")),
		"file":    fmt.Sprintf("file: {dir: %q}%%.0s", t.TempDir()),
	}
	stages := map[string]string{}
	for _, c := range [][3]string{
		{"redis", "consul", "from"}, {"redis", "consul", "both"}, {"redis", "consul", "to"},
		{"file", "consul", "both"}, {"redis", "file", "both"}, {"curator", "consul", "from"}, {"curator", "consul", "both"}, {"curator", "consul", "to"},
	} {
		from, to, stage := c[0], c[1], c[2]
		text := fmt.Sprintf("backend: migration\nmigration: {from: %s, to: %s, stage: %s}\n", from, to, stage)
		for _, name := range []string{from, to} {
			text += fmt.Sprintf(servers[name], strings.Join(c[:], "-")) + "\n"
		}
		stages[strings.Join(c[:], "-")] = text
	}
	return stages
}

// A guard releases what its program's stage of a migration needs.
func TestAKilledLeaderWithAGuardIsSucceededAtOnceInAMigration(t *testing.T) {
	testbed.Full(t, "kills processes")
	for name, store := range migrations(t) {
		t.Run(name, func(t *testing.T) {
			f := testbed.NewFleet(t)
			leader := f.Leads(startCandidate(f, "p0", store, true))
			if took := isSucceeded(f, leader, startCandidate(f, "p1", store, true)); took > guardTTL/2 {
				t.Errorf("it took %v, with a TTL of %v", took, guardTTL)
			}
		})
	}
}

// A guard that was stopped, and continues when another process leads, releases nothing.
func TestALateGuardReleasesNothing(t *testing.T) {
	testbed.Full(t, "waits for a TTL")
	for name, store := range guardStores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := testbed.NewFleet(t)
			leader := f.Leads(startCandidate(f, "p0", store, true))
			next, guard := startCandidate(f, "p1", store, false), guardOf(t, leader)
			syscall.Kill(guard, syscall.SIGSTOP)
			leader.Kill()
			f.Leads(next)
			syscall.Kill(guard, syscall.SIGCONT)
			testbed.Eventually(t, time.Minute, "the guard ends", func() error {
				if err := syscall.Kill(guard, 0); err == nil {
					return fmt.Errorf("process %d is there", guard)
				}
				return nil
			})
			<-time.After(guardTTL / 2) // a renewal and more
			if led := next.Led(); len(led) != 1 || !next.Leads() {
				t.Errorf("after the late guard the leader has led %v, and leads: %v", led, next.Leads())
			}
		})
	}
}

// If the store does not answer when a leader dies, the guard tries until it does.
func TestAGuardWaitsForTheStore(t *testing.T) {
	testbed.Full(t, "stops a server")
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.Options{})
	store := fmt.Sprintf("backend: postgres\npostgres: {dsn: %q}", server.Database(t).DSN(""))
	f := testbed.NewFleet(t)
	leader := f.Leads(startCandidate(f, "p0", store, true))
	next := startCandidate(f, "p1", store, true)
	next.Follows("p0")
	server.Stop(t)
	killed := time.Now()
	leader.Kill()
	const away = 2 * time.Second
	<-time.After(away)
	server.Continue(t)
	f.Leads(next)
	if took := time.Since(killed); took < away || took > guardTTL*6/10 { // without a guard, two thirds of the TTL and more
		t.Errorf("the next one leads %v after the kill, with a store that was away for %v", took, away)
	}
}

// A guard gets what opens the store through a pipe.
func TestAGuardShowsNoSecret(t *testing.T) {
	testbed.Full(t, "needs a server")
	t.Parallel()
	d := testbed.SharedPostgres(t).Database(t)
	f := testbed.NewFleet(t)
	leader := f.Leads(startCandidate(f, "p0", fmt.Sprintf("backend: postgres\npostgres: {dsn: %q}", d.DSN("")), true))
	for _, file := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", guardOf(t, leader), file))
		if err != nil || strings.Contains(string(text), d.Password) {
			t.Errorf("%s of the guard has the password, or cannot be read: %v", file, err)
		}
	}
}

// Without the first line of main, a guard would be a second program. A store that cannot release for others is refused, too.
func TestAGuardThatCannotWorkIsAnErrorAtOnce(t *testing.T) {
	c, err := config.Parse("", []byte("backend: memory\nguard: true"), config.Options{Environ: []string{}})
	testbed.NoError(t, err)
	if _, err := c.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "guard") {
		t.Errorf("a guard of backend memory: %v, want an error", err)
	}
	if c, err = config.Parse("", []byte(fmt.Sprintf("backend: file\nguard: true\nfile: {dir: %q}", t.TempDir())), config.Options{Environ: []string{}}); err != nil {
		t.Fatal(err)
	}
	m, err := c.Open(t.Context())
	if err != nil {
		t.Fatalf("on files, which need no guard: %v", err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
