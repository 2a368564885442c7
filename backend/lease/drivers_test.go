package lease_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/lab/testbed"
)

// A mark is on its way while the lease is renewed.
func TestALateMarkEndsNoLeadership(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.start("a")
		l := a.leads("jobs")
		h := l.Held()
		h.MovedFrom = "etcd"
		a.wire.loses = request
		_, err := a.b.Mark(w.Context(), []backend.Held{h})
		w.want(err != nil, "the mark was answered")
		arrive := a.wire.write
		a.renews(l)
		arrive()
		a.goesOn(ttl, "a late mark", l)
	})
}

type setBack struct {
	requests
	by time.Duration
}

func (d *setBack) Limits() lease.Limits {
	limits := d.Driver.Limits()
	limits.Now = func() time.Time { return time.Now().Add(-d.by).Round(0) }
	return limits
}

func (d *setBack) List(ctx context.Context, kind lease.Kind, from string, limit int) (lease.View, error) {
	v, err := d.requests.List(ctx, kind, from, limit)
	for i := range v.Items {
		v.Items[i].Age = -1
	}
	return v, err
}

// The store does not say how old a session is, and clocks show another time of day. A member is listed from the second reading
// on, until two of its TTLs after the last change.
func TestMembersAreListedWhateverTheirClocksShow(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, -2 * ttl, 0, 3 * ttl, 24 * time.Hour} {
		inWorld(t, func(w *world) {
			a, reader := w.start("a"), lease.New(&setBack{requests: requests{Driver: w.store.Driver()}})
			a.b = lease.New(&setBack{requests: requests{Driver: w.store.Driver()}, by: by})
			listed := func() bool {
				list, err := reader.Members(w.Context(), "", 10)
				testbed.NoError(w, err)
				return slices.ContainsFunc(list, func(m backend.Member) bool { return m.ID == "a" })
			}
			for n := range 6 {
				testbed.NoError(w, a.b.Announce(w.Context(), backend.Member{Candidate: a.me, TTL: ttl}))
				w.want(listed() || n < 2, "with a clock that is %v behind a member is not listed", by)
				time.Sleep(ttl)
			}
			for range 3 {
				listed()
				time.Sleep(ttl)
			}
			if by == 0 { // who reads seldom goes by clocks
				testbed.NoError(w, a.b.Announce(w.Context(), backend.Member{Candidate: a.me, TTL: ttl}))
				time.Sleep(time.Hour)
			}
			w.want(!listed(), "with a clock that is %v behind a member is listed though it is gone", by)
		})
	}
}

// A process starts whose clock is two hours ahead: it takes all sessions for those of processes that are gone.
func TestAClockThatIsAheadEndsNoLeadership(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.start("a"), w.start("b")
		l := a.leads("jobs")
		a.renews(l)
		b.b = lease.New(&setBack{requests: requests{Driver: w.store.Driver()}, by: -2 * time.Hour})
		testbed.NoError(w, b.b.Announce(w.Context(), backend.Member{Candidate: b.me, TTL: ttl}))
		a.goesOn(3*ttl, "a clock that is ahead", l)
	})
}

// The store's clock is set back by a day.
func TestAClockThatIsSetBackHidesNoMember(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.start("a")
		d := &setBack{requests: requests{Driver: w.store.Driver()}}
		a.b = lease.New(d)
		m := backend.Member{Candidate: a.me, TTL: ttl}
		testbed.NoError(w, a.b.Announce(w.Context(), m))
		d.by, d.writes = 24*time.Hour, 0
		for range 30 {
			time.Sleep(ttl)
			testbed.NoError(w, a.b.Announce(w.Context(), m))
		}
		w.want(d.writes > 0, "30 announcements have written nothing")
	})
}

// A keeper says whether the store has kept the session.
type keeper struct {
	setBack
	kept bool
}

func (d *keeper) Kept() bool { return d.kept }

// A store that deletes the sessions of processes that have ended shows which members are there.
func TestAMemberWhoseSessionIsKeptWritesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.start("a")
		d := &keeper{setBack: setBack{requests: requests{Driver: w.store.Driver()}}, kept: true}
		a.b = lease.New(d)
		m := backend.Member{Candidate: a.me, TTL: ttl}
		announce := func(rule string, writes int) {
			w.Helper()
			time.Sleep(time.Hour)
			d.writes = 0
			testbed.NoError(w, a.b.Announce(w.Context(), m))
			w.want(d.writes == writes, "%d writes: rule violated: %s", d.writes, rule)
			list, err := a.b.Members(w.Context(), "", 10)
			w.want(err == nil && len(list) == 1 && list[0].Age == 0 && list[0].Stage == m.Stage, "%+v, %v: rule violated: a member that is there is listed as it announced itself", list, err)
		}
		announce("the first announcement makes the session, and writes it", 2)
		announce("a member that has not changed is there already", 0)
		m.Stage = "both"
		announce("a member that has changed is written", 1)
		w.store.Delete(a.session())
		d.kept = false
		announce("a session that is lost is made again", 3)
	})
}

