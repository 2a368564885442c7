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

func warned() (*lockedText, *slog.Logger) {
	log := new(lockedText)
	return log, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// logs starts a manager that campaigns for some elections, and returns its log.
func logs(t *testing.T, store backend.Backend, o Options, elections ...string) (*Manager, *lockedText) {
	t.Helper()
	log, logger := warned()
	if o.Logger = logger; o.ID == "" {
		o.ID = "a"
	}
	m := manage(t, store, o)
	for _, name := range elections {
		if e := joined(t, m, name); !o.Observer {
			e.Lead(nil)
		}
	}
	return m, log
}

func many(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("e%03d", i))
	}
	return names
}

func wantLines(t *testing.T, log *lockedText, when string, texts ...string) {
	t.Helper()
	lines := slices.Collect(strings.Lines(log.String()))
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
			store := scripted()
			store.fail(errDown)
			m, log := logs(t, store, Options{}, many(elections)...)
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

// Calls may not even end with their context, as on a disk that hangs. That is said, too, once.
func TestAStoreWhoseCallsDoNotReturnIsSaid(t *testing.T) {
	for i, kinds := range [][]callKind{nil, nil, {callObserve, callAcquire, callRenew, callRelease}, nil} {
		others := i % 2
		inBubble(t, fmt.Sprintf("followers: %d, %v", others, kinds), func(t *testing.T) {
			memory := memory.New()
			for range others {
				logs(t, memory.Backend(), Options{ID: "other"}, "jobs")
				time.Sleep(time.Second)
			}
			store := &script{Backend: memory.Backend()}
			m, log := logs(t, store, Options{}, "jobs")
			time.Sleep(time.Minute)
			want := []string{away}
			if others == 0 {
				want = append(want, "lost leader")
			}
			for i == 3 && m.Status().Err == nil { // the first call fails
				store.fail(errDown)
				time.Sleep(time.Millisecond)
			}
			store.fail(errStuck, kinds...)
			time.Sleep(3 * time.Minute)
			for _, line := range want {
				if !strings.Contains(log.String(), line) {
					t.Errorf("after 3 min the log lacks %q:\n%s", line, log.String())
				}
			}
			if s := m.Status(); !s.Unreachable || s.Err == nil {
				t.Errorf("unreachable %v, %v; want it unreachable, and why", s.Unreachable, s.Err)
			}
			store.heal()
			time.Sleep(time.Minute)
			if lines := strings.Count(log.String(), "\n"); lines != len(want)+1 || !strings.Contains(log.String(), again) {
				t.Errorf("at the end the log has %d lines, want %d and %q:\n%s", lines, len(want)+1, again, log.String())
			}
		})
	}
}

// Who reads a store that must be polled asks it in time, though the leader renews far less often than this process would.
func TestALeaderThatRenewsSeldomIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memory.New()
		logs(t, memory.Backend(), Options{ID: "leader", TTL: time.Minute}, "jobs")
		time.Sleep(time.Second)
		_, log := logs(t, polled{memory.Backend()}, Options{TTL: 3 * time.Second, Observer: true}, "jobs")
		time.Sleep(5 * time.Minute)
		wantLines(t, log, "after 5 min")
	})
}

// A leader and a follower say in each outage when it begins and when it is over, also if the store can be read, as when
// its disk is full: nobody can be elected. A call that is repeated with success is no outage, a denial is one at once.
func TestEachOutageIsSaidOnce(t *testing.T) {
	for _, elections := range []int{1, 200} {
		for what, err := range map[string]error{away: errDown, denial: errFull} {
			for which, kinds := range map[string][]callKind{"all calls": nil, "writes": writes} {
				for _, leads := range []bool{true, false} {
					inBubble(t, fmt.Sprintf("%d elections, %s, leads: %v, %s", elections, which, leads, what), func(t *testing.T) {
						eachOutageIsSaidOnce(t, many(elections), leads, err, what, kinds)
					})
				}
			}
		}
	}
}

