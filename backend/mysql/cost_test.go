package mysql

import (
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A thousand idle elections cost no more statements than one.
func TestManyIdleElectionsCostNoMoreThanOne(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		l := newLab(t, testbed.Start(t, k, testbed.Options{}))
		spent := func() (statements int) {
			var name string
			testbed.NoError(t, l.admin.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &statements))
			return statements
		}

		const read, write = 1, 7            // statements of a message
		const leader = 3 * write            // renewals
		const follower = 3*read + write + 2 // it reads, writes its session, and waits for the lock
		drivertest.CostsLittle(t, func() backend.Backend { return backendOn(t, Options{Config: l.User}) }, spent, leader, leader+follower)
	})
}
