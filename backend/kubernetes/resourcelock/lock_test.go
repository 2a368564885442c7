package resourcelock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	clientgo "k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/kubernetes/resourcelock"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// pair starts two members, and returns the one that works first. Both electors run until stopped.
func pair(t *testing.T, f *fleet, adjust func(*member)) (first, second *member, stop func()) {
	t.Helper()
	members, stops := map[string]*member{}, map[string]func(){}
	for _, id := range []string{"a", "b"} {
		m := f.member(id)
		adjust(m)
		members[id], stops[id] = m, m.elect()
	}
	id := f.worker()
	first = members[id]
	delete(members, id)
	for _, m := range members {
		second = m
	}
	return first, second, stops[id]
}

// The fault that makes two leaders with client-go's own lock: the leader cannot reach the store.
func TestACutOffElectorStopsFirst(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		first, second, _ := pair(t, f, func(*member) {})
		first.Cut()
		cut := time.Now()
		if id := f.worker(first.ID()); id != second.ID() {
			t.Fatalf("%s works", id)
		}
		_, begun := f.state()
		switch pause := begun.Sub(f.ended); {
		case f.ended.Before(cut), f.ended.Sub(cut) > ttl:
			t.Errorf("its work ended %v after the fault", f.ended.Sub(cut))
		case pause < ttl/6: // ClockMargin
			t.Errorf("the other member works %v after the work of the first has ended, want at least ClockMargin", pause)
		}
		first.Heal()
		second.Pause()
		f.worker(second.ID())
	})
}

func TestAnElectorStopsWhenItsLeadershipEnds(t *testing.T) {
	for end, do := range map[string]func(*testing.T, *member) error{
		"pause":  func(_ *testing.T, m *member) error { m.Pause(); return nil },
		"depose": func(t *testing.T, m *member) error { return m.lock.Election().Depose(t.Context()) },
		"resign": func(t *testing.T, m *member) error { return m.lock.Election().Resign(t.Context()) },
		"crash":  func(_ *testing.T, m *member) error { m.Crash(); return nil },
		"deny":   func(_ *testing.T, m *member) error { m.Fail(backend.ErrDenied); return nil },
	} {
		t.Run(end, func(t *testing.T) {
			inFleet(t, func(t *testing.T, f *fleet) {
				first, _, _ := pair(t, f, func(m *member) { m.linger = time.Second })
				testbed.NoError(t, do(t, first))
				f.worker(first.ID())
			})
		})
	}
}

// The lock does not know when the work of such an elector ends.
func TestAnUnknownFunctionHasATTLToEnd(t *testing.T) {
	for cause, end := range map[string]func(m *member, stop func()){
		"release": func(_ *member, stop func()) { stop() },
		"pause":   func(m *member, _ func()) { m.Pause() },
	} {
		t.Run(cause, func(t *testing.T) {
			inFleet(t, func(t *testing.T, f *fleet) {
				first, _, stop := pair(t, f, func(m *member) { m.linger = ttl - time.Second })
				end(first, stop)
				ended := time.Now()
				f.worker(first.ID())
				if _, begun := f.state(); begun.Sub(ended) > ttl+time.Second {
					t.Errorf("the other member works %v after the first has stopped, want a TTL", begun.Sub(ended))
				}
			})
		})
	}
}

func TestCloseReleasesTheLease(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		first, _, stop := pair(t, f, func(*member) {})
		stop()
		stopped := time.Now()
		testbed.NoError(t, first.Close(t.Context()))
		f.worker(first.ID())
		if _, begun := f.state(); begun.Sub(stopped) > time.Second {
			t.Errorf("the other member works %v after the first was stopped and closed", begun.Sub(stopped))
		}
	})
}

// Close before the elector has been stopped is wrong order, but not two leaders.
func TestCloseWaitsForTheElector(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		first, _, _ := pair(t, f, func(*member) {})
		testbed.NoError(t, first.Close(t.Context()))
		f.worker(first.ID())
	})
}

// An elector that has ended leaves a process that is no candidate.
func TestNobodyCampaignsWithoutAnElector(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		first := f.member("a")
		stopped := first.electOnce()
		f.worker()
		term := first.lock.Election().Leadership().Term
		second := f.member("b")
		stop := second.electOnce()
		<-second.leaders // it has begun to ask
		time.Sleep(ttl)
		stop()
		time.Sleep(time.Second)
		if campaigns(second) {
			t.Error("a follower whose elector was stopped campaigns")
		}
		first.Pause()
		f.until("nobody works", func() bool { id, _ := f.state(); return id == "" })
		first.Resume()
		stopped()
		time.Sleep(2 * ttl)
		if r, err := first.lock.Election().Record(t.Context()); err != nil || r.Term != term {
			t.Errorf("without an elector the process was elected in term %d after %d (error %v)", r.Term, term, err)
		}
		if campaigns(first) || campaigns(second) {
			t.Errorf("without an elector, the former leader campaigns: %v, the follower: %v", campaigns(first), campaigns(second))
		}
	})
}

