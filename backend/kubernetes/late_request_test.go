package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// A line keeps the next PUT back: its client is told that the connection was lost.
type line struct {
	next http.RoundTripper
	keep bool
	deny bool // PUTs, as a quota does
	kept *http.Request
	edit func(body []byte) []byte // of what is sent; nil: nothing
}

// WrappedRoundTripper lets Close find the connections.
func (l *line) WrappedRoundTripper() http.RoundTripper { return l.next }

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut {
		return l.next.RoundTrip(r)
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
		answer := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"leases is forbidden: exceeded quota: q","reason":"Forbidden","code":403}`
		return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
	}
	if !l.keep {
		return l.next.RoundTrip(r)
	}
	l.keep, l.kept = false, r.Clone(context.Background())
	l.kept.Body = io.NopCloser(bytes.NewReader(body))
	return nil, errors.New("connection lost")
}

// arrive lets the request that was kept back arrive, and returns the status.
func (l *line) arrive(t *testing.T) int {
	t.Helper()
	answer, err := l.next.RoundTrip(l.kept)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// lineNode returns a member behind a line.
func (l *lab) lineNode(t *testing.T, id string) (*node, *line) {
	t.Helper()
	wire := &line{}
	n := l.wrappedNode(t, id, func(next http.RoundTripper) http.RoundTripper { wire.next = next; return wire })
	return n, wire
}

// A bid without an answer is released. When it arrives after that, it is refused, whatever there is.
func TestALateBidIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedKubernetes(t))
	for what, before := range map[string]func(t *testing.T, n *node, election string){
		"vacant":          func(t *testing.T, n *node, election string) { n.release(n.lead(election)) },
		"held by another": func(t *testing.T, _ *node, election string) { l.node(t, "other").lead(election) },
		"held by a member of client-go": func(t *testing.T, n *node, election string) {
			n.release(n.lead(election))
			l.write(t, election, "pod-1_x", 15, true)
		},
		"deleted afterwards": func(t *testing.T, n *node, election string) { n.release(n.lead(election)) },
	} {
		t.Run(what, func(t *testing.T) {
			a, wire := l.lineNode(t, "a")
			b, election := l.node(t, "b"), string(backend.NewNonce()[:8])
			before(t, a, election)
			over := a.observe(election)
			wire.keep = true
			if got := a.bid(over); got.Outcome != backend.Unknown || !errors.Is(got.Err, backend.ErrUnavailable) {
				t.Fatalf("a bid whose connection is lost: %v, %v; want unknown", got.Outcome, got.Err)
			}
			if what == "deleted afterwards" {
				l.delete(t, election)
			}
			a.release(backend.Lease{Election: election})
			now := b.observe(election)
			if status := wire.arrive(t); status != http.StatusConflict {
				t.Errorf("the late bid was answered %d, want %d", status, http.StatusConflict)
			}
			if after := b.observe(election); after.Version != now.Version || after.Holder.ID == "a" {
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
	t.Parallel()
	l := newLab(t, testbed.SharedKubernetes(t))
	a, wire := l.lineNode(t, "a")
	a.release(a.lead("jobs"))
	over := a.observe("jobs")
	wire.keep = true
	a.bid(over)
	wire.deny = true
	if got := a.bid(over); !errors.Is(got.Err, backend.ErrDenied) || strings.Contains(got.Err.Error(), "create role") {
		t.Errorf("a bid over a quota: %v; want ErrDenied, and not that rights are missing", got.Err)
	}
	wire.deny = false
	a.release(backend.Lease{Election: "jobs"})
	if status := wire.arrive(t); status != http.StatusConflict {
		t.Errorf("the first bid was answered %d after its release, want %d", status, http.StatusConflict)
	}
}

// A renewal whose answer is lost is not trusted. The next one is granted, and the first has no effect
// when it comes late.
func TestALateRenewalIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedKubernetes(t))
	a, wire := l.lineNode(t, "a")
	held := a.lead("jobs")
	wire.keep = true
	if got := a.renew(held); got.Outcome != backend.Unknown {
		t.Fatalf("a renewal whose connection is lost: %v", got.Outcome)
	}
	a.mustRenew(held)
	if status := wire.arrive(t); status != http.StatusConflict {
		t.Errorf("the late renewal was answered %d, want %d", status, http.StatusConflict)
	}
	a.mustRenew(held)
}

// What removes annotations, as an admission webhook can, is named by the error, and nobody leads.
func TestALeaseThatIsChangedOnItsWayIsNotGranted(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedKubernetes(t))
	a, wire := l.lineNode(t, "a")
	a.release(a.lead("jobs"))
	wire.edit = func(body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(recordKey), []byte(domain+"gone"))
	}
	got := a.bid(a.observe("jobs"))
	if got.Outcome == backend.Granted {
		t.Fatalf("granted: %+v", got)
	}
	mustBeDenied(t, got.Err, "webhook")
	l.node(t, "b").mustBeWatched("jobs", "its spec names a")
}
