package etcd

import (
	"errors"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// announceAged writes the node's member record, and makes it look old enough to be written by
// the next renewal.
func (n *node) announceAged(stage string) {
	n.t.Helper()
	ctx, cancel := n.ctx()
	defer cancel()
	if err := n.Announce(ctx, backend.Member{Candidate: n.me, TTL: ttl, Stage: stage}); err != nil {
		n.t.Fatal(err)
	}
	n.agePiggyback()
}

// agePiggyback makes the member record look old enough to be written by the next renewal.
func (n *node) agePiggyback() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.announced.sent = n.announced.sent.Add(-ttl * 2 / 3)
}

// key returns a key with its value, or nil.
func (l *lab) key(t testing.TB, key string) *mvccpb.KeyValue {
	t.Helper()
	got, err := l.admin.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range got.Kvs {
		return kv
	}
	return nil
}

// A leader's renewals write its member record, in the same transaction. Announce writes it
// only if it has changed or no renewal has written it.
func TestARenewalAnnouncesTheMember(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.node(t, "a")
	key := l.keys.candidate(a.me.Nonce)
	a.announceAged("from")
	held := a.lead("jobs")
	before := l.key(t, key)
	held = a.mustRenew(held)
	rode := l.key(t, key)
	if heartbeat := l.key(t, l.keys.heartbeat(a.currentSession().name)); rode.ModRevision != heartbeat.ModRevision || rode.Lease != before.Lease {
		t.Fatalf("after a renewal the record is of revision %d, on etcd lease %x; want that of the heartbeat, %d, on %x", rode.ModRevision, rode.Lease, heartbeat.ModRevision, before.Lease)
	}
	old, now := decode[candidate](before.Value), decode[candidate](rode.Value)
	if !now.Seen.After(old.Seen) {
		t.Errorf("the record was seen at %v, before the renewal at %v; want it later", now.Seen, old.Seen)
	}
	if now.Seen = old.Seen; *now != *old {
		t.Errorf("the record is %+v after a renewal, before %+v; want only its time to differ", now, old)
	}
	a.mustRenew(held)
	ctx, cancel := a.ctx()
	defer cancel()
	for _, c := range []struct {
		what, stage string
		writes      bool
	}{{"a renewal has just written", "from", false}, {"has changed", "both", true}, {"no renewal has written", "both", true}} {
		before := l.key(t, key)
		if err := a.Announce(ctx, backend.Member{Candidate: a.me, TTL: ttl, Stage: c.stage}); err != nil {
			t.Fatal(err)
		}
		if now := l.key(t, key); (now.ModRevision != before.ModRevision) != c.writes || decode[candidate](now.Value).Stage != c.stage {
			t.Errorf("a record that %s: announced at revision %d, before %d, %s; want it written: %v", c.what, now.ModRevision, before.ModRevision, now.Value, c.writes)
		}
	}
}

// Whatever happens to the member record, the renewal that carries it succeeds, and the next
// announcement writes it again.
func TestAMemberRecordNeverFailsARenewal(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, l *lab, a *node){
		"its key is deleted": func(t *testing.T, l *lab, a *node) { l.del(t, l.keys.candidate(a.me.Nonce)) },
		"its key is written": func(t *testing.T, l *lab, a *node) { l.put(t, l.keys.candidate(a.me.Nonce), "{") },
		"its key is made again, without an etcd lease": func(t *testing.T, l *lab, a *node) {
			l.del(t, l.keys.candidate(a.me.Nonce))
			l.put(t, l.keys.candidate(a.me.Nonce), "{}")
		},
		"its etcd lease is revoked": func(t *testing.T, l *lab, a *node) {
			if _, err := l.admin.Revoke(t.Context(), a.leaseID); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			a := l.node(t, "a")
			held := a.mustRenew(a.lead("jobs"))
			a.announceAged("")
			held = a.mustRenew(held)
			a.agePiggyback() // so that the next renewal carries it again
			harm(t, l, a)
			before := l.key(t, l.keys.candidate(a.me.Nonce))
			for range 3 {
				held = a.mustRenew(held)
			}
			if now := l.key(t, l.keys.candidate(a.me.Nonce)); now != nil && (before == nil || now.ModRevision != before.ModRevision) {
				t.Errorf("when %s, a renewal writes the record: %s", name, now.Value)
			}
			a.announceAged("")
			now := l.key(t, l.keys.candidate(a.me.Nonce))
			if now == nil || now.Lease != int64(a.leaseID) || decode[candidate](now.Value).ID != "a" {
				t.Errorf("when %s, the next announcement leaves %v; want the record, on etcd lease %x", name, now, a.leaseID)
			}
			a.mustRenew(held)
			if again := l.key(t, l.keys.candidate(a.me.Nonce)); again == nil || again.ModRevision == now.ModRevision {
				t.Error("no later renewal carries the record")
			}
		})
	}
}

