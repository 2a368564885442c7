package electionhttp

import (
	"context"
	"time"

	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
)

// A store may have any number of records, so one reading serves all clients for a while, and is limited.
const (
	keepSinces = 10 * time.Second
	maxSinces  = 10_000
	maxReading = 5 * time.Second
)

// A stateKey is a state of an election. Another leadership is another state.
type stateKey struct {
	election string
	kind     election.Kind
	term     uint64
}

// sinces are the times from which elections are as the store says, by its clock, of one reading of its
// records. A time is zero if the store does not know it.
type sinces struct {
	at time.Time
	of map[stateKey]time.Time
}

func (h *Handler) readSinces() (sinces, error) {
	ctx, cancel := context.WithTimeout(h.ctx, maxReading)
	defer cancel()
	of := map[stateKey]time.Time{}
	for r, err := range h.manager.Records(ctx) {
		if err != nil {
			return sinces{}, err
		}
		if len(of) == maxSinces {
			break
		}
		kind := election.Elected
		if r.Vacant() || r.ExpiredFor() > 0 {
			kind = election.Vacant
		}
		of[stateKey{r.Election, kind, r.Term}] = clean.Time(r.Since())
	}
	return sinces{time.Now(), of}, nil
}

// since returns the time from which an election has had its leader, or none, by the store's clock. If the
// records were last read before the election became what it is, it begins to read them, and returns zero.
func (h *Handler) since(e *election.ElectionStatus) time.Time {
	last := h.sinces.last("")
	if at, known := last.of[stateKey{e.Election, e.Kind, e.Term}]; known {
		return at
	}
	if e.Term != 0 && last.at.Before(e.Time) {
		h.sinces.newest("", h.readSinces, 0)
	}
	return time.Time{}
}
