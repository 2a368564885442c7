package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// down is a store that fails all calls while away is set.
type down struct {
	backend.Backend
	away atomic.Bool
	err  error // nil: errDown
}

func (d *down) failure() error { return cmp.Or(d.err, errDown) }

var errDown = fmt.Errorf("%w: connection refused", backend.ErrUnavailable)

func (d *down) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if d.away.Load() {
		return nil, d.failure()
	}
	return d.Backend.Acquire(ctx, bids)
}

func (d *down) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if d.away.Load() {
		return nil, d.failure()
	}
	return d.Backend.Renew(ctx, held)
}

func (d *down) Release(ctx context.Context, held []backend.Held) error {
	if d.away.Load() {
		return d.failure()
	}
	return d.Backend.Release(ctx, held)
}

func (d *down) Observe(ctx context.Context, seen []backend.Lease) ([]backend.Lease, error) {
	if d.away.Load() {
		return nil, d.failure()
	}
	return d.Backend.Observe(ctx, seen)
}

func (d *down) Announce(ctx context.Context, m backend.Member) error {
	if d.away.Load() {
		return d.failure()
	}
	return d.Backend.Announce(ctx, m)
}

// warned is a manager's log of level Warn.
func warned() (*lockedText, *slog.Logger) {
	log := new(lockedText)
	return log, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func wantLines(t *testing.T, log *lockedText, when string, texts ...string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
	if log.String() == "" {
		lines = nil
	}
	if len(lines) != len(texts) {
		t.Fatalf("%s: the log has %d lines, want %d:\n%s", when, len(lines), len(texts), log.String())
	}
	for i, text := range texts {
		if !strings.Contains(lines[i], text) {
			t.Errorf("%s: line %d is\n%s\nwant %q", when, i+1, lines[i], text)
		}
	}
}

const (
	away  = "the store does not answer: nobody can be elected until it does"
	again = "the store answers again"
	wait  = "nobody can be elected for a while"
	over  = "elections can be won again"
)

// A program that uses all connections of its own pool is told so, and not that the store does not answer.
func TestABusyPoolIsNotCalledAStoreThatIsAway(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		store := &down{Backend: memory.New().Backend(), err: fmt.Errorf("%w: all 4 are in use", backend.ErrPoolBusy)}
		store.away.Store(true)
		log, logger := warned()
		m := manage(t, store, Options{ID: "a", Logger: logger})
		joined(t, m, "jobs").Lead(nil)
		time.Sleep(20 * time.Second)
		wantLines(t, log, "after 20 s", "the program's own pool has no free connection: this process cannot be elected until it has")
		store.away.Store(false)
		time.Sleep(20 * time.Second)
		closes(t, m)
	})
}

// A program that has never reached its store says so once, and when it has.
func TestAStoreThatWasNeverReachedIsSaidOnce(t *testing.T) {
	for _, elections := range []int{0, 1, 200} {
		inBubble(t, fmt.Sprint(elections), func(t *testing.T) {
			store := &down{Backend: memory.New().Backend()}
			store.away.Store(true)
			log, logger := warned()
			m := manage(t, store, Options{ID: "a", Logger: logger})
			for i := range elections {
				joined(t, m, fmt.Sprint(i)).Lead(nil)
			}
			time.Sleep(20 * time.Second)
			wantLines(t, log, "after 20 s", away)
			time.Sleep(time.Hour)
			wantLines(t, log, "after an hour", away)
			store.away.Store(false)
			time.Sleep(20 * time.Second)
			wantLines(t, log, "when it answers", away, again)
			closes(t, m)
			wantLines(t, log, "at the end", away, again)
		})
	}
}

// So does a follower in each outage. A call that is repeated with success is none.
func TestEachOutageIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memory.New()
		store := &down{Backend: memory.Backend()}
		log, logger := warned()
		leader := manage(t, memory.Backend(), Options{ID: "leader"})
		joined(t, leader, "x").Lead(nil)
		time.Sleep(time.Second)
		m := manage(t, store, Options{ID: "follower", Logger: logger})
		joined(t, m, "x").Lead(nil)
		time.Sleep(time.Minute)
		store.away.Store(true)
		time.Sleep(500 * time.Millisecond)
		store.away.Store(false)
		time.Sleep(time.Minute)
		wantLines(t, log, "after a moment")
		want := []string{}
		for range 3 {
			store.away.Store(true)
			time.Sleep(14 * time.Second)
			want = append(want, away)
			wantLines(t, log, "during an outage", want...)
			store.away.Store(false)
			time.Sleep(time.Minute)
			want = append(want, again)
			wantLines(t, log, "after an outage", want...)
		}
		closes(t, m, leader)
	})
}

