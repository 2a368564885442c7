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
	nc, js := connect(t, startNode(t).addr())
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
	d := &batches{t: t, nc: nc, kv: kv}
	d.check("a batch before allow_atomic is set", "10174", step{"a", 0, ""}, step{"b", 0, ""})
	c.AllowAtomicPublish = true
	if _, err := js.UpdateStream(ctx, c); err != nil {
		t.Fatalf("allow_atomic: %v", err)
	}
	last := d.check("two creations", "", step{"a", 0, ""}, step{"b", 0, ""})
	a, b := d.revision("a"), d.revision("b")
	if a != last-1 || b != last {
		t.Errorf("revisions %d, %d of a batch that ended at %d", a, b, last)
	}
	d.check("a put over the right version, one over a wrong one", "10071", step{"a", a, ""}, step{"b", b + 50, ""})
	d.check("a creation of what is there", "10071", step{"c", 0, ""}, step{"a", 0, ""})
	if d.revision("a") != a || d.revision("b") != b || d.revision("c") != 0 {
		t.Error("a refused batch has left something")
	}
	d.check("check of another key on a message of its own, then a put", "", step{"scratch", b, "b"}, step{"a", a, ""})
	d.check("check of another key that has changed", "10071", step{"scratch", b + 50, "b"}, step{"a", d.revision("a"), ""})
	a = d.revision("a")
	d.check("many checks, all on one scratch subject", "", step{"scratch", b, "b"}, step{"scratch", 0, "c"}, step{"scratch", b, "b"}, step{"a", a, ""})
	d.check("a check of a key after it was put in the batch", "10164", step{"a", d.revision("a"), ""}, step{"scratch", d.revision("a"), "a"})
	d.check("a check of a key before it is put in the batch", "", step{"scratch", d.revision("a"), "a"}, step{"a", d.revision("a"), ""})
	d.check("the same key twice, both with a version", "10164", step{"a", d.revision("a"), ""}, step{"a", d.revision("a"), ""})
	d.check("the same key twice, the second without", "", step{"a", d.revision("a"), ""}, step{"a", -1, ""})
	a = d.revision("a")
	d.check("a check of a key that is not in the stream at all", "", step{"scratch", 0, "none"}, step{"a", a, ""})
	// eob: the last message is not stored; is its check made?
	seq, count, problem := d.send("eob", step{"a", d.revision("a"), ""}, step{"scratch", b + 50, "b"})
	t.Logf("%-60s seq %d count %d %s", "a wrong check on the message that ends the batch (eob)", seq, count, problem)
	if problem != "" || count != 1 {
		t.Error("it was thought that eob is not checked")
	}
	// deletion
	if err := kv.Delete(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	d.check("a creation over a marker with version 0", "10071", step{"b", 0, ""}, step{"d", 0, ""})
	// a batch without its end, and one without its beginning
	_, _, problem = d.send("1", step{"a", d.revision("a"), ""})
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
	d.checkMany()
}

// batches sends batches to the bucket b.
type batches struct {
	t    *testing.T
	nc   *nats.Conn
	kv   jetstream.KeyValue
	sent int
}

func (d *batches) send(commit string, steps ...step) (seq, count int, problem string) {
	d.sent++
	var reply *nats.Msg
	for i, st := range steps {
		m := nats.NewMsg("$KV.b." + st.subject)
		m.Header.Set("Nats-Batch-Id", fmt.Sprint("x", d.sent))
		m.Header.Set("Nats-Batch-Sequence", fmt.Sprint(i+1))
		if st.expect >= 0 {
			m.Header.Set("Nats-Expected-Last-Subject-Sequence", fmt.Sprint(st.expect))
		}
		if st.of != "" {
			m.Header.Set("Nats-Expected-Last-Subject-Sequence-Subject", "$KV.b."+st.of)
		}
		if i < len(steps)-1 {
			if err := d.nc.PublishMsg(m); err != nil {
				d.t.Fatal(err)
			}
			continue
		}
		m.Header.Set("Nats-Batch-Commit", commit)
		var err error
		if reply, err = d.nc.RequestMsg(m, 5*time.Second); err != nil {
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

// revision returns the revision of a key; 0: it is not there.
func (d *batches) revision(key string) int {
	e, err := d.kv.Get(d.t.Context(), key)
	if err != nil {
		return 0
	}
	return int(e.Revision())
}

// check sends a batch, which the server must accept if want is empty, and else refuse with a text that
// contains want.
func (d *batches) check(what string, want string, steps ...step) int {
	d.t.Helper()
	seq, count, problem := d.send("1", steps...)
	d.t.Logf("%-60s seq %d count %d %s", what, seq, count, problem)
	if !strings.Contains(problem, want) || want == "" && problem != "" {
		d.t.Errorf("%s: %q, want %q", what, problem, want)
	}
	return seq
}

func (d *batches) checkMany() {
	var many []step
	for i := range 1001 {
		many = append(many, step{fmt.Sprint("m", i), 0, ""})
	}
	d.check("a batch of 1000", "", many[:1000]...)
	d.check("a batch of 1001", "10199", many...)
	if d.revision("m0") == 0 || d.revision("m999") != d.revision("m0")+999 {
		d.t.Errorf("revisions %d to %d in a batch of 1000", d.revision("m0"), d.revision("m999"))
	}
}
