package migration_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/lab/testbed"
)

// Kinds of stores, by how a dead leader's lease comes free.
type kind struct {
	open  func() backend.Backend
	freed bool // at once: a guard releases it, or the kernel does
}

func kinds(t *testing.T) map[string]kind {
	t.Helper()
	adopts, expires, dir := leasetest.NewStore(), memory.New(), t.TempDir()
	return map[string]kind{
		"a store that adopts":   {func() backend.Backend { return lease.New(adopts.Driver()) }, true},
		"a store that does not": {func() backend.Backend { return expires.Backend() }, false},
		"the kernel": {func() backend.Backend {
			b, err := file.Open(file.Options{Dir: dir})
			testbed.NoError(t, err)
			return b
		}, true},
	}
}

// A guard can work exactly if each lease that the leader needed at its stage is free without waiting.
func TestAGuardIsAllowedWhereItCanWork(t *testing.T) {
	for fromName, from := range kinds(t) {
		for toName, to := range kinds(t) {
			for _, c := range []struct {
				stage migration.Stage
				want  bool
			}{{migration.From, from.freed}, {migration.Both, from.freed && to.freed}, {migration.To, to.freed}} {
				o := migration.Options{From: from.open(), To: to.open(), FromName: "here", ToName: "there", Stage: c.stage}
				if c.stage == migration.From {
					o.To.Close()
					o.To = nil
				}
				b := road(t, o)
				err, adopted := backend.CanAdopt(b), b.(backend.Adopter).Adopt("0123456789abcdef", nil)
				if (err == nil) != c.want || (adopted == nil) != c.want {
					t.Errorf("from %s to %s, at %s: %v, and %v", fromName, toName, c.stage, err, adopted)
				}
				if err != nil && (!strings.Contains(err.Error(), "memory") || !errors.Is(adopted, backend.ErrInvalid)) {
					t.Errorf("from %s to %s, at %s: the error does not say which store, or is not of class ErrInvalid: %v, %v", fromName, toName, c.stage, err, adopted)
				}
				b.Close()
			}
		}
	}
}

// What a guard has released at a stage, a second process of that stage wins at once.
func TestAGuardReleasesWhatAStageNeeds(t *testing.T) {
	for _, c := range []struct {
		stage    migration.Stage
		from, to string
	}{
		{migration.From, "a store that adopts", ""},
		{migration.Both, "a store that adopts", "a store that adopts"},
		{migration.To, "a store that adopts", "a store that adopts"},
		{migration.To, "a store that does not", "a store that adopts"},
	} {
		t.Run(string(c.stage)+" beside "+c.from, func(t *testing.T) {
			from, to := kinds(t)[c.from], kinds(t)[c.to]
			open := func() *candidate {
				o := migration.Options{From: from.open(), FromName: "here", ToName: "there", Stage: c.stage}
				if to.open != nil {
					o.To = to.open()
				}
				return newCandidate(t, road(t, o), "a")
			}
			dead, guard, next := open(), open(), open()
			l := dead.Leads("jobs")
			held := l.Held()
			held.End = backend.Failed
			guard.Sees("jobs")
			testbed.NoError(t, guard.Backend.(backend.Adopter).Adopt(dead.Me.Nonce, []backend.Held{held}))
			testbed.NoError(t, guard.Release(t.Context(), []backend.Held{held}))
			if won := next.Leads("jobs"); won.Term <= l.Term {
				t.Errorf("term %d after %d", won.Term, l.Term)
			}
		})
	}
}

// A process at stage to that died before the seal may have won the old lease alone.
func TestAGuardReleasesAHalfThatABidHasLeft(t *testing.T) {
	from, to := leasetest.NewStore(), leasetest.NewStore()
	open := func() *candidate {
		return newCandidate(t, road(t, migration.Options{From: lease.New(from.Driver()), To: lease.New(to.Driver()), FromName: "here", ToName: "there", Stage: migration.To}), "a")
	}
	half := newCandidate(t, lease.New(from.Driver()), "a")
	half.Leads("jobs")
	guard, next := open(), open()
	unknown := []backend.Held{{Election: "jobs", Holder: half.Me, TTL: 10 * time.Second, End: backend.Failed}}
	testbed.NoError(t, guard.Backend.(backend.Adopter).Adopt(half.Me.Nonce, unknown))
	testbed.NoError(t, guard.Release(t.Context(), unknown))
	next.Leads("jobs")
}
