package mysql

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/internal/testbed"
)

// An account that may create tables needs nobody to create them first. The tables may have
// been dropped while a leader trusts its lease, so the first election in them waits for the
// greatest TTL, and a longer TTL is denied.
func TestACandidateCreatesMissingTables(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		d := testbed.Shared(t, k).Database(t)
		d.Admin.Timeout, d.Admin.ReadTimeout, d.Admin.WriteTimeout = callLimit, callLimit, callLimit
		a, b := openNode(t, "a", Options{Config: d.Admin}), openNode(t, "b", Options{Config: d.Admin})
		prepared := make(chan error)
		for _, n := range []*node{a, b} {
			go func() { prepared <- n.Prepare(t.Context()) }()
		}
		if err := errors.Join(<-prepared, <-prepared); err != nil {
			t.Fatalf("two candidates that prepare at once: %v", err)
		}
		first := a.observe("jobs")
		if first.ObserveFor != maxTTL {
			t.Errorf("the first election in new tables is observed for %v, want the greatest TTL, %v", first.ObserveFor, maxTTL)
		}
		if answer, err := a.bid(first, 2*maxTTL); !errors.Is(errors.Join(err, answer.Err), backend.ErrDenied) {
			t.Errorf("a bid with twice the greatest TTL: %v, %v, want it denied", answer.Outcome, answer.Err)
		}
		held, err := a.bid(first, time.Second)
		if err != nil || held.Outcome != backend.Granted {
			t.Fatalf("a bid of a candidate that has observed for so long: %v, %v", held.Outcome, err)
		}
		if err := b.Prepare(t.Context()); err != nil || b.observe("jobs").Holder != a.me {
			t.Errorf("Prepare with tables that exist: %v, and the lease is %+v", err, b.observe("jobs"))
		}
	})
}

// A manager of candidates prepares the store; one that observes leaves it alone.
func TestOnlyCandidatesCreateTables(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		d := testbed.Shared(t, k).Database(t)
		check := func(o Options, mo election.Options) error {
			b, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			m, err := election.New(b, mo)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close(t.Context())
			if _, err := m.Join("jobs"); err != nil {
				t.Fatal(err)
			}
			return m.Check(t.Context())
		}
		user := "may-not-create"
		admin := testbed.OpenDB(t, d.Admin)
		for _, statement := range []string{
			fmt.Sprintf("CREATE USER IF NOT EXISTS '%s'@'127.0.0.1' IDENTIFIED BY 'election'", user),
			fmt.Sprintf("GRANT SELECT, INSERT, UPDATE ON %s.* TO '%s'@'127.0.0.1'", d.Name, user),
		} {
			if _, err := admin.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { admin.Exec(fmt.Sprintf("DROP USER '%s'@'127.0.0.1'", user)) })
		poor := *d.Admin
		poor.User, poor.Passwd = user, "election"
		patient := election.Options{TTL: 10 * time.Second}
		for name, err := range map[string]error{
			"an observer":                       check(Options{Config: d.Admin}, election.Options{TTL: 10 * time.Second, Observer: true}),
			"an account that may not create":    check(Options{Config: &poor}, patient),
			"a candidate that keeps the schema": check(Options{Config: d.Admin, KeepSchema: true}, patient),
		} {
			if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "there is no table") {
				t.Errorf("%s, without tables: %v, want that there is no table", name, err)
			}
		}
		if err := check(Options{Config: d.Admin}, patient); err != nil {
			t.Errorf("a candidate that may create tables: %v", err)
		}
	})
}
