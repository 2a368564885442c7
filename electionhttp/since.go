package electionhttp

import (
	"context"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
)

// A store may have any number of records, so one reading serves all clients for a while, and has limits of its own.
const (
	keepSinces = 10 * time.Second
	maxSinces  = 10_000
	maxReading = 5 * time.Second
)

// A storeSince is the time from which an election is as the store says, by the store's clock.
type storeSince struct {
	kind election.Kind
	term uint64
	time time.Time // zero: the store does not know it
}

// sinces are those of one reading of the store's records, by election.
type sinces struct {
	at time.Time
	of map[string]storeSince
}

// readSinces reads the records of the store. If it ends early, what was read until then is the answer.
func (h *Handler) readSinces() (sinces, error) {
	ctx, cancel := context.WithTimeout(h.ctx, maxReading)
	defer cancel()
	of := map[string]storeSince{}
	for r, err := range h.manager.Records(ctx) {
		if err != nil && len(of) == 0 {
			return sinces{}, err
		}
		if err != nil || len(of) == maxSinces {
			break
		}
		of[r.Election] = sinceOf(r)
	}
	return sinces{time.Now(), of}, nil
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
	last := h.sinces.last("")
	if s := last.of[e.Election]; s.kind == e.Kind && s.term == e.Term {
		return s.time
	}
	if e.Term != 0 && last.at.Before(e.Time) {
		h.sinces.newest("", h.readSinces, keepSinces, 0)
	}
	return time.Time{}
}
