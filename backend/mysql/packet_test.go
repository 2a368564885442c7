package mysql

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/lease/leasetest"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// What a server grants it can renew, whatever the number of elections and the length of their names, though it takes no
// message of more than 1 MiB.
func TestNoMessageGrowsWithTheNumberOfElections(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	server := testbed.Start(t, testbed.Options{Kind: testbed.MariaDB, Args: []string{"--max-allowed-packet=1M"}})
	t.Run("driver", func(t *testing.T) {
		leasetest.Run(t, leasetest.Harness{NewStore: func(t testing.TB) func(testing.TB) lease.Driver {
			l := newLab(t, server)
			return func(t testing.TB) lease.Driver { return open(t, Options{Config: l.User}) }
		}})
	})
	for _, c := range []struct{ elections, length int }{{10_000, 40}, {5_000, 196}} {
		t.Run(fmt.Sprintf("%d elections with names of %d bytes", c.elections, c.length), func(t *testing.T) {
			l := newLab(t, server)
			b := backendOn(t, Options{Config: l.User, MaxTTL: ttl})
			m, err := election.New(b, election.Options{ID: "a", TTL: ttl, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			all := make([]*election.Election, c.elections)
			for i := range all {
				if all[i], err = m.Join(fmt.Sprintf("%s%05d", strings.Repeat("n", c.length-5), i)); err == nil {
					err = all[i].Lead(nil)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			terms := make([]uint64, len(all))
			testbed.Eventually(t, 2*patience, "all elections are led", func() error {
				for i, e := range all {
					led := e.Leadership()
					if led == nil {
						return errors.New(e.Current().String())
					}
					terms[i] = led.Term
				}
				return nil
			})
			<-time.After(ttl + ttl/4)
			for i, e := range all {
				if led := e.Leadership(); led == nil || led.Term != terms[i] {
					t.Fatalf("more than a TTL later: %v, it was led in term %d", e.Current(), terms[i])
				}
			}
			m.Close(t.Context())
		})
	}
}