type partial struct {
	lease.Driver
	err error
}

func (d *partial) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	w, err := d.Driver.Write(ctx, epoch, wentBack, changes, verify)
	if err == nil && d.err != nil {
		w.Stale, err = nil, d.err
	}
	return w, err
}

// Results that come with an error.
func TestResultsBesideAnError(t *testing.T) {
	inWorld(t, func(w *world) {
		a := w.start("a")
		d := &partial{Driver: w.store.Driver()}
		a.b = lease.New(d)
		leases := a.leadsAll(longNames(100, 10))
		d.err = backend.ErrUnavailable
		w.store.Delete(recordOf(leases[3].Election))
		held := heldBy(leases)
		answers, err := a.b.Renew(w.Context(), held)
		w.want(err != nil && answers[3].Outcome != backend.Granted, "%v %v", answers[3], err)
		d.err = nil
		answers, err = a.b.Renew(w.Context(), held)
		w.want(err == nil && answers[3].Outcome == backend.Refused && answers[4].Outcome == backend.Granted, "%v %v", answers[3], err)
		d.err = errors.Join(lease.ErrEpoch)
		answers, _ = a.b.Renew(w.Context(), held[4:5])
		w.want(answers[0].Outcome != backend.Granted, "%v", answers)
	})
}

// deaf is a driver that tells of nothing.
type deaf struct{ lease.Driver }

// notifier is a driver that only says that something has changed.
type notifier struct {
	lease.Driver
	on lease.Listener
}

func (d notifier) Read(ctx context.Context, keys []lease.Key) (lease.View, error) {
	v, err := d.Driver.Read(ctx, keys)
	disorder(&v)
	return v, err
}

func (d notifier) Listen(ctx context.Context, _ uint64, known []lease.Item, on func([]lease.Item, uint64) bool) error {
	v, err := d.Driver.Read(ctx, nil)
	if err != nil {
		return err
	}
	for _, it := range known {
		now, err := d.Driver.Read(ctx, []lease.Key{it.Key})
		if err != nil || it.Kind == lease.Records && now.Items[0].Version != it.Version {
			return err
		}
	}
	return d.on.Listen(ctx, v.Position, known, func(items []lease.Item, _ uint64) bool {
		if !slices.ContainsFunc(items, func(it lease.Item) bool { return it.Kind == lease.Records }) {
			return true
		}
		return on(nil, 0)
	})
}

type afterwards struct{ lease.Driver }

func (d afterwards) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	w, err := d.Driver.Write(ctx, epoch, wentBack, changes, nil)
	if err != nil || len(verify) == 0 {
		return w, err
	}
	time.Sleep(time.Millisecond)
	w2, err := d.Driver.Write(ctx, epoch, wentBack, nil, verify)
	w.Stale = w2.Stale
	return w, err
}

// The suite over drivers of other kinds.
func TestConformanceOfOtherDrivers(t *testing.T) {
	for what, of := range map[string]func(lease.Driver) lease.Driver{
		"notifier": func(d lease.Driver) lease.Driver { return notifier{d, d.(lease.Listener)} },
		"deaf":     func(d lease.Driver) lease.Driver { return deaf{d} },
		"reversed": func(d lease.Driver) lease.Driver { return &reversed{Driver: d} },
		"small":    func(d lease.Driver) lease.Driver { return afterwards{d} },
	} {
		t.Run(what, func(t *testing.T) {
			conformance.Run(t, conformance.Harness{
				Virtual: true, Short: true,
				Only: func(c conformance.Case) bool { return c.Contract() || !testing.Short() },
				NewStore: func(testing.TB) conformance.Store {
					store := leasetest.NewStore()
					if what == "small" {
						store.Limits.Batch, store.Limits.Checks = 4, 3
					}
					return suite(store, of)
				},
			})
		})
	}
}

// Sessions of processes that have been gone for an hour are deleted by the next one that announces
// itself. A lease that such a process held is watched anew.
func TestOldSessionsAreDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		gone, alive, next := w.start("gone"), w.start("alive"), w.start("next")
		gone.leads("jobs")
		time.Sleep(time.Hour)
		alive.leads("others")
		time.Sleep(time.Second)
		before := next.sees("jobs")
		testbed.NoError(w, next.b.Announce(w.Context(), backend.Member{Candidate: next.me, TTL: ttl}))
		w.want(w.store.Text(gone.session()) == "", "the session of a process that has been gone for an hour is there")
		w.want(w.store.Text(alive.session()) != "", "the session of another one was deleted")
		w.want(next.sees("jobs").Version != before.Version, "the lease is not watched anew")
	})
}
