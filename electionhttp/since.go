package electionhttp

import (
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
)

// A storeSince is the time from which an election is as the store says, by the store's clock.
type storeSince struct {
	kind election.Kind
	term uint64
	time time.Time // zero: the store does not know it
}

func sinceOf(r backend.Record) storeSince {
	kind := election.Elected
	if r.Vacant() || r.ExpiredFor() > 0 {
		kind = election.Vacant
	}
	return storeSince{kind, r.Term, clean.Time(r.Since())}
}

// since returns the time from which an election has had its leader, or none, by the store's clock. If the records were last
// read before the election became what it is, it begins to read them, and returns zero.
func (h *Handler) since(e *election.ElectionStatus) time.Time {
	list := h.listings.last("")
	if s := list.sinces[e.Election]; s.kind == e.Kind && s.term == e.Term {
		return s.time
	}
	if e.Term != 0 && list.at.Before(e.Time) {
		h.listings.newest("", h.readRecords, keepRecords, 0)
	}
	return time.Time{}
}

// knownSince returns the time of the vacancy by the store's clock, or by the process's clock if the store's is not known.
func (h *Handler) knownSince(e *election.ElectionStatus) time.Time {
	list := h.listings.last("")
	if s := list.sinces[e.Election]; s.kind == e.Kind && s.term == e.Term && !s.time.IsZero() {
		return s.time
	}
	return e.Time
}
