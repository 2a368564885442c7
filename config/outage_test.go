package config_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
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
	c, err := config.Parse("", []byte("ttl: 5s\n"+text), config.Options{Environ: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	log := new(said)
	c.Election.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	m, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(t.Context()) })
	for _, name := range names {
		e, err := m.Join(name)
		if err == nil {
			err = e.Lead(nil)
		}
		if err != nil {
			t.Fatal(err)
		}
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

// After a restart Redis may have lost a grant, so nobody leads for max_ttl. Leader and follower say so, and when it is over.
func TestARestartOfRedisIsSaid(t *testing.T) {
	testbed.Full(t, "restarts a server")
	t.Parallel()
	const waits, over = "nobody can be elected for a while: the store is new, was restarted or restored", "elections can be won again"
	server := testbed.StartRedis(t, testbed.RedisOptions{})
	store := fmt.Sprintf("backend: redis\nredis: {addresses: [%q], max_ttl: 15s}", server.Addr())
	leader, log := logged(t, "id: a\n"+store)
	leads(t, leader)
	log.want(t, waits, 1) // a server that has just begun
	log.want(t, over, 1)
	_, follower := logged(t, "id: b\n"+store)
	for n := 2; n < 4; n++ {
		server.Kill(t)
		server.Start(t)
		log.want(t, waits, n)
		follower.want(t, waits, n-1)
		log.want(t, over, n)
		follower.want(t, over, n-1)
	}
	log.want(t, "until=", 3)
}

func TestAStoppedPostgresIsSaid(t *testing.T) {
	testbed.Full(t, "stops a server")
	t.Parallel()
	const away, again = "calls to the store fail: this process cannot be elected until they succeed", "calls to the store succeed again"
	server := testbed.StartPostgres(t, testbed.PostgresOptions{})
	store := fmt.Sprintf("backend: postgres\npostgres: {dsn: %q}", server.Database(t).DSN(""))
	leader, log := logged(t, "id: a\n"+store)
	leads(t, leader)
	_, follower := logged(t, "id: b\n"+store)
	for n := 1; n < 3; n++ {
		server.Stop(t)
		log.want(t, away, n)
		follower.want(t, away, n)
		server.Continue(t)
		log.want(t, again, n)
		follower.want(t, again, n)
	}
}
