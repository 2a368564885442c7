package register_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/register"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/conformance/registertest"
)

var limits = register.Limits{Name: "register", MinTTL: time.Millisecond, MaxTTL: 5 * time.Minute, MaxBytes: 4 << 20}

// deaf is a register that tells of no changes.
type deaf struct{ register.Register }

// repeating is a register whose client library sends each swap twice and tells the answer of the second.
type repeating struct{ register.Register }

func (r repeating) Swap(ctx context.Context, version string, value []byte) (string, error) {
	r.Register.Swap(ctx, version, value)
	return r.Register.Swap(ctx, version, value)
}

// kinds are registers of several kinds.
var kinds = map[string]func(register.Register) register.Register{
	"waiter":    func(r register.Register) register.Register { return r },
	"deaf":      func(r register.Register) register.Register { return deaf{r} },
	"repeating": func(r register.Register) register.Register { return repeating{r} },
}

// TestDriver runs what every driver must pass.
func TestDriver(t *testing.T) {
	for what, of := range kinds {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var store *registertest.Store
			limits := limits
			limits.MaxBytes = 1 << 20
			leasetest.Run(t, leasetest.Harness{
				NewStore: func(testing.TB) func(testing.TB) lease.Driver {
					store = registertest.NewStore()
					return func(testing.TB) lease.Driver { return register.NewDriver(of(store.Register()), limits) }
				},
				GoBack: func() func() {
					was := store.Value()
					return func() { store.Set(was) }
				},
			})
		})
	}
}

// TestConformance runs the suite in virtual time.
func TestConformance(t *testing.T) {
	for what, of := range kinds {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			conformance.Run(t, conformance.Harness{
				Virtual: true, Short: testing.Short() || what != "deaf",
				NewStore: func(testing.TB) conformance.Store { return newStore(of) },
			})
		})
	}
}

func newStore(of func(register.Register) register.Register) conformance.Store {
	store, other := registertest.NewStore(), registertest.NewStore()
	var copied sync.Once
	var hidden atomic.Bool
	var clients sync.Map // of *led, by backend.Backend

	return conformance.Store{
		Open: func(testing.TB) backend.Backend {
			r := &led{Register: store.Register(), other: other.Register(), hidden: &hidden}
			b := register.New(of(r), limits)
			clients.Store(b, r)
			return b
		},
		Elsewhere: func(b backend.Backend, on bool) error {
			copied.Do(func() {
				other.Set(edit(store.Value(), func(doc map[string]any) { doc["epoch"] = "of another store" }))
			})
			r, _ := clients.Load(b)
			r.(*led).elsewhere.Store(on)
			return nil
		},
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				store.Set(edit(store.Value(), func(doc map[string]any) {
					delete(doc["items"].(map[string]any), "record/"+election)
				}))
				return nil
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error {
				return plant(store, election)
			},
			conformance.FaultHide: func(on bool, _ string) error {
				hidden.Store(on)
				return nil
			},
		},
	}
}

// edit changes a document as an operator does, and leaves the other items as they are. Nil is none.
func edit(value []byte, change func(doc map[string]any)) []byte {
	if value == nil {
		return nil
	}
	var doc map[string]any
	var raw struct {
		Items map[string]struct{ Value json.RawMessage }
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if err := errors.Join(d.Decode(&doc), json.Unmarshal(value, &raw)); err != nil {
		panic(err)
	}
	for key, item := range raw.Items {
		doc["items"].(map[string]any)[key].(map[string]any)["value"] = item.Value
	}
	change(doc)
	value, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return value
}

func itemOf(doc map[string]any, election string) map[string]any {
	item, _ := doc["items"].(map[string]any)["record/"+election].(map[string]any)
	return item
}

func set(item map[string]any, fields map[string]any) {
	var value map[string]any
	if err := json.Unmarshal(item["value"].(json.RawMessage), &value); err != nil {
		panic(err)
	}
	maps.Copy(value, fields)
	item["value"] = value
}

// plant overwrites the record with hostile text as the holder.
func plant(store *registertest.Store, election string) (err error) {
	store.Set(edit(store.Value(), func(doc map[string]any) {
		item := itemOf(doc, election)
		if item == nil {
			err = errors.New("no record to plant over")
			return
		}
		text := "<script>\x1b]0;\u202e"
		set(item, map[string]any{"id": text, "nonce": text, "address": "javascript:alert(1)\n", "metadata": "\x00\x1b[2J", "heartbeat": "2"})
	}))
	return err
}

// led is a Register that leads to another store for a while, or to one whose rights hide the value.
type led struct {
	register.Register
	other     register.Register
	elsewhere atomic.Bool
	hidden    *atomic.Bool // of all clients
}

func (l *led) now() register.Register {
	if l.elsewhere.Load() {
		return l.other
	}
	return l.Register
}

func (l *led) Get(ctx context.Context) ([]byte, string, error) {
	if l.hidden.Load() {
		return nil, "", backend.ErrDenied
	}
	return l.now().Get(ctx)
}

func (l *led) Swap(ctx context.Context, version string, value []byte) (string, error) {
	if l.hidden.Load() {
		return "", backend.ErrDenied
	}
	return l.now().Swap(ctx, version, value)
}

func (l *led) Wait(ctx context.Context, version string) error {
	return l.now().(register.Waiter).Wait(ctx, version)
}
