package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
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

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// fenceHold is much longer than it takes to start the client and to take over.
const fenceHold = 6 * time.Second

func TestAClientStoppedBeforeCommitIsRolledBack(t *testing.T) {
	const ttl, hold = time.Second, fenceHold
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		l := newLab(t, k)
		l.createAccount(t)
		leader, challenger := l.node(t, "leader"), l.node(t, "challenger")
		lease, innocent := leader.lead("a", ttl), leader.lead("b", ttl)

		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		client := exec.Command(exe, "-test.run=^TestHelperFencedClient$", "-test.v")
		client.Env = append(os.Environ(), "FENCED_CLIENT_DSN="+l.User.FormatDSN(), fmt.Sprint("FENCED_CLIENT_TERM=", lease.Term))
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

		// The leader renews only its other election.
		stopped := time.Now()
		seen, since := challenger.observe("a"), time.Now()
		tick := time.NewTicker(ttl / 10)
		defer tick.Stop()
		var won backend.Answer
		for won.Outcome != backend.Granted {
			<-tick.C
			innocent = leader.mustRenew(innocent)
			if time.Since(since) < ttl {
				continue
			}
			if won, err = challenger.bid(seen, ttl); err != nil || won.Outcome == backend.Refused {
				t.Fatalf("the challenger bids: %v, %v", won.Outcome, err)
			}
			if time.Since(stopped) > ttl+hold+10*time.Second {
				t.Fatalf("no takeover %v after the client had stopped: %v", time.Since(stopped), won.Err)
			}
		}
		t.Logf("taken over %v after the client had stopped; TTL %v, Hold %v", time.Since(stopped), ttl, hold)
		if took := time.Since(began); took < hold {
			t.Errorf("taken over %v after the client had begun, while its transaction was open: the fence does not hold", took)
		}

		client.Process.Signal(syscall.SIGCONT)
		if err := client.Wait(); err != nil {
			t.Errorf("the client must learn that its COMMIT failed: %v\n%s", err, out.String())
		}
		if n := l.number(t, "SELECT n FROM account"); n != 0 {
			t.Errorf("the stopped client's transaction was committed under an earlier term")
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
	if err := (&lab{}).fencedFor(t, db, term, fenceHold); err == nil {
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
