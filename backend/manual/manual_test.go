package manual_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/manual"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

const ttl, maxTTL = 10 * time.Second, 15 * time.Second

// write replaces the file in one step.
func write(t *testing.T, path, text string) {
	t.Helper()
	testbed.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	testbed.NoError(t, os.Rename(path+".new", path))
}

// campaign starts a candidate with a manager and a Backend of its own.
func campaign(t *testing.T, id string, o manual.Options) (*election.Election, *manual.Backend) {
	t.Helper()
	b := open(t, o)
	m, err := election.New(b, election.Options{ID: id, TTL: ttl})
	testbed.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), ttl)
		defer cancel()
		m.Close(ctx)
	})
	e, err := m.Join("jobs")
	testbed.NoError(t, err)
	testbed.NoError(t, e.Lead(func(ctx context.Context, _ *election.Leadership) error { <-ctx.Done(); return nil }))
	return e, b
}

// takes waits until ok returns true, and returns how long that took.
func takes(t *testing.T, limit time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > limit {
			t.Fatalf("expected within %v: %s", limit, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

func TestSelfLeadsAtOnceAndNeedsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := campaign(t, "a", manual.Options{Leader: manual.Self})
		if took := takes(t, ttl, "to lead", e.Leading); took > time.Second {
			t.Errorf("expected the only process to lead at once, it took %v", took)
		}
		term := e.Leadership().Term
		time.Sleep(24 * time.Hour)
		if l := e.Leadership(); l == nil || l.Term != term {
			t.Errorf("expected one leadership for a day, got %v", l)
		}
	})
}

func TestOnlyTheNamedOneLeadsAndAllKnowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := manual.Options{Leader: "a"}
		a, _ := campaign(t, "a", o)
		b, _ := campaign(t, "b", o)
		takes(t, time.Second, "the named one to lead", a.Leading)
		time.Sleep(5 * ttl)
		if b.Leading() || !a.Leading() {
			t.Errorf("expected a to lead and b not to: %v, %v", a.Current(), b.Current())
		}
		if leader, _, ok := b.Leader(); !ok || leader.ID != "a" {
			t.Errorf("expected b to know by its configuration that a leads, got %+v, %v", leader, ok)
		}
	})
}

func TestLeadersNamesOthersForSingleElections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := manual.Options{Leader: "a", Leaders: map[string]string{"jobs": "b", "none": ""}}
		a, _ := campaign(t, "a", o)
		b, _ := campaign(t, "b", o)
		takes(t, time.Second, "b to lead jobs", b.Leading)
		time.Sleep(2 * ttl)
		if a.Leading() {
			t.Error("expected a, who is named for other elections only, not to lead")
		}
	})
}

func TestANewLeaderWaitsForTheGreatestTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "leader.json")
		write(t, file, `{"version": 1, "leader": "a"}`)
		a, _ := campaign(t, "a", manual.Options{File: file, MaxTTL: maxTTL})
		b, _ := campaign(t, "b", manual.Options{File: file, MaxTTL: maxTTL, Store: memory.New()}) // with a store of its own it waits, too
		if took := takes(t, maxTTL+ttl, "a to lead", a.Leading); took < maxTTL {
			t.Errorf("expected a process that starts to wait %v, because another may have been named until now; it led after %v", maxTTL, took)
		}
		for version := 2; version < 8; version++ {
			old, next, id := a, b, "b"
			if version%2 == 1 {
				old, next, id = b, a, "a"
			}
			time.Sleep(time.Duration(version) * 700 * time.Millisecond)
			term := old.Leadership().Term
			write(t, file, fmt.Sprintf(`{"version": %d, "leader": %q}`, version, id))
			took := takes(t, maxTTL+ttl, id+" to lead", func() bool {
				if a.Leading() && b.Leading() {
					t.Fatal("two lead")
				}
				return next.Leading()
			})
			if took < maxTTL || old.Leading() {
				t.Errorf("version %d: expected the new leader to wait %v and the old one to have stopped, it took %v", version, maxTTL, took)
			}
			if l := next.Leadership(); l.Term <= term {
				t.Errorf("version %d: expected a term above %d, got %d", version, term, l.Term)
			}
		}
	})
}

func TestALeaderWithoutItsFileStopsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "leader.json")
		write(t, file, `{"version": 1, "leader": "a"}`)
		a, _ := campaign(t, "a", manual.Options{File: file, MaxTTL: maxTTL})
		takes(t, maxTTL+ttl, "a to lead", a.Leading)
		old := a.Leadership()
		time.Sleep(ttl)
		os.Remove(file)
		at := takes(t, 2*ttl, "a to stop when its file is gone", func() bool { return !a.Leading() })
		if at > ttl || at < ttl/3 {
			t.Errorf("expected it to lead until its deadline (TTL %v), it led for %v", ttl, at)
		}
		if err := context.Cause(old.Context()); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("expected the cause to name the file, got %v", err)
		}
	})
}

// Nothing tells of an edit, so followers read the file although nobody leads.
func TestAnEditIsSeenWhileNobodyLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "leader.json")
		write(t, file, `{"version": 1}`)
		a, _ := campaign(t, "a", manual.Options{File: file, MaxTTL: maxTTL})
		time.Sleep(time.Hour)
		write(t, file, `{"version": 2, "leader": "a"}`)
		if took := takes(t, 2*maxTTL, "a to lead", a.Leading); took > maxTTL+ttl/3+time.Second {
			t.Errorf("expected it to see the edit within a third of a TTL, it led after %v", took)
		}
	})
}

func TestAFileThatIsBrokenForAMomentCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "leader.json")
		write(t, file, `{"version": 1, "leader": "a"}`)
		a, _ := campaign(t, "a", manual.Options{File: file, MaxTTL: maxTTL})
		takes(t, maxTTL+ttl, "a to lead", a.Leading)
		term := a.Leadership().Term
		for range 5 {
			write(t, file, `{"vers`)
			time.Sleep(ttl / 3)
			write(t, file, `{"version": 1, "leader": "a"}`)
			time.Sleep(ttl / 3)
		}
		if l := a.Leadership(); l == nil || l.Term != term {
			t.Errorf("expected one leadership, got %v", a.Current())
		}
	})
}

// The error is ErrDenied, with the name of the file and the reason.
func TestAWrongFileIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "leader.json")
	b := open(t, manual.Options{File: file})
	observe := func() error {
		_, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
		return err
	}
	expect := func(what string) {
		t.Helper()
		if err := observe(); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), what) {
			t.Errorf("expected ErrDenied with the name of the file and %q, got %v", what, err)
		}
	}
	expect("no such file")
	for text, what := range map[string]string{
		``: "not understood", `{`: "not understood", `[1]`: "not understood", `{"version": 1, "leaders": "a"}`: "unknown field",
		`{"version": 1} {}`: "follows", `{"leader": "a"}`: "version is 0", `{"version": -1}`: "not understood",
		`{"version": 2000000000000000000}`:                "version is 2000000000000000000",
		`{"version": 1, "leader": "self"}`:                "name an id",
		`{"version": 1, "leader": "a\u0007"}`:             "control character",
		`{"version": 1, "elections": {"": "a"}}`:          "empty",
		`{"version": 1, "elections": {"jobs": "\u202e"}}`: "control character",
		"{\"version\": 1, \"leader\": \"j\xf3b\"}":        "not UTF-8",
	} {
		write(t, file, text)
		expect(what)
	}
	write(t, file, "\ufeff"+`{"version": 5, "leader": "a"}`+"\r\n") // as editors write it on Windows
	if err := observe(); err != nil {
		t.Errorf("expected no error once the file is mended, got %v", err)
	}
	write(t, file, `{"version": 4, "leader": "a"}`)
	expect("version 4 and had version 5")
	write(t, file, `{"version": 5, "leader": "b"}`)
	expect("version 5 and had version 5")
	write(t, file, `{"version": 6, "leader": "b"}`)
	if err := observe(); err != nil {
		t.Errorf("expected no error with a greater version, got %v", err)
	}
}

