package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

var (
	errDown = fmt.Errorf("%w: connection refused", backend.ErrUnavailable)
	errFull = fmt.Errorf("%w: the disk is full", backend.ErrDenied)
)

// fail makes all writes fail.
func (s *script) fail(err error) {
	s.set(func() {
		s.acquire = func(context.Context, []backend.Bid) ([]backend.Answer, error) { return nil, err }
		s.renew = func(context.Context, []backend.Held) ([]backend.Answer, error) { return nil, err }
		s.release = func(context.Context, []backend.Held) error { return err }
		s.announce = func(context.Context, backend.Member) error { return err }
	})
}

// failAll makes readings fail, too.
func (s *script) failAll(err error) {
	s.fail(err)
	s.set(func() {
		s.observe = func(context.Context, []backend.Lease) ([]backend.Lease, error) { return nil, err }
	})
}

func (s *script) heal() {
	s.set(func() { s.acquire, s.renew, s.release, s.announce, s.observe = nil, nil, nil, nil, nil })
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
	away   = "calls to the store fail: this process cannot be elected until they succeed"
	denial = "the store denies calls of this process: an operator must act"
	again  = "calls to the store succeed again"
	wait   = "nobody can be elected for a while"
	over   = "elections can be won again"
)

// A program that has never reached its store says so once, and when it has.
func TestAStoreThatWasNeverReachedIsSaidOnce(t *testing.T) {
	for _, elections := range []int{0, 1, 200} {
		inBubble(t, fmt.Sprint(elections), func(t *testing.T) {
			store := &script{Backend: memory.New().Backend()}
			store.failAll(errDown)
			log, logger := warned()
			m := manage(t, store, Options{ID: "a", Logger: logger})
			for i := range elections {
				joined(t, m, fmt.Sprint(i)).Lead(nil)
			}
			time.Sleep(20 * time.Second)
			wantLines(t, log, "after 20 s", away)
			time.Sleep(time.Hour)
			wantLines(t, log, "after an hour", away)
			store.heal()
			time.Sleep(20 * time.Second)
			closes(t, m)
			wantLines(t, log, "at the end", away, again)
		})
	}
}

// A leader and a follower say in each outage when it begins and when it is over, also if the store can be read, as when
// its disk is full: nobody can be elected. A call that is repeated with success is no outage, a denial is one at once.
func TestEachOutageIsSaidOnce(t *testing.T) {
	for _, elections := range []int{1, 200} {
		for what, err := range map[string]error{away: errDown, denial: errFull} {
			for _, readable := range []bool{true, false} {
				for _, leads := range []bool{true, false} {
					inBubble(t, fmt.Sprintf("%d elections, readable: %v, leads: %v, %s", elections, readable, leads, what), func(t *testing.T) {
						memory := memory.New()
						store := &script{Backend: memory.Backend()}
						fail := map[bool]func(error){true: store.fail, false: store.failAll}[readable]
						log, logger := warned()
						other, m := manage(t, memory.Backend(), Options{ID: "other"}), manage(t, store, Options{ID: "a", Logger: logger})
						for _, m := range map[bool][]*Manager{true: {m}, false: {other, m}}[leads] {
							for i := range elections {
								joined(t, m, fmt.Sprint(i)).Lead(nil)
							}
							time.Sleep(time.Minute)
						}
						fail(errDown)
						time.Sleep(500 * time.Millisecond)
						store.heal()
						time.Sleep(time.Minute)
						wantLines(t, log, "after a moment")
						want := []string{}
						for range 2 {
							fail(err)
							time.Sleep(30 * time.Second)
							if want = append(want, what); leads {
								want = append(want, "lost leader")
							}
							wantLines(t, log, "soon", want...)
							time.Sleep(5 * time.Minute)
							wantLines(t, log, "later", want...)
							store.heal()
							time.Sleep(time.Minute)
							want = append(want, again)
							wantLines(t, log, "when it is over", want...)
						}
						closes(t, m, other)
					})
				}
			}
		}
	}
}

// A server that was away and then denies, say because its password was replaced, says two things, and one end.
func TestAnOutageThatBecomesADenialEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &script{Backend: memory.New().Backend()}
		log, logger := warned()
		m := manage(t, store, Options{ID: "a", Logger: logger})
		joined(t, m, "jobs").Lead(nil)
		time.Sleep(time.Minute)
		for _, err := range []error{errDown, errFull, errDown} {
			store.failAll(err)
			time.Sleep(time.Minute)
		}
		store.heal()
		time.Sleep(time.Minute)
		wantLines(t, log, "at the end", away, "lost leader", denial, again)
		closes(t, m)
	})
}

