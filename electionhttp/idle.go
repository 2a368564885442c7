package electionhttp

import (
	"time"

	"github.com/go-election/go-election/election"
)

// remembered is how long after a crash without an heir somebody should still be told of it.
const remembered = time.Hour

// idle reports whether nothing is wrong though nobody leads: nobody ever has, or nobody is
// there who could, and the last leader went in order or long ago. A leader that was lost and
// whose heirs are gone too is an outage: nothing about it is idle.
func (h *Handler) idle(e *election.ElectionStatus) bool {
	switch {
	case e.Kind != election.Vacant || e.Campaigning || e.Stuck || e.Paused:
		return false
	case e.Reason == election.ReasonForgotten:
		return true
	case e.Term == 0 && e.Previous.ID == "": // a store that keeps no terms may have lost one
		return true
	case !h.deserted(e.Election):
		return false
	}
	return e.Previous.ID == "" || e.Reason == election.ReasonReleased || time.Since(h.vacantSince(e)) > remembered
}

// vacantSince is by the store's clock if that is known. The store is not asked for it.
func (h *Handler) vacantSince(e *election.ElectionStatus) time.Time {
	h.view.mu.Lock()
	defer h.view.mu.Unlock()
	if s := h.view.sinces[e.Election]; s.kind == e.Kind && s.term == e.Term && !s.time.IsZero() {
		return s.time
	}
	return e.Time
}

// deserted reports whether the store has said a moment ago that nobody campaigns for an
// election. It does not wait for the store, which may hang: it is asked beside, and not
// more often than the memo allows.
func (h *Handler) deserted(name string) bool {
	v := &h.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if h.ctx.Err() == nil && !v.counting && time.Since(v.counted) > memoFor {
		v.counting = true
		h.reading.Go(func() {
			list, err := h.allMembers()
			v.mu.Lock()
			defer v.mu.Unlock()
			v.counting, v.counted = false, time.Now()
			if v.candidates = nil; err != nil {
				return
			}
			v.candidates = map[string]bool{}
			for _, m := range list {
				if m.TTL == 0 || m.Age <= 2*m.TTL {
					for name := range m.Campaigns() {
						v.candidates[name] = true
					}
				}
			}
		})
	}
	return v.candidates != nil && !v.candidates[name] && !v.candidates[""]
}

// A renewal is confirmed within so many milliseconds, as far as a histogram tells.
type renewalsJSON struct {
	Count uint64 `json:"count"`
	Half  *int64 `json:"half_ms"` // half of them within this; null: longer than is measured
	All   *int64 `json:"all_ms"`
}

// renewals is what calls of the manager that renew have taken, nil if there was none.
func (h *Handler) renewals() *renewalsJSON {
	j, _ := h.renewed.get("", func() (*renewalsJSON, error) {
		for _, c := range h.manager.Stats().Calls {
			if c.Kind == "renew" && c.Took.Count > 0 {
				return &renewalsJSON{c.Took.Count, within(c.Took, (c.Took.Count+1)/2), within(c.Took, c.Took.Count)}, nil
			}
		}
		return nil, nil
	})
	return j
}

// within is the bound that n durations do not exceed.
func within(h election.Histogram, n uint64) *int64 {
	for i, count := range h.Counts {
		if n <= count {
			ms := h.Bounds[i].Milliseconds()
			return &ms
		}
		n -= count
	}
	return nil
}
