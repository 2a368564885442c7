package lease_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/lease"
)

// Elections that are renewed get another heartbeat and the others keep theirs, whichever of the two lists is shorter.
func TestOnlyRenewedLeasesGetAFreshHeartbeat(t *testing.T) {
	r := lease.Session{ID: "x", Nonce: "n", Heartbeat: 1}
	now := time.Now().UTC()
	for step, renewed := range []string{"ac", "ac", "a", "abc", "b", "c", "ab", "abc"} {
		var names, others []string
		for _, name := range []string{"a", "b", "c"} {
			if strings.Contains(renewed, name) {
				names = append(names, name)
			} else {
				others = append(others, name)
			}
		}
		next := r.Renew(names, others, now)
		for _, name := range names {
			if next.Of(name) == r.Of(name) {
				t.Errorf("step %d: %s was renewed, but its heartbeat is still %d", step, name, r.Of(name))
			}
		}
		for _, name := range others {
			if next.Of(name) != r.Of(name) {
				t.Errorf("step %d: %s was not renewed, but its heartbeat has changed from %d to %d", step, name, r.Of(name), next.Of(name))
			}
		}
		if len(next.Apart) > 2 {
			t.Errorf("step %d: %d of 3 elections are in Apart: %v", step, len(next.Apart), next.Apart)
		}
		r = next
	}
	if len(r.Apart) != 0 {
		t.Errorf("all were renewed together, but %v are in Apart", r.Apart)
	}
}

// FuzzHeartbeat encodes and decodes a heartbeat.
func FuzzHeartbeat(f *testing.F) {
	for _, text := range []string{`"0"`, `"7f"`, `"FFFFFFFFFFFFFFFF"`, `"10000000000000000"`, `"-1"`, `1`, `"+1"`, `"0x1"`, `"1_0"`, `""`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var b, back lease.Heartbeat
		if json.Unmarshal(text, &b) != nil {
			return
		}
		again, err := json.Marshal(b)
		if err != nil || json.Unmarshal(again, &back) != nil || back != b {
			t.Errorf("%s is %x and comes back as %x", text, b, back)
		}
	})
}
