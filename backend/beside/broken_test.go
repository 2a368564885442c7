package beside_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/conformance/besidetest"
	"github.com/go-election/go-election/internal/testrules"
)

// A lockMutant is a lock that does one thing wrong. The hooks that are nil do it right.
type lockMutant struct {
	beside.Lock
	take func([]beside.Taking)
	done func([]beside.Result)
	keep func(context.Context, beside.Lock, []beside.Owned) error
	drop func([]beside.Owned) []beside.Owned
	read func([]beside.State)
}

func (l lockMutant) Read(ctx context.Context, names []string) ([]beside.State, error) {
	states, err := l.Lock.Read(ctx, names)
	if l.read != nil {
		l.read(states)
	}
	return states, err
}

func (l lockMutant) Take(ctx context.Context, takings []beside.Taking) ([]beside.Result, error) {
	if l.take != nil {
		takings = slices.Clone(takings)
		l.take(takings)
	}
	results, err := l.Lock.Take(ctx, takings)
	if l.done != nil {
		l.done(results)
	}
	return results, err
}

func (l lockMutant) Keep(ctx context.Context, owned []beside.Owned) ([]beside.Result, error) {
	if l.keep != nil {
		owned = slices.Clone(owned)
		if err := l.keep(ctx, l.Lock, owned); err != nil {
			return nil, err
		}
	}
	results, err := l.Lock.Keep(ctx, owned)
	if l.done != nil {
		l.done(results)
	}
	return results, err
}

func (l lockMutant) Drop(ctx context.Context, owned []beside.Owned) error {
	if l.drop != nil {
		owned = l.drop(slices.Clone(owned))
	}
	return l.Lock.Drop(ctx, owned)
}

func present(ctx context.Context, l beside.Lock, name string) beside.State {
	states, err := l.Read(ctx, []string{name})
	if err != nil {
		return beside.State{}
	}
	return states[0]
}

// brokenLocks have the rule of the kit that must find them.
var brokenLocks = map[string]struct {
	rule string
	lock func(beside.Lock) beside.Lock
}{
	"takes what has changed since it was read": {"a taking over what has changed is refused", func(l beside.Lock) beside.Lock {
		return lockMutant{Lock: l, take: func(takings []beside.Taking) {
			for i := range takings {
				takings[i].Was = present(context.Background(), l, takings[i].Election)
			}
		}}
	}},
	"is trusted for longer than it lasts": {"no other program takes a lock within ValidFor", func(l beside.Lock) beside.Lock {
		return lockMutant{Lock: l, done: trustForMore}
	}},
	"renews whatever is there": {"a late statement of another term changes nothing", func(l beside.Lock) beside.Lock {
		return lockMutant{Lock: l, keep: func(ctx context.Context, l beside.Lock, owned []beside.Owned) error {
			for i := range owned {
				owned[i].Term = present(ctx, l, owned[i].Election).Term
			}
			return nil
		}}
	}},
	"gives back whatever is there": {"a late statement of another term changes nothing", func(l beside.Lock) beside.Lock {
		return lockMutant{Lock: l, drop: func(owned []beside.Owned) []beside.Owned {
			for i := range owned {
				owned[i].Term = present(context.Background(), l, owned[i].Election).Term
			}
			return owned
		}}
	}},
	"is not given back": {"what is dropped can be taken at once by anybody", func(l beside.Lock) beside.Lock {
		return lockMutant{Lock: l, drop: func([]beside.Owned) []beside.Owned { return nil }}
	}},
	"is not sealed": {"no other program takes a sealed lock", func(l beside.Lock) beside.Lock {
		return lockMutant{Lock: l, keep: unsealed, done: func(results []beside.Result) {
			for i := range results {
				results[i].State.Sealed, results[i].ValidFor = true, beside.Always
			}
		}}
	}},
	"shows no renewals": {"another program's lock is firm, and its renewals show", func(l beside.Lock) beside.Lock {
		return lockMutant{Lock: l, read: func(states []beside.State) { states[0].Version = "1" }}
	}},
	"forgets its term": {"what is taken is ours in its term", func(l beside.Lock) beside.Lock {
		return lockMutant{Lock: l, read: func(states []beside.State) { states[0].Term = 0 }}
	}},
}

func trustForMore(results []beside.Result) {
	for i := range results {
		results[i].ValidFor += time.Second
	}
}

func unsealed(_ context.Context, _ beside.Lock, owned []beside.Owned) error {
	for i := range owned {
		owned[i].Sealed = false
	}
	return nil
}

func TestEachBrokenLockIsFoundByItsRule(t *testing.T) {
	for name, broken := range brokenLocks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				testrules.Find(t, besidetest.Rules, broken.rule, func(t testing.TB) *besidetest.Lab { return besidetest.NewLab(t, place(broken.lock)) })
			})
		})
	}
}