func eachOutageIsSaidOnce(t *testing.T, elections []string, leads bool, err error, what string, kinds []callKind) {
	memory := memory.New()
	if !leads {
		logs(t, memory.Backend(), Options{ID: "other"}, elections...)
		time.Sleep(time.Minute)
	}
	store := &script{Backend: memory.Backend()}
	_, log := logs(t, store, Options{}, elections...)
	time.Sleep(time.Minute)

	store.fail(errDown, kinds...)
	time.Sleep(500 * time.Millisecond)
	store.heal()
	time.Sleep(time.Minute)
	wantLines(t, log, "after a moment")
	want := []string{}
	for range 2 {
		store.fail(err, kinds...)
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
}

// A server that was away and then denies, say because its password was replaced, says two things, and one end.
func TestAnOutageThatBecomesADenialEndsOnce(t *testing.T) {
	for _, errs := range [][]error{{nil, errDown, errFull, errDown, nil}, {nil, errDown, errFull, nil}} {
		synctest.Test(t, func(t *testing.T) {
			store := scripted()
			_, log := logs(t, store, Options{}, "jobs")
			for _, err := range errs {
				store.fail(err)
				time.Sleep(time.Minute)
			}
			wantLines(t, log, "at the end", away, "lost leader", denial, again)
		})
	}
}

// A denial that lasts, of one election or of one kind of call, hides no outage, and no outage its end.
func TestADenialThatLastsHidesNoOutage(t *testing.T) {
	for what, kind := range map[string]callKind{"of one election": callAcquire, "of notifications": callListen} {
		inBubble(t, what, func(t *testing.T) {
			var denied atomic.Bool
			memory := memory.New()
			store := &script{Backend: memory.Backend()}
			store.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
				if denied.Load() && bids[0].Election == "secret" {
					return []backend.Answer{{Err: errFull}}, nil
				}
				return store.Backend.Acquire(ctx, bids)
			}
			set := func(err error, lasts bool) { // the store is away for err, or that denial lasts
				denied.Store(lasts && kind == callAcquire)
				if store.fail(err); lasts && kind == callListen {
					store.fail(errFull, callListen)
				}
				time.Sleep(5 * time.Minute)
			}
			logs(t, memory.Backend(), Options{ID: "other"}, "elsewhere")
			set(nil, true)
			_, log := logs(t, store, Options{Observer: kind == callListen}, "secret", "elsewhere")
			time.Sleep(time.Minute)
			want := []string{denial}
			wantLines(t, log, "before the outage", want...)
			for range 2 {
				set(errDown, false)
				wantLines(t, log, "in the outage", append(want, away)...)
				set(nil, true)
				want = append(want, away, again)
				wantLines(t, log, "after the outage", want...)
			}
			set(nil, false)
			wantLines(t, log, "at the end", append(want, again)...)
		})
	}
}

// One election is denied for ever, and another answered. That is no end; when it is allowed, it is.
func TestADenialOfOneElectionEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var allowed atomic.Bool
		store := scripted()
		store.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			if bids[0].Election == "secret" && !allowed.Load() {
				return []backend.Answer{{Err: errFull}}, nil
			}
			return store.Backend.Acquire(ctx, bids)
		}
		m, log := logs(t, store, Options{}, "secret", "jobs")
		for range 100 {
			time.Sleep(7 * time.Second)
			m.Election("jobs").Resign(t.Context())
		}
		wantLines(t, log, "after many bids for the other", denial)
		allowed.Store(true)
		time.Sleep(time.Minute)
		wantLines(t, log, "at the end", denial, again)
	})
}

// The bids of one process fail, and others lead, but for moments. It is not kept from leading in these moments.
func TestBidsThatFailBesideOthersThatLeadAreSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memory.New()
		store := &script{Backend: memory.Backend()}
		store.fail(errDown, callAcquire)
		_, log := logs(t, store, Options{}, "jobs")
		time.Sleep(20 * time.Second)
		b, _ := logs(t, memory.Backend(), Options{ID: "b"}, "jobs")
		c, _ := logs(t, memory.Backend(), Options{ID: "c"}, "jobs")
		for i := range 10 {
			time.Sleep(9 * time.Second)
			[]*Manager{b, c}[i%2].Election("jobs").Resign(t.Context())
		}
		wantLines(t, log, "after ten changes", away, again)
	})
}

// The rows of some elections are locked, say: calls are answered, and none of their items has an outcome.
func TestBidsWithoutAnOutcomeAreSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locked atomic.Bool
		store := scripted()
		store.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			if !locked.Load() {
				return store.Backend.Acquire(ctx, bids)
			}
			return slices.Repeat([]backend.Answer{{Err: errDown}}, len(bids)), nil
		}
		m, log := logs(t, store, Options{}, "leads")
		time.Sleep(time.Minute)
		locked.Store(true)
		joined(t, m, "x").Lead(nil)
		joined(t, m, "y").Lead(nil)
		time.Sleep(time.Hour)
		wantLines(t, log, "an hour later", away)
		locked.Store(false)
		time.Sleep(time.Minute)
		wantLines(t, log, "at the end", away, again)
	})
}