// readable is a store that can be read while all that writes fails, as on a full disk.
type readable struct{ *down }

func (r readable) Observe(ctx context.Context, seen []backend.Lease) ([]backend.Lease, error) {
	return r.Backend.Observe(ctx, seen)
}

// Readings that are answered end no outage of the writes: nobody can be elected.
func TestAStoreThatCanOnlyBeReadIsSaidOnce(t *testing.T) {
	for _, elections := range []int{1, 200} {
		for _, leads := range []bool{true, false} {
			inBubble(t, fmt.Sprintf("%d, leads: %v", elections, leads), func(t *testing.T) {
				memory := memory.New()
				store := readable{&down{Backend: memory.Backend()}}
				log, logger := warned()
				other, m := manage(t, memory.Backend(), Options{ID: "other"}), manage(t, store, Options{ID: "a", Logger: logger})
				for _, m := range map[bool][]*Manager{true: {m}, false: {other, m}}[leads] {
					for i := range elections {
						joined(t, m, fmt.Sprint(i)).Lead(nil)
					}
					time.Sleep(time.Minute)
				}
				store.away.Store(true)
				want := []string{away}
				if leads {
					want = append(want, "lost leader")
				}
				time.Sleep(time.Minute)
				wantLines(t, log, "a minute later", want...)
				closes(t, other)
				time.Sleep(time.Hour)
				wantLines(t, log, "an hour later", want...)
				store.away.Store(false)
				time.Sleep(time.Minute)
				wantLines(t, log, "when it can be written", append(want, again)...)
				closes(t, m)
			})
		}
	}
}

// The rows of some elections are locked, say: calls are answered, and none of their items has an outcome.
func TestBidsWithoutAnOutcomeAreSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locked atomic.Bool
		store := &script{Backend: memory.New().Backend()}
		store.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			if !locked.Load() {
				return store.Backend.Acquire(ctx, bids)
			}
			return slices.Repeat([]backend.Answer{{Err: errDown}}, len(bids)), nil
		}
		log, logger := warned()
		m := manage(t, store, Options{ID: "a", Logger: logger})
		joined(t, m, "leads").Lead(nil)
		time.Sleep(time.Minute)
		locked.Store(true)
		joined(t, m, "x").Lead(nil)
		joined(t, m, "y").Lead(nil)
		time.Sleep(time.Hour)
		wantLines(t, log, "an hour later", away)
		locked.Store(false)
		time.Sleep(time.Minute)
		wantLines(t, log, "at the end", away, again)
		closes(t, m)
	})
}

// A call that is not about elections is denied, beside others that are answered.
func TestADenialBesideAnswersIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &script{Backend: memory.New().Backend()}
		var denied atomic.Bool
		store.listen = func(ctx context.Context, seen []backend.Lease) error {
			if denied.Load() {
				return backend.ErrDenied
			}
			return store.Backend.Listen(ctx, seen)
		}
		log, logger := warned()
		m := manage(t, store, Options{ID: "a", Logger: logger})
		joined(t, m, "x")
		const refuses = "the store refuses this candidate"
		for _, want := range [][]string{{refuses}, {refuses, refuses}} {
			denied.Store(true)
			time.Sleep(time.Hour)
			wantLines(t, log, "an hour later", want...)
			denied.Store(false)
			time.Sleep(time.Hour)
		}
		closes(t, m)
	})
}