// One election is denied for ever, and another answered. That is no end; when it is allowed, it is.
func TestADenialOfOneElectionEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var denied atomic.Bool
		store := &script{Backend: memory.New().Backend()}
		store.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			if bids[0].Election == "secret" && denied.Load() {
				return []backend.Answer{{Err: errFull}}, nil
			}
			return store.Backend.Acquire(ctx, bids)
		}
		denied.Store(true)
		log, logger := warned()
		m := manage(t, store, Options{ID: "a", Logger: logger})
		joined(t, m, "secret").Lead(nil)
		jobs := joined(t, m, "jobs")
		jobs.Lead(nil)
		for range 100 {
			time.Sleep(7 * time.Second)
			jobs.Resign(t.Context())
		}
		wantLines(t, log, "after many bids for the other", denial)
		denied.Store(false)
		time.Sleep(time.Minute)
		wantLines(t, log, "at the end", denial, again)
		closes(t, m)
	})
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
		for _, want := range [][]string{{denial}, {denial, again, denial}} {
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
		store := &script{Backend: memory.New().Backend()}
		log, logger := warned()
		m := manage(t, store, Options{ID: "a", Logger: logger})
		for i := range 200 {
			joined(t, m, fmt.Sprintf("e%03d", i)).Lead(nil)
		}
		time.Sleep(time.Minute)
		store.failAll(errDown)
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
		store.heal()
		time.Sleep(time.Minute)
		wantLines(t, log, "later", away, "lost leader", again)
		if err := func() error { store.failAll(errDown); return m.Close(context.Background()) }(); !errors.Is(err, ErrNotReleased) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), `200 elections, the first are "e000", "e001", `) {
			t.Errorf("Close says\n%v", err)
		}
	})
}

func TestCloseNamesTheFirstElectionsThatItHasAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &script{Backend: memory.New().Backend()}
		m := manage(t, store, Options{})
		for i := range 200 {
			joined(t, m, fmt.Sprintf("e%03d", i)).Lead(nil)
		}
		time.Sleep(time.Minute)
		store.failAll(errDown)
		ctx, cancel := soon()
		defer cancel()
		if err := m.Close(ctx); err == nil || !strings.Contains(err.Error(), "200 elections, the first are ") || len(err.Error()) > 400 {
			t.Errorf("Close says\n%v", err)
		}
	})
}

// A store that was restarted asks its followers to watch each lease, held or not, for its greatest TTL. That is said
// once, though elections are read, won and left one after the other.
func TestAStoreThatMayHaveLostAGrantIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var doubted atomic.Int32 // so many elections, and they alone
		store := &script{Backend: memory.New().Backend()}
		store.observe = func(ctx context.Context, seen []backend.Lease) ([]backend.Lease, error) {
			leases, err := store.Backend.Observe(ctx, seen)
			for _, l := range seen {
				if n, _ := strconv.Atoi(l.Election); n < int(doubted.Load()) {
					leases = slices.DeleteFunc(leases, func(o backend.Lease) bool { return o.Election == l.Election })
					leases = append(leases, backend.Lease{Election: l.Election, Version: "restarted", ObserveFor: time.Minute})
				} else if l.Version == "restarted" {
					leases = append(leases, backend.Lease{Election: l.Election, Version: "as before"})
				}
			}
			return leases, err
		}
		log, logger := warned()
		m := manage(t, store, Options{ID: "a", Logger: logger, Observer: true})
		for i := range 200 {
			joined(t, m, fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		wantLines(t, log, "before")
		for _, n := range []int32{1, 150, 200, 70, 1} {
			doubted.Store(n)
			time.Sleep(4 * time.Second)
		}
		time.Sleep(10 * time.Minute)
		wantLines(t, log, "after the restart", wait)
		if !strings.Contains(log.String(), "until=") {
			t.Errorf("the log says %s", log.String())
		}
		if err := m.Election("0").Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
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
		store := &script{Backend: memory.New().Backend()}
		store.failAll(errDown)
		log := new(lockedText)
		m := manage(t, store, Options{ID: "a", Logger: slog.New(slog.NewTextHandler(log, nil))})
		for i := range 200 {
			joined(t, m, fmt.Sprintf("e%03d", i)).Lead(nil)
		}
		time.Sleep(20 * time.Second)
		store.heal()
		time.Sleep(20 * time.Second)
		wantLines(t, log, "at the end", away, again, `msg="try acquire leader" candidate=a result=true backend=memory elections=200 first=`, `msg="become leader" candidate=a backend=memory elections=200 first=`)
		closes(t, m)
	})
}
