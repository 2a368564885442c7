package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// A listener whose connection was closed by the server says that something may have changed, and then
// hears of changes again.
func TestAListenerComesBack(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	d, writer := open(t, Options{DSN: db.DSN("")}), open(t, Options{DSN: db.DSN("")})
	heard, position := make(chan uint64, 100), testbed.Read(t, d).Position
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan bool)
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			d.Listen(ctx, position, nil, func(_ []lease.Item, now uint64) bool {
				position = now
				heard <- now
				return true
			})
		}
	}()
	const listens = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
	last := uint64(0)
	for range 2 {
		testbed.Eventually(t, patience, "it listens", func() error {
			if db.Value(t, "SELECT count(*) "+listens) != "1" {
				return errors.New("it does not")
			}
			return nil
		})
		told := time.After(patience)
		for quiet := time.After(time.Second); quiet != nil; { // what it says of the new connection
			select {
			case last = <-heard:
			case <-quiet:
				quiet = nil
			}
		}
		v := testbed.Read(t, writer, recordKey("jobs"))
		w, err := writer.Write(t.Context(), v.Epoch, 0, []lease.Change{{Notify: true, Put: []lease.Put{{Over: v.Items[0], Value: &lease.Record{Election: "jobs", Term: 1}}}}}, nil)
		if err != nil || w.Results[0].Outcome != backend.Granted {
			t.Fatal(w, err)
		}
		select {
		case now := <-heard:
			if now <= last {
				t.Errorf("position %d after %d", now, last)
			}
		case <-told:
			t.Fatal("it was not told of a change")
		}
		db.Exec(t, "SELECT pg_terminate_backend(pid) "+listens)
	}
	cancel()
	<-ended
}

// The server may have no place for another connection, so a call does not break off what makes this one listen.
func TestACallWaitsUntilItsConnectionListens(t *testing.T) {
	t.Parallel()
	server := testbed.SharedPostgres(t)
	db := withTable(t, server.Database(t))
	proxy := testbed.NewProxy(t, server.Addr())
	d := open(t, Options{DSN: db.DSN(proxy.Addr())})
	position := testbed.Read(t, d).Position
	proxy.Delay(20 * time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() {
		defer close(ended)
		d.Listen(ctx, position, nil, func([]lease.Item, uint64) bool { return true })
	}()
	for range 10 {
		testbed.Read(t, d) // it takes the connection as soon as the listener has it
	}
	cancel()
	<-ended
	if n := proxy.Stats().Accepted; n != 1 {
		t.Errorf("%d connections were made, want 1", n)
	}
}