// A call that is not about elections is denied, beside others that are answered.
func TestADenialBesideAnswersIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := scripted()
		_, log := logs(t, store, Options{Observer: true}, "jobs")
		for _, want := range [][]string{{denial}, {denial, again, denial}} {
			store.fail(backend.ErrDenied, callListen)
			time.Sleep(time.Hour)
			wantLines(t, log, "an hour later", want...)
			store.heal()
			time.Sleep(time.Hour)
		}
	})
}

// A leader says until when it leads, and what it has lost: one line for all elections. Close says it in one, too.
func TestOneEventIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := scripted()
		m, log := logs(t, store, Options{}, many(200)...)
		time.Sleep(time.Minute)
		store.fail(errDown)
		time.Sleep(time.Minute)
		wantLines(t, log, "a minute later", away, "lost leader")
		for _, text := range []string{"leading=200", "until=", "elections=200", `first="\"e000\", \"e001\", `, `reason="store unreachable"`, "connection refused"} {
			if !strings.Contains(log.String(), text) {
				t.Errorf("the log does not say %q:\n%s", text, log.String())
			}
		}
		store.heal()
		time.Sleep(time.Minute)
		wantLines(t, log, "later", away, "lost leader", again)
		store.fail(errDown)
		err := m.Close(context.Background())
		if !errors.Is(err, ErrNotReleased) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), `200 elections, the first are "e000", "e001", `) {
			t.Errorf("Close says\n%v", err)
		}
	})
}

// Nothing is answered, and Close may wait for a second.
func TestCloseNamesTheFirstElectionsThatItHasAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := scripted()
		m, _ := logs(t, store, Options{}, many(200)...)
		time.Sleep(time.Minute)
		store.fail(errLost)
		began := time.Now()
		ctx, cancel := soon()
		defer cancel()
		elections := m.Elections()
		if err := m.Close(ctx); err == nil || !strings.Contains(err.Error(), "200 elections, the first are ") || len(err.Error()) > 400 {
			t.Errorf("Close says\n%v", err)
		}
		if took := time.Since(began); took > time.Second || slices.ContainsFunc(elections, (*Election).Leading) {
			t.Errorf("Close took %v, and leads on in one of them: %v", took, slices.ContainsFunc(elections, (*Election).Leading))
		}
	})
}

// A store that was restarted asks its followers to watch each lease, held or not, for its greatest TTL. That is said
// once, though elections are read one after the other.
func TestAStoreThatMayHaveLostAGrantIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var doubted atomic.Int32 // so many elections, and they alone
		var version atomic.Value // of those
		version.Store("restarted")
		store := scripted()
		store.observe = func(ctx context.Context, seen []backend.Lease) ([]backend.Lease, error) {
			leases, err := store.Backend.Observe(ctx, seen)
			for _, l := range seen {
				if n, _ := strconv.Atoi(l.Election[1:]); n < int(doubted.Load()) {
					leases = slices.DeleteFunc(leases, func(o backend.Lease) bool { return o.Election == l.Election })
					leases = append(leases, backend.Lease{Election: l.Election, Version: version.Load().(string), ObserveFor: time.Minute})
				} else if strings.HasPrefix(l.Version, "restarted") {
					leases = append(leases, backend.Lease{Election: l.Election, Version: "as before"})
				}
			}
			return leases, err
		}
		_, log := logs(t, store, Options{Observer: true}, many(200)...)
		time.Sleep(time.Minute)
		wantLines(t, log, "before")
		for _, n := range []int32{1, 150, 200, 70, 1} {
			doubted.Store(n)
			time.Sleep(4 * time.Second)
		}
		wantLines(t, log, "after the restart", wait)
		if !strings.Contains(log.String(), "until=") {
			t.Errorf("the log says %s", log.String())
		}
		time.Sleep(47 * time.Second)           // all were watched for a minute
		version.Store("restarted, and led in") // by whoever was first: the others watch what is left once more
		time.Sleep(50 * time.Second)
		wantLines(t, log, "while one is watched once more", wait)
		time.Sleep(10 * time.Minute)
		wantLines(t, log, "at the end", wait, over)
	})
}

