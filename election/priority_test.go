package election

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// A ranked fleet has processes of different priorities on one store, in virtual time.
type ranked struct {
	t     *testing.T
	store *memory.Store
	open  func(backend.Backend) backend.Backend // what each process has of the store
	all   map[string]*Manager
	began time.Time
	fails string        // the process whose work fails at once
	warms time.Duration // how long each has joined before it campaigns

	mu  sync.Mutex
	led []string // who was elected, in order
}

func rank(t *testing.T, f func(*testing.T, *ranked)) {
	synctest.Test(t, func(t *testing.T) { f(t, newRanked(t)) })
}

func newRanked(t *testing.T) *ranked {
	asItIs := func(b backend.Backend) backend.Backend { return b }
	return &ranked{t: t, store: memory.New(), open: asItIs, all: map[string]*Manager{}, began: time.Now()}
}

func (f *ranked) start(id string, priority int, reclaim time.Duration, more ...func(*Options)) *Election {
	f.t.Helper()
	o := Options{ID: id, Priority: priority, Reclaim: reclaim}
	for _, change := range more {
		change(&o)
	}
	m := manage(f.t, f.open(f.store.Backend()), o)
	f.mu.Lock()
	f.all[id] = m
	f.mu.Unlock()
	e := joined(f.t, m, "jobs")
	time.Sleep(f.warms)
	if err := e.Lead(func(ctx context.Context, lead *Leadership) error {
		f.mu.Lock()
		f.led = append(f.led, id)
		f.mu.Unlock()
		if id == f.fails {
			return errors.New("the work fails")
		}
		<-ctx.Done()
		return nil
	}); err != nil {
		f.t.Error(err)
	}
	return e
}

// scripted has the next process use a script of the store.
func (f *ranked) scripted() *script {
	s := &script{Backend: f.store.Backend()}
	f.open = func(b backend.Backend) backend.Backend {
		f.open = func(b backend.Backend) backend.Backend { return b }
		return s
	}
	return s
}

func (f *ranked) stop(id string) {
	f.t.Helper()
	closes(f.t, f.all[id])
	delete(f.all, id)
}

// after waits, and then wants exactly this history of leaders since the last call.
func (f *ranked) after(d time.Duration, want ...string) {
	f.t.Helper()
	time.Sleep(d) // virtual
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := fmt.Sprint(f.led); got != fmt.Sprint(want) {
		f.t.Fatalf("%v after the start: elected were %s, want %v", time.Since(f.began), got, want)
	}
	f.led = nil
}

const minute = time.Minute

// Processes may join some time before they campaign, as those do that warm up, or are not healthy before. Later the same
// processes join another election together.
func TestTheHighestOfANewFleetLeads(t *testing.T) {
	priorities := map[string]int{"a": 10, "b": 5, "c": 0}
	for _, order := range []string{"abc", "cba", "bca"} {
		for i, warms := range []time.Duration{0, 200 * time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second} {
			for _, health := range []string{"", "fails", "hangs"} {
				inBubble(t, fmt.Sprint(order, " after ", warms, ": ", health), func(t *testing.T) {
					f := newRanked(t)
					if i%2 == 0 {
						f.open = func(b backend.Backend) backend.Backend { return polled{b} }
					}
					warm := func(o *Options) {
						o.Health = func(ctx context.Context) error {
							if health == "hangs" {
								time.Sleep(min(warms, time.Second))
							} else if time.Since(f.began) < warms {
								return errors.New("not yet")
							}
							return nil
						}
					}
					if health == "" {
						f.warms, warm = warms, func(*Options) {}
					}
					for _, id := range strings.Split(order, "") {
						go f.start(id, priorities[id], minute, warm)
						time.Sleep(time.Millisecond)
					}
					f.after(warms+10*time.Second, "a")
					for _, id := range strings.Split(order, "") {
						noError(t, joined(t, f.all[id], "more").Lead(nil))
					}
					time.Sleep(10 * time.Second)
					if e := f.all["a"].Election("more"); !e.Leading() {
						t.Errorf("a does not lead what all have joined later: %v", e.Current())
					}
				})
			}
		}
	}
}

// A rolling restart of the whole fleet, the highest first: the next one leads within milliseconds, and the
// highest gets the leadership back once it has been there for Reclaim.
func TestTheHighestReclaimsInOrder(t *testing.T) {
	rank(t, func(t *testing.T, f *ranked) {
		f.start("a", 10, minute)
		b := f.start("b", 5, minute)
		c := f.start("c", 1, minute)
		f.after(30*time.Second, "a")

		f.stop("a")
		f.after(50*time.Millisecond, "b")
		f.start("a", 10, minute)
		f.after(minute) // b leads on: a is not yet ready for so long
		if !b.Leading() {
			t.Fatal("b does not lead while a settles")
		}
		f.after(11*time.Second, "a") // TTL more at most: announcements are read once in that time
		f.after(time.Hour)
		if _, _, ok := c.Leader(); !ok {
			t.Error("c does not know who leads")
		}
	})
}

