package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// A thousand idle elections cost no more messages than one, and nothing polls.
func TestManyIdleElectionsCostNoMoreThanOne(t *testing.T) {
	t.Parallel()
	const ttl, idle = 6 * time.Second, 18 * time.Second
	for _, elections := range []int{1, 1000} {
		for _, candidates := range []int{1, 2} {
			t.Run(fmt.Sprintf("%d elections, %d candidates", elections, candidates), func(t *testing.T) {
				t.Parallel()
				server := testbed.StartPostgres(t, testbed.PostgresOptions{Settings: []string{"log_statement=all"}})
				db := server.Database(t)
				for i := range candidates {
					testbed.Settle(t, backendOn(t, Options{DSN: db.DSN("")}), elections, ttl, i == 0)
				}
				perTTL := 3 // renewals
				if candidates == 2 {
					perTTL += 3 + 1 // the follower reads, and writes its session
				}
				// Twice as many are allowed, since new connections are checked. On a busy machine messages are
				// sent again, until it is calm for a while.
				testbed.Eventually(t, patience, "few messages are sent", func() error {
					before := server.Messages(t)
					<-time.After(idle)
					spent, most := server.Messages(t)-before, 2*int(idle/ttl)*perTTL+2
					if t.Logf("%d elections, %d candidates, %v: %d messages", elections, candidates, idle, spent); spent > most {
						return fmt.Errorf("%d messages in %v, want at most %d", spent, idle, most)
					}
					return nil
				})
			})
		}
	}
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