// An earlier reading of this process may be answered after a later one, and is then taken for an older copy.
func TestOneReadingThatWasOvertakenIsNotSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var overtaken atomic.Bool
		store := scripted()
		store.observe = func(ctx context.Context, seen []backend.Lease) ([]backend.Lease, error) {
			if overtaken.CompareAndSwap(true, false) {
				return []backend.Lease{{Election: "jobs", Version: "?overtaken", ObserveFor: time.Minute}}, nil
			}
			return store.Backend.Observe(ctx, seen)
		}
		_, log := logs(t, store, Options{Observer: true}, "jobs")
		for range 3 {
			overtaken.Store(true)
			time.Sleep(time.Minute)
		}
		if overtaken.Load() {
			t.Fatal("no reading was overtaken")
		}
		wantLines(t, log, "at the end")
	})
}

// Two live processes have one id, and take turns with a third.
func TestASecondProcessWithAnIDIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		_, log := logs(t, store.Backend(), Options{ID: "a", Observer: true}, "jobs")
		a, _ := logs(t, store.Backend(), Options{ID: "a"}, "jobs")
		logs(t, store.Backend(), Options{ID: "b"}, "jobs")
		for range 5 {
			time.Sleep(30 * time.Second)
			a.Election("jobs").Resign(t.Context())
			time.Sleep(30 * time.Second)
			noError(t, a.Election("jobs").Nominate(t.Context(), "a"))
		}
		wantLines(t, log, "after five turns", `msg="same id"`)
	})
}

// A process that is elected in all of its elections at once fills no log: a record of that is not lost.
func TestManyElectionsThatAreWonAreOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := scripted()
		store.fail(errDown)
		log := new(lockedText)
		m := manage(t, store, Options{ID: "a", Logger: slog.New(slog.NewTextHandler(log, nil))})
		for _, name := range many(200) {
			joined(t, m, name).Lead(nil)
		}
		time.Sleep(20 * time.Second)
		store.heal()
		time.Sleep(20 * time.Second)
		wantLines(t, log, "at the end", away, again, `msg="try acquire leader" candidate=a result=true backend=memory elections=200 first=`, `msg="become leader" candidate=a backend=memory elections=200 first=`)
	})
}

// A follower wins all elections with the first calls after an outage. It reads nothing any more, and says soon that the
// outage is over.
func TestAnOutageIsOverForWhoLeadsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := memory.New()
		others, store := &script{Backend: memory.Backend()}, &script{Backend: memory.Backend()}
		logs(t, others, Options{ID: "other"}, "jobs")
		time.Sleep(time.Minute)
		m, log := logs(t, store, Options{}, "jobs")
		time.Sleep(time.Minute)
		others.fail(errDown)
		store.fail(errDown)
		time.Sleep(30 * time.Second)
		store.heal()
		for !m.Election("jobs").Leading() {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(DefaultTTL / 2)
		wantLines(t, log, "soon after it leads", away, again)
		others.heal() // it closes
	})
}

// Two followers bid in vain while the store is away. When it is back, one of them leads, and the other's bid is not
// repeated: it says soon that the outage is over.
func TestAnOutageIsOverForWhoComesSecond(t *testing.T) {
	for what, kinds := range map[string][]callKind{"all calls": nil, "writes": writes} {
		inBubble(t, what, func(t *testing.T) {
			memory := memory.New()
			leading, first, second := &script{Backend: memory.Backend()}, &script{Backend: memory.Backend()}, &script{Backend: memory.Backend()}
			logs(t, leading, Options{ID: "leading"}, "jobs")
			time.Sleep(time.Minute)
			winner, _ := logs(t, first, Options{ID: "first"}, "jobs")
			m, log := logs(t, second, Options{ID: "second"}, "jobs")
			time.Sleep(time.Minute)

			for _, store := range []*script{leading, first, second} {
				store.fail(errDown, kinds...)
			}
			time.Sleep(30 * time.Second)
			wantLines(t, log, "after 30 s", away)
			first.heal()
			for !winner.Election("jobs").Leading() {
				time.Sleep(100 * time.Millisecond)
			}
			second.heal()
			time.Sleep(DefaultTTL)
			wantLines(t, log, "soon after another leads", away, again)
			if m.Election("jobs").Leading() {
				t.Error("two lead")
			}
			leading.heal() // it closes
		})
	}
}
