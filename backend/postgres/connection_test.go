package postgres

import (
	"context"
	"errors"
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
	if err := read(10 * time.Second); err != nil {
		t.Fatal(err)
	}
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
