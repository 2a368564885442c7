package natskv

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A step is one message of a batch: it writes a subject, and may require a version of it or another.
type step struct {
	subject string
	expect  int    // version; -1: none is required
	of      string // whose version; "": that of subject
}

// TestWhatABatchCan measures what the driver relies on.
func TestWhatABatchCan(t *testing.T) {
	nc, js := connect(t, startNode(t, "single", 0))
	ctx := background(t)
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "b", LimitMarkerTTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(ctx, "KV_b")
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	t.Logf("bucket: atomic %v, direct %v, rollup %v, deny delete %v", c.AllowAtomicPublish, c.AllowDirect, c.AllowRollup, c.DenyDelete)
	batches := 0
	send := func(commit string, steps ...step) (seq, count int, problem string) {
		batches++
		var reply *nats.Msg
		for i, st := range steps {
			m := nats.NewMsg("$KV.b." + st.subject)
			m.Header.Set("Nats-Batch-Id", fmt.Sprint("x", batches))
			m.Header.Set("Nats-Batch-Sequence", fmt.Sprint(i+1))
			if st.expect >= 0 {
				m.Header.Set("Nats-Expected-Last-Subject-Sequence", fmt.Sprint(st.expect))
			}
			if st.of != "" {
				m.Header.Set("Nats-Expected-Last-Subject-Sequence-Subject", "$KV.b."+st.of)
			}
			if i < len(steps)-1 {
				if err := nc.PublishMsg(m); err != nil {
					t.Fatal(err)
				}
				continue
			}
			m.Header.Set("Nats-Batch-Commit", commit)
			if reply, err = nc.RequestMsg(m, 5*time.Second); err != nil {
				return 0, 0, err.Error()
			}
		}
		var ack struct {
			Error      *jetstream.APIError
			Seq, Count int
		}
		if err := json.Unmarshal(reply.Data, &ack); err != nil {
			return 0, 0, fmt.Sprintf("%q: %v", reply.Data, err)
		}
		if ack.Error != nil {
			return 0, 0, fmt.Sprintf("%d %s", ack.Error.ErrorCode, ack.Error.Description)
		}
		return ack.Seq, ack.Count, ""
	}
	rev := func(key string) int {
		e, err := kv.Get(ctx, key)
		if err != nil {
			return 0
		}
		return int(e.Revision())
	}
	check := func(what string, want string, steps ...step) int {
		t.Helper()
		seq, count, problem := send("1", steps...)
		t.Logf("%-60s seq %d count %d %s", what, seq, count, problem)
		if !strings.Contains(problem, want) || want == "" && problem != "" {
			t.Errorf("%s: %q, want %q", what, problem, want)
		}
		return seq
	}
	check("a batch before allow_atomic is set", "10174", step{"a", 0, ""}, step{"b", 0, ""})
	c.AllowAtomicPublish = true
	if _, err := js.UpdateStream(ctx, c); err != nil {
		t.Fatalf("allow_atomic: %v", err)
	}
	last := check("two creations", "", step{"a", 0, ""}, step{"b", 0, ""})
	a, b := rev("a"), rev("b")
	if a != last-1 || b != last {
		t.Errorf("revisions %d, %d of a batch that ended at %d", a, b, last)
	}
	check("a put over the right version, one over a wrong one", "10071", step{"a", a, ""}, step{"b", b + 50, ""})
	check("a creation of what is there", "10071", step{"c", 0, ""}, step{"a", 0, ""})
	if rev("a") != a || rev("b") != b || rev("c") != 0 {
		t.Error("a refused batch has left something")
	}
	check("check of another key on a message of its own, then a put", "", step{"scratch", b, "b"}, step{"a", a, ""})
	check("check of another key that has changed", "10071", step{"scratch", b + 50, "b"}, step{"a", rev("a"), ""})
	a = rev("a")
	check("many checks, all on one scratch subject", "", step{"scratch", b, "b"}, step{"scratch", 0, "c"}, step{"scratch", b, "b"}, step{"a", a, ""})
	check("a check of a key after it was put in the batch", "10164", step{"a", rev("a"), ""}, step{"scratch", rev("a"), "a"})
	check("a check of a key before it is put in the batch", "", step{"scratch", rev("a"), "a"}, step{"a", rev("a"), ""})
	check("the same key twice, both with a version", "10164", step{"a", rev("a"), ""}, step{"a", rev("a"), ""})
	check("the same key twice, the second without", "", step{"a", rev("a"), ""}, step{"a", -1, ""})
	a = rev("a")
	check("a check of a key that is not in the stream at all", "", step{"scratch", 0, "none"}, step{"a", a, ""})
	// eob: the last message is not stored; is its check made?
	seq, count, problem := send("eob", step{"a", rev("a"), ""}, step{"scratch", b + 50, "b"})
	t.Logf("%-60s seq %d count %d %s", "a wrong check on the message that ends the batch (eob)", seq, count, problem)
	if problem != "" || count != 1 {
		t.Error("it was thought that eob is not checked")
	}
	// deletion
	if err := kv.Delete(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	check("a creation over a marker with version 0", "10071", step{"b", 0, ""}, step{"d", 0, ""})
	// a batch without its end, and one without its beginning
	_, _, problem = send("1", step{"a", rev("a"), ""})
	t.Logf("a batch of one message: %q", problem)
	m := nats.NewMsg("$KV.b.a")
	m.Header.Set("Nats-Batch-Id", "torn")
	m.Header.Set("Nats-Batch-Sequence", "2")
	m.Header.Set("Nats-Batch-Commit", "1")
	reply, err := nc.RequestMsg(m, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the end of a batch that has no beginning: %s", reply.Data)
	// many at a time
	var many []step
	for i := range 1001 {
		many = append(many, step{fmt.Sprint("m", i), 0, ""})
	}
	check("a batch of 1000", "", many[:1000]...)
	check("a batch of 1001", "10199", many...)
	if rev("m0") == 0 || rev("m999") != rev("m0")+999 {
		t.Errorf("revisions %d to %d in a batch of 1000", rev("m0"), rev("m999"))
	}
}
