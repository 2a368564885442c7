package migration_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/backend/zookeeper"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/internal/testbed"
)

// TestRightsToTheNewStoreAreTriedBeforeTheOldOneIsAsked: who may not be granted leases in
// MySQL, though it may read them and write itself down, makes no bid on ZooKeeper, so that
// those who need that alone are not held up. One election does not suffer from another.
func TestRightsToTheNewStoreAreTriedBeforeTheOldOneIsAsked(t *testing.T) {
	t.Parallel()
	servers, d := testbed.SharedZooKeeper(t), testbed.Shared(t, testbed.MariaDB).Database(t)
	prefix, admin := tables(t, d), testbed.OpenDB(t, d.Admin)
	root := "/m" + backend.NewNonce()[:12]
	rights := func(verb, what, on string) {
		t.Helper()
		if _, err := admin.ExecContext(t.Context(), fmt.Sprintf(verb, what, on)+" '"+d.User.User+"'@'127.0.0.1'"); err != nil {
			t.Fatal(err)
		}
	}
	rights("REVOKE %s ON %s.* FROM", "INSERT, UPDATE", d.Name)
	rights("GRANT %s ON %s TO", "INSERT, UPDATE", d.Name+"."+prefix+"_member")
	rights("GRANT %s ON %s TO", "INSERT, UPDATE", d.Name+"."+prefix+"_term")
	rights("GRANT %s ON %s TO", "UPDATE", d.Name+"."+prefix+"_lease")
	enter := func(ttl time.Duration) (asked int, answers []backend.Answer) {
		t.Helper()
		old, err := zookeeper.Open(t.Context(), zookeeper.Options{Servers: servers, Root: root, Tick: testbed.ZooKeeperTick, MaxSession: 8500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		to, err := mysql.Open(t.Context(), mysql.Options{Config: d.User, Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		wire := conformance.Wrap(old)
		b := road(t, migration.Options{From: wire, To: to, Stage: migration.Both})
		defer b.Close()
		me := backend.Candidate{ID: "enters", Nonce: backend.NewNonce()}
		seen, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}, {Election: "long"}})
		if err != nil {
			t.Fatal(err)
		}
		var bids []backend.Bid
		for _, l := range seen {
			bids = append(bids, backend.Bid{Election: l.Election, Candidate: me, TTL: 4 * time.Second, Expected: l})
		}
		bids[1].TTL = ttl
		answers, err = b.Acquire(t.Context(), bids)
		if len(answers) != len(bids) {
			t.Fatalf("%d answers to %d bids: %v", len(answers), len(bids), err)
		}
		asked = wire.Count("Acquire")
		for _, a := range answers {
			if a.Outcome == backend.Granted {
				if err := b.Release(t.Context(), []backend.Held{a.Lease.Held()}); err != nil {
					t.Fatal(err)
				}
			}
		}
		return asked, answers
	}
	asked, answers := enter(4 * time.Second)
	for _, a := range answers {
		if a.Outcome != backend.Unknown || !errors.Is(a.Err, backend.ErrDenied) || !strings.Contains(a.Err.Error(), "GRANT SELECT, INSERT, UPDATE ON") {
			t.Errorf("without the right to make rows: %v, %v; want ErrDenied and the statement that grants it", a.Outcome, a.Err)
		}
	}
	if asked > 0 {
		t.Errorf("%d bids on ZooKeeper by a member that may not be granted anything in MySQL", asked)
	}
	rights("GRANT %s ON %s TO", "INSERT", d.Name+"."+prefix+"_lease")
	asked, answers = enter(time.Minute)
	if asked == 0 || answers[0].Outcome != backend.Granted {
		t.Errorf("with all rights: %v, %v, after %d bids on ZooKeeper", answers[0].Outcome, answers[0].Err, asked)
	}
	if a := answers[1]; !errors.Is(a.Err, backend.ErrDenied) && !errors.Is(a.Err, backend.ErrInvalid) {
		t.Errorf("with a TTL above that of MySQL's table: %v, %v", a.Outcome, a.Err)
	}
}
