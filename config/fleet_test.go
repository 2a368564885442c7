package config_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionshard"
	"github.com/go-election/go-election/lab/testbed"
)

// said is a log.
type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, string(line))
	return len(line), nil
}

// want waits until the log has a number of lines with a text, and fails if it has more.
func (s *said) want(t *testing.T, text string, n int) {
	t.Helper()
	testbed.Eventually(t, 2*time.Minute, fmt.Sprintf("the log says %q %d times", text, n), func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if got := strings.Count(strings.Join(s.lines, ""), text); got != n {
			return fmt.Errorf("%d times:\n%s", got, strings.Join(s.lines, ""))
		}
		return nil
	})
}

// logged joins "jobs" as a candidate with this configuration.
func logged(t *testing.T, text string) (*election.Election, *said) {
	t.Helper()
	m, log := candidates(t, text, "jobs")
	return m.Election("jobs"), log
}

// candidates joins elections as a candidate with this configuration.
func candidates(t *testing.T, text string, names ...string) (*election.Manager, *said) {
	t.Helper()
	c, err := config.Parse("", []byte("ttl: 8s\n"+text), config.Options{Environ: []string{}})
	testbed.NoError(t, err)
	log := new(said)
	c.Election.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	m, err := c.Open(t.Context())
	testbed.NoError(t, err)
	t.Cleanup(func() { m.Close(t.Context()) })
	for _, name := range names {
		e, err := m.Join(name)
		if err == nil {
			err = e.Lead(nil)
		}
		testbed.NoError(t, err)
	}
	return m, log
}

func leads(t *testing.T, e *election.Election) {
	t.Helper()
	testbed.Eventually(t, 2*time.Minute, "it leads", func() error {
		if !e.Leading() {
			return fmt.Errorf("it does not")
		}
		return nil
	})
}

// fleetNames are the elections of a fleet.
var fleetNames = electionshard.Names("e", 200)

func leadsAll(t *testing.T, ms ...*election.Manager) {
	t.Helper()
	testbed.Eventually(t, time.Minute, "they lead all", func() error {
		n := 0
		for _, name := range fleetNames {
			for _, m := range ms {
				if m.Election(name).Leading() {
					n++
				}
			}
		}
		if n != len(fleetNames) {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
}

// wantEach fails unless the log has each of these texts once, in a line of its own, and no other line.
func (s *said) wantEach(t *testing.T, who string, texts ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range texts {
		if n := strings.Count(strings.Join(s.lines, ""), text); n != 1 {
			t.Errorf("%s says %q %d times", who, text, n)
		}
	}
	if len(s.lines) != len(texts) || t.Failed() {
		t.Errorf("%s says in %d lines, want %d:\n%.3000s", who, len(s.lines), len(texts), strings.Join(s.lines, ""))
	}
}

const (
	fails   = "calls to the store fail: this process cannot be elected until they succeed"
	succeed = "calls to the store succeed again"
	lost    = "lost leader"
	doubt   = "nobody can be elected for a while"
	over    = "elections can be won again"
)

// An empty server comes in the place of another, under a leader and a follower of 200 elections: say a directory was lost.
// Each says once what has happened, until when it waits, and that it is over.
func TestAnEmptyServerIsSaidOnce(t *testing.T) {
	testbed.Full(t, "replaces servers")
	t.Parallel()
	redis, redis2 := testbed.StartRedis(t, testbed.Options{}), testbed.StartRedis(t, testbed.Options{})
	etcd, etcd2 := testbed.StartEtcd(t, testbed.Options{}), testbed.StartEtcd(t, testbed.Options{})
	for store, c := range map[string]struct{ from, to, conf string }{
		"redis": {redis.Addr(), redis2.Addr(), "redis: {addresses: [%q], max_ttl: 8s}"},
		"etcd":  {etcd.Addr(), etcd2.Addr(), "etcd: {endpoints: ['http://%s']}"},
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			proxy := testbed.NewProxy(t, c.from)
			text := "backend: " + store + "\n" + fmt.Sprintf(c.conf, proxy.Addr())
			a, leader, b, follower := pair(t, text)
			proxy.SetTarget(c.to)
			proxy.Reset()
			leader.want(t, over, 1)
			follower.want(t, over, 1)
			leadsAll(t, a, b)
			leader.wantEach(t, "the leader", lost, doubt, over)
			follower.wantEach(t, "the follower", doubt, over)
		})
	}
}

// pair starts a leader and a follower, and waits until all of their elections are renewed and read together.
func pair(t *testing.T, text string) (a *election.Manager, leader *said, b *election.Manager, follower *said) {
	t.Helper()
	a, leader = candidates(t, "id: a\n"+text, fleetNames...)
	leadsAll(t, a)
	b, follower = candidates(t, "id: b\n"+text, fleetNames...)
	<-time.After(9 * time.Second)
	leader.forget()
	follower.forget()
	return a, leader, b, follower
}

func (s *said) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = nil
}

// Somebody alters or locks the table under a leader and a follower of 200 elections.
func TestALockedTableIsSaidOnce(t *testing.T) {
	testbed.Full(t, "locks tables")
	t.Parallel()
	maria := testbed.Shared(t, testbed.MariaDB)
	dsn := mysqlTable(t, maria)
	schema, _ := mysqldriver.ParseDSN(dsn)
	pg := testbed.SharedPostgres(t).Database(t)
	for store, c := range map[string]struct {
		conf string
		lock func() (unlock func())
	}{
		"mysql": {fmt.Sprintf("mysql: {dsn: %q}", dsn), func() func() {
			c, err := maria.Admin().Conn(t.Context())
			testbed.NoError(t, err)
			_, err = c.ExecContext(t.Context(), "LOCK TABLES `"+schema.DBName+"`.election_item WRITE")
			testbed.NoError(t, err)
			return func() {
				c.ExecContext(context.Background(), "UNLOCK TABLES")
				c.Close()
			}
		}},
		"postgres": {fmt.Sprintf("postgres: {dsn: %q}", pg.DSN("")), func() func() {
			c, err := pgx.Connect(t.Context(), pg.DSN(""))
			testbed.NoError(t, err)
			_, err = c.Exec(t.Context(), "BEGIN; ALTER TABLE election_item ADD COLUMN mine text")
			testbed.NoError(t, err)
			return func() { c.Close(context.Background()) }
		}},
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			text := "backend: " + store + "\n" + c.conf
			a, leader, b, follower := pair(t, text)
			unlock := c.lock()
			leader.want(t, lost, 1)
			leader.want(t, fails, 1)
			follower.want(t, fails, 1)
			<-time.After(10 * time.Second)
			leader.wantEach(t, "the leader", lost, fails)
			follower.wantEach(t, "the follower", fails)
			leader.want(t, "another session keeps", 2)
			follower.want(t, "another session keeps", 1)
			unlock()
			leader.want(t, succeed, 1) // both bid for all elections now: where a machine is busy, that may fail for itself
			follower.want(t, succeed, 1)
			leadsAll(t, a, b)
		})
	}
}
