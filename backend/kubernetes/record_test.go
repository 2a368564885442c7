package kubernetes

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A record is read as it was written, and an edited one is not read.
func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	now := time.Now()
	r := &record{
		Election: "jobs", UID: "1-2", Term: 7, ID: "a<b>", Nonce: "n", Metadata: "\n\t\"ü\"", TTL: 1500 * time.Millisecond, Renew: time.Second, Elected: now.UTC(), Written: now.UTC(), Heartbeat: "x",
		History: []backend.Leadership{{Term: 6, ID: "b", From: now.UTC(), To: now.UTC(), End: backend.Failed}},
	}
	text := r.encode()
	got := decode(text)
	if got == nil || got.encode() != text {
		t.Fatalf("read %+v from %s", got, text)
	}
	if later := decode(strings.Replace(text, `"term":7`, `"term":8`, 1)); later != nil {
		t.Errorf("an edited record is read as %+v", later)
	}
	more := strings.TrimSuffix(string(marshal(r)), "}") + `,"of_a_later_version":1`
	if later := decode(more + sumMark + digest(more+"}") + `"}`); later == nil || later.Term != 7 {
		t.Errorf("with a field of a later version, the record is read as %+v", later)
	}
	a, b := r.spec(), got.spec()
	if specText(&a) != specText(&b) {
		t.Errorf("spec %s, read %s", specText(&a), specText(&b))
	}
	if *a.LeaseDurationSeconds != 2 { // renewals are a second apart
		t.Errorf("leaseDurationSeconds is %d, want 2: it must not be less than the TTL", *a.LeaseDurationSeconds)
	}
}

// Whatever somebody writes into a Lease, what a program is told of it can be printed, and frees nothing
// by an overflow.
func FuzzLease(f *testing.F) {
	r := record{Election: "jobs", UID: "1", Term: 7, ID: "a", Nonce: "n", TTL: time.Second, Heartbeat: "x", Elected: time.Now().UTC(), Written: time.Now().UTC()}
	f.Add(r.encode(), "a", int32(1), int64(0), int32(3), "{}")
	f.Add("{", "\x1b]0;", int32(-5), int64(1)<<62, int32(-1), `{"layout":1,"max_ttl":-1,"made":{"x":-1}}`)
	f.Fuzz(func(t *testing.T, text, id string, seconds int32, at int64, transitions int32, counted string) {
		b := &Backend{names: naming{}}
		b.census = newCensus(&coordination.Lease{ObjectMeta: meta.ObjectMeta{UID: "2", Annotations: map[string]string{censusKey: counted}}})
		b.censusRead = true
		when := meta.NewMicroTime(time.UnixMicro(at))
		for _, sum := range []bool{false, true} {
			if sum { // whoever can write a Lease can compute the digest
				var forged record
				if json.Unmarshal([]byte(text), &forged) != nil || forged.Written.Year() > 9999 || forged.Elected.Year() > 9999 {
					return
				}
				forged.Elected, forged.Written, forged.History = clean.Time(forged.Elected), clean.Time(forged.Written), clean.History(forged.History)
				text = forged.encode()
			}
			for _, uid := range []types.UID{"1", "2"} {
				o := newObject(&coordination.Lease{
					ObjectMeta: meta.ObjectMeta{Name: "jobs", UID: uid, ResourceVersion: "5", Annotations: map[string]string{recordKey: text}},
					Spec:       coordination.LeaseSpec{HolderIdentity: &id, LeaseDurationSeconds: &seconds, RenewTime: &when, AcquireTime: &when, LeaseTransitions: &transitions},
				}, time.Now())
				s := b.classify("jobs", o)
				if s.Lease != clean.Lease(s.Lease) || len(s.Version) > 600 || s.Version == "" {
					t.Errorf("%+v is not clean", s.Lease)
				}
				if !s.Vacant() && s.ObserveFor < MinTTL || s.ObserveFor < 0 || s.ObserveFor > maxForeign {
					t.Errorf("%+v is watched for %v", s.Lease, s.ObserveFor)
				}
				s.endLeadership(backend.Failed, time.Now())
			}
		}
	})
}
