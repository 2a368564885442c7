package mysql

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

func TestALockedRowCostsNoOtherLease(t *testing.T) {
	locks := map[string]string{
		"by a reader":        "SELECT * FROM election_lease WHERE name = 'e007' LOCK IN SHARE MODE",
		"by a writer":        "UPDATE election_lease SET last_id = 'x' WHERE name = 'e007'",
		"with its term":      "SELECT * FROM election_lease l JOIN election_term t ON t.name = l.name WHERE l.name = 'e007' FOR UPDATE",
		"with the own row":   "SELECT * FROM election_lease WHERE name IN ('', 'e007') FOR UPDATE",
		"with others' terms": "SELECT * FROM election_lease l, election_term t WHERE l.name = 'e007' FOR UPDATE",
	}
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		n := l.node(t, "n")
		var held []backend.Lease
		for i := range 20 {
			held = append(held, n.lead(fmt.Sprintf("e%03d", i), time.Second))
		}
		for how, query := range locks {
			t.Run(how, func(t *testing.T) {
				unlock := l.lock(t, query)
				defer unlock()
				ctx, cancel := n.ctx()
				defer cancel()
				var answers []backend.Answer
				// The time that a call has at a TTL of one second.
				quick(t, 250*time.Millisecond, "Renew with one row locked", func() time.Duration {
					began := time.Now()
					var err error
					if answers, err = n.Renew(ctx, testbed.Held(held...)); err != nil {
						t.Fatalf("Renew with one row locked: %v", err)
					}
					return time.Since(began)
				})
				for i, a := range answers {
					switch {
					case i == 7 && (a.Outcome != backend.Unknown || a.Err == nil):
						t.Errorf("the locked lease: %v, %v; want unknown", a.Outcome, a.Err)
					case i != 7 && a.Outcome != backend.Granted:
						t.Errorf("%s: %v, %v; want granted: one locked row must not affect the other nineteen", held[i].Election, a.Outcome, a.Err)
					}
				}
				if err := n.Release(ctx, testbed.Held(held[6:8]...)); err == nil {
					t.Error("Release of a locked row: no error, although the lease is still held")
				}
				if !n.observe("e006").Vacant() || n.observe("e007").Vacant() {
					t.Error("Release with one row locked must end the other lease")
				}
				unlock()
				held[6] = n.lead("e006", time.Second)
				if a, err := n.renew(held[7]); err != nil || a.Outcome != backend.Granted {
					t.Errorf("once the row is unlocked the lease can be renewed: %v, %v, %v", a.Outcome, a.Err, err)
				}
			})
		}
	})
}

func TestALockedOwnRowDelaysOnlyNewElections(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		n := l.node(t, "n")
		if err := n.release(n.lead("there", time.Second), backend.Released); err != nil {
			t.Fatal(err)
		}
		bid := func(name string) backend.Bid {
			return backend.Bid{Election: name, Candidate: n.me, TTL: time.Second, Renew: time.Second / 3, Expected: n.observe(name)}
		}
		for _, what := range []string{"the server gives up", "the call ends first"} {
			bids := []backend.Bid{bid("missing"), bid("there")}
			unlock := l.lock(t, "SELECT * FROM election_lease WHERE name = '' FOR UPDATE")
			ctx, cancel := n.ctx()
			stop := cancel
			if what == "the call ends first" {
				stop = l.onceWaiting(ctx, t, "%FOR UPDATE", cancel)
			}
			answers, err := n.Acquire(ctx, bids)
			stop()
			cancel()
			unlock()
			if a := answers[0]; a.Outcome != backend.Unknown || a.Err == nil {
				t.Errorf("%s: the election without a row: %v, %v, %v; want unknown", what, a.Outcome, a.Err, err)
			}
			if a := answers[1]; a.Outcome != backend.Granted {
				t.Errorf("%s: the election whose row is free and not locked: %v, %v, %v; want granted", what, a.Outcome, a.Err, err)
			}
		}
		n.lead("missing", time.Second)
	})
}

// onceWaiting calls do when a statement like that waits for a lock. After stop has returned it
// does not call do.
func (l *lab) onceWaiting(ctx context.Context, t testing.TB, like string, do func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			var n int
			err := l.admin.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = ? AND USER = ? AND INFO LIKE ?", l.Name, l.User.User, like).Scan(&n)
			if err == nil && n > 0 {
				do()
				return
			}
		}
	}()
	return func() { cancel(); <-ended }
}