// Without Reclaim nothing moves while somebody leads.
func TestWithoutReclaimALeaderStays(t *testing.T) {
	rank(t, func(t *testing.T, f *ranked) {
		f.start("b", 5, 0)
		f.after(20*time.Second, "b")
		f.start("a", 10, 0)
		f.after(time.Hour)
	})
}

// The last leader is not waited for, though its announcement outlasts it; and whoever is lower than a
// survivor lets that one bid first.
func TestTheNextHighestTakesOver(t *testing.T) {
	rank(t, func(t *testing.T, f *ranked) {
		dead := f.scripted()
		f.start("a", 10, minute)
		f.start("c", 1, minute)
		f.start("b", 5, minute)
		f.after(30*time.Second, "a")
		dead.fail(backend.ErrUnavailable)
		f.after(DefaultTTL+DefaultTTL/3+time.Second, "b")
		dead.heal()
	})
}

// One of the highest priority announces itself, and the store refuses all its bids: it costs one wait
// at a vacancy. A bid without an outcome makes no claim.
func TestOneThatCannotLeadStarvesNobody(t *testing.T) {
	rank(t, func(t *testing.T, f *ranked) {
		f.scripted().fail(backend.ErrDenied, callAcquire)
		f.start("a", 10, minute)
		f.start("b", 5, minute)
		f.start("c", 1, minute)
		o := f.all["b"].opts
		f.after(o.RenewEvery+o.CallTimeout+o.RenewEvery, "b")
		f.after(2 * time.Hour)
	})
}

// One of the highest priority whose work fails at once: it asks for the leadership ever more seldom.
func TestClaimsOfOneThatFailsBecomeRare(t *testing.T) {
	rank(t, func(t *testing.T, f *ranked) {
		f.fails = "a"
		f.start("b", 5, minute)
		f.after(20*time.Second, "b")
		f.start("a", 10, minute)
		f.after(minute*3/2, "a", "b")
		f.after(2*minute, "a", "b")
		f.after(4*minute, "a", "b")
		f.after(2*time.Hour-8*minute, "a", "b", "a", "b", "a", "b") // after 8, 16 and 32 minutes
	})
}

// The last leader's IncumbentGrace goes before a higher priority.
func TestIncumbentGraceGoesBeforePriority(t *testing.T) {
	rank(t, func(t *testing.T, f *ranked) {
		graced := func(o *Options) { o.IncumbentGrace = 2 * minute }
		lost := f.scripted()
		f.start("b", 5, 0, graced)
		f.after(20*time.Second, "b")
		f.start("a", 10, 0, graced)
		f.after(20 * time.Second)
		lost.fail(backend.ErrUnavailable, callRenew)
		time.Sleep(DefaultTTL)
		lost.heal()
		f.after(3*time.Second, "b") // less than it would wait for a higher one
	})
}

// A claim does not replace an operator's request.
func TestAnOperatorsRequestGoesBeforeAClaim(t *testing.T) {
	rank(t, func(t *testing.T, f *ranked) {
		b := f.start("b", 5, 0)
		f.after(20*time.Second, "b")
		noError(t, b.Nominate(t.Context(), "absent"))
		f.start("a", 10, minute)
		f.after(10 * minute)
	})
}

// A nominee whose work has failed waits for nothing.
func TestANomineeLeadsAtOnce(t *testing.T) {
	rank(t, func(t *testing.T, f *ranked) {
		f.fails = "a"
		f.start("a", 0, 0)
		f.after(15*time.Second, "a", "a", "a")
		b := f.start("b", 0, 0)
		f.after(3*time.Second, "b")
		f.fails = ""
		noError(t, b.Nominate(t.Context(), "a"))
		f.after(4*time.Second, "a")
	})
}

func TestPrioritiesAreAnnounced(t *testing.T) {
	rank(t, func(t *testing.T, f *ranked) {
		f.start("a", maxPriority, 0)
		f.start("none", 0, 0)
		f.after(30*time.Second, "none") // it sets neither option, so it lets nobody bid first
		members, err := f.all["a"].Members(t.Context())
		if err != nil || len(members) != 2 {
			t.Fatal(members, err)
		}
		for _, v := range members {
			if want := map[string]int{"a": maxPriority, "none": 0}[v.ID]; v.Priority() != want || !v.CampaignsFor("jobs") {
				t.Errorf("%s announces %q: priority %d, want %d", v.ID, v.Elections, v.Priority(), want)
			}
		}
		calls := func(id string) uint64 { return f.all[id].Stats().Calls[callMembers].Took.Count }
		if calls("none") != 0 || calls("a") < 2 {
			t.Errorf("members were read %d and %d times, want never by the one without a priority", calls("none"), calls("a"))
		}
	})
}

