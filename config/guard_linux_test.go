package config_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-election/go-election/backend/all"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

func TestMain(m *testing.M) {
	config.RunGuard()
	if text := os.Getenv("GUARDED_CONFIG"); text != "" {
		if err := candidate(text); err != nil {
			fmt.Println("error", err)
		}
		return
	}
	os.Exit(m.Run())
}

// candidate leads "jobs" if it can, says so, and ends with its input.
func candidate(text string) error {
	os.Unsetenv("GUARDED_CONFIG")
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
	e.Watch(func(ev election.Event) {
		switch {
		case ev.Leading && ev.Kind == election.Elected:
			fmt.Println("leads", ev.Term, ev.Previous.ID, ev.Why())
		case ev.Kind == election.Vacant:
			fmt.Println("vacant", ev.Why())
		}
	})
	if err := e.Lead(nil); err != nil {
		return err
	}
	io.Copy(io.Discard, os.Stdin)
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

// A process is a candidate.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
}

func startCandidate(t *testing.T, id, store string, guard bool) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0]), lines: make(chan string, 1000)}
	p.cmd.Env = append(os.Environ(), fmt.Sprintf("GUARDED_CONFIG=id: %s\nttl: %v\nguard: %v\n%s\n", id, guardTTL, guard, store))
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
		close(p.lines)
	}()
	t.Cleanup(func() {
		in.Close() // then it ends in order, and its guard does
		testbed.Eventually(t, time.Minute, "the candidate ends", func() error {
			select {
			case _, ok := <-p.lines:
				if !ok {
					return nil
				}
			default:
			}
			return errors.New("it is there")
		})
		p.cmd.Wait()
	})
	return p
}

// leads waits until the process leads, and returns the term.
func (p *process) leads() uint64 {
	p.t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok || strings.HasPrefix(line, "error") {
				p.t.Fatalf("the candidate says %q", line)
			}
			if f := strings.Fields(line); f[0] == "leads" {
				term, _ := strconv.ParseUint(f[1], 10, 64)
				return term
			}
		case <-limit:
			p.t.Fatal("no leader within a minute")
		}
	}
}

// guard returns the process that guards p.
func (p *process) guard() int {
	p.t.Helper()
	pid, err := testbed.GuardOf(p.cmd.Process.Pid)
	if err != nil {
		p.t.Fatal(err)
	}
	return pid
}

// After kill -9 of a leader with a guard, the next one leads long before the TTL has passed.
func TestAKilledLeaderWithAGuardIsSucceededAtOnce(t *testing.T) {
	testbed.Full(t, "kills processes")
	for name, store := range guardStores(t) {
		t.Run(name, func(t *testing.T) {
			leader, next := startCandidate(t, "p0", store, true), (*process)(nil)
			term := leader.leads()
			var took []time.Duration
			for i := range 5 {
				next = startCandidate(t, fmt.Sprint("p", i+1), store, true)
				<-time.After(time.Second) // it observes by then
				killed := time.Now()
				leader.cmd.Process.Kill()
				now := next.leads()
				took = append(took, time.Since(killed).Round(time.Millisecond))
				if now <= term {
					t.Errorf("term %d after %d", now, term)
				}
				leader, term = next, now
			}
			t.Log("from kill -9 until the next leads:", took)
			for _, d := range took {
				if d > guardTTL/2 {
					t.Errorf("it took %v, with a TTL of %v", d, guardTTL)
				}
			}
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
			leader := startCandidate(t, "p0", store, true)
			term := leader.leads()
			next := startCandidate(t, "p1", store, true)
			<-time.After(2 * time.Second) // it observes by then
			killed := time.Now()
			leader.cmd.Process.Kill()
			now := next.leads()
			if took := time.Since(killed); took > guardTTL/2 || now <= term {
				t.Errorf("it took %v to lead in term %d after %d, with a TTL of %v", took, now, term, guardTTL)
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
			leader := startCandidate(t, "p0", store, true)
			leader.leads()
			next := startCandidate(t, "p1", store, false)
			guard := leader.guard()
			syscall.Kill(guard, syscall.SIGSTOP)
			leader.cmd.Process.Kill()
			next.leads()
			syscall.Kill(guard, syscall.SIGCONT)
			testbed.Eventually(t, time.Minute, "the guard ends", func() error {
				if err := syscall.Kill(guard, 0); err == nil {
					return fmt.Errorf("process %d is there", guard)
				}
				return nil
			})
			select {
			case line := <-next.lines:
				t.Errorf("after the late guard the leader says %q", line)
			case <-time.After(guardTTL / 2): // a renewal and more
			}
		})
	}
}

// If the store does not answer when a leader dies, the guard tries until it does.
func TestAGuardWaitsForTheStore(t *testing.T) {
	testbed.Full(t, "stops a server")
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.PostgresOptions{})
	store := fmt.Sprintf("backend: postgres\npostgres: {dsn: %q}", server.Database(t).DSN(""))
	leader := startCandidate(t, "p0", store, true)
	leader.leads()
	next := startCandidate(t, "p1", store, true)
	<-time.After(time.Second) // it observes by then
	server.Stop(t)
	killed := time.Now()
	leader.cmd.Process.Kill()
	const away = 2 * time.Second
	<-time.After(away)
	server.Continue(t)
	next.leads()
	if took := time.Since(killed); took < away || took > guardTTL*6/10 { // without a guard, two thirds of the TTL and more
		t.Errorf("the next one leads %v after the kill, with a store that was away for %v", took, away)
	}
}

// A guard gets what opens the store through a pipe.
func TestAGuardShowsNoSecret(t *testing.T) {
	testbed.Full(t, "needs a server")
	t.Parallel()
	d := testbed.SharedPostgres(t).Database(t)
	leader := startCandidate(t, "p0", fmt.Sprintf("backend: postgres\npostgres: {dsn: %q}", d.DSN("")), true)
	leader.leads()
	for _, file := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", leader.guard(), file))
		if err != nil || strings.Contains(string(text), d.Password) {
			t.Errorf("%s of the guard has the password, or cannot be read: %v", file, err)
		}
	}
}

// Without the first line of main, a guard would be a second program. A store that cannot release for
// others is refused, too.
func TestAGuardThatCannotWorkIsAnErrorAtOnce(t *testing.T) {
	c, err := config.Parse("", []byte("backend: memory\nguard: true"), config.Options{Environ: []string{}})
	if err != nil {
		t.Fatal(err)
	}
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
