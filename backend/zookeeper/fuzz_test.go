package zookeeper

import (
	"encoding/binary"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// FuzzRecordAndHeartbeats reads what stands in the nodes of an election and of a session.
func FuzzRecordAndHeartbeats(f *testing.F) {
	for _, text := range []string{
		"", "null", "[]", "\xff{", `{"election":"jobs","term":1,"heartbeat":"3"}`, `{"election":"jobs","term":18446744073709551615,"heartbeat":"1","end":"<script>","last_id":"\u0000"}`,
		`{"election":"jobs","term":1,"heartbeat":"3","holder":{"id":"a","nonce":"n","ttl":"10s","renew":"3s","elected":"2026-01-02T03:04:05Z","node":"_c_1","session":"s","grant":3}}`,
		`{"election":"jobs","term":1,"heartbeat":"3","holder":{"id":"a","nonce":"n","ttl":"2562047h","renew":"-1s","elected":"0000-01-01T00:00:00-23:59","node":"..","session":"a/b","grant":-1}}`,
		`{"election":"jobs","term":1,"heartbeat":"3","request":{"term":1,"kind":"\u001b"},"history":[{},{"to":"9999-12-31T23:59:59-23:59"}]}`,
		`{"nonce":"n","id":"a","most_ttl":"10s","renewed":[{"heartbeat":"7","ttl":"10s","renew":"3s","grants":[[1,3],[9,5],[-9223372036854775808,9223372036854775807]]}]}`,
	} {
		f.Add([]byte(text), 1)
		f.Add([]byte(text), -1<<31)
	}
	f.Fuzz(func(t *testing.T, data []byte, grant int) {
		b := parseHeartbeats(data)
		if g := b.find(grant); g != nil && (g.TTL < 0 || g.Renew < 0) {
			t.Errorf("a renewal for less than nothing: %+v", g)
		}
		if back := parseHeartbeats(b.encode()); len(b.encode()) <= maxHeartbeats && len(back.Groups) != len(b.Groups) {
			t.Errorf("%+v comes back as %+v", b, back)
		}
		r, err := parseRecord(data, "jobs")
		if err != nil {
			return
		}
		if r.Term == 0 || r.Heartbeat == 0 || len(r.History) > backend.MaxHistory {
			t.Errorf("accepted: %+v", r)
		}
		if h := r.Holder; h != nil {
			if h.TTL <= 0 || h.Renew < 0 || !plainNode(h.Node) || !plainNode(h.Session) || backend.CleanTime(h.Elected) != h.Elected {
				t.Errorf("accepted: %+v", h)
			}
			if l := newFuzzLayout(t); strings.Count(l.node("jobs", h.Node), "/") != strings.Count(l.node("jobs", "x"), "/") {
				t.Errorf("a name that leads elsewhere: %q", h.Node)
			}
		}
		if l := backend.CleanLease(r.lease()); l.Request.Kind != "" && l.Term != r.Term {
			t.Errorf("%+v of %+v", l, r)
		}
		if data := r.encode(); len(data) <= maxRecord {
			if len(r.History) == 0 {
				r.History = nil // no history is written as none
			}
			if back, err := parseRecord(data, "jobs"); err != nil || !reflect.DeepEqual(back, r) {
				t.Errorf("%+v comes back as %+v, %v", r, back, err)
			}
		}
		ended := r.clone()
		ended.finish(backend.Failed, time.Unix(1, 0), 0)
		if back, err := parseRecord(ended.encode(), "jobs"); err != nil && len(ended.encode()) <= maxRecord || back != nil && (back.Holder != nil || back.Term != r.Term) {
			t.Errorf("after its end, %+v is %+v, %v", r, back, err)
		}
	})
}

func newFuzzLayout(t *testing.T) layout {
	t.Helper()
	l, err := newLayout(Options{Root: "/election"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// FuzzNodes reads names of nodes, and makes them of names of elections.
func FuzzNodes(f *testing.F) {
	for _, name := range []string{"", "jobs", ".", "..", "a/b", "%2F", "%2f", "%", "%4", "latch-0000000001", "x-latch-latch-0000000002", "latch-", "_c_00000000-0000-8000-0000-000000000000-latch-0000000001", "\x00", "é", "a.b", strings.Repeat("/", 255)} {
		f.Add(name, "latch-0000000001", "jobs")
		f.Add(name, name+"1", name)
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		part := escape(a)
		if a != "" && !plainNode(part) && len(part) <= 255 || strings.Contains(part, "/") {
			t.Errorf("%q becomes the node %q", a, part)
		}
		if back, ok := unescape(part); !ok || back != a {
			t.Errorf("%q becomes %q and comes back as %q", a, part, back)
		}
		if name, ok := unescape(b); ok && escape(name) != b {
			t.Errorf("the node %q is read as %q, whose node is %q", b, name, escape(name))
		}
		l := newFuzzLayout(t)
		if a != "" && len(part) < 500 && checkPath(l.lock(a)) != nil {
			t.Errorf("the path of %q is %q: %v", a, l.lock(a), checkPath(l.lock(a)))
		}
		if l.before(a, b) && l.before(b, a) || a != b && !l.before(a, b) && !l.before(b, a) || l.before(a, b) && l.before(b, c) && !l.before(a, c) {
			t.Errorf("%q, %q and %q have no order", a, b, c)
		}
		if h := (&holder{Node: a}); a != "" && !strings.HasPrefix(a, l.mark) && l.is(h, b) {
			t.Errorf("%q is taken for a node that was granted with %q", b, a)
		}
		if path := "/" + a; checkPath(path) == nil && (strings.Contains(path, "//") || strings.Contains(path+"/", "/../")) {
			t.Errorf("the path %q was accepted", path)
		}
	})
}

// FuzzAnswer reads what a server says. After it was accepted nothing is missing for
// the library, which does not check.
func FuzzAnswer(f *testing.F) {
	n := func(v ...int32) (b []byte) {
		for _, v := range v {
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		}
		return b
	}
	stat := make([]byte, 68)
	for _, b := range [][]byte{nil, n(-1), n(0), n(3), append(n(1), 'a'), append(n(1<<31-1), stat...), append(append(n(1), 'x'), stat...), append(append(append(n(2), n(1)...), 'a'), n(-5)...),
		append(n(opCreate), 0, 0, 0, 0, 0, 0, 0, 0, 1, 'x', 255, 255, 255, 255, 1, 255, 255, 255, 255), append(n(-1), 1, 0, 0, 0, 0)} {
		for _, op := range []int32{opCreate, opExists, opGetData, opGetChildren, opMulti, 99} {
			f.Add(op, b)
		}
	}
	f.Fuzz(func(t *testing.T, op int32, data []byte) {
		p := parser{data}
		if !p.answer(op) {
			return
		}
		if len(p.rest) > len(data) {
			t.Errorf("read back: %d of %d bytes are left", len(p.rest), len(data))
		}
		used := data[:len(data)-len(p.rest)]
		if again := (&parser{used}); !again.answer(op) || len(again.rest) != 0 {
			t.Errorf("kind %d: %x is enough, and %x of it is not", op, data, used)
		}
		for cut := range min(len(used), 64) {
			if (&parser{used[:cut]}).answer(op) {
				t.Errorf("kind %d: %x is accepted, and so is its beginning of %d bytes", op, used, cut)
			}
		}
	})
}

// FuzzACL reads a right as it stands in a configuration.
func FuzzACL(f *testing.F) {
	for _, text := range []string{"", ":", "::", "world:anyone:r", "digest:app:open-sesame:cdrwa", "digest:app:open-sesame", "ip:::1:rw", "world:anyone:", "x:open-sesame:rx", "\x00:a:r"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseACL(text)
		if err != nil {
			if scheme, _, _ := strings.Cut(text, ":"); strings.Contains(err.Error(), "open-sesame") && !strings.Contains(scheme, "open-sesame") {
				t.Errorf("%v shows a secret", err)
			}
			return
		}
		if a.Scheme == "" || a.Perms == 0 || a.Perms&^31 != 0 || !strings.HasPrefix(text, a.Scheme+":"+a.ID+":") {
			t.Errorf("%q is read as %+v", text, a)
		}
	})
}
