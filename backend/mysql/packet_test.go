package mysql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/lease/leasetest"
	"github.com/go-election/go-election/lab/testbed"
)

// What a server grants it can renew, whatever the number of elections and the length of their names, though it takes no
// message of more than 1 MiB.
func TestNoMessageGrowsWithTheNumberOfElections(t *testing.T) {
	t.Parallel()
	server := testbed.Start(t, testbed.Options{Kind: testbed.MariaDB, Args: []string{"--max-allowed-packet=1M"}})
	t.Run("driver", func(t *testing.T) {
		leasetest.Run(t, leasetest.Harness{NewStore: func(t testing.TB) func(testing.TB) lease.Driver {
			l := newLab(t, server)
			return func(t testing.TB) lease.Driver { return open(t, Options{Config: l.User}) }
		}})
	})
	for _, c := range []struct{ elections, length int }{{10_000, 40}, {5_000, 196}} {
		t.Run(fmt.Sprintf("%d elections with names of %d bytes", c.elections, c.length), func(t *testing.T) {
			b := backendOn(t, Options{Config: newLab(t, server).User})
			me := backend.Candidate{ID: "a", Nonce: backend.NewNonce()}
			leases, bids := make([]backend.Lease, c.elections), make([]backend.Bid, c.elections)
			for i := range leases {
				leases[i].Election = fmt.Sprintf("%s%05d", strings.Repeat("n", c.length-5), i)
			}
			leases, err := b.Observe(t.Context(), leases)
			if err != nil {
				t.Fatal(err)
			}
			for i := range bids {
				bids[i] = backend.Bid{Election: leases[i].Election, Candidate: me, TTL: time.Minute, Expected: leases[i]}
			}
			granted, err := b.Acquire(t.Context(), bids)
			if err != nil {
				t.Fatal(err)
			}
			held := make([]backend.Held, len(granted))
			for i := range granted {
				if held[i] = granted[i].Lease.Held(); granted[i].Outcome != backend.Granted {
					t.Fatalf("bid %d for a free lease: %v", i, granted[i])
				}
			}
			renewed, err := b.Renew(t.Context(), held)
			if err != nil {
				t.Fatal(err)
			}
			for i := range renewed {
				if renewed[i].Outcome != backend.Granted {
					t.Fatalf("renewal %d of what was granted: %v", i, renewed[i])
				}
			}
			if err := b.Release(t.Context(), held); err != nil {
				t.Fatal(err)
			}
			leases, err = b.Observe(t.Context(), leases)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range leases {
				if l.Held().Holder.Nonce != "" {
					t.Fatalf("after the release of all: %v", l)
				}
			}
		})
	}
}
