package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"k8s.io/klog/v2"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// A wire counts the requests of a client, and those that were answered with 429.
type wire struct {
	mu        sync.Mutex
	requests  map[string]int
	throttled atomic.Int64
}

func (w *wire) roundTrip(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	what := r.Method
	if r.URL.Query().Get("watch") != "" {
		what = "WATCH"
	}
	w.mu.Lock()
	w.requests[what]++
	w.mu.Unlock()
	answer, err := next.RoundTrip(r)
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
	n := l.hookNode(t, id, w.roundTrip)
	o.ID = id
	m, err := election.New(n.Backend, o)
	testbed.NoError(t, err)
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
		testbed.NoError(t, err)
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

// A leader makes a request for each renewal of an election. A follower makes hardly any, however many elections there are.
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
	k := testbed.StartKubernetes(t, testbed.Options{Args: []string{
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

// An API server that is busy, or what stands before it, asks to wait. The call ends at once, with what was answered:
// other leases of the same call do not wait, too, and the manager knows better when to try again.
func TestAnAnswerThatAsksToWaitIsTheError(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedKubernetes(t))
	for code, want := range map[int]string{
		http.StatusTooManyRequests: "too many requests", http.StatusServiceUnavailable: "unable to handle the request",
	} {
		for _, seconds := range []string{"1", "120"} {
			requests := 0
			n := l.hookNode(t, "n", func(http.RoundTripper, *http.Request) (*http.Response, error) {
				requests++
				w := httptest.NewRecorder()
				w.Header().Set("Retry-After", seconds)
				w.WriteHeader(code)
				return w.Result(), nil
			})
			_, err := n.Looks("jobs")
			if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("status %d: %v; want ErrUnavailable and %q", code, err, want)
			}
			if requests != 1 {
				t.Errorf("status %d, Retry-After: %s: the call has made %d requests, want 1", code, seconds, requests)
			}
		}
	}
}

// A proxy before the API server answers with pages. What does not pass by itself is denied, and the page is not shown.
func TestAPageOfAProxyIsAnError(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedKubernetes(t))
	for want, codes := range map[error][]int{
		backend.ErrDenied:      {200, 301, 400, 401, 403, 404, 405, 406, 407, 410, 413, 415, 422},
		backend.ErrUnavailable: {408, 409, 429, 500, 502, 503, 504},
	} {
		for _, code := range codes {
			n := l.hookNode(t, "n", func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
				w := httptest.NewRecorder()
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(code)
				fmt.Fprintf(w, "<html><head><title>%d</title></head>\n<body>nginx</body></html>", code)
				answer := w.Result()
				answer.Request = r
				return answer, nil
			})
			_, err := n.Looks("jobs")
			text, status := fmt.Sprint(err), fmt.Sprint(code, " ", http.StatusText(code))
			if !errors.Is(err, want) || !strings.Contains(text, status) || strings.Contains(text, "<") {
				t.Errorf("status %d: %v; want %v, the status, and no page", code, err, want)
			}
		}
	}
}

// client-go prints that it cannot read an answer, by a logger of the whole process.
func TestAnAnswerThatBreaksOffIsNotPrinted(t *testing.T) {
	var printed bytes.Buffer
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(&printed, nil)))
	t.Cleanup(klog.ClearLogger)

	l := newLab(t, testbed.SharedKubernetes(t))
	broken := errors.New("the connection has broken")
	n := l.hookNode(t, "n", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil {
			answer.Body = io.NopCloser(iotest.ErrReader(broken))
		}
		return answer, err
	})
	if _, err := n.Looks("jobs"); !errors.Is(err, broken) {
		t.Errorf("a reading whose answer breaks off: %v; want %v", err, broken)
	}
	if printed.Len() > 0 {
		t.Errorf("printed: %s", &printed)
	}
}

