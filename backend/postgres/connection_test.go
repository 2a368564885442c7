package postgres

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// TestALateAnswerDoesNotEndTheConnection: an answer takes longer than a call has.
func TestALateAnswerDoesNotEndTheConnection(t *testing.T) {
	t.Parallel()
	server := testbed.SharedPostgres(t)
	db := withTable(t, server.Database(t))
	proxy := testbed.NewProxy(t, server.Addr())
	d := open(t, Options{DSN: db.DSN(proxy.Addr())})
	read := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := d.Read(ctx, []lease.Key{recordKey("jobs")})
		return err
	}
	testbed.NoError(t, read(10*time.Second))
	proxy.Delay(350 * time.Millisecond) // in each direction
	for range 20 {
		if err := read(500 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call of 500ms, answered after 700ms: %v; want that its deadline has passed", err)
		}
	}
	proxy.Delay(0)
	if err := read(10 * time.Second); err != nil {
		t.Error(err)
	}
	if opened := proxy.Accepted(); opened > maxConns {
		t.Errorf("21 calls opened %d connections, want at most the %d of the pool", opened, maxConns)
	}
}

// Who connects to a server that tells what it is asks it nothing: a limit of the running time, of a millisecond, would end
// any statement on a busy machine, and nobody could connect.
func TestAConnectionIsOpenedWithoutAStatement(t *testing.T) {
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.Options{Args: []string{"-c", "log_statement=all"}})
	d := open(t, Options{DSN: server.Database(t).DSN("")})
	before := server.Messages(t)
	c, err := d.conns.Open(t.Context())
	testbed.NoError(t, err)
	defer c.close()
	if n := server.Messages(t) - before; n != 0 && c.PgConn().ParameterStatus("in_hot_standby") != "" {
		t.Errorf("%d messages", n)
	}
}

// Some hosts let clients connect and never answer. All are tried before a connection is given up, whatever the DSN says.
func TestHostsThatNeverAnswerArePassed(t *testing.T) {
	t.Parallel()
	server := testbed.SharedPostgres(t)
	db := withTable(t, server.Database(t))
	hosts := ""
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		testbed.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		hosts += l.Addr().String() + ","
	}
	d := open(t, Options{DSN: db.DSN(hosts+server.Addr()) + "&connect_timeout=10"})
	testbed.Eventually(t, patience, "the last host answers", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := d.Read(ctx, nil)
		return err
	})
}
