package kubernetes

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// The cluster's store is restored from a copy that lacks the last grant. UIDs and versions are those of
// the copy. Who has read later versions notices it, and lets nothing be led before the greatest TTL.
//
// Whom the copy names as the holder may not have been the last. If it releases its lease, the later leader has not noticed
// the restore yet. The term of that one was ahead of the clock, as it had come from another store; the next term exceeds it.
func TestARestoredClusterIsWatched(t *testing.T) {
	t.Parallel()
	k := testbed.StartKubernetes(t, testbed.Options{})
	l := newLab(t, k)
	a, b, c, d := l.node(t, "a"), l.node(t, "b"), l.node(t, "c"), l.node(t, "d")
	held := a.Keeps(a.Leads("jobs"))
	a.Resigns(a.Leads("vacant"))
	a.Resigns(a.Leads("unread")) // by d, which hears of the restore by another Lease
	a.Leads("released")
	var saved string
	k.WithoutServers(t, func() { saved = k.Etcd().SaveData(t) })
	there := func(n *node) {
		testbed.Eventually(t, patient, "the API server is there again", func() error {
			ctx := n.Context()
			_, err := n.List(ctx, "", 1)
			return err
		})
	}
	there(b)
	next := b.mustWin(b.Sees("jobs"), held)
	b.Leads("unread")
	vacant := b.Leads("vacant")
	d.Sees("vacant")
	fresh := b.Leads("new")
	inAnHour := uint64(time.Now().Add(time.Hour).UnixMicro())
	bid := b.BidOver(b.Sees("released"))
	bid.MinTerm = inAnHour
	ahead := b.Makes(bid)[0] // which nobody else reads
	if ahead.Outcome != backend.Granted {
		t.Fatal(ahead)
	}
	c.Sees("jobs")
	next = b.Keeps(next)
	c.Sees("vacant")
	c.Sees("new")
	a.Sees("jobs")
	k.WithoutServers(t, func() { k.Etcd().ReplaceData(t, saved) })
	for _, n := range []*node{a, b, c, d} {
		there(n)
	}
	d.mustBeWatched("unread", "an older copy was restored")
	for _, name := range []string{"jobs", "vacant", "new"} {
		c.mustBeWatched(name, "an older copy was restored")
	}
	a.mustRefuse(held, "the copy has its leadership as it was")
	b.mustRefuse(next, "which is not in the copy")
	c.mustWin(c.Sees("jobs"), next)
	last := c.mustWin(c.Sees("vacant"), vacant)
	c.mustWin(c.Sees("new"), fresh)
	c.Keeps(last)
	c.Resigns(last)
	c.mustBeFree("vacant", "it was led and released after the restore")
	a.Resigns(backend.Lease{Election: "released"})
	why := "b leads in term " + strconv.FormatUint(ahead.Term, 10) + ", which the copy does not have"
	c.mustWin(c.mustBeWatched("released", why), ahead.Lease)
}

// A Lease that has an older version than it had comes from a copy, even if the store as a whole counts on from
// where it was, as after etcdutl snapshot restore --bump-revision. What began before that was noticed is
// not believed, and counts no second restore.
func TestAnOlderVersionOfALeaseShowsARestore(t *testing.T) {
	b := &Backend{objects: map[string]*object{}, terms: map[string]uint64{}}
	answer := func(began time.Time, version string) error {
		o := newObject(&coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: "jobs", ResourceVersion: version}}, time.Now())
		return b.learn(began, map[string]*object{"jobs": o})
	}
	testbed.NoError(t, answer(b.follow("jobs"), "50"))
	first, second := b.follow("jobs"), b.follow("jobs")
	if err := answer(first, "50"); err != nil {
		t.Errorf("the same version: %v", err)
	}
	if err := answer(b.follow("jobs"), "40"); !errors.Is(err, errBack) || b.objects["jobs"] != nil {
		t.Errorf("an older version: %v, and %v is remembered; want errBack, and nothing", err, b.objects["jobs"])
	}
	noticed := b.back
	if err := answer(second, "50"); !errors.Is(err, errBack) || b.back != noticed {
		t.Errorf("an answer to what began before: %v, a restore at %v; want errBack, %v", err, b.back, noticed)
	}
	if err := answer(b.follow("jobs"), "40"); err != nil {
		t.Errorf("an answer to what began afterwards: %v", err)
	}
}

