package kubernetes

import (
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// A record is read as it was written, and an edited one is not read.
func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	now := time.Now()
	r := &record{
		Election: "jobs", UID: "1-2", Term: 7, ID: "a<b>", Nonce: "n", Metadata: "\n\t\"ü\"", TTL: 1500 * time.Millisecond, Elected: now.UTC(), Written: now.UTC(), Heartbeat: "x",
		History: []backend.Leadership{{Term: 6, ID: "b", From: now.UTC(), To: now.UTC(), End: backend.Failed}},
	}
	text := r.encode()
	got := decode(text)
	if got == nil || got.encode() != text {
		t.Fatalf("read %+v from %s", got, text)
	}
	a, b := r.spec(), got.spec()
	if specText(&a) != specText(&b) {
		t.Errorf("spec %s, read %s", specText(&a), specText(&b))
	}
	if *a.LeaseDurationSeconds != 2 {
		t.Errorf("leaseDurationSeconds is %d, want 2: it must not be less than the TTL", *a.LeaseDurationSeconds)
	}
}
