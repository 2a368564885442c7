package consul

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// pair reads a key.
func (l *lab) pair(t *testing.T, key string) *api.KVPair {
	t.Helper()
	pair, _, err := l.root.KV().Get(key, nil)
	if err != nil || pair == nil {
		t.Fatalf("%s: %v, %v", key, pair, err)
	}
	return pair
}

// put writes a key as an operator does; flags 0 is what "consul kv put" writes.
func (l *lab) put(t *testing.T, key string, value []byte, flags uint64) {
	t.Helper()
	_, err := l.root.KV().Put(&api.KVPair{Key: key, Value: value, Flags: flags}, nil)
	testbed.NoError(t, err)
}

func (l *lab) remove(t *testing.T, key string) {
	t.Helper()
	_, err := l.root.KV().Delete(key, nil)
	testbed.NoError(t, err)
}

// Any key is an item that can be written again.
func FuzzItem(f *testing.F) {
	for _, text := range []string{"", "null", "[]", "\xff\x00", `{"term":18446744073709551615,"ttl":"-1s","heartbeat":"0"}`,
		`{"election":"jobs","term":6,"elected":"9999-12-31T23:59:59-23:59","history":[{},{"id":"\u0000","from":"0000-01-01T00:00:00+23:59"}]}`,
		`{"id":"a","nonce":"n","heartbeat":"9","apart":{"jobs":"0","":"1"},"at":"2026-01-02T03:04:05+24:00"}`} {
		f.Add([]byte(text), uint64(7), uint64(0))
	}
	d := &driver{prefix: "election"}
	f.Fuzz(func(t *testing.T, text []byte, created, flags uint64) {
		for _, k := range []lease.Key{{Kind: lease.Records, Name: "jobs"}, {Kind: lease.Sessions, Name: "0123"}, {Kind: lease.Metas}} {
			it := d.item(k, &api.KVPair{Key: d.key(k), Value: text, ModifyIndex: 7, CreateIndex: created, Flags: flags})
			if it.Version != "7" || k.Kind == lease.Records && !it.Edited && (created != 7 || flags != checksum(d.key(k), text)) {
				t.Errorf("%q is read as %+v", text, it)
			}
			if it.Value != nil && lease.Decode(k.Kind, []byte(lease.Encode(it.Value))) == nil {
				t.Errorf("%q is written as %s, which is invalid", text, lease.Encode(it.Value))
			}
		}
	})
}

// A heartbeat that a challenger has watched is put back after a later one. It is not the same again.
func TestAHeartbeatThatWasPutBackIsNotTheSame(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.Leads("x")
	a.Keeps(held)
	seen, session := b.Sees("x"), l.pair(t, l.session(a.Me.Nonce))
	a.Keeps(held)
	l.put(t, session.Key, session.Value, session.Flags)
	for range 2 {
		if now := b.Sees("x"); now.Unchanged(seen) {
			t.Fatalf("two leaders: a has renewed since b saw %+v, and b sees the same again", seen)
		}
	}
	a.Keeps(held)
}

// TestInspectSaysHowTheServersAre calls Inspect with a member's rights.
func TestInspectSaysHowTheServersAre(t *testing.T) {
	t.Parallel()
	agent := testbed.StartConsul(t, testbed.Options{Args: []string{testbed.ConsulACL}})
	member := token(t, admins(t, agent), `key_prefix "election/" { policy = "write" }`).SecretID
	inspects(t, open(t, Options{Address: agent.URL(), Token: member}), "servers: 1, ")
}

// Limits that are lower than Consul's own are such that some thousands of leases cannot be renewed.
func TestInspectNamesLimitsThatAreTooLow(t *testing.T) {
	t.Parallel()
	for want, limits := range map[string]string{
		"":                  "",
		"kv_max_value_size": "kv_max_value_size = 100000",
		"txn_max_req_len":   "txn_max_req_len = 400000, kv_max_value_size = 400000",
	} {
		agent := testbed.StartConsul(t, testbed.Options{Args: []string{"-hcl=limits {" + limits + "}"}})
		b := open(t, Options{Address: agent.URL()})
		list, err := b.Inspect(t.Context(), 10*time.Second, 3*time.Second)
		text := ""
		for _, d := range list {
			text += d.String() + "\n"
		}
		if err != nil || !strings.Contains(text, want) || strings.Contains(text, "WARNING messages") != (want != "") {
			t.Errorf("with %v: %q is missing, or too much: %v\n%s", limits, want, err, text)
		}
	}
}