func TestAWaitingStatementEndsSoonAfterItsClient(t *testing.T) {
	freezes := map[string][]string{
		"a locked table": {"LOCK TABLES election_lease WRITE"},
		"a backup":       {"FLUSH TABLES WITH READ LOCK"},
		"an idle reader, and an ALTER TABLE that waits for it": {"BEGIN", "SELECT * FROM election_lease"},
	}
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		l := newLabOn(t, testbed.Start(t, testbed.Options{Kind: k}))
		n, other := l.node(t, "n"), l.node(t, "other")
		held := n.lead("a", time.Second)
		for what, statements := range freezes {
			conn, err := l.admin.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for _, s := range statements {
				if _, err := conn.ExecContext(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			altered := make(chan error, 1)
			if len(statements) > 1 {
				go func() {
					_, err := l.admin.Exec("ALTER TABLE election_lease COMMENT 'x'")
					altered <- err
				}()
				testbed.Eventually(t, callLimit, "ALTER TABLE waits", func() error {
					if l.number(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'ALTER%' AND STATE LIKE '%metadata%'") == 0 {
						return errors.New("not yet")
					}
					return nil
				})
			}
			// The server would give up after a second.
			quick(t, 900*time.Millisecond, what+": a Renew whose context ended after 250ms", func() time.Duration {
				ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
				defer cancel()
				began := time.Now()
				answers, err := n.Renew(ctx, []backend.Held{held.Held()})
				if err == nil || backend.Class(err) != backend.ErrUnavailable || answers[0].Outcome != backend.Unknown {
					t.Errorf("%s: Renew: %v %+v, want unknown and unavailable", what, err, answers)
				}
				return time.Since(began)
			})
			testbed.Eventually(t, callLimit, what+": the statement ends in the server too", func() error {
				if l.number(t, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = ? AND INFO LIKE 'UPDATE%'", l.Name) > 0 {
					return errors.New("it goes on")
				}
				return nil
			})
			for _, s := range []string{"UNLOCK TABLES", "ROLLBACK"} {
				if _, err := conn.ExecContext(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			if len(statements) > 1 {
				if err := <-altered; err != nil {
					t.Fatal(err)
				}
			}
			if got := other.observe("a"); !sameLease(got, held) {
				t.Errorf("%s: the abandoned statement was executed later: %+v", what, got)
			}
			held = n.mustRenew(held)
		}
	})
}

func TestManyCandidatesAtOnceElectOne(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		const candidates, elections = 8, 50
		var nodes []*node
		for i := range candidates {
			nodes = append(nodes, l.node(t, fmt.Sprint("n", i)))
		}
		for round := range 4 { // the first creates the rows
			bids := make([][]backend.Bid, candidates)
			for i, n := range nodes {
				for e := range elections {
					over := n.observe(fmt.Sprintf("e%02d", e))
					bids[i] = append(bids[i], backend.Bid{Election: over.Election, Candidate: n.me, TTL: 10 * time.Second, Renew: time.Second, Expected: over})
				}
			}
			var all sync.WaitGroup
			var mu sync.Mutex
			won := map[string]int{}
			for i, n := range nodes {
				all.Go(func() {
					ctx, cancel := n.ctx()
					defer cancel()
					answers, err := n.Acquire(ctx, bids[i])
					if err != nil {
						t.Errorf("round %d: %v", round, err)
					}
					mu.Lock()
					defer mu.Unlock()
					for _, a := range answers {
						if a.Outcome == backend.Granted {
							won[a.Election]++
						}
					}
				})
			}
			all.Wait()
			for e := range elections {
				name := fmt.Sprintf("e%02d", e)
				if won[name] > 1 {
					t.Errorf("round %d: %q was granted %d times over the same lease", round, name, won[name])
				}
				if won[name] == 0 && nodes[0].observe(name).Term == 0 {
					t.Errorf("round %d: %q was not granted", round, name)
				}
			}
		}
		if made := l.number(t, "SELECT term FROM election_lease WHERE name = ''"); made != elections {
			t.Errorf("the table counts %d elections made, there are %d", made, elections)
		}
	})
}
