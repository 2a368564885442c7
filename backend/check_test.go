package backend_test

import (
	"errors"
	"strings"
	"testing"
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
