package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/internal/testbed"
)

// Two nodes on a real server: the job runs on the leader alone, and goes on under a
// greater term when it ends.
func TestTheJobRunsOnTheLeaderAndGoesOnOnTheNext(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		d := testbed.Shared(t, k).Database(t)
		if err := createTables(t.Context(), testbed.OpenDB(t, d.Admin)); err != nil {
			t.Fatal(err)
		}
		db := testbed.OpenDB(t, d.User)
		type node struct {
			stop func()
			done chan error
		}
		nodes := map[string]node{}
		for _, id := range []string{"a", "b"} {
			ctx, stop := context.WithCancel(t.Context())
			n := node{stop, make(chan error, 1)}
			go func() { n.done <- run(ctx, db, d.User.FormatDSN(), id, "@every 1s", 15*time.Second) }()
			t.Cleanup(stop)
			nodes[id] = n
		}

		runs := func(minimum int, after int64) (node string, term, last int64) {
			t.Helper()
			testbed.Eventually(t, 3*time.Minute, fmt.Sprintf("%d runs of the job", minimum), func() error {
				n, terms := 0, 0
				err := db.QueryRowContext(t.Context(), "SELECT COUNT(*), COUNT(DISTINCT term, node), COALESCE(MIN(node), ''), COALESCE(MIN(term), 0), COALESCE(MAX(n), 0) FROM job_run WHERE n > ?", after).
					Scan(&n, &terms, &node, &term, &last)
				switch {
				case err != nil:
					return err
				case n < minimum:
					return fmt.Errorf("%d runs so far", n)
				case terms != 1:
					t.Errorf("the leader was not changed, and the job ran under %d terms or nodes", terms)
				}
				return nil
			})
			return node, term, last
		}
		first, term, last := runs(2, 0)
		nodes[first].stop()
		if err := <-nodes[first].done; err != nil {
			t.Fatalf("%s ends: %v", first, err)
		}
		// It may have run once more before it ended.
		if err := db.QueryRowContext(t.Context(), "SELECT COALESCE(MAX(n), ?) FROM job_run WHERE node = ?", last, first).Scan(&last); err != nil {
			t.Fatal(err)
		}
		second, next, _ := runs(2, last)
		if second == first || next <= term {
			t.Errorf("%s ran the job in term %d, and after it ended %s in term %d", first, term, second, next)
		}
		nodes[second].stop()
		if err := <-nodes[second].done; err != nil {
			t.Errorf("%s ends: %v", second, err)
		}
	})
}
