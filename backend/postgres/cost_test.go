package postgres

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/election"
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
					settle(t, db, elections, ttl, i == 0)
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

// settle opens a manager that campaigns for elections, and waits until it leads them or knows the leader.
func settle(t testing.TB, db *testbed.PostgresDatabase, elections int, ttl time.Duration, leads bool) {
	t.Helper()
	m, err := election.New(backendOn(t, Options{DSN: db.DSN("")}), election.Options{ID: fmt.Sprint("leads ", leads), TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	var joined []*election.Election
	for k := range elections {
		e, err := m.Join(fmt.Sprintf("jobs%04d", k))
		if err == nil {
			err = e.Lead(nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		joined = append(joined, e)
	}
	testbed.Eventually(t, patience, "the manager has settled", func() error {
		for _, e := range joined {
			if _, _, known := e.Leader(); !known || leads && !e.Leading() {
				return errors.New(e.Current().String())
			}
		}
		return nil
	})
}

// A follower learns of a resignation at once.
func TestAHandoverTakesMilliseconds(t *testing.T) {
	t.Parallel()
	db := testbed.SharedPostgres(t).Database(t)
	o := Options{DSN: db.DSN("")}
	const ttl = 12 * time.Second // a poll is far away
	a := join(t, "a", ttl, o)
	follower := backendOn(t, o)
	b := joinOn(t, "b", ttl, follower)
	led, err := a.Campaign(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	elected := make(chan time.Time, 10)
	b.Watch(func(ev election.Event) {
		if ev.Leading && ev.Kind == election.Elected {
			elected <- time.Now()
		}
	})
	if err := b.Lead(nil); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, patience, "b follows", func() error {
		if who, _, known := b.Leader(); !known || who.ID != "a" {
			return errors.New(b.Current().String())
		}
		return nil
	})
	testbed.Eventually(t, patience, "b listens", func() error {
		if follower.driver.Position() == 1 {
			return errors.New("it does not")
		}
		return nil
	})
	began := time.Now()
	if err := led.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := (<-elected).Sub(began); took > 1500*time.Millisecond { // this allows for all other tests; alone it takes milliseconds
		t.Errorf("the handover took %v", took)
	} else {
		t.Logf("the handover took %v", took)
	}
}
