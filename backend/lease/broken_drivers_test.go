package lease_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/conformance/leasetest"
)

// brokenDrivers have one mistake about the place each: which store it is that answers. Each has the
// cases of the suite that must find it.
var brokenDrivers = []struct {
	name    string
	of      func(lease.Driver) lease.Driver
	killers []string
}{
	{"a write goes to whichever store answers",
		func(d lease.Driver) lease.Driver { return careless{d} },
		[]string{"S1 another store grants nothing by what this one showed"}},
	{"another store is followed without another epoch",
		func(d lease.Driver) lease.Driver { return oneEpoch{careless{d}} },
		[]string{"S1 another store grants nothing by what this one showed"}},
	{"what is hidden is read as not there",
		func(d lease.Driver) lease.Driver { return blind{d} },
		[]string{"G8 what is hidden is denied"}},
}

// careless writes in the epoch of the store that answers, and not in the one that was read.
type careless struct{ lease.Driver }

func (d careless) Write(ctx context.Context, _ string, _ int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	now, err := d.Driver.Read(ctx, []lease.Key{{Kind: lease.Metas}})
	if err != nil {
		return lease.Written{}, err
	}
	return d.Driver.Write(ctx, now.Epoch, now.WentBack, changes, verify)
}

// oneEpoch says that all stores are the same.
type oneEpoch struct{ careless }

func (d oneEpoch) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	v, err := d.careless.Read(ctx, keys)
	v.Epoch = "1"
	return v, err
}

// blind takes a store that denies everything for an empty one.
type blind struct{ lease.Driver }

func (d blind) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	v, err := d.Driver.Read(ctx, keys)
	if !errors.Is(err, backend.ErrDenied) {
		return v, err
	}
	v = lease.View{Epoch: "1"}
	for _, k := range keys {
		v.Items = append(v.Items, lease.Item{Key: k})
	}
	return v, nil
}

func (d blind) List(ctx context.Context, kind lease.Kind, from string, limit int) (lease.View, error) {
	v, err := d.Driver.List(ctx, kind, from, limit)
	if errors.Is(err, backend.ErrDenied) {
		return lease.View{Epoch: "1"}, nil
	}
	return v, err
}

// TestEachBrokenDriverIsFoundByItsCases tries only the broken drivers: TestConformance has all cases on one that is not.
func TestEachBrokenDriverIsFoundByItsCases(t *testing.T) {
	for _, broken := range brokenDrivers {
		for _, killer := range broken.killers {
			i := slices.IndexFunc(conformance.Cases(), func(c conformance.Case) bool { return c.Title() == killer })
			if i < 0 {
				t.Fatalf("no case is called %q", killer)
			}
			err := conformance.Cases()[i].Try(t, conformance.Harness{Virtual: true, NewStore: func(testing.TB) conformance.Store {
				return suite(leasetest.NewStore(), broken.of)
			}})
			if err == nil {
				t.Errorf("%s does not find: %s", killer, broken.name)
			}
			t.Logf("%s: %s finds %v", broken.name, killer, err)
		}
	}
}
