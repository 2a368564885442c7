package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// A wire counts the requests of a client, and those that were answered with 429.
type wire struct {
	next      http.RoundTripper
	mu        sync.Mutex
	requests  map[string]int
	throttled atomic.Int64
}

// WrappedRoundTripper lets Close find the connections.
func (w *wire) WrappedRoundTripper() http.RoundTripper { return w.next }

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	what := r.Method
	if r.URL.Query().Get("watch") != "" {
		what = "WATCH"
	}
	w.mu.Lock()
	w.requests[what]++
	w.mu.Unlock()
	answer, err := w.next.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusTooManyRequests {
		w.throttled.Add(1)
	}
	return answer, err
}

// count returns how many requests there were, and forgets them.
func (w *wire) count() (all map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, w.requests = w.requests, map[string]int{}
	return all
}

// manager starts a manager with a wire.
func (l *lab) manager(t testing.TB, id string, o election.Options) (*election.Manager, *wire) {
	t.Helper()
	w := &wire{requests: map[string]int{}}
	n := l.wrappedNode(t, id, func(next http.RoundTripper) http.RoundTripper { w.next = next; return w })
	o.ID = id
	m, err := election.New(n.Backend, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		m.Close(ctx)
	})
	return m, w
}

// join makes a manager campaign for n elections.
func join(t testing.TB, m *election.Manager, n int) (all []*election.Election) {
	t.Helper()
	for i := range n {
		e, err := m.Join(fmt.Sprintf("jobs-%03d", i))
		if err == nil {
			err = e.Lead(nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func awaitLeading(t testing.TB, all []*election.Election) {
	t.Helper()
	testbed.Eventually(t, time.Minute, "it leads", func() error {
		for _, e := range all {
			if !e.Leading() {
				return fmt.Errorf("it does not lead %s: %v", e.Name(), e.Current())
			}
		}
		return nil
	})
}

// A leader makes a request for each renewal of an election. A follower makes hardly any, however many
// elections there are.
func TestAnIdleFollowerHardlyReads(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 30} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			l := newLab(t, testbed.SharedKubernetes(t))
			o := election.Options{TTL: 3 * time.Second}
			a, leader := l.manager(t, "a", o)
			leading := join(t, a, n)
			awaitLeading(t, leading)
			b, follower := l.manager(t, "b", o)
			join(t, b, n)
			testbed.Eventually(t, time.Minute, "b watches", func() error {
				follower.mu.Lock()
				defer follower.mu.Unlock()
				if follower.requests["WATCH"] == 0 {
					return fmt.Errorf("requests: %v", follower.requests)
				}
				return nil
			})
			time.Sleep(o.TTL) // until it has read all
			leader.count()
			follower.count()
			const ttls = 6
			time.Sleep(ttls * o.TTL)
			led, followed := leader.count(), follower.count()
			t.Logf("%d elections in %d TTLs: leader %v, follower %v", n, ttls, led, followed)
			awaitLeading(t, leading)
			if most := (ttls*3 + 2) * n; led["PUT"] > most+ttls+2 || led["GET"] > ttls {
				t.Errorf("the leader has made %v; want %d PUT for renewals and %d for the member record", led, most, ttls)
			}
			if reads := followed["GET"] + followed["WATCH"]; reads > ttls || followed["PUT"] > ttls+2 {
				t.Errorf("the follower has made %v; want at most one reading and one announcement in a TTL", followed)
			}
		})
	}
}

// An API server that answers 429 delays, and takes no lease.
func TestThrottlingTakesNoLease(t *testing.T) {
	t.Parallel()
	k := testbed.StartKubernetes(t, testbed.KubernetesOptions{Args: []string{
		"--enable-priority-and-fairness=false", "--max-requests-inflight=16", "--max-mutating-requests-inflight=8",
	}})
	l := newLab(t, k)
	l.allow(t, "app", []string{"*"})
	l.file = k.Kubeconfig(t, "app") // administrators are not throttled
	m, w := l.manager(t, "a", election.Options{TTL: 10 * time.Second})
	leading := join(t, m, 20)
	awaitLeading(t, leading)
	terms := map[string]uint64{}
	for _, e := range leading {
		terms[e.Name()] = e.Leadership().Term
	}
	noise := l.open(t, "noise-")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for ctx.Err() == nil {
				noise.rehearse(ctx, "noise")
			}
		})
	}
	testbed.Eventually(t, time.Minute, "requests are throttled", func() error {
		if w.throttled.Load() < 20 {
			return fmt.Errorf("%d were", w.throttled.Load())
		}
		return nil
	})
	cancel()
	all.Wait()
	for _, e := range leading {
		if now := e.Leadership(); now == nil || now.Term != terms[e.Name()] {
			t.Errorf("%s was lost though requests were only throttled: %v", e.Name(), e.Current())
		}
	}
}

// Others keep writing the Lease. Its holder's renewals are granted all the same.
func TestConflictsTakeNoLease(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedKubernetes(t))
	a := l.node(t, "a")
	held := a.lead("jobs")
	term := held.Term
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	conflicts := atomic.Int64{}
	for i := range 4 {
		n := l.node(t, fmt.Sprint("n", i))
		all.Go(func() {
			for ctx.Err() == nil {
				err := n.Request(ctx, []backend.Request{{Election: "jobs", Term: term, Kind: backend.Nominate, ID: n.me.ID}})
				if err != nil && ctx.Err() == nil {
					if !strings.Contains(err.Error(), errBusy.Error()) {
						t.Errorf("a request: %v", err)
						return
					}
					conflicts.Add(1)
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	busy := 0
	for range 40 {
		switch got := a.renew(held); got.Outcome {
		case backend.Granted:
			held = got.Lease
		case backend.Refused:
			t.Fatalf("a renewal was refused: %+v", got)
		default:
			busy++
		}
	}
	cancel()
	all.Wait()
	t.Logf("%d of 40 renewals and %d requests found the Lease written again and again", busy, conflicts.Load())
	if busy > 5 {
		t.Errorf("%d of 40 renewals had no outcome", busy)
	}
}
