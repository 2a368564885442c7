package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/internal/testbed"
)

// TestConformanceInVirtualTime runs the suite on real servers in bubbles of
// testing/synctest: hours pass in moments, and the server's clock follows. Time
// stands still while an answer is on its way, so there are no door-bells here.
func TestConformanceInVirtualTime(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		d := testbed.Shared(t, k).Database(t)
		conformance.Run(t, conformance.Harness{
			Virtual: true, Short: true,
			NewStore: func(t testing.TB) conformance.Store {
				return newStore(t, d, func(prefix string) Options {
					config := d.User.Clone()
					config.InterpolateParams = true
					connector, err := mysql.NewConnector(config)
					if err != nil {
						t.Fatal(err)
					}
					return Options{Connector: virtual{connector}, Prefix: prefix, DoorBells: -1}
				})
			},
		})
	})
}

// TestConformanceInRealTime runs the suite as programs meet the servers: with
// door-bells, and leases of two seconds. MariaDB starts quickly enough for each case
// to have a server of its own, which is killed, stopped and cut off.
func TestConformanceInRealTime(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		h := conformance.Harness{TTL: 2 * time.Second, Late: time.Second, Short: true, Parallel: true}
		if k == testbed.MariaDB && os.Getenv("ELECTION_TEST_MARIADB_DSN") == "" {
			h.NewStore = func(t testing.TB) conformance.Store { return newTormented(t, k) }
		} else {
			d := testbed.Shared(t, k).Database(t)
			h.NewStore = func(t testing.TB) conformance.Store {
				return newStore(t, d, func(prefix string) Options { return Options{Config: d.User, Prefix: prefix} })
			}
		}
		conformance.Run(t, h)
	})
}

// newTormented makes a store on a server of its own, behind a proxy.
func newTormented(t testing.TB, k testbed.Kind) conformance.Store {
	server := testbed.Start(t, testbed.Options{Kind: k})
	d, proxy := server.Database(t), server.Proxy(t)
	config := proxy.Config(d.User)
	store := newStore(t, d, func(prefix string) Options { return Options{Config: config, Prefix: prefix} })
	store.Faults[conformance.FaultRestart] = func(bool, string) error {
		server.Kill(t)
		server.Start(t)
		return nil
	}
	store.Faults[conformance.FaultPause] = func(on bool, _ string) error {
		if on {
			server.Stop(t)
		} else {
			server.Continue(t)
		}
		return nil
	}
	store.Faults[conformance.FaultCut] = func(on bool, _ string) error { proxy.Cut(on); return nil }
	store.Faults[conformance.FaultCutReplies] = func(on bool, _ string) error { proxy.CutReplies(on); return nil }
	return store
}

// newStore makes tables of its own for one case.
func newStore(t testing.TB, d *testbed.Database, options func(prefix string) Options) conformance.Store {
	prefix := "c" + backend.NewNonce()[:16]
	admin, err := sql.Open("mysql", d.Admin.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, table := range []string{"lease", "term", "member"} {
			admin.Exec("DROP TABLE IF EXISTS " + prefix + "_" + table)
		}
		admin.Close()
	})
	if err := CreateTables(context.Background(), admin, "", prefix); err != nil {
		t.Fatal(err)
	}
	return conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			b, err := Open(context.Background(), options(prefix))
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				_, err := admin.Exec(fmt.Sprintf("DELETE FROM %s_lease WHERE name = ?", prefix), []byte(election))
				return err
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error {
				_, err := admin.Exec(fmt.Sprintf("UPDATE %s_lease SET holder = ?, address = ?, metadata = ?, beat = beat + 2 WHERE name = ?", prefix),
					[]byte("<script>\x1b]0;\u202e\xff"), []byte("javascript:alert(1)\n"), []byte("\x00\x1b[2J"), []byte(election))
				return err
			},
		},
	}
}

// virtual sets the server's clock to the caller's before each statement.
type virtual struct{ driver.Connector }

func (v virtual) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := v.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return virtualConn{c}, nil
}

type virtualConn struct{ driver.Conn }

func (c virtualConn) set(ctx context.Context) error {
	_, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, fmt.Sprintf("SET timestamp = %.6f", float64(time.Now().UnixMicro())/1e6), nil)
	return err
}

func (c virtualConn) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.set(ctx); err != nil {
		return nil, err
	}
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, q, args)
}

func (c virtualConn) QueryContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.set(ctx); err != nil {
		return nil, err
	}
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, q, args)
}

func (c virtualConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

func (c virtualConn) ResetSession(ctx context.Context) error {
	return c.Conn.(driver.SessionResetter).ResetSession(ctx)
}

func (c virtualConn) IsValid() bool { return c.Conn.(driver.Validator).IsValid() }

func (c virtualConn) CheckNamedValue(v *driver.NamedValue) error {
	return c.Conn.(driver.NamedValueChecker).CheckNamedValue(v)
}
