package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/lab/testbed"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// stopHold is longer than it takes to start the client.
const stopHold = 6 * time.Second

// A client that is stopped just before COMMIT loses its transaction after Hold, and then a successor is elected.
func TestAClientStoppedBeforeCommitIsRolledBack(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k)).withAccount(t)
		d := open(t, Options{Config: l.User})
		lead(t, d, 1, "n")
		v := testbed.Read(t, d, recordKey("jobs"))
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		client := exec.Command(exe, "-test.run=^TestHelperFencedClient$", "-test.v")
		client.Env = append(os.Environ(), "FENCED_CLIENT_DSN="+l.User.FormatDSN(), "FENCED_CLIENT_TERM=1")
		var out strings.Builder
		client.Stdout, client.Stderr = &out, &out
		began := time.Now()
		if err := client.Start(); err != nil {
			t.Fatal(err)
		}
		defer client.Process.Kill()
		var state syscall.WaitStatus
		if _, err := syscall.Wait4(client.Process.Pid, &state, syscall.WUNTRACED, nil); err != nil || !state.Stopped() {
			t.Fatalf("the client did not stop before COMMIT: %v, %v\n%s", state, err, out.String())
		}
		testbed.Eventually(t, patience, "a successor is elected", func() error {
			results, err := testbed.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 2, Nonce: "m"})
			if err == nil && results[0].Outcome != backend.Granted {
				err = fmt.Errorf("%v, %w", results[0].Outcome, errors.Join(results[0].Err, errors.New("not yet")))
			}
			return err
		})
		if took := time.Since(began); took < stopHold {
			t.Errorf("a successor after %v, while the transaction was open: the fence does not hold", took)
		}
		client.Process.Signal(syscall.SIGCONT)
		if err := client.Wait(); err != nil {
			t.Errorf("the client must learn that its COMMIT failed: %v\n%s", err, out.String())
		}
		if n := l.number(t, "SELECT n FROM account"); n != 0 {
			t.Error("the stopped client's transaction was committed under a former term")
		}
	})
}

// TestHelperFencedClient is the process that stops itself before COMMIT.
func TestHelperFencedClient(t *testing.T) {
	dsn := os.Getenv("FENCED_CLIENT_DSN")
	if dsn == "" {
		return // not started by the test above
	}
	term, err := strconv.ParseUint(os.Getenv("FENCED_CLIENT_TERM"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.InterpolateParams = true
	inner, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(stopConnector{inner})
	defer db.Close()
	err = Fence{Hold: stopHold}.Do(t.Context(), db, "jobs", term, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE account SET n = n + 1")
		return err
	})
	if err == nil {
		t.Error("COMMIT succeeded after the process had been stopped")
	}
}

// A stopConnector makes connections whose COMMIT stops the process first.
type stopConnector struct{ sqldriver.Connector }

type fullConn interface {
	sqldriver.Conn
	sqldriver.ConnBeginTx
	sqldriver.ExecerContext
	sqldriver.QueryerContext
}

type stopConn struct{ fullConn }

type stopTx struct{ sqldriver.Tx }

func (c stopConnector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return stopConn{conn.(fullConn)}, nil
}

func (c stopConn) BeginTx(ctx context.Context, o sqldriver.TxOptions) (sqldriver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, o)
	return stopTx{tx}, err
}

func (tx stopTx) Commit() error {
	// SIGSTOP stops all threads, but perhaps this one a little later.
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-continued
	return tx.Tx.Commit()
}
