package election

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
)

var errNoRights = fmt.Errorf("%w: no rights", backend.ErrDenied)

// A store that denies readings is reached, so the unknown state names the denial. Each denial is logged once.
func TestADenialIsTheReasonOfTheUnknownState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := scripted()
		store.fail(errNoRights, callObserve, callAnnounce)
		log, logger := warned()
		e := alone(t, store, Options{Logger: logger})
		time.Sleep(2 * DefaultTTL)
		if ev := e.Current(); ev.Kind != Unknown || ev.Reason != ReasonDenied || backend.Class(ev.Err) != backend.ErrDenied {
			t.Errorf("denied for two TTLs, and the state is %v", ev)
		}
		wantLines(t, log, "after two TTLs", "no rights")
	})
}

// A program without a logger learns of a denial from its watchers: once, and again only after a call
// of that kind was allowed.
func TestADenialIsReportedOnce(t *testing.T) {
	for what, denied := range map[string]callKind{"bids": callAcquire, "renewals": callRenew, "readings": callObserve} {
		inBubble(t, what, func(t *testing.T) {
			store := scripted()
			e := alone(t, store, Options{})
			notices := 0
			e.Watch(func(ev Event) {
				if ev.Kind == Notice && ev.Reason == ReasonDenied && backend.Class(ev.Err) == backend.ErrDenied {
					notices++
				}
			})
			if denied != callObserve { // only a leader renews, and only others read
				e.Lead(nil)
				time.Sleep(time.Second)
			}
			for want := 1; want <= 2; want++ {
				store.fail(errNoRights, denied)
				if denied == callAcquire {
					e.Resign(t.Context())
				}
				time.Sleep(5 * DefaultTTL)
				synctest.Wait()
				if notices != want {
					t.Errorf("denied for five TTLs, time %d: %d notices in all", want, notices)
				}
				store.heal()
				time.Sleep(5 * DefaultTTL)
			}
		})
	}
}

// Wrong credentials end a campaign that somebody waits for, whether the denial comes before or after it begins. Lead goes on
// in the background.
func TestAStoreThatDeniesFromTheStartEndsRunAndCampaign(t *testing.T) {
	for what, begin := range map[string]func(e *Election) error{
		"Run": func(e *Election) error {
			return e.Run(context.Background(), func(context.Context, *Leadership) error { return nil })
		},
		"Campaign": func(e *Election) error { _, err := e.Campaign(context.Background()); return err },
	} {
		for _, before := range []time.Duration{0, time.Minute} {
			inBubble(t, fmt.Sprint(what, " after ", before), func(t *testing.T) {
				store := scripted()
				store.fail(errNoRights, callObserve, callAnnounce)
				e := alone(t, store, Options{})
				time.Sleep(before)
				if err := begin(e); backend.Class(err) != backend.ErrDenied {
					t.Errorf("%v; want the denial", err)
				}
				store.heal()
				time.Sleep(DefaultTTL)
				if e.Leading() {
					t.Errorf("%s has returned, and this process leads", what)
				}
				if err := begin(e); err != nil {
					t.Errorf("once the store answers: %v", err)
				}
			})
		}
	}
}

func TestADenialAfterTheFirstAnswerDoesNotEndRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := scripted()
		e := alone(t, store, Options{})
		synctest.Wait()
		store.fail(errNoRights, callObserve, callAnnounce, callAcquire)
		time.AfterFunc(time.Minute, store.heal)
		ran := false
		err := e.Run(t.Context(), func(context.Context, *Leadership) error { ran = true; return nil })
		if err != nil || !ran {
			t.Errorf("Run: %v, ran %v; want it to wait until the store no longer denies", err, ran)
		}
	})
}

// A bid or a release is denied once, as while rights or a token are being replaced. It is made again long before a TTL
// has passed, for which nobody could lead.
func TestASingleDenialCostsNoTTL(t *testing.T) {
	for _, denied := range []callKind{callAcquire, callRelease} {
		inBubble(t, fmt.Sprint(denied), func(t *testing.T) {
			store := scripted()
			e := alone(t, store, Options{})
			synctest.Wait()
			store.fail(errNoRights, denied)
			if denied == callRelease {
				e.Lead(nil)
				time.Sleep(time.Second)
			}
			began := time.Now()
			time.AfterFunc(time.Millisecond, store.heal)
			var err error
			if denied == callRelease {
				err = e.manager.Close(t.Context())
			} else {
				_, err = e.Campaign(t.Context())
			}
			if took := time.Since(began); err != nil || took > DefaultTTL/2 {
				t.Errorf("after %v: %v; want it to succeed within %v", took, err, DefaultTTL/2)
			}
		})
	}
}
