package kubernetes

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// A member that starts after a Lease was deleted knows from the census for how long to watch: others
// were granted longer leases than its own, and a greater TTL may have come with a later leadership.
func TestADeletedLeaseIsWatchedForTheGreatestTTL(t *testing.T) {
	l := sharedLab(t)
	a := l.node(t, "a")
	a.Resigns(a.Leads("jobs"))
	const long = 20 * time.Second
	a.TTL = long
	a.Leads("jobs")
	l.delete(t, "jobs")
	if got := l.node(t, "late").Sees("jobs"); got.ObserveFor < long {
		t.Errorf("its Lease was deleted, and it is watched for %v; want %v, for which its leader trusts it", got.ObserveFor, long)
	}
}

// A member of client-go can write over a lease of ours, with a shorter duration. The leader before it has not noticed yet.
func TestAShorterForeignLeaseFreesNothing(t *testing.T) {
	l := sharedLab(t)
	l.node(t, "a").Leads("jobs")
	l.write(t, "jobs", "pod-1_x", 1, true)
	l.node(t, "b").mustBeWatched("jobs", "a led a moment ago")
}

// Who leads a lease may move it to another store. Its earlier bids for that lease are refused.
func TestABidDoesNotBreakASeal(t *testing.T) {
	l := sharedLab(t)
	n := l.node(t, "n")
	lead := n.Leads("jobs")
	n.seal(lead)
	n.mustLose(lead, "the lease has moved, which the bid does not expect")
}

// A bid over a Lease that is remembered as vacant is written without another reading. The API server
// finds that another member leads meanwhile.
func TestABidOverARememberedVacancyIsLate(t *testing.T) {
	l := sharedLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	a.Resigns(a.Leads("jobs"))
	over := a.Sees("jobs")
	held := b.Leads("jobs")
	a.mustLose(over, "b was granted it meanwhile")
	b.Keeps(held)
}

// A bid finds no Lease. Before it has made one, another member leads, and its Lease is deleted. Then
// the election is no longer as the bid found it.
func TestABidForAMissingLeaseIsLate(t *testing.T) {
	l := sharedLab(t)
	l.node(t, "first").Leads("other") // makes the census
	var once sync.Once
	var held backend.Lease
	b := l.node(t, "b")
	a := l.hookNode(t, "a", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPost {
			once.Do(func() {
				held = b.Leads("jobs")
				l.delete(t, "jobs")
			})
		}
		return next.RoundTrip(r)
	})
	if got := a.Bids(a.Sees("jobs")); got.Outcome == backend.Granted {
		t.Errorf("a was granted term %d; b trusts its lease of term %d, which was deleted", got.Term, held.Term)
	}
	l.node(t, "c").mustBeWatched("jobs", "b trusts its lease")
}

// A watch that hangs tells of no change. That a lease is unchanged is read.
func TestAWatchThatHangsHidesNothing(t *testing.T) {
	l := sharedLab(t)
	a := l.node(t, "a")
	held := a.Leads("jobs")
	watching := make(chan struct{}, 16)
	b := l.hookNode(t, "b", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil && r.URL.Query().Get("watch") != "" {
			answer.Body = silent{answer.Body, r.Context()}
			watching <- struct{}{}
		}
		return answer, err
	})
	seen := b.Sees("jobs")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { b.Listen(ctx, []backend.Lease{seen}); close(ended) }()
	defer func() { cancel(); <-ended }()
	<-watching
	a.Keeps(held)
	changed, err := b.Observe(ctx, []backend.Lease{seen})
	if err != nil || len(changed) != 1 {
		t.Errorf("Observe returns %v, %v; want the lease, which was renewed", changed, err)
	}
}

// A silent body has nothing to read, until its request ends.
type silent struct {
	io.ReadCloser
	ctx context.Context
}

