package election_test

import (
	"bytes"
	"context"
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
	"github.com/go-election/go-election/election"
)

// denies is a store that denies the calls whose flags are set.
type denies struct {
	backend.Backend
	acquire, renew, observe atomic.Bool
}

func (d *denies) err(what string) error {
	return fmt.Errorf("%s: %w: no rights", what, backend.ErrDenied)
}

func (d *denies) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if d.acquire.Load() {
		return []backend.Answer{{Err: d.err("acquire")}}, nil // one item only, as for a TTL above the operator's limit
	}
	return d.Backend.Acquire(ctx, bids)
}

func (d *denies) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if d.renew.Load() {
		return nil, d.err("renew")
	}
	return d.Backend.Renew(ctx, held)
}

// Announce is denied like Observe.
func (d *denies) Announce(ctx context.Context, m backend.Member) error {
	if d.observe.Load() {
		return d.err("announce")
	}
	return d.Backend.Announce(ctx, m)
}

func (d *denies) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if d.observe.Load() {
		return nil, d.err("observe")
	}
	return d.Backend.Observe(ctx, seen)
}

// A store that denies readings is reached, so the unknown state names the denial. Each denial is
// logged once.
func TestADenialIsTheReasonOfTheUnknownState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &denies{Backend: memory.New().Backend()}
		d.observe.Store(true)
		var log bytes.Buffer
		m, err := election.New(d, election.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		if err != nil {
			t.Fatal(err)
		}
		e := join(t, m, "jobs")
		time.Sleep(2 * election.DefaultTTL)
		if ev := e.Current(); ev.Kind != election.Unknown || ev.Reason != election.ReasonDenied || backend.Class(ev.Err) != backend.ErrDenied {
			t.Errorf("denied for two TTLs, and the state is %v", ev)
		}
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "no rights"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, log.String())
		}
	})
}

func TestALeadershipWhoseRenewalsAreDeniedEndsForThatReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &denies{Backend: memory.New().Backend()}
		m, err := election.New(d, election.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e := join(t, m, "jobs")
		if err := e.Lead(nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		d.renew.Store(true)
		time.Sleep(election.DefaultTTL)
		changes := m.Stats().Changes
		if !slices.Contains(changes, election.Change{Kind: election.Vacant, Reason: election.ReasonDenied, Own: true, Count: 1}) {
			t.Errorf("want one leadership that ended as denied, got %+v", changes)
		}
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// A program without a logger learns of a denial from its watchers: once, and again only after a call
// of that kind was allowed.
func TestADenialIsReportedOnce(t *testing.T) {
	for what, denied := range map[string]func(*denies) *atomic.Bool{
		"bids":     func(d *denies) *atomic.Bool { return &d.acquire },
		"renewals": func(d *denies) *atomic.Bool { return &d.renew },
		"readings": func(d *denies) *atomic.Bool { return &d.observe },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &denies{Backend: memory.New().Backend()}
				m, err := election.New(d, election.Options{})
				if err != nil {
					t.Fatal(err)
				}
				var notices atomic.Int32
				e := join(t, m, "jobs")
				e.Watch(func(ev election.Event) {
					if ev.Kind == election.Notice && ev.Reason == election.ReasonDenied && backend.Class(ev.Err) == backend.ErrDenied {
						notices.Add(1)
					}
				})
				switch what {
				case "bids":
					d.acquire.Store(true)
					fallthrough
				case "renewals": // only a leader renews, and only others read
					e.Lead(nil)
					time.Sleep(time.Second)
				}
				for i := range int32(2) {
					denied(d).Store(true)
					if what == "bids" {
						if err := e.Resign(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(5 * election.DefaultTTL)
					if got := notices.Load(); got != i+1 {
						t.Errorf("denied for five TTLs, time %d: %d notices in all, want %d", i+1, got, i+1)
					}
					denied(d).Store(false)
					time.Sleep(5 * election.DefaultTTL)
				}
				if err := m.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Wrong credentials end a campaign that somebody waits for, whether the denial comes before or after it begins. Lead goes on
// in the background.
func TestAStoreThatDeniesFromTheStartEndsRunAndCampaign(t *testing.T) {
	for what, begin := range map[string]func(e *election.Election) error{
		"Run": func(e *election.Election) error {
			return e.Run(context.Background(), func(context.Context, *election.Leadership) error { return nil })
		},
		"Campaign": func(e *election.Election) error { _, err := e.Campaign(context.Background()); return err },
	} {
		for _, before := range []time.Duration{0, time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				d := &denies{Backend: memory.New().Backend()}
				d.observe.Store(true)
				m, err := election.New(d, election.Options{Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				e := join(t, m, "jobs")
				time.Sleep(before)
				if err := begin(e); backend.Class(err) != backend.ErrDenied {
					t.Errorf("%s %v after Join: %v; want the denial", what, before, err)
				}
				d.observe.Store(false)
				time.Sleep(election.DefaultTTL)
				if e.Leading() {
					t.Errorf("%s has returned, and this process leads", what)
				}
				if err := begin(e); err != nil {
					t.Errorf("%s once the store answers: %v", what, err)
				}
				if err := m.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestADenialAfterTheFirstAnswerDoesNotEndRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &denies{Backend: memory.New().Backend()}
		m, err := election.New(d, election.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		e := join(t, m, "jobs")
		synctest.Wait()
		d.observe.Store(true)
		d.acquire.Store(true)
		ran := false
		ended := make(chan error, 1)
		go func() {
			ended <- e.Run(context.Background(), func(context.Context, *election.Leadership) error { ran = true; return nil })
		}()
		time.Sleep(time.Minute)
		d.observe.Store(false)
		d.acquire.Store(false)
		if err := <-ended; err != nil || !ran {
			t.Errorf("Run: %v, ran %v; want it to wait until the store no longer denies", err, ran)
		}
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
