package kubernetes

import (
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// kubectl delete lease does not hand over at once: the holder may not have noticed. Terms go on
// growing. Other elections are not affected.
func TestADeletedLeaseIsWatched(t *testing.T) {
	l := sharedLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	before := b.mustBeFree("jobs", "nobody ever led")
	held := a.Keeps(a.Leads("jobs"))
	b.mustLose(before, "another was granted it meanwhile")
	l.delete(t, "jobs")
	for id, n := range map[string]*node{"b": b, "a member that starts later": l.node(t, "c")} {
		over := n.mustBeWatched("jobs", "its Lease was deleted, which "+id+" reads")
		n.mustLose(before, "it was deleted since")
		if over.Unchanged(before) {
			t.Errorf("the deleted Lease looks as if nobody had ever led: %+v", over)
		}
	}
	a.mustRefuse(held, "its Lease was deleted")
	b.mustBeFree("other", "only jobs was deleted")
	next := b.mustWin(b.Sees("jobs"), held)
	watched := l.node(t, "d").mustBeWatched("jobs", "b leads")
	l.delete(t, "jobs")
	c := l.node(t, "c")
	if again := c.mustBeWatched("jobs", "it was deleted again"); again.Unchanged(watched) {
		t.Errorf("deleted for the second time, it looks as before: %+v", again)
	}
	c.mustWin(c.Sees("jobs"), next)
}

// Whether an election was deleted is known from the census. If that is deleted too, every new election is watched once.
func TestADeletedCensusFreesNothing(t *testing.T) {
	l := sharedLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	a.Leads("jobs")
	a.Leads("kept")
	b.Sees("jobs")
	l.delete(t, naming{}.census())
	l.delete(t, "jobs")
	b.mustBeWatched("jobs", "it was led")
	late := l.node(t, "late")
	over := late.mustBeWatched("jobs", "it may have been led")
	if over.ObserveFor != MaxTTL {
		t.Errorf("it is watched for %v; want %v, since nobody knows with which TTL it was led", over.ObserveFor, MaxTTL)
	}
	late.mustWin(over, backend.Lease{})
	if got := l.node(t, "later").Sees("new"); got.ObserveFor != MaxTTL {
		t.Errorf("the census that was made anew frees an election after %v; want %v", got.ObserveFor, MaxTTL)
	}
}

// A Lease that a process has made before it was granted says nothing, whoever takes it.
func TestALeaseThatNobodyWasGrantedFreesNothing(t *testing.T) {
	l := sharedLab(t)
	held := l.node(t, "a").Leads("jobs")
	l.delete(t, "jobs")
	c := l.node(t, "c")
	ctx := c.Context()
	missing, err := c.read(ctx, backend.Lease{Election: "jobs"})
	if err == nil {
		_, err = c.write(ctx, &missing[0], touch)
	}
	testbed.NoError(t, err)
	l.write(t, "jobs", "pod-1_x", 15, true)
	l.clear(t, "jobs")
	late := l.node(t, "late")
	late.mustWin(late.mustBeWatched("jobs", "a leads, and has not noticed"), held)
}

// A copy of spec and annotations is put back over the Lease that they were copied from.
func TestACopyThatIsPutBackFreesNothing(t *testing.T) {
	l := sharedLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	a.Resigns(a.Leads("jobs"))
	old, err := l.admin.Get(t.Context(), "jobs", meta.GetOptions{})
	testbed.NoError(t, err)
	held := a.Leads("jobs")
	b.Sees("jobs")
	testbed.NoError(t, l.edit("jobs", func(o *coordination.Lease) { o.Spec, o.Annotations = old.Spec, old.Annotations }))
	b.mustBeWatched("jobs", "a leads, and has not noticed")
	b.mustWin(b.mustBeWatched("jobs", "a leads, and has not noticed"), held)
}

// Whoever edits a Lease deposes its holder, and frees nothing.
func TestAnEditedLeaseIsWatched(t *testing.T) {
	l := sharedLab(t)
	for what, edit := range map[string]func(*coordination.Lease){
		"its holder was replaced": func(o *coordination.Lease) { o.Spec.HolderIdentity = new("admin") },
		"its holder was cleared":  func(o *coordination.Lease) { o.Spec.HolderIdentity = nil },
		"its spec was cleared":    func(o *coordination.Lease) { o.Spec = coordination.LeaseSpec{} },
		"a member of client-go has blanked it": func(o *coordination.Lease) {
			o.Spec.HolderIdentity, o.Spec.LeaseDurationSeconds = new(""), new(int32(1))
		},
		"its duration was shortened":   func(o *coordination.Lease) { o.Spec.LeaseDurationSeconds = new(int32(1)) },
		"its duration was forged":      func(o *coordination.Lease) { o.Spec.LeaseDurationSeconds = new(int32(1<<31 - 1)) },
		"its times were forged":        func(o *coordination.Lease) { o.Spec.RenewTime = &meta.MicroTime{Time: time.Unix(0, 0)} },
		"its annotations were removed": func(o *coordination.Lease) { o.Annotations = nil },
		"its record was damaged":       func(o *coordination.Lease) { o.Annotations[recordKey] = "{" },
		"its TTL was edited": func(o *coordination.Lease) { // the spec, which has whole seconds only, stays right
			o.Annotations[recordKey] = strings.Replace(o.Annotations[recordKey], `"ttl":"2s"`, `"ttl":"1.1s"`, 1)
		},
		"its record was edited":                     func(o *coordination.Lease) { o.Annotations[recordKey] = `{"term":7}` },
		"its record says that nobody holds it":      func(o *coordination.Lease) { forge(o, func(r *record) { r.ID, r.Nonce = "", "" }) },
		"its record is that of another election":    func(o *coordination.Lease) { forge(o, func(r *record) { r.Election = "other" }) },
		"its record is that of a Lease of the past": func(o *coordination.Lease) { forge(o, func(r *record) { r.Epoch = "1"; r.ID, r.Nonce = "", "" }) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			election := string(backend.NewNonce()[:8])
			a, b := l.node(t, "a"), l.node(t, "b")
			held := a.Keeps(a.Leads(election))
			before := b.Sees(election)
			testbed.NoError(t, l.edit(election, edit))
			if what != "its record says that nobody holds it" { // whoever computes the digest as this module does may end a leadership
				if l := b.mustBeWatched(election, what); l.ObserveFor > MaxTTL {
					t.Errorf("%s, and nobody leads for %v", what, l.ObserveFor)
				}
				b.mustLose(before, what)
			}
			a.mustRefuse(held, what)
			l.node(t, "c").mustWin(b.Sees(election), before)
		})
	}
}

