package etcd

import (
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

func TestKeysAreParsedAsTheyWereMade(t *testing.T) {
	p := keyPrefix("p/")
	for _, k := range []lease.Key{{Kind: lease.Metas}, {Kind: lease.Records, Name: "a/b"}, {Kind: lease.Sessions, Name: ""}} {
		if got, ok := p.parse(p.key(k)); !ok || got != k {
			t.Errorf("%v becomes %q, and that %v", k, p.key(k), got)
		}
	}
	for _, foreign := range []string{"", "q/meta", "p/", "p/meta/", "p/record", "p/records/x", "p/x/y"} {
		if k, ok := p.parse(foreign); ok {
			t.Errorf("%q is taken for %v", foreign, k)
		}
	}
}

func TestAStoreThatGoesBackIsNoticed(t *testing.T) {
	o := origins{now: origin{Replaced: make(chan struct{})}}
	first := o.Now()
	early := o.Note("1", "", 10, &first)
	now := o.Note("1", "x", 9, &first) // a call that began before the answer at 10
	if now.WentBack != 0 || now.Newest != 10 {
		t.Errorf("a late answer: %+v", now)
	}
	if now = o.Note("1", "x", 9, &early); now.WentBack != 1 || now.RestoredAt != 9 || now.Newest != 9 {
		t.Errorf("an older answer: %+v", now)
	}
	select {
	case <-early.Replaced:
	default:
		t.Error("nobody is told")
	}
	if now = o.Note("2", "x", 90, &now); now.WentBack != 2 || now.RestoredAt != 90 || now.Epoch != "2" {
		t.Errorf("another store: %+v", now)
	}
	if now = o.Note("2", "y", 100, &now); now.WentBack != 3 || now.RestoredAt != 100 || now.Text != "y" {
		t.Errorf("another store of the same id: %+v", now)
	}
	if now = o.Note("2", "x", 101, &origin{Text: "x"}); now.WentBack != 4 {
		t.Errorf("a late answer of the store before: %+v", now)
	}
	if now = o.Note("2", "", 102, &now); now.WentBack != 5 {
		t.Errorf("the key origin is gone: %+v", now)
	}
}

// A restored store counts revisions anew, so the same revision may have another value.
func TestRememberedRecordsAreComparedByValue(t *testing.T) {
	t.Parallel()
	d, jobs := open(t, options(testbed.SharedEtcd(t)...)).driver, lease.Key{Kind: lease.Records, Name: "jobs"}
	v := testbed.Read(t, d, jobs)
	testbed.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1})
	v = testbed.Read(t, d, jobs)
	now, next := v.Items[0].Value, &lease.Record{Election: "jobs", Term: 3}

	v.Items[0].Remembered, v.Items[0].Value = true, &lease.Record{Election: "jobs", Term: 2}
	if results, err := testbed.Put(t, d, &v, next); err != nil || results[0].Outcome != backend.Refused {
		t.Errorf("a change over this revision with another value: %v, %v; want it refused", results, err)
	}
	v.Items[0].Value = now
	testbed.MustPut(t, d, &v, next)
}
