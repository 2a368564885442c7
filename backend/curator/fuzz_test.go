package curator

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/ensemble"
)

// FuzzRecordAndHeartbeats parses the data of records and session records.
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
		rec := parseSessionRecord(data)
		if g := rec.groupOf(grant); g != nil && (g.TTL < 0 || g.Renew < 0) {
			t.Errorf("a renewal for less than nothing: %+v", g)
		}
		if back := parseSessionRecord(rec.encode()); len(rec.encode()) <= maxSessionRecord && len(back.Groups) != len(rec.Groups) {
			t.Errorf("%+v comes back as %+v", rec, back)
		}
		r, err := parseRecord(data, "jobs")
		if err != nil {
			return
		}
		if r.Term == 0 || r.Heartbeat == 0 || len(r.History) > backend.MaxHistory {
			t.Errorf("accepted: %+v", r)
		}
		if h := r.Holder; h != nil {
			if h.TTL <= 0 || h.Renew < 0 || !plainNode(h.Node) || !plainNode(h.Session) || clean.Time(h.Elected) != h.Elected {
				t.Errorf("accepted: %+v", h)
			}
			if l := newFuzzLayout(t); strings.Count(l.nodePath("jobs", h.Node), "/") != strings.Count(l.nodePath("jobs", "x"), "/") {
				t.Errorf("a name that leads elsewhere: %q", h.Node)
			}
		}
		if l := clean.Lease(r.lease()); l.Request.Kind != "" && l.Term != r.Term {
			t.Errorf("%+v of %+v", l, r)
		}
		if data := r.encode(); len(data) <= maxRecord {
			if len(r.History) == 0 {
				r.History = nil // an empty history is not written
			}
			if back, err := parseRecord(data, "jobs"); err != nil || !reflect.DeepEqual(back, r) {
				t.Errorf("%+v comes back as %+v, %v", r, back, err)
			}
		}
		ended := r.clone()
		ended.endLeadership(backend.Failed, time.Unix(1, 0), 0)
		if back, err := parseRecord(ended.encode(), "jobs"); err != nil && len(ended.encode()) <= maxRecord || back != nil && (back.Holder != nil || back.Term != r.Term) {
			t.Errorf("after its end, %+v is %+v, %v", r, back, err)
		}
	})
}

func newFuzzLayout(t *testing.T) layout {
	t.Helper()
	l, err := newLayout(Options{Root: "/election-curator"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// FuzzNodes parses names of nodes, and computes them from names of elections.
func FuzzNodes(f *testing.F) {
	for _, name := range []string{"", "jobs", ".", "..", "a/b", "%2F", "%2f", "%", "%4", "latch-0000000001", "x-latch-latch-0000000002", "latch-", "_c_00000000-0000-8000-0000-000000000000-latch-0000000001", "\x00", "é", "a.b", strings.Repeat("/", 255)} {
		f.Add(name, "latch-0000000001", "jobs")
		f.Add(name, name+"1", name)
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		part := ensemble.Escape(a)
		if a != "" && !plainNode(part) && len(part) <= 255 || strings.Contains(part, "/") {
			t.Errorf("%q becomes the node %q", a, part)
		}
		if back, ok := ensemble.Unescape(part); !ok || back != a {
			t.Errorf("%q becomes %q and comes back as %q", a, part, back)
		}
		if name, ok := ensemble.Unescape(b); ok && ensemble.Escape(name) != b {
			t.Errorf("the node %q is read as %q, whose node is %q", b, name, ensemble.Escape(name))
		}
		l := newFuzzLayout(t)
		if a != "" && len(part) < 500 && ensemble.CheckPath(l.lockPath(a)) != nil {
			t.Errorf("the path of %q is %q: %v", a, l.lockPath(a), ensemble.CheckPath(l.lockPath(a)))
		}
		if l.before(a, b) && l.before(b, a) || a != b && !l.before(a, b) && !l.before(b, a) || l.before(a, b) && l.before(b, c) && !l.before(a, c) {
			t.Errorf("%q, %q and %q have no order", a, b, c)
		}
		if h := (&holder{Node: a}); a != "" && !strings.HasPrefix(a, l.namePrefix) && l.isHoldersNode(h, b) {
			t.Errorf("%q is taken for a node that was granted with %q", b, a)
		}
		if path := "/" + a; ensemble.CheckPath(path) == nil && (strings.Contains(path, "//") || strings.Contains(path+"/", "/../")) {
			t.Errorf("the path %q was accepted", path)
		}
	})
}

// FuzzRecord checks that no data in the store causes a panic or an unsafe path.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"election":"jobs","term":1,"heartbeat":"3","holder":{"id":"a","nonce":"n","ttl":"1s","renew":"1s","node":"../x","session":"y"}}`))
	f.Add([]byte(`{"election":"jobs","term":1,"heartbeat":"3","history":[{}]}`))
	f.Add([]byte("\xff{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		parseSessionRecord(data).groupOf(1)
		r, err := parseRecord(data, "jobs")
		if err != nil {
			return
		}
		if r.Holder != nil && (strings.Contains(r.Holder.Node, "/") || strings.Contains(r.Holder.Session, "/")) {
			t.Errorf("a path from the store: %+v", r.Holder)
		}
		r.endLeadership(backend.Failed, time.Now(), 0)
		r.encode()
	})
}
