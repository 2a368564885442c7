package mysql

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

func TestStatementsAreAsFewAsDocumented(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		l := newLabOn(t, testbed.Start(t, testbed.Options{Kind: k}))
		leader, follower := l.node(t, "leader"), l.node(t, "follower")
		const elections = 2500
		ctx, cancel := context.WithTimeout(t.Context(), 5*callLimit)
		defer cancel()
		var held []backend.Lease
		var bids []backend.Bid
		for i := range elections {
			held = append(held, backend.Lease{Election: fmt.Sprint("e", i)})
		}
		held, err := leader.Observe(ctx, held)
		if err != nil {
			t.Fatal(err)
		}
		for _, over := range held {
			bids = append(bids, backend.Bid{Election: over.Election, Candidate: leader.me, TTL: 10 * time.Second, Renew: time.Second, Expected: over})
		}
		answers, err := leader.Acquire(ctx, bids)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range answers {
			held[i] = a.Lease
		}
		questions := func() int64 {
			var name string
			var n int64
			if err := l.admin.QueryRow("SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		member := func(n *node) error {
			return n.Announce(ctx, backend.Member{Candidate: n.me, TTL: time.Second})
		}
		for _, c := range []struct {
			what string
			most int64
			call func() error
		}{
			{"renewing 2500 leases", 6, func() error { _, err := leader.Renew(ctx, testbed.Held(held...)); return err }},
			{"renewing one lease", 2, func() error { _, err := leader.Renew(ctx, testbed.Held(held[:1]...)); return err }},
			{"reading 2500 leases", 3, func() error { _, err := follower.Observe(ctx, held); return err }},
			{"reading one lease", 1, func() error { _, err := follower.Observe(ctx, held[:1]); return err }},
			{"a leader's member record", 1, func() error { return member(leader) }},
			{"a follower's member record", 1, func() error { return member(follower) }},
			{"listening to one leader for two seconds", 3, func() error { // one to stop it
				short, cancel := context.WithTimeout(ctx, 2*time.Second)
				defer cancel()
				if err := follower.Listen(short, held); err == nil {
					return errors.New("Listen returned without a notification")
				}
				return nil
			}},
		} {
			least := int64(1 << 30)
			for range 2 { // the first may open connections
				before := questions()
				if err := c.call(); err != nil {
					t.Fatalf("%s: %v", c.what, err)
				}
				least = min(least, questions()-before-1)
			}
			if least > c.most {
				t.Errorf("%s: %d statements, want at most %d as documented", c.what, least, c.most)
			}
		}
	})
}
