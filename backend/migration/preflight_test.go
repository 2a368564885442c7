package migration_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/curator"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/backend/zookeeper"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/testbed"
)

// A member that may read leases and write its member record in MySQL, but may not be granted
// leases there, makes no bid on ZooKeeper. So it does not delay members that need only that.
// An election that MySQL refuses does not affect another one.
func TestNewStoreRightsAreCheckedBeforeAnOldBid(t *testing.T) {
	t.Parallel()
	servers, d := testbed.SharedZooKeeper(t), testbed.Shared(t, testbed.MariaDB).Database(t)
	prefix, admin := tables(t, d), testbed.OpenDB(t, d.Admin)
	root := "/m" + string(backend.NewNonce()[:12])
	rights := func(verb, what, on string) {
		t.Helper()
		if _, err := admin.ExecContext(t.Context(), fmt.Sprintf(verb, what, on)+" '"+d.User.User+"'@'127.0.0.1'"); err != nil {
			t.Fatal(err)
		}
	}
	rights("REVOKE %s ON %s.* FROM", "INSERT, UPDATE", d.Name)
	rights("GRANT %s ON %s TO", "UPDATE", d.Name+"."+prefix+"_item")
	enter := func(ttl time.Duration) (asked int, answers []backend.Answer) {
		t.Helper()
		old, err := curator.Open(curator.Options{ZooKeeper: zookeeper.Options{Servers: servers, Root: root}, Tick: testbed.ZooKeeperTick, Session: 8500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		to, err := mysql.Open(mysql.Options{Config: d.User, Prefix: prefix})
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
		if a.Outcome != backend.Unknown || !errors.Is(a.Err, backend.ErrDenied) || !strings.Contains(a.Err.Error(), "GRANT SELECT, INSERT, UPDATE, DELETE ON") {
			t.Errorf("without the right to insert rows: expected ErrDenied and the statement that grants it, got %v, %v", a.Outcome, a.Err)
		}
	}
	if asked > 0 {
		t.Errorf("expected no bid on ZooKeeper by a member without rights in MySQL, got %d", asked)
	}
	rights("GRANT %s ON %s TO", "INSERT", d.Name+"."+prefix+"_item")
	asked, answers = enter(time.Minute)
	if asked == 0 || answers[0].Outcome != backend.Granted {
		t.Errorf("with all rights: expected a grant and a bid on ZooKeeper, got %v, %v, %d bids", answers[0].Outcome, answers[0].Err, asked)
	}
	if a := answers[1]; !errors.Is(a.Err, backend.ErrDenied) && !errors.Is(a.Err, backend.ErrInvalid) {
		t.Errorf("with a TTL above the greatest of the MySQL table: expected ErrDenied or ErrInvalid, got %v, %v", a.Outcome, a.Err)
	}
}