// Others keep writing the Lease. Its holder's renewals are granted all the same.
func TestConflictsTakeNoLease(t *testing.T) {
	l := sharedLab(t)
	a := l.node(t, "a")
	held := a.Leads("jobs")
	term := held.Term
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	conflicts := atomic.Int64{}
	for i := range 4 {
		n := l.node(t, fmt.Sprint("n", i))
		all.Go(func() {
			for ctx.Err() == nil {
				err := n.Request(ctx, []backend.Request{{Election: "jobs", Term: term, Kind: backend.Nominate, ID: n.Me.ID}})
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
		switch got := a.Renews(held); got.Outcome {
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

// A line keeps the next PUT back: its client is told that the connection was lost.
type line struct {
	keep bool
	kept func() (*http.Response, error) // makes the request that was kept back
	deny bool                           // PUTs, as a webhook does
	edit func(body []byte) []byte       // of what is sent; nil: nothing
}

func (l *line) roundTrip(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut {
		return next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if l.edit != nil {
		body = l.edit(body)
		r.ContentLength = int64(len(body))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if l.deny {
		return forbidden(r, `admission webhook "freeze" denied the request: Leases cannot be written today`), nil
	}
	if !l.keep {
		return next.RoundTrip(r)
	}
	l.keep = false
	late := r.Clone(context.Background())
	late.Body = io.NopCloser(bytes.NewReader(body))
	l.kept = func() (*http.Response, error) { return next.RoundTrip(late) }
	return nil, errors.New("connection lost")
}

// forbidden is the answer of an API server that refuses a request for another reason than a right that is missing.
func forbidden(r *http.Request, why string) *http.Response {
	text := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":"Forbidden","code":403}`, why)
	return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), Request: r}
}

// arrive lets the request that was kept back arrive, and returns the status.
func (l *line) arrive(t *testing.T) int {
	t.Helper()
	answer, err := l.kept()
	testbed.NoError(t, err)
	answer.Body.Close()
	return answer.StatusCode
}

// lineNode returns a member behind a line.
func (l *lab) lineNode(t *testing.T, id string) (*node, *line) {
	t.Helper()
	wire := &line{}
	return l.hookNode(t, id, wire.roundTrip), wire
}

// A bid without an answer is released. When it arrives after that, it is refused, whatever there is.
func TestALateBidIsRefused(t *testing.T) {
	l := sharedLab(t)
	for what, before := range map[string]func(t *testing.T, n *node, election string){
		"vacant":          func(t *testing.T, n *node, election string) { n.Resigns(n.Leads(election)) },
		"held by another": func(t *testing.T, _ *node, election string) { l.node(t, "other").Leads(election) },
		"held by a member of client-go": func(t *testing.T, n *node, election string) {
			n.Resigns(n.Leads(election))
			l.write(t, election, "pod-1_x", 15, true)
		},
		"deleted afterwards": func(t *testing.T, n *node, election string) { n.Resigns(n.Leads(election)) },
	} {
		t.Run(what, func(t *testing.T) {
			a, wire := l.lineNode(t, "a")
			b, election := l.node(t, "b"), string(backend.NewNonce()[:8])
			before(t, a, election)
			over := a.Sees(election)
			wire.keep = true
			if got := a.Bids(over); got.Outcome != backend.Unknown || !errors.Is(got.Err, backend.ErrUnavailable) {
				t.Fatalf("a bid whose connection is lost: %v, %v; want unknown", got.Outcome, got.Err)
			}
			if what == "deleted afterwards" {
				l.delete(t, election)
			}
			a.Resigns(backend.Lease{Election: election})
			now := b.Sees(election)
			if status := wire.arrive(t); status != http.StatusConflict {
				t.Errorf("the late bid was answered %d, want %d", status, http.StatusConflict)
			}
			if after := b.Sees(election); after.Version != now.Version || after.Holder.ID == "a" {
				t.Errorf("the late bid has changed %+v to %+v", now, after)
			}
			if what != "deleted afterwards" && now.Version != over.Version {
				t.Errorf("the release of a bid has changed the Version of the lease: %+v, %+v", over, now)
			}
		})
	}
}

// A bid without an answer may still arrive after another one was denied, which says nothing of it.
func TestADeniedBidSaysNothingOfTheOneBefore(t *testing.T) {
	l := sharedLab(t)
	a, wire := l.lineNode(t, "a")
	a.Resigns(a.Leads("jobs"))
	over := a.Sees("jobs")
	wire.keep = true
	a.Bids(over)
	wire.deny = true
	if got := a.Bids(over); !errors.Is(got.Err, backend.ErrDenied) || strings.Contains(got.Err.Error(), "create role") {
		t.Errorf("a bid that a webhook refuses: %v; want ErrDenied, and not that rights are missing", got.Err)
	}
	wire.deny = false
	a.Resigns(backend.Lease{Election: "jobs"})
	if status := wire.arrive(t); status != http.StatusConflict {
		t.Errorf("the first bid was answered %d after its release, want %d", status, http.StatusConflict)
	}
}

// A renewal whose answer is lost is not trusted. The next one is granted, and the first has no effect when it comes late.
func TestALateRenewalIsRefused(t *testing.T) {
	l := sharedLab(t)
	a, wire := l.lineNode(t, "a")
	held := a.Leads("jobs")
	wire.keep = true
	if got := a.Renews(held); got.Outcome != backend.Unknown {
		t.Fatalf("a renewal whose connection is lost: %v", got.Outcome)
	}
	a.Keeps(held)
	if status := wire.arrive(t); status != http.StatusConflict {
		t.Errorf("the late renewal was answered %d, want %d", status, http.StatusConflict)
	}
	a.Keeps(held)
}

// What removes annotations, as an admission webhook can, is named by the error, and nobody leads.
func TestALeaseThatIsChangedOnItsWayIsNotGranted(t *testing.T) {
	l := sharedLab(t)
	a, wire := l.lineNode(t, "a")
	a.Resigns(a.Leads("jobs"))
	wire.edit = func(body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(recordKey), []byte(domain+"gone"))
	}
	got := a.Bids(a.Sees("jobs"))
	if got.Outcome == backend.Granted {
		t.Fatalf("granted: %+v", got)
	}
	mustBeDenied(t, got.Err, "webhook")
	l.node(t, "b").mustBeWatched("jobs", "its spec names a")

	// Without its label nobody lists a member, and its record stays when it is gone.
	wire.edit = nil
	me := backend.Member{Candidate: a.Me, TTL: ttl}
	testbed.NoError(t, a.Announce(t.Context(), me))
	wire.edit = func(body []byte) []byte { return bytes.ReplaceAll(body, []byte(kindKey), []byte(domain+"gone")) }
	mustBeDenied(t, a.Announce(t.Context(), me), "webhook")
}