func (s silent) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// An operator's request that is repeated is another write: it fails if somebody else has written the Lease since.
func TestARepeatedRequestIsWritten(t *testing.T) {
	l := sharedLab(t)
	a := l.node(t, "a")
	held := a.Leads("jobs")
	version := func() string {
		o, err := l.admin.Get(t.Context(), "jobs", meta.GetOptions{})
		testbed.NoError(t, err)
		return o.ResourceVersion
	}
	var versions []string
	for range 2 {
		testbed.NoError(t, a.Request(a.Context(), []backend.Request{{Election: "jobs", Term: held.Term, Kind: backend.Depose}}))
		versions = append(versions, version())
	}
	if versions[0] == versions[1] {
		t.Errorf("the second request has left the Lease at version %s", versions[0])
	}
}

// An operator clears the holder of a Lease that a member of client-go leads. It has not noticed yet.
func TestAClearedForeignLeaseIsWatched(t *testing.T) {
	l := sharedLab(t)
	a := l.node(t, "a")
	a.Resigns(a.Leads("jobs"))
	l.write(t, "jobs", "pod-1_x", 15, true)
	testbed.NoError(t, l.edit("jobs", func(o *coordination.Lease) { o.Spec.HolderIdentity = nil }))
	a.mustBeWatched("jobs", "its holder was cleared")
}

// A member of client-go leads as long as it renews.
func TestALeaderOfClientGoIsWatched(t *testing.T) {
	l := sharedLab(t)
	n := l.node(t, "n")
	now := meta.NowMicro()
	_, err := l.admin.Create(t.Context(), &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: "jobs"}, Spec: coordination.LeaseSpec{
		HolderIdentity: new("pod-1_x"), LeaseDurationSeconds: new(int32(15)), AcquireTime: &now, RenewTime: &now, LeaseTransitions: new(int32(0)),
	}}, meta.CreateOptions{})
	testbed.NoError(t, err)
	first := n.Sees("jobs")
	if first.Holder.ID != "pod-1_x" || first.ObserveFor != 15*time.Second || first.TTL != 15*time.Second {
		t.Errorf("it is shown as %+v; want pod-1_x, watched for 15s", first)
	}
	l.write(t, "jobs", "pod-1_x", 15, false)
	second := n.Sees("jobs")
	if second.Unchanged(first) || second.Holder != first.Holder {
		t.Errorf("renewed, it is %+v after %+v; want another Version of the same leadership", second, first)
	}
	n.mustLose(first, "it was renewed")
	held := n.mustWin(second, first)
	if o, err := l.admin.Get(t.Context(), "jobs", meta.GetOptions{}); err != nil || holder(&o.Spec) != "n" || seconds(&o.Spec) != 3 || *o.Spec.LeaseTransitions != 1 {
		t.Errorf("kubectl shows %s for %d s in transition %d (%v); want n, 3 s, 1", holder(&o.Spec), seconds(&o.Spec), *o.Spec.LeaseTransitions, err)
	}
	// It takes over: its leadership has no term of its own.
	l.write(t, "jobs", "pod-1_x", 15, true)
	n.mustRefuse(held, "a member of client-go has taken over")
	third := n.Sees("jobs")
	if third.Term != held.Term || third.Holder.Nonce == first.Holder.Nonce {
		t.Errorf("it is shown as %+v; want the last term of this module, %d, and another leadership than %v", third, held.Term, first.Holder.Nonce)
	}
	// It releases its lease. Whether the leader before has noticed, nobody can tell from the Lease.
	l.clear(t, "jobs")
	next := n.mustWin(n.mustBeWatched("jobs", "n may not have noticed that another has led"), held)
	// After a leadership that was released, it takes over, and releases its lease: another leads at once.
	n.Resigns(next)
	l.write(t, "jobs", "pod-1_x", 15, true)
	l.clear(t, "jobs")
	n.mustWin(n.mustBeFree("jobs", "a member of client-go that led has released it"), next)
}

