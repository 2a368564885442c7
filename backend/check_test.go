package backend_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

func TestNamesAreCheckedBeforeTheyReachAStore(t *testing.T) {
	for name, ok := range map[string]bool{
		"a":                           true,
		"billing/nightly":             true,
		"选主 – élection 🎉":             true,
		" a ":                         true, // and another than "a"
		strings.Repeat("x", 255):      true,
		"":                            false,
		strings.Repeat("x", 256):      false,
		"\xff":                        false,
		"a\x00b":                      false,
		"a\nb":                        false,
		"\x1b]0;title\a":              false,
		"invoice\u202egnp.exe":        false,
		"zero\u200bwidth":             false,
		"line\u2028separator":         false,
		strings.Repeat("\u00e9", 128): false, // 256 bytes
	} {
		err := backend.CheckName(name)
		if ok != (err == nil) {
			t.Errorf("CheckName(%q) = %v, want ok = %v", name, err, ok)
		}
		if err != nil && !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("CheckName(%q) = %v, which is not of class ErrInvalid", name, err)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\x00\x1b\n\u202e") {
			t.Errorf("CheckName(%q): the error repeats the control characters: %q", name, err)
		}
	}
}

func TestMetadataMayHaveLines(t *testing.T) {
	if err := backend.CheckText("metadata", "a: 1\n\tb: 2\r\n", backend.MaxMetadata, true); err != nil {
		t.Error(err)
	}
	if err := backend.CheckText("address", "a\nb", backend.MaxAddress, false); err == nil {
		t.Error("an address of two lines was accepted")
	}
}

func TestALeaseDiffersByWhatObserveTells(t *testing.T) {
	seen := backend.Lease{Election: "jobs", Holder: backend.Candidate{ID: "a", Nonce: "n"}, Term: 1, Version: "2", TTL: time.Second, Age: time.Second}
	older := seen
	older.Age *= 2
	if older.Differs(seen) {
		t.Error("a lease that has only grown older is no news")
	}
	for name, change := range map[string]func(l *backend.Lease){
		"term":       func(l *backend.Lease) { l.Term++ },
		"version":    func(l *backend.Lease) { l.Version += "x" },
		"watch":      func(l *backend.Lease) { l.ObserveFor++ },
		"holder":     func(l *backend.Lease) { l.Holder.Address = "x" },
		"request":    func(l *backend.Lease) { l.Request.Kind = backend.Depose },
		"moved to":   func(l *backend.Lease) { l.MovedTo = "x" },
		"moved from": func(l *backend.Lease) { l.MovedFrom = "x" },
	} {
		now := seen
		if change(&now); !now.Differs(seen) {
			t.Errorf("another %s is news", name)
		}
	}
}
