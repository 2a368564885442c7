// Package clean makes safe what comes from a store, from a server or from a client library,
// before a program keeps it, prints it or puts it into a log: whoever can write to the store
// chooses that text. All backends use it, the manager, and the programs that show elections.
package clean

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-election/go-election/backend"
)

// Text makes text from a store safe to use: it cuts the text to max bytes, and replaces invalid bytes and
// characters that [backend.CheckText] refuses by U+FFFD. Text that this module wrote comes back unchanged.
func Text(s string, max int, multiline bool) string {
	if harmless(s, max, multiline) {
		return s
	}
	var b strings.Builder
	for _, r := range s { // an invalid byte ranges as U+FFFD
		if !harmless(string(r), utf8.UTFMax, multiline) {
			r = utf8.RuneError
		}
		if b.Len()+utf8.RuneLen(r) > max {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Lease applies [Text] to all text of a lease from a store, and limits its durations to
// 0 to 20 years. A lease that this module wrote comes back unchanged.
func Lease(l backend.Lease) backend.Lease {
	l.Holder = Candidate(l.Holder)
	l.LastID = Text(l.LastID, backend.MaxID, false)
	l.End = backend.End(Text(string(l.End), 16, false))
	l.Request.Kind = backend.RequestKind(Text(string(l.Request.Kind), 16, false))
	l.Request.ID = Text(l.Request.ID, backend.MaxID, false)
	l.Request.Nonce = Nonce(l.Request.Nonce)
	l.MovedTo = Text(l.MovedTo, backend.MaxMark, false)
	l.MovedFrom = Text(l.MovedFrom, backend.MaxMark, false)
	l.TTL = min(max(l.TTL, 0), longest)
	l.Renew = min(max(l.Renew, 0), longest)
	l.Age = min(max(l.Age, 0), longest)
	l.ObserveFor = min(l.ObserveFor, longest)
	return l
}

func harmless(s string, max int, multiline bool) bool {
	return backend.CheckText("", s, max, multiline) == nil
}

// longest is the limit for durations, so that a few of them can be added up.
const longest = 20 * 365 * 24 * time.Hour

// Nonce is [Text] for a nonce.
func Nonce(n backend.Nonce) backend.Nonce { return backend.Nonce(Text(string(n), 64, false)) }

// Candidate is [Lease] for a candidate.
func Candidate(c backend.Candidate) backend.Candidate {
	c.ID = Text(c.ID, backend.MaxID, false)
	c.Nonce = Nonce(c.Nonce)
	c.Address = Text(c.Address, backend.MaxAddress, false)
	c.Metadata = Text(c.Metadata, backend.MaxMetadata, true)
	return c
}

// Record is [Lease] for a record and its name.
func Record(r backend.Record) backend.Record {
	r.Election = Text(r.Election, backend.MaxName, false)
	r.Lease, r.Elected, r.History = Lease(r.Lease), Time(r.Elected), History(r.History)
	return r
}

// Member is [Lease] for a member, read or to be written.
func Member(m backend.Member) backend.Member {
	m.Candidate = Candidate(m.Candidate)
	m.Stage = Text(m.Stage, backend.MaxStage, false)
	m.Elections = Text(m.Elections, backend.MaxElections, true)
	m.TTL, m.Age = min(max(m.TTL, 0), longest), min(max(m.Age, 0), longest)
	return m
}

// History is [Lease] for a history: a copy of its first [backend.MaxHistory] leaderships.
func History(history []backend.Leadership) []backend.Leadership {
	clean := slices.Clone(history[:min(len(history), backend.MaxHistory)])
	for i := range clean {
		r := &clean[i]
		r.ID, r.End = Text(r.ID, backend.MaxID, false), backend.End(Text(string(r.End), 16, false))
		r.From, r.To = Time(r.From), Time(r.To)
	}
	return clean
}

// Remember returns the history with a leadership that has ended, the newest, as [History]
// would leave it: l ended now, by the store's clock, or lapsed ago if its lease expired before this is
// recorded. lapsed is 0 if it did not, or if the store does not know. No leadership ends before it began,
// even if the clock was set back.
func Remember(
	history []backend.Leadership, l backend.Leadership, how backend.End, now time.Time, lapsed time.Duration,
) []backend.Leadership {
	l.End, l.To = how, now.Add(-lapsed)
	if l.To.Before(l.From) {
		l.To = l.From
	}
	return History(slices.Insert(slices.Clone(history), 0, l))
}

// Time returns a time from a store in UTC. A time that package encoding/json can read but
// not write (in another zone, or after the year 9999) becomes zero.
func Time(t time.Time) time.Time {
	t = t.UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		return time.Time{}
	}
	return t
}

// Where returns the location of b's store, safe to print, or "" if it has none.
func Where(b backend.Backend) string {
	if l, ok := b.(backend.Located); ok {
		return Text(l.Location(), 255, false)
	}
	return ""
}

// Location returns a location: these addresses, and the place within the store. Of a URL it keeps
// only the host, since people put passwords into the rest.
func Location(within string, addresses ...string) string {
	hosts := make([]string, len(addresses))
	for i, a := range addresses {
		if _, rest, ok := strings.Cut(a, "://"); ok {
			a, _, _ = strings.Cut(rest, "/")
			a, _, _ = strings.Cut(a, "?")
		}
		hosts[i] = a[strings.LastIndexByte(a, '@')+1:]
	}
	return strings.Join(hosts, ",") + "/" + strings.Trim(within, "/")
}

// Diagnosticf returns a diagnostic with a text formatted by [fmt.Sprintf], made safe to print
// and cut to 1,000 bytes, since parts of it may come from a server.
func Diagnosticf(warning bool, what, format string, args ...any) backend.Diagnostic {
	text := Text(fmt.Sprintf(format, args...), 1000, true)
	return backend.Diagnostic{What: what, Text: text, Warning: warning}
}
