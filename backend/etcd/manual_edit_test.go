package etcd

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// Manual edits with etcdctl must not make a second leader. In each case the holder may trust
// its lease for up to a TTL.

// A session key may be deleted at any moment, by an operator.
// Challengers watch the lease anew, and its holder continues under another session:
// package lease, "A lost session".
func TestALostSessionIsReplacedAndWatched(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		lose func(l *lab, a *node)
	}{
		{"its key is deleted", func(l *lab, a *node) { l.del(t, l.session(a)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			a, b := l.node(t, "a"), l.node(t, "b")
			held := a.mustRenew(a.lead("jobs"))
			lost := l.generation(t, a)
			before := b.mustBeWatched("jobs", "it is held")
			c.lose(l, a)
			after := b.mustBeWatched("jobs", c.name)
			if after.Unchanged(before) || after.Holder.ID != "a" {
				t.Errorf("when %s the lease is %+v, before %+v; want a's, watched anew", c.name, after, before)
			}
			b.mustLose(before, "though "+c.name+" since")
			now := a.mustRenew(held)
			if s := l.generation(t, a); s == lost || now.Term != held.Term {
				t.Errorf("renewed in term %d under session %s; want term %d, and another session than %s", now.Term, s, held.Term, lost)
			}
			b.mustLose(after, "though it was renewed under another session")
			a.mustRenew(now)

			// In the other order: the challenger comes first.
			c.lose(l, a)
			next := b.mustTakeOver(b.mustBeWatched("jobs", c.name))
			a.mustRefuse(now, "which was taken over")
			b.mustRenew(next)
		})
	}
}

// Another writer changes a session key. Its holder does not take the foreign heartbeat for
// its own.
func TestASessionWrittenByOthersIsAbandoned(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(old []byte) string{
		"an invalid value":        func([]byte) string { return "\xff{" },
		"nothing":                 func([]byte) string { return "" },
		"an old value":            func(old []byte) string { return string(old) },
		"a heartbeat of its own":  func([]byte) string { return `{"nonce":"x","heartbeat":"7"}` },
		"an endless value":        func([]byte) string { return strings.Repeat(" ", 1<<20+1) },
		"heartbeats of elections": func([]byte) string { return `{"heartbeat":"7","apart":{"jobs":"8","":"0"}}` },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			a, b := l.node(t, "a"), l.node(t, "b")
			held := a.mustRenew(a.lead("jobs"))
			lost, old := l.generation(t, a), l.key(t, l.session(a)).Value
			held = a.mustRenew(held)
			l.put(t, l.session(a), write(old))
			seen := b.mustBeWatched("jobs", name+" was written")
			if now := a.mustRenew(held); now.Term != held.Term || l.generation(t, a) == lost && name != "an old value" {
				t.Errorf("renewed in term %d, the same session: %v; want term %d and another session", now.Term, l.generation(t, a) == lost, held.Term)
			}
			b.mustLose(seen, "though it was renewed")
		})
	}
}

// A session key is deleted and created again manually with the same value. Its holder does not
// use it, and challengers begin their watch anew.
func TestARecreatedSessionKeyIsAnotherSession(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.mustRenew(a.lead("jobs"))
	key, old := l.session(a), l.value(t, l.session(a))
	seen := b.mustBeWatched("jobs", "it is held")
	l.del(t, key)
	l.put(t, key, old)
	if now := b.mustBeWatched("jobs", "its session key was created again"); now.Unchanged(seen) {
		t.Errorf("the lease is %+v as before; want it to be watched anew", now)
	}
	b.mustLose(seen, "though its session key was created again")
	seen = b.read("jobs")
	a.mustRenew(held)
	b.mustLose(seen, "though it was renewed")
}

func TestADeletedRecordFreesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.lead("jobs")
	b.read("jobs")
	l.del(t, l.record("jobs"))
	seen := b.mustBeWatched("jobs", "the record was deleted")
	a.mustRefuse(held, "whose record was deleted")
	if err := a.release(held, backend.Failed); err != nil {
		t.Fatal(err)
	}
	if next := b.mustTakeOver(seen); next.Term <= held.Term {
		t.Errorf("term %d after %d", next.Term, held.Term)
	}
}

// A process that starts later knows from the layout key that an election was deleted, but not
// which one. So it watches every election without a record.
func TestADeletedElectionIsWatched(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	first := b.read("other")
	if first.ObserveFor != 0 {
		t.Fatalf("a first election: %+v; want one that is free", first)
	}
	held := a.lead("jobs")
	l.del(t, l.record("jobs"))
	for _, n := range []*node{b, l.node(t, "late")} {
		got := n.read("jobs")
		if got.ObserveFor < ttl {
			t.Fatalf("%s: %+v; want it to be watched for the greatest TTL that was ever granted, %v", n.me.ID, got, ttl)
		}
	}
	a.mustRefuse(held, "whose keys were deleted")
	if next, err := b.bid(b.read("jobs"), ttl); err != nil || next.Outcome != backend.Granted || next.Term <= held.Term+backend.TermJump/2 {
		t.Errorf("a bid over what was watched: %v in term %d, %v; want it granted, far above %d", next.Outcome, next.Term, err, held.Term)
	}
	if next, err := b.bid(backend.Lease{Election: "jobs"}, ttl); err != nil || next.Outcome != backend.Granted {
		t.Errorf("an own leftover: %v, %v", next.Outcome, err)
	}
}

// An invalid value affects no other election, and does not free its own.
func TestInvalidValuesFreeNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	lead := func(name string) backend.Lease { // with a TTL longer than the test on a busy machine
		got, err := a.bid(a.read(name), time.Minute)
		if err != nil || got.Outcome != backend.Granted {
			t.Fatal(got.Outcome, err)
		}
		return got.Lease
	}
	good := lead("good")
	for i, text := range []string{"", "null", "[]", "{", "\xff\x00", `{"term":-1}`, `{"term":"x"}`, `{"term":99999999999999999999}`, `{"history":[{}]}`} {
		name := "bad" + strconv.Itoa(i)
		held := lead(name)
		for _, key := range []string{l.record(name), l.meta()} {
			l.put(t, key, text)
		}
		if seen := b.read(name); seen.ObserveFor < time.Minute {
			t.Errorf("with the record %q: %+v; want it to be watched for the greatest TTL", text, seen)
		}
		a.mustRefuse(held, "whose record is invalid: "+text)
		ctx, cancel := b.ctx()
		if _, err := b.List(ctx, "", 10); err != nil {
			t.Error(err)
		}
		cancel()
		good = a.mustRenew(good)
		if next := b.mustTakeOver(b.read(name)); next.Term <= held.Term {
			t.Errorf("over an invalid record: term %d after %d", next.Term, held.Term)
		}
	}
}

// A vacant record from before the store went back is not free at once.
func TestARestoredStoreIsWatched(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.lead("jobs")
	if err := a.release(held, backend.Released); err != nil {
		t.Fatal(err)
	}
	b.read("jobs")
	b.goBack()
	old := b.read("jobs")
	if old.ObserveFor < ttl || !old.Vacant() {
		t.Fatalf("a vacant lease in a store that went back: %+v; want it to be watched for %v", old, ttl)
	}
	next, err := b.bid(old, ttl)
	if err != nil || next.Outcome != backend.Granted || next.Term < held.Term+backend.TermJump/2 {
		t.Errorf("a bid over what was watched: %v in term %d, %v; want granted, far above %d", next.Outcome, next.Term, err, held.Term)
	}
	b.mustRenew(next.Lease)
}
