package electionhttp

import (
	"time"

	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
)

// A storeSince is the time from which an election has been as the store last reported, by
// the store's clock.
type storeSince struct {
	kind   election.Kind
	term   uint64
	time   time.Time // zero: unknown; a read is under way or found nothing
	readAt time.Time
}

// since returns the time from which an election has had its leader, or none, by the
// store's clock. It returns zero and starts a read in the background if the time is not
// known. It reads once for each state, and only for elections that a request shows.
func (h *Handler) since(e *election.ElectionStatus) time.Time {
	sh := &h.shared
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s, known := sh.sinces[e.Election]
	if known && s.kind == e.Kind && s.term == e.Term && (!s.time.IsZero() || time.Since(s.readAt) < time.Minute) {
		return s.time
	}
	if h.ctx.Err() != nil || e.Term == 0 || known && time.Since(s.readAt) < time.Second {
		return time.Time{}
	}
	sh.sinces[e.Election] = storeSince{kind: e.Kind, term: e.Term, readAt: time.Now()}
	sh.sinceQueue = append(sh.sinceQueue, e.Election)
	if !sh.readingSince {
		sh.readingSince = true
		h.background.Go(h.readSinces)
	}
	return time.Time{}
}

// knownSince returns the time of the vacancy by the store's clock, or by the process's
// clock if the store's is not known. It does not start a read.
func (h *Handler) knownSince(e *election.ElectionStatus) time.Time {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	if s := h.shared.sinces[e.Election]; s.kind == e.Kind && s.term == e.Term && !s.time.IsZero() {
		return s.time
	}
	return e.Time
}

// readSinces reads the queued elections one after the other, at most 200 in a second.
func (h *Handler) readSinces() {
	sh := &h.shared
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	for {
		sh.mu.Lock()
		if len(sh.sinceQueue) == 0 || h.ctx.Err() != nil {
			sh.sinceQueue, sh.readingSince = nil, false
			sh.mu.Unlock()
			return
		}
		name := sh.sinceQueue[0]
		sh.sinceQueue = sh.sinceQueue[1:]
		sh.mu.Unlock()
		if e := h.manager.Election(name); e == nil {
			sh.mu.Lock()
			delete(sh.sinces, name)
			sh.mu.Unlock()
		} else if rec, err := e.Record(h.ctx); err == nil {
			kind := election.Elected
			if rec.Vacant() || rec.ExpiredFor() > 0 {
				kind = election.Vacant
			}
			sh.mu.Lock()
			sh.sinces[name] = storeSince{kind, rec.Term, clean.Time(rec.Since()), time.Now()}
			sh.mu.Unlock()
		}
		select {
		case <-pace.C:
		case <-h.ctx.Done():
		}
	}
}