// A restart keeps nothing but the file and the clock.
func TestARestartDoesNotRepeatATerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "leader.json")
		future := uint64(time.Now().Add(24 * 365 * time.Hour).UnixMicro())
		var last uint64
		for i := range 4 {
			version := uint64(1)
			if i >= 2 { // a version from a clock that is ahead of this one
				version = future + uint64(i)
			}
			write(t, file, fmt.Sprintf(`{"version": %d, "leader": "a"}`, version))
			a := drivertest.NewCandidate(t, open(t, manual.Options{File: file, MaxTTL: maxTTL}), "a", ttl)
			got := a.Bids(backend.Lease{Election: "jobs"})
			if got.Outcome != backend.Refused || got.ObserveFor != maxTTL {
				t.Fatalf("expected a first bid to be refused until the file was observed for %v, got %+v", maxTTL, got)
			}
			time.Sleep(maxTTL)
			if got = a.Bids(got.Lease); got.Outcome != backend.Granted {
				t.Fatalf("expected a bid over the observed lease to be granted, got %+v", got)
			}
			if got.Term <= last || got.Term <= version {
				t.Errorf("start %d: expected a term above %d and above the version %d, got %d", i, last, version, got.Term)
			}
			last = got.Term
		}
	})
}

func TestOpenRefusesInvalidOptions(t *testing.T) {
	for what, o := range map[string]manual.Options{
		"set either leader":    {},
		"and leaders, or file": {File: "x", Leader: "a"},
		"a relative path":      {File: "leader.json"},
		"greatest TTL is 1ms":  {Leader: "a", MaxTTL: time.Millisecond},
		"control character":    {Leader: "a\n"},
		"is empty":             {Leaders: map[string]string{"": "a"}},
	} {
		if _, err := manual.Open(o); !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), what) {
			t.Errorf("expected ErrInvalid with %q for %+v, got %v", what, o, err)
		}
	}
}

// patience bounds waits in real time, on a busy machine.
const patience = time.Minute

// The configurations of the two processes differ.
func TestInADirectoryTwoNeverLead(t *testing.T) {
	dir, file := testbed.TempDir(t), filepath.Join(t.TempDir(), "leader.json") // a disk may be busy for seconds
	write(t, file, `{"version": 1, "leader": "a"}`)
	a, _ := campaign(t, "a", manual.Options{File: file, Dir: dir})
	takes(t, patience, "a to lead", a.Leading)
	b, atB := campaign(t, "b", manual.Options{Leader: "b", Dir: dir})
	if g := atB.Guarantees(); !g.Exclusive || !g.DurableTerms || g.Expiry != backend.ByKernel {
		t.Errorf("expected what the kernel promises, got %+v", g)
	}
	takes(t, patience, "b to know that a leads", func() bool { l, _, ok := b.Leader(); return ok && l.ID == "a" })
	if b.Leading() {
		t.Fatal("two lead")
	}
	term := a.Leadership().Term
	write(t, file, `{"version": 2, "leader": "nobody of them"}`)
	takes(t, patience, "b to lead when a is no longer named", func() bool {
		if a.Leading() && b.Leading() {
			t.Fatal("two lead")
		}
		return b.Leading()
	})
	if l := b.Leadership(); l == nil || l.Term <= term {
		t.Errorf("expected a term above %d, got %+v", term, l)
	}
}

// An operator moves the leader by one edit: all processes read the file, and the directory lets one lead.
func TestAnEditMovesTheLeaderInADirectory(t *testing.T) {
	dir, file := testbed.TempDir(t), filepath.Join(t.TempDir(), "leader.json")
	write(t, file, `{"version": 1, "leader": "a"}`)
	a, _ := campaign(t, "a", manual.Options{File: file, Dir: dir})
	b, _ := campaign(t, "b", manual.Options{File: file, Dir: dir})
	takes(t, patience, "a to lead", a.Leading)
	write(t, file, `{"version": 2, "leader": "a", "elections": {"jobs": "b"}}`)
	takes(t, patience, "b to lead once it is named", func() bool {
		if a.Leading() && b.Leading() {
			t.Fatal("two lead")
		}
		return b.Leading()
	})
	write(t, file, `{"version": 3, "leader": "a", "elections": {"jobs": ""}}`)
	takes(t, patience, "no leader when nobody is named", func() bool { return !b.Leading() })
}