// One of the highest priority asks for the leadership and then cannot lead. The leader that has stepped down for it
// leads again after a TTL, not one of a lower priority.
func TestAClaimOfOneThatCannotLeadCostsATTL(t *testing.T) {
	rank(t, func(t *testing.T, f *ranked) {
		f.start("b", 5, minute)
		f.start("c", 1, minute)
		f.after(20*time.Second, "b")
		f.scripted().fail(backend.ErrDenied, callAcquire)
		f.start("a", 10, minute)
		time.Sleep(minute)
		for f.all["b"].Election("jobs").Leading() {
			time.Sleep(time.Second)
		}
		f.after(DefaultTTL+time.Second, "b")
	})
}

// Whoever can write to the store can announce anything. It costs one wait at a vacancy, two at most.
func TestAnAnnouncementAloneCostsTwoWaitsAtMost(t *testing.T) {
	const highest = "priority\t2147483647\n"
	var many []string
	for i := range 50 {
		many = append(many, fmt.Sprint("x", i))
	}
	for what, c := range map[string]struct {
		elections string
		ids       []string
		waits     time.Duration
	}{
		"it never bids":            {highest + "jobs\n", []string{"x"}, 1},
		"it says so twice":         {highest + "jobs\njobs\n\n\n", []string{"x", "x"}, 1},
		"fifty never bid":          {highest + "jobs\n", many, 2},
		"another election":         {highest + "job\n", []string{"x"}, 0},
		"my own id":                {highest + "jobs\n", []string{"b"}, 0},
		"my own priority":          {"priority\t5\njobs\n", []string{"x"}, 0},
		"too great a priority":     {"priority\t2147483648\njobs\n", []string{"x"}, 0},
		"a negative priority":      {"priority\t-1\njobs\n", []string{"x"}, 0},
		"a priority after a name":  {"jobs\n" + highest, []string{"x"}, 0},
		"no number, and no line":   {"priority\t\x00", []string{"x"}, 0},
		"a priority and no number": {"priority\t\njobs\n", []string{"x"}, 0},
	} {
		inBubble(t, what, func(t *testing.T) {
			f := newRanked(t)
			for _, id := range c.ids {
				x := f.store.Backend()
				defer x.Close()
				m := backend.Member{Candidate: backend.Candidate{ID: id, Nonce: backend.NewNonce()}, Elections: c.elections, TTL: 24 * time.Hour}
				noError(t, x.Announce(t.Context(), m))
			}
			f.start("b", 5, minute)
			o := f.all["b"].opts
			least := max(o.RenewEvery, c.waits*(o.RenewEvery+o.CallTimeout))
			f.after(least - time.Second)
			f.after(2*time.Second, "b")
			f.after(10 * minute)
		})
	}
}

// Nine of nine priorities come one after the other, the lowest first. Then nothing moves.
func TestAFleetOfManyPrioritiesComesToRest(t *testing.T) {
	rank(t, func(t *testing.T, f *ranked) {
		for i := range 9 {
			f.start(fmt.Sprint(i), i, minute)
			time.Sleep(45 * time.Second)
		}
		time.Sleep(10 * minute)
		f.mu.Lock()
		led := f.led
		f.led = nil
		f.mu.Unlock()
		if len(led) > 9 || led[len(led)-1] != "8" {
			t.Errorf("elected were %s, want each once at most, and 8 in the end", led)
		}
		f.after(3 * time.Hour)
	})
}

// The last leader has crashed, and one that never bids is announced. Of the others the higher one leads next, whatever the
// order in which the announcements are read.
func TestAmongTheLivingTheHigherOneLeads(t *testing.T) {
	for i := range 10 {
		inBubble(t, fmt.Sprint(i), func(t *testing.T) {
			f := newRanked(t)
			dead := f.scripted()
			f.start("a", 10, 0)
			f.after(20*time.Second, "a")
			f.start("c", 1, 0)
			f.start("b", 5, 0)
			x := f.store.Backend()
			defer x.Close()
			noError(t, x.Announce(t.Context(), backend.Member{Candidate: backend.Candidate{ID: "x", Nonce: backend.NewNonce()}, Elections: "priority\t10\njobs\n", TTL: 24 * time.Hour}))
			f.after(20 * time.Second)
			dead.fail(backend.ErrUnavailable, callRenew, callRelease)
			f.after(30*time.Second, "b")
			dead.heal()
		})
	}
}

// The store denies the reading of announcements: each vacancy costs one wait, and nobody claims.
func TestAnnouncementsThatCannotBeReadStarveNobody(t *testing.T) {
	rank(t, func(t *testing.T, f *ranked) {
		f.open = func(b backend.Backend) backend.Backend {
			s := &script{Backend: b}
			s.fail(backend.ErrDenied, callMembers)
			return s
		}
		f.start("b", 5, minute)
		o := f.all["b"].opts
		wait := o.RenewEvery + o.CallTimeout
		f.after(wait+time.Second, "b")
		f.start("a", 10, minute)
		f.after(time.Hour)
		f.stop("b")
		f.after(wait - time.Second)
		f.after(2*time.Second, "a")
	})
}