// forge changes the record as this module does, but not the spec, unless the record is then vacant.
func forge(o *coordination.Lease, do func(*record)) {
	r := recordOf(o)
	do(r)
	r.putBeside(o)
	o.Spec = r.spec()
}

// A label or a foreign annotation changes nothing.
func TestALabelledLeaseIsRenewed(t *testing.T) {
	l := sharedLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.Leads("jobs")
	before := b.Sees("jobs")
	testbed.NoError(t, l.edit("jobs", func(o *coordination.Lease) {
		o.Labels = map[string]string{"team": "x"}
		o.Annotations["note"] = "y"
	}))
	if now := b.Sees("jobs"); !now.Unchanged(before) {
		t.Errorf("a label has changed the lease from %+v to %+v", before, now)
	}
	a.Keeps(held)
	o, err := l.admin.Get(t.Context(), "jobs", meta.GetOptions{})
	if err != nil || o.Labels["team"] != "x" || o.Annotations["note"] != "y" {
		t.Errorf("the renewal has removed what others had added: %v, %v, %v", o.Labels, o.Annotations, err)
	}
}

// A Lease from a backup is another object. What its record says is from the past.
func TestALeaseFromABackupIsWatched(t *testing.T) {
	l := sharedLab(t)
	a := l.node(t, "a")
	a.Resigns(a.Leads("jobs"))
	saved, err := l.admin.Get(t.Context(), "jobs", meta.GetOptions{})
	testbed.NoError(t, err)
	b := l.node(t, "b")
	held := b.Leads("jobs")
	l.delete(t, "jobs")
	saved.UID, saved.ResourceVersion = "", ""
	_, err = l.admin.Create(t.Context(), saved, meta.CreateOptions{})
	testbed.NoError(t, err)
	c := l.node(t, "c")
	over := c.mustBeWatched("jobs", "its record is from the past, when it was vacant")
	b.mustRefuse(held, "the backup does not have it")
	c.mustWin(over, held)
}

// Another fleet in the same namespace, with another prefix, has nothing to do with this one.
func TestFleetsInOneNamespaceAreSeparate(t *testing.T) {
	l := sharedLab(t)
	a := l.node(t, "a")
	a.Leads("jobs")
	other := newNode(t, l.open(t, "other-"), "b")
	other.mustBeFree("jobs", "nobody ever led it in this fleet")
	other.Leads("jobs")
	for _, n := range []*node{a, other} {
		ctx := n.Context()
		list, err := n.List(ctx, "", 10)
		if err != nil || len(list) != 1 || list[0].Holder.ID != n.Me.ID {
			t.Errorf("%s lists %v, %v; want its own election", n.Me.ID, list, err)
		}
	}
}
