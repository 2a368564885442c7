package curator

import (
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// An edit of the leader's node at a fixed path is a nomination, of a member of this module
// by its id or address, or of a member of another program. The leader's own id or address
// is not. After the leader has stepped down its node is gone and the nomination remains, so
// that other members of this module hold back.
func TestAnEditedNodeNamesTheNextLeader(t *testing.T) {
	t.Parallel()
	o := longSessions(shared(t))
	o.Layout = Node
	a, b, admin := newClient(t, "a", o), newClient(t, "b", o), dial(t, o.Servers)
	a.me.Address, b.me.Address = "10.0.0.1:80", "10.0.0.2:80"
	held := a.winLongSession(t, "jobs")
	if err := b.Announce(t.Context(), backend.Member{Candidate: b.me, TTL: 10 * ttl}); err != nil {
		t.Fatal(err)
	}
	lock := a.layout.lockPath("jobs")
	of := func(id, nonce string) backend.Request {
		return backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Accept, ID: id, Nonce: backend.Nonce(nonce)}
	}
	for _, edit := range []struct {
		text string
		want backend.Request
	}{
		{"a", backend.Request{}},
		{a.me.Address, backend.Request{}},
		{"b", of("b", string(b.me.Nonce))},
		{b.me.Address, of("b", string(b.me.Nonce))},
		{"10.0.0.3:80", of("10.0.0.3:80", "")},
		{"\x1b[2J", of(clean.Text("\x1b[2J", backend.MaxID, false), "")},
		{"", of("", "")},
	} {
		if _, err := admin.Set(lock, []byte(edit.text), -1); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time there is nothing to write
			answers, err := a.renew(held)
			if err != nil || answers[0].Outcome != backend.Granted || answers[0].Request != edit.want {
				t.Fatalf("a renewal with %q in its node: want it granted with %+v, got %+v, %v", edit.text, edit.want, answers, err)
			}
		}
		if seen := b.observeOne(t, "jobs"); seen.Holder != a.me || seen.Request != edit.want {
			t.Errorf("%q in a's node: want a shown as leader, with %+v, got %+v", edit.text, edit.want, seen)
		}
	}
	a.free(t, held)
	if there, _, err := admin.Exists(lock); err != nil || there {
		t.Fatalf("after a release there is a node: %v, %v", there, err)
	}
	if seen := b.observeOne(t, "jobs"); !seen.Vacant() || seen.Request != of("", "") {
		t.Errorf("want a vacant lease with the last nomination, got %+v", seen)
	}
	if got, err := b.try(b.observeOne(t, "jobs")); err != nil || got.Outcome != backend.Granted || got.Request != (backend.Request{}) {
		t.Errorf("a bid for what is free: want it granted, without a request, got %+v, %v", got, err)
	}
}
