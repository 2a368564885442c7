package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// A thousand idle elections cost no more messages than one, and nothing polls.
func TestManyIdleElectionsCostNoMoreThanOne(t *testing.T) {
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.PostgresOptions{Settings: []string{"log_statement=all"}})
	o := Options{DSN: server.Database(t).DSN("")}
	const leader = 3       // renewals
	const follower = 3 + 1 // it reads, and writes its session
	testbed.CostsLittle(t, func() backend.Backend { return backendOn(t, o) }, func() int { return server.Messages(t) }, leader, leader+follower)
}

// A follower learns of a resignation at once.
func TestAHandoverTakesMilliseconds(t *testing.T) {
	t.Parallel()
	db := testbed.SharedPostgres(t).Database(t)
	o := Options{DSN: db.DSN("")}
	const ttl = 12 * time.Second // a poll is far away
	a := join(t, "a", ttl, o)
	follower := backendOn(t, o)
	b := testbed.Join(t, "b", ttl, follower)
	testbed.HandsOver(t, a, b, 1500*time.Millisecond, func() error {
		if who, _, known := b.Leader(); !known || who.ID != "a" || follower.driver.Position() == 1 {
			return fmt.Errorf("%v, at position %d", b.Current(), follower.driver.Position())
		}
		return nil
	})
}
