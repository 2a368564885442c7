package register_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/register"
	"github.com/go-election/go-election/conformance/registertest"
	"github.com/go-election/go-election/lab/testbed"
)

func key(name string) lease.Key { return lease.Key{Kind: lease.Records, Name: name} }

// put writes a record over an item.
func put(t *testing.T, d lease.Driver, over lease.Item, term uint64) (lease.Result, error) {
	t.Helper()
	v := read(t, d, over.Key)
	w, err := d.Write(t.Context(), v.Epoch, v.WentBack, []lease.Change{{Put: []lease.Put{{Over: over, Value: &lease.Record{Election: over.Name, Term: term}}}}}, nil)
	if err != nil {
		return lease.Result{}, err
	}
	return w.Results[0], nil
}

// grants writes a record over what is there.
func grants(t *testing.T, d lease.Driver, name string, term uint64) lease.Item {
	t.Helper()
	r, err := put(t, d, read(t, d, key(name)).Items[0], term)
	if err != nil || r.Outcome != backend.Granted {
		t.Fatalf("a change over what is there: %v, %v", r.Outcome, err)
	}
	return r.Items[0]
}

func read(t *testing.T, d lease.Driver, keys ...lease.Key) lease.View {
	t.Helper()
	v, err := d.Read(t.Context(), keys)
	testbed.NoError(t, err)
	return v
}

// A restored copy that has gone on is not older by its count.
func TestAnOlderCopyIsNoticedThoughItHasBeenWrittenSince(t *testing.T) {
	for writes := range 6 { // fewer than were lost, as many, and more
		t.Run(fmt.Sprint(writes), func(t *testing.T) {
			store := registertest.NewStore()
			seen, other := register.NewDriver(store.Register(), limits), register.NewDriver(store.Register(), limits)
			grants(t, seen, "jobs", 1)
			grants(t, seen, "lost", 1)
			was := store.Value()
			grants(t, seen, "jobs", 2)
			grants(t, seen, "lost", 2)
			late := grants(t, seen, "jobs", 3)

			store.Set(was)
			for n := range writes {
				grants(t, other, "jobs", uint64(10+n))
			}
			if r, err := put(t, seen, late, 4); err == nil && r.Outcome != backend.Refused {
				t.Errorf("a change by what was lost: %v", r.Outcome)
			}
			if v := read(t, seen, key("jobs")); v.WentBack != 1 || !v.Items[0].Old {
				t.Errorf("the store went back %d times, and what it has is old: %v", v.WentBack, v.Items[0].Old)
			}
			grants(t, seen, "jobs", 20)
			if v := read(t, seen, key("jobs")); v.WentBack != 1 || v.Items[0].Old {
				t.Errorf("after one more change it went back %d times, and the item is old: %v", v.WentBack, v.Items[0].Old)
			}
			if v := read(t, other, key("jobs")); writes > 0 && v.WentBack != 0 {
				t.Errorf("a process that has read only the copy says that it went back %d times", v.WentBack)
			}
		})
	}
}

// What is no document of this package is left as it is, and nobody leads by it.
func TestAForeignValueIsLeftAlone(t *testing.T) {
	store := registertest.NewStore()
	d := register.NewDriver(store.Register(), limits)
	grants(t, d, "jobs", 1)
	good := string(store.Value())
	for what, value := range map[string]string{
		"nothing":               "",
		"text":                  "hello",
		"null":                  "null",
		"a number":              "1",
		"a list":                "[]",
		"an object":             "{}",
		"half a document":       good[:len(good)/2],
		"two documents":         good + good,
		"no items":              edited(good, func(doc map[string]any) { doc["items"] = nil }),
		"no epoch":              edited(good, func(doc map[string]any) { doc["epoch"] = "" }),
		"an epoch to be shown":  edited(good, func(doc map[string]any) { doc["epoch"] = "\x1b[2J" }),
		"a long epoch":          edited(good, func(doc map[string]any) { doc["epoch"] = strings.Repeat("e", 1000) }),
		"no tag":                edited(good, func(doc map[string]any) { doc["tag"] = "" }),
		"a negative count":      edited(good, func(doc map[string]any) { doc["count"] = -1 }),
		"a count that ends":     edited(good, func(doc map[string]any) { doc["count"] = json.Number("18446744073709551615") }),
		"items that are a list": edited(good, func(doc map[string]any) { doc["items"] = []int{1} }),
		"a newer layout":        edited(good, func(doc map[string]any) { doc["layout"] = 2 }),
		"deep":                  strings.Repeat("[", 1<<20),
	} {
		t.Run(what, func(t *testing.T) {
			store.Set([]byte(value))
			_, err := d.Read(t.Context(), []lease.Key{key("jobs")})
			if !errors.Is(err, backend.ErrDenied) {
				t.Errorf("a reading: %v, want ErrDenied", err)
			}
			if _, err := d.Write(t.Context(), "e", 0, []lease.Change{{Put: []lease.Put{{Over: lease.Item{Key: key("x")}, Value: &lease.Record{}}}}}, nil); !errors.Is(err, backend.ErrDenied) {
				t.Errorf("a change: %v, want ErrDenied", err)
			}
			if string(store.Value()) != value {
				t.Error("the value was replaced")
			}
		})
	}
}

