package lease_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/conformance/leasetest"
)

// suite returns a store for package conformance. of makes each client's driver of one that does what a Driver must.
func suite(s *leasetest.Store, of func(lease.Driver) lease.Driver) conformance.Store {
	other := leasetest.NewStore()
	other.Limits = s.Limits
	var copied sync.Once
	var hidden atomic.Bool
	var clients sync.Map // of *led, by backend.Backend

	return conformance.Store{
		Open: func(testing.TB) backend.Backend {
			d := &led{Driver: s.Driver(), other: other.Driver(), hidden: &hidden}
			b := lease.New(of(d))
			clients.Store(b, d)
			return b
		},
		Elsewhere: func(b backend.Backend, on bool) error {
			copied.Do(func() { other.Restore(s.Snapshot(), "of another store") })
			d, _ := clients.Load(b)
			d.(*led).elsewhere.Store(on)
			return nil
		},
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				s.Delete(lease.Key{Kind: lease.Records, Name: election})
				return nil
			},
			conformance.FaultHide: func(on bool, _ string) error {
				hidden.Store(on)
				return nil
			},
		},
	}
}

// led is a Driver that leads to another store for a while, or to one whose rights hide its items.
type led struct {
	lease.Driver
	other     lease.Driver
	elsewhere atomic.Bool
	hidden    *atomic.Bool // of all clients
}

func (d *led) now() (lease.Driver, error) {
	switch {
	case d.hidden.Load():
		return d, backend.ErrDenied
	case d.elsewhere.Load():
		return d.other, nil
	}
	return d.Driver, nil
}

func (d *led) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	now, err := d.now()
	if err != nil {
		return lease.View{}, err
	}
	return now.Read(ctx, keys)
}

func (d *led) List(ctx context.Context, kind lease.Kind, from string, limit int) (lease.View, error) {
	now, err := d.now()
	if err != nil {
		return lease.View{}, err
	}
	return now.List(ctx, kind, from, limit)
}

func (d *led) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	now, err := d.now()
	if err != nil {
		return lease.Written{}, err
	}
	return now.Write(ctx, epoch, wentBack, changes, verify)
}

func (d *led) Listen(ctx context.Context, position uint64, known []lease.Item, on func([]lease.Item, uint64) bool) error {
	now, err := d.now()
	if err != nil {
		return err
	}
	return now.(lease.Listener).Listen(ctx, position, known, on)
}