// A member of client-go takes a blank that nobody of this module believes, and ends in order.
func TestABlankFreesNothingThoughClientGoHasTakenIt(t *testing.T) {
	l := sharedLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.Leads("jobs")
	l.clear(t, "jobs")
	l.write(t, "jobs", "pod-2_y", 15, true)
	b.Sees("jobs")
	l.clear(t, "jobs")
	b.mustBeWatched("jobs", "a leads, and has not noticed")
	a.mustRefuse(held, "its Lease was blanked and taken")
}

// Members of client-go compare renewTime in whole seconds. They see each renewal, or wait a second longer.
func TestMembersOfClientGoSeeEachRenewal(t *testing.T) {
	r := record{Record: lease.Record{ID: "a", Nonce: "1", TTL: lease.Span(9 * time.Second), Renew: lease.Span(3 * time.Second), Written: time.Now().UTC()}}
	for range 5 {
		before := r.spec().RenewTime.Unix()
		if r.Written = later(r.Written, time.Duration(r.Renew)); r.spec().RenewTime.Unix() <= before {
			t.Errorf("renewTime is %d after %d: they may take over a lease that was renewed", r.spec().RenewTime.Unix(), before)
		}
	}
	r.TTL, r.Renew = lease.Span(1500*time.Millisecond), lease.Span(500*time.Millisecond)
	if spec := r.spec(); seconds(&spec) != 3 {
		t.Errorf("leaseDurationSeconds is %d for a TTL of 1.5s with renewals each 500ms; want 3", seconds(&spec))
	}
}

// A member of client-go that no longer leads may blank the Lease. Nobody of this module believes that.
func TestALateReleaseOfClientGoFreesNothing(t *testing.T) {
	l := sharedLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	a.Leads("jobs")
	l.write(t, "jobs", "pod-1_x", 15, true)
	held := b.Leads("jobs")
	l.clear(t, "jobs")
	a.mustBeWatched("jobs", "b leads, and has not noticed")
	b.mustRefuse(held, "its Lease was blanked")
}

// Nobody else can lead a lease that has moved to another store: for members of client-go it is held for 68 years.
func TestASealedLeaseIsHeldForMembersOfClientGo(t *testing.T) {
	l := sharedLab(t)
	n := l.node(t, "n")
	sealed := n.seal(n.Leads("jobs"))
	for range 2 {
		o, err := l.admin.Get(t.Context(), "jobs", meta.GetOptions{})
		if err != nil || holder(&o.Spec) != "moved to mysql" || seconds(&o.Spec) != 1<<31-1 {
			t.Errorf("the Lease is held by %q for %d s (%v)", holder(&o.Spec), seconds(&o.Spec), err)
		}
		n.Resigns(sealed) // which changes nothing of it
	}
	testbed.NoError(t, l.edit("jobs", func(o *coordination.Lease) { delete(o.Annotations, recordKey) }))
	if got := l.node(t, "late").Sees("jobs"); got.ObserveFor < 1000*time.Hour {
		t.Errorf("without its record, the seal is free after %v", got.ObserveFor)
	}
}

// A proxy in front of the API server answers 404, since it has no route for the moment. That says nothing of the Lease.
func TestANotFoundThatIsNoAPIServersHidesNoLease(t *testing.T) {
	l := sharedLab(t)
	var noRoute atomic.Bool
	a, b := l.node(t, "a"), l.hookNode(t, "b", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet || !noRoute.Load() {
			return next.RoundTrip(r)
		}
		text := io.NopCloser(strings.NewReader("default backend - 404"))
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"text/plain"}}, Body: text, Request: r}, nil
	})
	a.Resigns(a.Leads("jobs"))
	b.Sees("jobs")

	noRoute.Store(true)
	if got, err := b.Looks("jobs"); err == nil {
		t.Errorf("a Lease is read from what a proxy says: %+v", got)
	}
	noRoute.Store(false)
	b.Leads("jobs")
}
