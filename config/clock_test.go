package config_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

type stepped interface {
	Step(testing.TB, time.Duration)
	restarted
}

// A server's clock is ahead when it starts, is set right, and later set to another day. Its leader leads on, another is
// elected after it, and terms are by no clock of a server.
func TestNoClockOfAServerEndsALeadership(t *testing.T) {
	testbed.Full(t, "starts servers on other clocks")
	t.Parallel()
	maria := testbed.Start(t, testbed.MariaDB, testbed.Options{Clock: true})
	pg := testbed.StartPostgres(t, testbed.Options{Clock: true})
	zoo := testbed.StartZooKeeper(t, testbed.Options{Clock: true})
	for store, c := range map[string]struct {
		server stepped
		conf   string
	}{
		"mysql":     {maria, fmt.Sprintf("mysql: {dsn: %q, max_ttl: 8s}", mysqlTable(t, maria))},
		"postgres":  {pg, fmt.Sprintf("postgres: {dsn: %q, max_ttl: 8s}", pg.Database(t).DSN(""))},
		"zookeeper": {zoo, fmt.Sprintf("zookeeper: {servers: [%q]}", zoo.Addr())},
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			c.server.Step(t, 2*time.Hour)
			c.server.Terminate(t)
			c.server.Start(t)
			text := "backend: " + store + "\n" + c.conf
			leader, log := logged(t, text)
			leads(t, leader)
			first := leader.Leadership()
			for _, step := range []time.Duration{-2 * time.Hour, 26 * time.Hour, -48 * time.Hour, 8 * 365 * 24 * time.Hour} {
				c.server.Step(t, step)
				<-time.After(9 * time.Second)
				if now := leader.Leadership(); now == nil || now.Term != first.Term {
					t.Errorf("a step of %v has ended a leadership: %v", step, leader.Current())
				}
			}
			next, _ := logged(t, text)
			if err := leader.Resign(t.Context()); err != nil {
				t.Error(err)
			}
			leads(t, next)
			if term := next.Leadership().Term; term <= first.Term || aheadOfTheClock(term) > 0 {
				t.Errorf("the next term is %d after %d, %v ahead of the clock", term, first.Term, aheadOfTheClock(term))
			}
			log.want(t, "level=", 0)
		})
	}
}