// A leader says until when it leads, and what it has lost: one line for all elections. Close says it in one, too.
func TestOneEventIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &down{Backend: memory.New().Backend()}
		log, logger := warned()
		m := manage(t, store, Options{ID: "a", Logger: logger})
		for i := range 200 {
			joined(t, m, fmt.Sprintf("e%03d", i)).Lead(nil)
		}
		time.Sleep(time.Minute)
		store.away.Store(true)
		time.Sleep(time.Minute)
		wantLines(t, log, "a minute later", away, "lost leader")
		for _, text := range []string{"leading=200", "until="} {
			if !strings.Contains(log.String(), text) {
				t.Errorf("the log does not say %q:\n%s", text, log.String())
			}
		}
		for _, text := range []string{"elections=200", `first="\"e000\", \"e001\", `, `reason="store unreachable"`, "connection refused"} {
			if !strings.Contains(log.String(), text) {
				t.Errorf("the log does not say %q:\n%s", text, log.String())
			}
		}
		store.away.Store(false)
		time.Sleep(time.Minute)
		wantLines(t, log, "later", away, "lost leader", again)
		if err := func() error { store.away.Store(true); return m.Close(context.Background()) }(); !errors.Is(err, ErrNotReleased) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), `200 elections, the first are "e000", "e001", `) {
			t.Errorf("Close says\n%v", err)
		}
	})
}

func TestCloseNamesTheFirstElectionsThatItHasAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &down{Backend: memory.New().Backend()}
		m := manage(t, store, Options{})
		for i := range 200 {
			joined(t, m, fmt.Sprintf("e%03d", i)).Lead(nil)
		}
		time.Sleep(time.Minute)
		store.away.Store(true)
		ctx, cancel := soon()
		defer cancel()
		if err := m.Close(ctx); err == nil || !strings.Contains(err.Error(), "200 elections, the first are ") || len(err.Error()) > 400 {
			t.Errorf("Close says\n%v", err)
		}
	})
}

// A store that was restarted asks its followers to watch each lease, held or not, for its greatest TTL.
func TestAStoreThatMayHaveLostAGrantIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var restarted atomic.Bool
		store := &script{Backend: memory.New().Backend()}
		store.observe = func(ctx context.Context, seen []backend.Lease) ([]backend.Lease, error) {
			if !restarted.Load() {
				return store.Backend.Observe(ctx, seen)
			}
			var leases []backend.Lease
			for _, l := range seen {
				leases = append(leases, backend.Lease{Election: l.Election, Version: "restarted", ObserveFor: time.Minute})
			}
			return leases, nil
		}
		log, logger := warned()
		m := manage(t, store, Options{ID: "a", Logger: logger, Observer: true})
		for i := range 200 {
			joined(t, m, fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		wantLines(t, log, "before")
		restarted.Store(true)
		time.Sleep(10 * time.Minute)
		wantLines(t, log, "after the restart", wait)
		if !strings.Contains(log.String(), "elections=200") || !strings.Contains(log.String(), "until=") {
			t.Errorf("the log says %s", log.String())
		}
		restarted.Store(false)
		time.Sleep(10 * time.Minute)
		wantLines(t, log, "at the end", wait, over)
		closes(t, m)
	})
}

// An earlier reading of this process may be answered after a later one, and is then taken for an older copy.
func TestOneReadingThatWasOvertakenIsNotSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var overtaken atomic.Bool
		store := &script{Backend: memory.New().Backend()}
		store.observe = func(ctx context.Context, seen []backend.Lease) ([]backend.Lease, error) {
			if overtaken.CompareAndSwap(true, false) {
				return []backend.Lease{{Election: "jobs", Version: "?overtaken", ObserveFor: time.Minute}}, nil
			}
			return store.Backend.Observe(ctx, seen)
		}
		log, logger := warned()
		m := manage(t, store, Options{ID: "a", Logger: logger, Observer: true})
		joined(t, m, "jobs")
		for range 3 {
			overtaken.Store(true)
			time.Sleep(time.Minute)
		}
		if overtaken.Load() {
			t.Fatal("no reading was overtaken")
		}
		wantLines(t, log, "at the end")
		closes(t, m)
	})
}

// A process that is elected in all of its elections at once fills no log: a record of that is not lost.
func TestManyElectionsThatAreWonAreOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &down{Backend: memory.New().Backend()}
		store.away.Store(true)
		log := new(lockedText)
		m := manage(t, store, Options{ID: "a", Logger: slog.New(slog.NewTextHandler(log, nil))})
		for i := range 200 {
			joined(t, m, fmt.Sprintf("e%03d", i)).Lead(nil)
		}
		time.Sleep(20 * time.Second)
		store.away.Store(false)
		time.Sleep(20 * time.Second)
		wantLines(t, log, "at the end", away, again, `msg="try acquire leader" candidate=a result=true backend=memory elections=200 first=`, `msg="become leader" candidate=a backend=memory elections=200 first=`)
		closes(t, m)
	})
}