func edited(value string, change func(doc map[string]any)) string {
	return string(edit([]byte(value), change))
}

// An item that somebody has edited, copied or brought from elsewhere counts as edited.
func TestAnEditedItemIsTold(t *testing.T) {
	for what, change := range map[string]func(doc map[string]any){
		"another value": func(doc map[string]any) { set(itemOf(doc, "jobs"), map[string]any{"term": 9}) },
		"a copy":        func(doc map[string]any) { doc["items"].(map[string]any)["record/jobs"] = itemOf(doc, "others") },
		"another tag":   func(doc map[string]any) { itemOf(doc, "jobs")["tag"] = "AAAA" },
		"another count": func(doc map[string]any) { itemOf(doc, "jobs")["count"] = 1 << 40 },
		"no value":      func(doc map[string]any) { delete(itemOf(doc, "jobs"), "value") },
		"null":          func(doc map[string]any) { doc["items"].(map[string]any)["record/jobs"] = nil },
	} {
		t.Run(what, func(t *testing.T) {
			store := registertest.NewStore()
			d := register.NewDriver(store.Register(), limits)
			grants(t, d, "jobs", 1)
			grants(t, d, "others", 1)
			store.Set(edit(store.Value(), change))
			grants(t, d, "more", 1) // which leaves the edited item as it is
			v := read(t, d, key("jobs"), key("others"))
			if v.Items[0].Version == "" || !v.Items[0].Edited && v.Items[0].Value != nil || v.Items[1].Edited {
				t.Errorf("the edited item is %+v, the other one %+v", v.Items[0], v.Items[1])
			}
			grants(t, d, "jobs", 2)
			if v := read(t, d, key("jobs")); v.Items[0].Edited || v.Items[0].Value == nil {
				t.Errorf("the item that was written over it is %+v", v.Items[0])
			}
		})
	}
}

// A change that would make the value too large is denied, while renewals go on.
func TestAFullValueDeniesNewElectionsAndRenewsOthers(t *testing.T) {
	store, limits := registertest.NewStore(), limits
	limits.MaxBytes = 1 << 20
	d := register.NewDriver(store.Register(), limits)
	over := func(name string, n int) lease.Change {
		return lease.Change{Put: []lease.Put{{Over: read(t, d, key(name)).Items[0], Value: &lease.Record{Election: name, Metadata: strings.Repeat("m", n)}}}}
	}
	write := func(c lease.Change) error {
		v := read(t, d, key("epoch"))
		w, err := d.Write(t.Context(), v.Epoch, v.WentBack, []lease.Change{c}, nil)
		if err == nil && w.Results[0].Outcome != backend.Granted {
			t.Fatal(w.Results)
		}
		return err
	}
	made := 0
	for ; made < 100; made++ {
		if err := write(over(fmt.Sprint("e", made), 50_000)); err != nil {
			if !errors.Is(err, backend.ErrDenied) {
				t.Fatal(err)
			}
			break
		}
	}
	if made < 15 || made > 20 {
		t.Errorf("%d records of 50 kB fit into a MiB", made)
	}
	if err := write(over("e0", 100_000)); err != nil {
		t.Errorf("an item that is there cannot grow: %v", err)
	}
	if err := write(over("e1", 300_000)); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("an item grows beyond the limit: %v", err)
	}
	if err := write(over("e2", 10)); err != nil {
		t.Errorf("the value cannot become smaller: %v", err)
	}
	if size := len(store.Value()); size > limits.MaxBytes {
		t.Errorf("the value has %d bytes", size)
	}
}

