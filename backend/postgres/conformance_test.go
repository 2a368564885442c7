package postgres

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/lab/testbed"
)

// TestDriver runs what every driver must pass.
func TestDriver(t *testing.T) {
	t.Parallel()
	server := testbed.SharedPostgres(t)
	var db *testbed.PostgresDatabase
	leasetest.Run(t, leasetest.Harness{
		NewStore: func(t testing.TB) func(testing.TB) lease.Driver {
			db = withTable(t, server.Database(t))
			return func(t testing.TB) lease.Driver { return open(t, Options{DSN: db.DSN("")}) }
		},
		RollBack: func(k lease.Key) {
			ctx := context.Background()
			tx, err := db.Admin().Begin(ctx)
			if err == nil {
				_, err = tx.Exec(ctx, "UPDATE election_item SET value = value || ' ' WHERE kind = $1 AND name = $2", k.Kind, k.Name)
				err = errors.Join(err, tx.Rollback(ctx))
			}
			if err != nil {
				t.Error(err)
			}
		},
	})
}

// TestConformance runs the conformance suite on a server that all cases share.
func TestConformance(t *testing.T) {
	t.Parallel()
	server := testbed.SharedPostgres(t)
	conformance.Run(t, testbed.InTier(harness(func(t testing.TB) conformance.Store { return newStore(t, server) })))
}

// TestConformanceWithServerFaults runs the cases that need their own server.
func TestConformanceWithServerFaults(t *testing.T) {
	t.Parallel()
	h := harness(nil)
	h.Parallel = false // each case starts servers, and is about time
	testbed.OwnServers(t, h, func(t testing.TB) (conformance.Store, *testbed.PostgresServer) {
		server := testbed.StartPostgres(t, testbed.Options{})
		return newStore(t, server), server
	})
}

func harness(newStore func(t testing.TB) conformance.Store) conformance.Harness {
	return conformance.Harness{TTL: 2 * time.Second, Late: time.Second, Short: true, Parallel: true, NewStore: newStore}
}

// newStore returns a store with a fresh database for one case, behind a proxy.
func newStore(t testing.TB, server *testbed.PostgresServer) conformance.Store {
	db := withTable(t, server.Database(t))
	proxy := testbed.NewProxy(t, server.Addr())
	store := conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			b, err := Open(Options{DSN: db.DSN(proxy.Addr()), MaxTTL: 5 * time.Second})
			testbed.NoError(t, err)
			return b
		},
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				_, err := db.Admin().Exec(context.Background(), "DELETE FROM election_item WHERE kind = 'record' AND name = $1", election)
				return err
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error { return plant(db, election) },
			conformance.FaultHide: func(on bool, _ string) error {
				for _, how := range map[bool][]string{true: {"ENABLE", "FORCE"}, false: {"NO FORCE", "DISABLE"}}[on] {
					if _, err := db.Admin().Exec(context.Background(), "ALTER TABLE election_item "+how+" ROW LEVEL SECURITY"); err != nil {
						return err
					}
				}
				return nil
			},
		},
	}
	maps.Copy(store.Faults, testbed.LineFaults(proxy))
	return store
}

// plant overwrites the record with hostile text as the holder: of a name that comes twice, the last one counts.
func plant(db *testbed.PostgresDatabase, election string) error {
	const text = `"<script>\u001b]0;\u202e"`
	const planted = `,"id":` + text + `,"nonce":` + text + `,"address":"javascript:alert(1)\n","metadata":"\u0000\u001b[2J"}`
	_, err := db.Admin().Exec(context.Background(), "UPDATE election_item SET value = left(value, -1) || $2 WHERE kind = 'record' AND name = $1", election, planted)
	return err
}