// A record is read as it was written, and an edited one is not read.
func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	now := time.Now()
	r := &record{Record: lease.Record{
		Election: "jobs", Epoch: "1-2", Term: 7, ID: "a<b>", Nonce: "n", Metadata: "\n\t\"ü\"", TTL: lease.Span(1500 * time.Millisecond), Renew: lease.Span(time.Second),
		Elected: now.UTC(), Written: now.UTC(), Heartbeat: 5,
		History: []backend.Leadership{{Term: 6, ID: "b", From: now.UTC(), To: now.UTC(), End: backend.Failed}},
	}}
	var l coordination.Lease
	r.putBeside(&l)
	text, got := lease.Encode(r), recordOf(&l)
	if lease.Encode(got) != text {
		t.Fatalf("read %+v from %s", got, text)
	}
	l.Annotations[recordKey] = strings.Replace(text, `"term":7`, `"term":8`, 1)
	if edited := recordOf(&l); edited.Term != 0 {
		t.Errorf("an edited record is read as %+v", edited)
	}
	text = strings.TrimSuffix(text, "}") + `,"of_a_later_version":1}`
	l.Annotations[recordKey], l.Annotations[sumKey] = text, digest(text)
	if later := recordOf(&l); later.Term != 7 {
		t.Errorf("with a field of a later version, the record is read as %+v", later)
	}
	a, b := r.spec(), got.spec()
	if a.String() != b.String() {
		t.Errorf("spec %s, read %s", &a, &b)
	}
	if *a.LeaseDurationSeconds != 2 { // renewals are a second apart
		t.Errorf("leaseDurationSeconds is %d, want 2: it must not be less than the TTL", *a.LeaseDurationSeconds)
	}
}

// Whatever somebody writes into a Lease, what a program is told of it can be printed, and frees nothing by an overflow.
func FuzzLease(f *testing.F) {
	r := record{Record: lease.Record{Election: "jobs", Epoch: "1", Term: 7, ID: "a", Nonce: "n", TTL: lease.Span(time.Second), Elected: time.Now().UTC(), Written: time.Now().UTC()}}
	f.Add(lease.Encode(&r), "a", int32(1), int64(0), int32(3), "{}")
	f.Add("{", "\x1b]0;", int32(-5), int64(1)<<62, int32(-1), `{"layout":1,"max_ttl":-1,"made":{"x":-1}}`)
	f.Fuzz(func(t *testing.T, text, id string, seconds int32, at int64, transitions int32, counted string) {
		b := &Backend{objects: map[string]*object{naming{}.census(): nil}}
		b.keep(b.names.census(), newObject(&coordination.Lease{
			ObjectMeta: meta.ObjectMeta{UID: "2", Annotations: map[string]string{censusKey: counted}},
		}, time.Now()))
		when := meta.NewMicroTime(time.UnixMicro(at))
		for _, sum := range []string{"", digest(text)} { // whoever can write a Lease can compute it
			for _, uid := range []types.UID{"1", "2"} {
				o := newObject(&coordination.Lease{
					ObjectMeta: meta.ObjectMeta{Name: "jobs", UID: uid, ResourceVersion: "5", Annotations: map[string]string{recordKey: text, sumKey: sum}},
					Spec:       coordination.LeaseSpec{HolderIdentity: &id, LeaseDurationSeconds: &seconds, RenewTime: &when, AcquireTime: &when, LeaseTransitions: &transitions},
				}, time.Now())
				s := b.classify("jobs", o)
				if s.Lease != clean.Lease(s.Lease) || len(s.Version) > 600 || s.Version == "" {
					t.Errorf("%+v is not clean", s.Lease)
				}
				if !s.Vacant() && s.ObserveFor < MinTTL || s.ObserveFor < 0 {
					t.Errorf("%+v is watched for %v", s.Lease, s.ObserveFor)
				}
				s.endLeadership(&record{}, backend.Failed, time.Now())
			}
		}
	})
}

// The record of a member that is gone is deleted by the next one that starts, even if a quota has no place for its own until
// then. One that ends in order deletes its own.
func TestRecordsOfMembersThatAreGoneAreDeleted(t *testing.T) {
	l := sharedLab(t)
	ctx := t.Context()
	announce := func(n *node) {
		t.Helper()
		testbed.NoError(t, n.Announce(ctx, backend.Member{Candidate: n.Me, TTL: time.Second}))
	}
	gone, closed, alive := l.node(t, "gone"), l.node(t, "closed"), l.node(t, "alive")
	announce(gone)
	announce(closed)
	announce(alive)
	if err := closed.Close(); err != nil {
		t.Error(err)
	}
	record, err := l.admin.Get(ctx, naming{}.member(gone.Me.Nonce), meta.GetOptions{})
	if err == nil {
		s := lease.Decode(lease.Sessions, []byte(record.Annotations[memberKey])).(*lease.Session)
		s.At = s.At.Add(-2 * goneAfter)
		record.Annotations[memberKey] = lease.Encode(s)
		_, err = l.admin.Update(ctx, record, meta.UpdateOptions{})
	}
	testbed.NoError(t, err)
	next := l.hookNode(t, "next", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if _, err := l.admin.Get(ctx, record.Name, meta.GetOptions{}); err == nil && r.Method == http.MethodPost {
			return forbidden(r, "leases is forbidden: exceeded quota: q"), nil
		}
		return next.RoundTrip(r)
	})
	if err := next.Announce(ctx, backend.Member{Candidate: next.Me, TTL: time.Second}); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("the quota is full: %v; want ErrDenied", err)
	}
	announce(next)

	leases, err := l.admin.List(ctx, meta.ListOptions{LabelSelector: kindKey + "=" + kindMember})
	testbed.NoError(t, err)
	if n := len(leases.Items); n != 2 {
		t.Errorf("%d members have records; want the 2 that are there", n)
	}
	announce(gone) // it was only cut off
	if _, err := closed.Members(ctx, "", 1); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}