// interfering is a register that makes each swap, lets somebody else write, and says ErrChanged.
type interfering struct {
	register.Register
	then func()
}

func (r *interfering) Swap(ctx context.Context, version string, value []byte) (string, error) {
	now, err := r.Register.Swap(ctx, version, value)
	if then := r.then; err == nil && then != nil {
		r.then = nil
		then()
		return "", register.ErrChanged
	}
	return now, err
}

// The client library has sent a swap twice, or somebody has written over it before its answer came. Who finds its own change
// has made it. Who finds nothing of its own any more is refused, and nothing is done twice.
func TestASwapThatWasToldAsRefusedIsNotMadeTwice(t *testing.T) {
	for what, theirs := range map[string]func(t *testing.T, d lease.Driver){
		"nobody writes":            func(*testing.T, lease.Driver) {},
		"another item is written":  func(t *testing.T, d lease.Driver) { grants(t, d, "others", 1) },
		"the same item is written": func(t *testing.T, d lease.Driver) { grants(t, d, "jobs", 7) },
	} {
		t.Run(what, func(t *testing.T) {
			store := registertest.NewStore()
			r, other := &interfering{Register: store.Register()}, register.NewDriver(store.Register(), limits)
			d := register.NewDriver(r, limits)
			before := grants(t, d, "jobs", 1)
			r.then = func() { theirs(t, other) }
			got, err := put(t, d, before, 2)
			testbed.NoError(t, err)
			now := read(t, other, key("jobs")).Items[0]
			if got.Outcome == backend.Granted && now.Version != got.Items[0].Version {
				t.Errorf("granted as version %q, read as %q", got.Items[0].Version, now.Version)
			}
			if what != "the same item is written" && got.Outcome != backend.Granted {
				t.Errorf("its own change is %v", got.Outcome)
			}
		})
	}
}

// refusing is a register that says of each swap that somebody has come first.
type refusing struct {
	register.Register
	readings int
}

func (r *refusing) Get(ctx context.Context) ([]byte, string, error) {
	if r.readings++; r.readings > 2000 {
		return nil, "", errors.New("the store is flooded")
	}
	return r.Register.Get(ctx)
}

func (r *refusing) Swap(context.Context, string, []byte) (string, error) {
	return "", register.ErrChanged
}

// Where an object was deleted and has left a mark, some stores refuse to make it again. Nobody asks them without a pause.
func TestAStoreThatRefusesAllSwapsSaysSoAndIsNotFlooded(t *testing.T) {
	for _, text := range []string{"there is no value", "swaps that met another's"} {
		synctest.Test(t, func(t *testing.T) {
			store, epoch := registertest.NewStore(), ""
			if text != "there is no value" {
				epoch = read(t, register.NewDriver(store.Register(), limits), key("jobs")).Epoch
			}
			r := &refusing{Register: store.Register()}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			change := lease.Change{Put: []lease.Put{{Over: lease.Item{Key: key("jobs")}, Value: &lease.Record{Election: "jobs", Term: 1}}}}
			_, err := register.NewDriver(r, limits).Write(ctx, epoch, 0, []lease.Change{change}, nil)
			if !strings.Contains(fmt.Sprint(err), text) {
				t.Errorf("%v after %d readings; want %q", err, r.readings, text)
			}
		})
	}
}

// A swap without an answer leaves no outcome, whether it was made or not.
func TestALostAnswerIsNoOutcome(t *testing.T) {
	store := registertest.NewStore()
	d := register.NewDriver(store.Register(), limits)
	before := grants(t, d, "jobs", 1)
	epoch := read(t, d, key("jobs")).Epoch
	restore := store.LoseAnswers()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	w, err := d.Write(ctx, epoch, 0, []lease.Change{{Put: []lease.Put{{Over: before, Value: &lease.Record{Election: "jobs", Term: 2}}}}}, nil)
	restore()
	if err == nil || len(w.Results) > 0 && w.Results[0].Outcome != backend.Unknown {
		t.Errorf("a change without an answer: %+v, %v", w, err)
	}
	if r, err := put(t, d, before, 3); err != nil || r.Outcome != backend.Refused {
		t.Errorf("the same change again, after it was made: %v, %v", r.Outcome, err)
	}
}
