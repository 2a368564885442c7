package backend

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
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

// NewNonce returns 128 random bits as 32 lower-case hex digits.
func NewNonce() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand aborts the program instead
	return hex.EncodeToString(b[:])
}

// CheckName reports why a name cannot name an election. Names are compared byte
// by byte: "a", "A", "á" and "a " are four elections.
func CheckName(name string) error { return check("election name", name, 1, MaxName, false) }

// CheckID reports why an id cannot be a candidate's.
func CheckID(id string) error { return check("id", id, 1, MaxID, false) }

// CheckText reports why an address (multiline false) or metadata (true) cannot be kept. The
// error calls the text what.
func CheckText(what, s string, max int, multiline bool) error {
	return check(what, s, 0, max, multiline)
}

func check(what, s string, min, max int, multiline bool) error {
	switch {
	case len(s) < min:
		return fmt.Errorf("%w: %s is empty", ErrInvalid, what)
	case len(s) > max:
		return fmt.Errorf("%w: %s has %d bytes, at most %d are allowed: %.40q…", ErrInvalid, what, len(s), max, s)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s is not valid UTF-8: %.80q", ErrInvalid, what, s)
	}
	for _, r := range s {
		if !plain(r, multiline) {
			return fmt.Errorf("%w: %s contains the control character %U: %.80q", ErrInvalid, what, r, s)
		}
	}
	return nil
}

// plain refuses control characters, which could forge log lines and terminal output, and
// bidirectional controls, which make a text read differently from what it is (CWE-117,
// CWE-150; unicode.org/reports/tr36). One-line text identifies, so it may contain no invisible
// format character (Cf).
func plain(r rune, multiline bool) bool {
	switch {
	case multiline && (r == '\n' || r == '\t' || r == '\r'):
		return true
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
		return false
	case !multiline && (unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'):
		return false
	}
	return true
}

// Clean makes text from a store safe to use: it cuts the text to max bytes, and replaces
// invalid bytes and characters that [CheckText] refuses by U+FFFD. Text that this module
// wrote comes back unchanged.
func Clean(s string, max int, multiline bool) string {
	if check("", s, 0, max, multiline) == nil {
		return s
	}
	var b strings.Builder
	for _, r := range s { // an invalid byte ranges as U+FFFD
		if !plain(r, multiline) {
			r = utf8.RuneError
		}
		if b.Len()+utf8.RuneLen(r) > max {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// CleanLease applies [Clean] to all text of a lease from a store, and limits its durations to
// 0 to 20 years. A lease that this module wrote comes back unchanged.
func CleanLease(l Lease) Lease {
	l.Holder = CleanCandidate(l.Holder)
	l.LastID = Clean(l.LastID, MaxID, false)
	l.LastNonce = Clean(l.LastNonce, 64, false)
	l.End = End(Clean(string(l.End), 16, false))
	l.Request.Kind = RequestKind(Clean(string(l.Request.Kind), 16, false))
	l.Request.ID = Clean(l.Request.ID, MaxID, false)
	l.Request.Nonce = Clean(l.Request.Nonce, 64, false)
	l.MovedTo, l.MovedFrom = Clean(l.MovedTo, MaxMark, false), Clean(l.MovedFrom, MaxMark, false)
	l.TTL = min(max(l.TTL, 0), longest)
	l.Renew = min(max(l.Renew, 0), longest)
	l.Age = min(max(l.Age, 0), longest)
	l.ObserveFor = min(l.ObserveFor, longest)
	return l
}

// longest is the limit for durations, so that a few of them can be added up.
const longest = 20 * 365 * 24 * time.Hour

// CleanCandidate is [CleanLease] for a candidate.
func CleanCandidate(c Candidate) Candidate {
	c.ID = Clean(c.ID, MaxID, false)
	c.Nonce = Clean(c.Nonce, 64, false)
	c.Address = Clean(c.Address, MaxAddress, false)
	c.Metadata = Clean(c.Metadata, MaxMetadata, true)
	return c
}

// CleanMember is [CleanLease] for a member, read or to be written.
func CleanMember(m Member) Member {
	m.Candidate = CleanCandidate(m.Candidate)
	m.Stage, m.Elections = Clean(m.Stage, MaxStage, false), Clean(m.Elections, MaxElections, true)
	m.TTL, m.Age = min(max(m.TTL, 0), longest), min(max(m.Age, 0), longest)
	return m
}

// CleanLeadership is [CleanLease] for a past leadership.
func CleanLeadership(r Leadership) Leadership {
	r.ID, r.End = Clean(r.ID, MaxID, false), End(Clean(string(r.End), 16, false))
	r.From, r.To = CleanTime(r.From), CleanTime(r.To)
	return r
}

// CleanHistory is [CleanLease] for the history of a record: a copy of its first
// [MaxHistory] leaderships.
func CleanHistory(history []Leadership) []Leadership {
	clean := slices.Clone(history[:min(len(history), MaxHistory)])
	for i, r := range clean {
		clean[i] = CleanLeadership(r)
	}
	return clean
}

// Remember returns the history with one more leadership, the newest, as [CleanHistory]
// would leave it. The history that is passed in stays as it is.
func Remember(history []Leadership, r Leadership) []Leadership {
	return CleanHistory(slices.Insert(slices.Clone(history), 0, r))
}

// CleanTime returns a time from a store in UTC. A time that package encoding/json can read but
// not write (in another zone, or after the year 9999) becomes zero.
func CleanTime(t time.Time) time.Time {
	t = t.UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		return time.Time{}
	}
	return t
}
