package backend

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Greatest lengths, in bytes.
const (
	MaxName     = 255
	MaxID       = 255
	MaxAddress  = 255
	MaxMetadata = 4096
	MaxMark     = 64 // Lease.MovedTo and MovedFrom

	MaxStage     = 32   // Member.Stage
	MaxElections = 4096 // Member.Elections
)

// CheckName reports why a name cannot name an election. Names are compared byte
// by byte: "a", "A", "á" and "a " are four elections.
func CheckName(name string) error { return check("election name", name, 1, MaxName, false) }

// CheckID reports why an id cannot be a candidate's.
func CheckID(id string) error { return check("id", id, 1, MaxID, false) }

// CheckText reports why a text of at most max bytes cannot be kept, such as an address, or, if it may be
// multiline, metadata. what names the text in the error.
func CheckText(what, s string, max int, multiline bool) error {
	return check(what, s, 0, max, multiline)
}

func check(what, s string, min, max int, multiline bool) error {
	switch {
	case len(s) < min:
		return fmt.Errorf("%w: %s is empty", ErrInvalid, what)
	case len(s) > max:
		return fmt.Errorf("%w: %s has %d bytes, at most %d are allowed: %.40q…",
			ErrInvalid, what, len(s), max, s)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s is not valid UTF-8: %.80q", ErrInvalid, what, s)
	}
	for _, r := range s {
		if !allowed(r, multiline) {
			return fmt.Errorf("%w: %s contains the control character %U: %.80q", ErrInvalid, what, r, s)
		}
	}
	return nil
}

// allowed reports whether a text may contain r. Control characters could forge log lines and terminal
// output, and bidirectional controls make a text read differently from what it is (CWE-117, CWE-150;
// unicode.org/reports/tr36). One-line text identifies, so it has no invisible character.
func allowed(r rune, multiline bool) bool {
	switch {
	case multiline && (r == '\n' || r == '\t' || r == '\r'):
		return true
	case unicode.IsControl(r):
		return false
	case r <= unicode.MaxASCII: // without the tables: a follower checks much text in each reading
		return true
	case multiline:
		return !unicode.Is(unicode.Bidi_Control, r)
	}
	return !unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}