// A late piggyback finds another revision, and does not undo a later announcement.
func TestALatePiggybackChangesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.node(t, "a")
	ctx, cancel := a.ctx()
	defer cancel()
	a.announceAged("from")
	late := a.newPiggyback(0)
	if late == nil || a.newPiggyback(0) != nil {
		t.Fatal("want one piggyback, and no other until it is confirmed")
	}
	a.announceAged("both")
	if resp, err := a.txn(ctx, nil, []clientv3.Op{late.op}, false); err != nil || resp.Responses[0].GetResponseTxn().GetSucceeded() {
		t.Errorf("a late piggyback: %v, %v; want it to change nothing", resp, err)
	}
	a.piggybackDone(late, 1)
	if now := decode[candidate](l.key(t, l.keys.candidate(a.me.Nonce)).Value); now.Stage != "both" {
		t.Errorf("after a late piggyback the stage is %q; want both", now.Stage)
	}
	if next := a.newPiggyback(0); next == nil {
		t.Error("after a late piggyback there is no other one")
	}
}

// A member is listed until some TTLs after its last announcement, even if pages are full of
// expired ones.
func TestExpiredMembersAreNotListed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for nonce, ago := range map[string]time.Duration{"1": 100 * ttl, "2": ttl, "3": 100 * ttl, "4": 100 * ttl, "5": 2 * ttl, "6": 5 * ttl} {
		l.put(t, l.keys.candidate(backend.Nonce(nonce)), encode(candidate{ID: nonce, TTL: span(ttl), Seen: time.Now().UTC().Add(-ago)}))
	}
	if got := l.node(t, "a").membersByPage(); !slices.Equal(got, []string{"2", "5"}) {
		t.Errorf("members %q are listed; want 2 and 5, which have not expired", got)
	}
}

// membersByPage returns the nonces of the members, read page by page as managers do.
func (n *node) membersByPage() (nonces []string) {
	n.t.Helper()
	ctx, cancel := n.ctx()
	defer cancel()
	for from := ""; ; {
		page, err := n.Members(ctx, from, 1)
		if err != nil {
			n.t.Fatal(err)
		}
		if len(page) == 0 {
			return nonces
		}
		nonces = append(nonces, string(page[0].Nonce))
		from = string(page[0].Nonce + "\x00")
	}
}

// A foreign key among the member records is no nonce, and no page can begin there. The members
// after it are still listed.
func TestInvalidMemberKeysHideNoMember(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.node(t, "a")
	a.announceAged("")
	for _, invalid := range []string{"\x01", "\x02\xff", " \u202e"} {
		l.put(t, l.keys.candidate(backend.Nonce(invalid)), l.value(t, l.keys.candidate(a.me.Nonce)))
	}
	if got := a.membersByPage(); !slices.Equal(got, []string{string(a.me.Nonce)}) {
		t.Errorf("page by page the members are %q; want %q alone", got, a.me.Nonce)
	}
}

// The right to write member records is revoked. One renewal is denied because of its
// piggyback, and the next has none.
func TestADeniedPiggybackIsNotRepeated(t *testing.T) {
	t.Parallel()
	const prefix = "app/"
	n, root := withUsers(t, prefix, testbed.EtcdOptions{})
	a := openNode(t, "a", Options{Endpoints: []string{n.URL()}, Prefix: prefix, Username: "app", Password: secret})
	held := a.mustRenew(a.lead("jobs"))
	a.announceAged("")
	ctx, cancel := a.ctx()
	defer cancel()
	if _, err := root.RoleRevokePermission(ctx, "election", prefix, clientv3.GetPrefixRangeEnd(prefix)); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"heartbeat/", "layout", "record/", "request/"} {
		if _, err := root.RoleGrantPermission(ctx, "election", prefix+part, clientv3.GetPrefixRangeEnd(prefix+part), clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := a.renew(held); !errors.Is(err, backend.ErrDenied) {
		t.Fatalf("a renewal with a denied piggyback: %v, %v; want ErrDenied", got.Outcome, err)
	}
	a.mustRenew(held)
}
