package backend_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

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

func FuzzCleanTextIsHarmlessAndOursIsUntouched(f *testing.F) {
	for _, s := range []string{"", "plain", "\x1b[2J", "\xff\xfe", "\u202e", strings.Repeat("é", 200), "a\nb"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, s string, lines bool) {
		const most = 255
		clean := backend.Clean(s, most, lines)
		if len(clean) > most || !utf8.ValidString(clean) || backend.CheckText("text", clean, most, lines) != nil {
			t.Errorf("Clean(%q) = %q, which CheckText refuses", s, clean)
		}
		if backend.CheckText("text", s, most, lines) == nil && clean != s {
			t.Errorf("Clean(%q) = %q, but it was harmless", s, clean)
		}
	})
}

// encoding/json reads times that it refuses to write.
func TestTimesFromAStoreCanBeWrittenAgain(t *testing.T) {
	for _, text := range []string{
		`"2026-01-01T00:00:00+24:00"`, `"0000-01-01T00:00:00+23:59"`, `"0000-01-01T00:00:00Z"`, `"9999-12-31T23:59:59-23:59"`,
		`"0001-01-01T00:00:00Z"`, `"2026-11-21T10:00:00.123456789+08:00"`,
	} {
		var read time.Time
		if err := json.Unmarshal([]byte(text), &read); err != nil {
			continue
		}
		r := backend.CleanLeadership(backend.Leadership{From: read, To: read})
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%s was read, and cannot be written: %v", text, err)
		}
		if y := read.UTC().Year(); y >= 1 && y <= 9999 && !r.From.Equal(read) {
			t.Errorf("%s became %v", text, r.From)
		}
	}
}

func TestAHistoryIsCutAndCleanedAndTheOneThatWasRememberedStays(t *testing.T) {
	var history []backend.Leadership
	for term := range uint64(backend.MaxHistory + 2) {
		before := slices.Clone(history)
		longer := backend.Remember(history, backend.Leadership{Term: term, ID: "a\x1b[2J"})
		if !slices.Equal(history, before) {
			t.Fatalf("remembering term %d changed the history that was passed in: %v, before %v", term, history, before)
		}
		if longer[0].Term != term || longer[0].ID != "a\uFFFD[2J" || len(longer) != min(len(before)+1, backend.MaxHistory) || !slices.Equal(longer[1:], before[:len(longer)-1]) {
			t.Fatalf("term %d after %v gives %v", term, before, longer)
		}
		history = longer
	}
}

func TestALeaseDiffersByWhatObserveTells(t *testing.T) {
	seen := backend.Lease{Election: "jobs", Holder: backend.Candidate{ID: "a", Nonce: "n"}, Term: 1, Heartbeat: 2, TTL: time.Second, Age: time.Second}
	older := seen
	older.Age *= 2
	if older.Differs(seen) {
		t.Error("a lease that has only grown older is no news")
	}
	for name, change := range map[string]func(l *backend.Lease){
		"term":       func(l *backend.Lease) { l.Term++ },
		"heartbeat":  func(l *backend.Lease) { l.Heartbeat++ },
		"ref":        func(l *backend.Lease) { l.Ref = "x" },
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
