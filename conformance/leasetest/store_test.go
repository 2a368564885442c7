package leasetest_test

import (
	"context"
	"testing"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance/leasetest"
)

func TestTheStoreInsideTheProcessIsADriver(t *testing.T) {
	var store *leasetest.Store
	leasetest.Run(t, leasetest.Harness{
		NewStore: func(testing.TB) func(testing.TB) lease.Driver {
			store = leasetest.NewStore()
			return func(testing.TB) lease.Driver { return store.Driver() }
		},
		GoBack: func() func() {
			was := store.Snapshot()
			return func() { store.GoBack(was) }
		},
		RollBack: func(lease.Key) {}, // a change that others never see
		Edit:     func(k lease.Key, text string) { edit(store, k, text) },
	})
}

func edit(store *leasetest.Store, k lease.Key, text string) {
	if text == "" {
		store.Delete(k)
		return
	}
	store.Edit(k, func(string) string { return text })
}

// A driver that waits for its store must not hang the whole test: each call has a deadline.
func TestEachCallHasADeadline(t *testing.T) {
	leasetest.Run(t, leasetest.Harness{NewStore: func(testing.TB) func(testing.TB) lease.Driver {
		store := leasetest.NewStore()
		return func(t testing.TB) lease.Driver { return deadlines{store.Driver(), t} }
	}})
}

type deadlines struct {
	lease.Driver
	t testing.TB
}

func (d deadlines) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	d.check(ctx)
	return d.Driver.Read(ctx, keys)
}

func (d deadlines) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	d.check(ctx)
	return d.Driver.Write(ctx, epoch, wentBack, changes, verify)
}

func (d deadlines) List(ctx context.Context, kind lease.Kind, from string, limit int) (lease.View, error) {
	d.check(ctx)
	return d.Driver.List(ctx, kind, from, limit)
}

func (d deadlines) Listen(ctx context.Context, position uint64, known []lease.Item, on func([]lease.Item, uint64) bool) error {
	d.check(ctx)
	return d.Driver.(lease.Listener).Listen(ctx, position, known, on)
}

func (d deadlines) check(ctx context.Context) {
	if _, ok := ctx.Deadline(); !ok && ctx.Err() == nil {
		d.t.Error("a call has no deadline")
	}
}
