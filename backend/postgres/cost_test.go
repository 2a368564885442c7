package postgres

import (
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A thousand idle elections cost no more messages than one, and nothing polls.
func TestManyIdleElectionsCostNoMoreThanOne(t *testing.T) {
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.Options{Args: []string{"--log_statement=all"}})
	o := Options{DSN: server.Database(t).DSN("")}
	const leader = 3       // renewals
	const follower = 3 + 1 // it reads, and writes its session
	drivertest.CostsLittle(t, func() backend.Backend { return backendOn(t, o) }, func() int { return server.Messages(t) }, leader, leader+follower)
}
