package mysql

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// A thousand idle elections cost no more statements than one.
func TestManyIdleElectionsCostNoMoreThanOne(t *testing.T) {
	t.Parallel()
	const ttl, idle = 6 * time.Second, 18 * time.Second
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for _, elections := range []int{1, 1000} {
			for _, candidates := range []int{1, 2} {
				t.Run(fmt.Sprintf("%d elections, %d candidates", elections, candidates), func(t *testing.T) {
					t.Parallel()
					l := newLab(t, testbed.Start(t, testbed.Options{Kind: k}))
					for i := range candidates {
						testbed.Settle(t, backendOn(t, Options{Config: l.User}), elections, ttl, i == 0)
					}
					const read, write = 1, 7 // statements of a message
					perTTL := 3 * write      // renewals
					if candidates == 2 {     // the follower reads, and writes its session
						perTTL += 3*read + write + 2 // and waits for the lock
					}
					// Twice as many are allowed, since new connections are set up. On a busy machine messages are
					// sent again, until it is calm for a while.
					testbed.Eventually(t, patience, "few statements are sent", func() error {
						before := l.statements(t)
						<-time.After(idle)
						spent, most := l.statements(t)-before, int64(2*int(idle/ttl)*perTTL+10)
						if t.Logf("%d elections, %d candidates, %v: %d statements", elections, candidates, idle, spent); spent > most {
							return fmt.Errorf("%d statements in %v, want at most %d", spent, idle, most)
						}
						return nil
					})
				})
			}
		}
	})
}

// statements returns how many the server has run.
func (l *lab) statements(t testing.TB) (n int64) {
	t.Helper()
	var name string
	if err := l.admin.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