func campaigns(m *member) bool {
	for _, s := range m.Status().Elections {
		return s.Campaigning || s.Leading
	}
	return false
}

func TestFollowersLearnTheLeader(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		first, second, stop := pair(t, f, func(*member) {})
		if id := <-second.leaders; id != first.ID() {
			t.Errorf("the follower's first leader is %q, want %q", id, first.ID())
		}
		stop()
		if id := <-second.leaders; id != second.ID() {
			t.Errorf("the follower's next leader is %q, want %q", id, second.ID())
		}
	})
}

// A process that is no leader shows itself to nobody as the leader, not even if it has the leader's ID.
func TestASharedIDMakesNoSecondLeader(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.member("a").elect()
		f.worker()
		other := f.member("a")
		elector, err := leaderelection.NewLeaderElector(other.config())
		testbed.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 3*ttl)
		defer cancel()
		go elector.Run(ctx)
		if id := <-other.leaders; id == "a" || elector.IsLeader() {
			t.Errorf("the follower's leader is %q, IsLeader is %v", id, elector.IsLeader())
		}
		<-ctx.Done()
	})
}

// The lease duration that an Update shows is all that the lock sees of the elector's timings.
func TestOtherTimingsNeverLead(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		m := f.member("a")
		_, _, err := m.lock.Get(t.Context())
		testbed.NoError(t, err) // it can lead
		err = m.lock.Update(t.Context(), clientgo.LeaderElectionRecord{HolderIdentity: "a", LeaseDurationSeconds: 15})
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), "15s") || !strings.Contains(err.Error(), "1s") {
			t.Errorf("an elector with controller-runtime's defaults gets %v, want an error with both durations", err)
		}
		err = m.lock.Create(t.Context(), clientgo.LeaderElectionRecord{HolderIdentity: "b", LeaseDurationSeconds: 1})
		if !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("an elector with another identity gets %v, want %v", err, backend.ErrInvalid)
		}
	})
}

// controller-runtime's default for any one timing fits no lock with default timings.
func TestNoTimingCanBeForgotten(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 10 * time.Second, 30 * time.Second, time.Minute, time.Hour} {
		inFleet(t, func(t *testing.T, f *fleet) {
			m, err := election.New(memoryBackend(), election.Options{TTL: ttl})
			testbed.NoError(t, err)
			defer m.Close(t.Context())
			lock, err := resourcelock.New(m, name)
			testbed.NoError(t, err)
			config := (&member{lock: lock}).config()
			if _, err := leaderelection.NewLeaderElector(config); err != nil {
				t.Errorf("TTL %v: %v", ttl, err)
			}
			if config.LeaseDuration >= 15*time.Second {
				t.Errorf("TTL %v: LeaseDuration %v may be the elector's default", ttl, config.LeaseDuration)
			}
			noDeadline, noPeriod := config, config
			noDeadline.RenewDeadline, noPeriod.RetryPeriod = 10*time.Second, 2*time.Second
			for forgotten, c := range map[string]leaderelection.LeaderElectionConfig{"RenewDeadline": noDeadline, "RetryPeriod": noPeriod} {
				if _, err := leaderelection.NewLeaderElector(c); err == nil {
					t.Errorf("TTL %v: client-go accepts its own default of %s beside %v", ttl, forgotten, lock.Timings())
				}
			}
		})
	}
}

// Five hours of random faults: never two that work, and always one again.
func TestRandomFaultsNeverMakeTwoWork(t *testing.T) {
	for seed := range uint64(4) {
		inFleet(t, func(t *testing.T, f *fleet) {
			random := rand.New(rand.NewPCG(seed, 0))
			var members []*member
			for _, id := range []string{"a", "b", "c"} {
				m := f.member(id)
				members = append(members, m)
				m.elect()
			}
			for end := time.Now().Add(5 * time.Hour); time.Now().Before(end) && !t.Failed(); {
				m := members[random.IntN(len(members))]
				switch random.IntN(8) {
				case 0:
					m.Cut()
				case 1, 2:
					m.Heal()
				case 3:
					m.Pause()
				case 4, 5:
					m.Resume()
				case 6:
					go m.lock.Election().Depose(t.Context())
				case 7:
					go m.lock.Election().Nominate(t.Context(), members[random.IntN(len(members))].ID())
				}
				time.Sleep(time.Duration(random.Int64N(int64(2 * ttl))))
			}
			for _, m := range members {
				m.Heal()
				m.Resume()
			}
			f.worker()
			if t.Failed() || f.count() < 100 {
				t.Errorf("seed %d: work began %d times", seed, f.count())
			}
		})
	}
}
