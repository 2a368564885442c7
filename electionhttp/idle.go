package electionhttp

import (
	"slices"
	"time"

	"github.com/go-election/go-election/election"
)

// alarmFor is how long an election whose leader crashed raises an alarm if no process
// campaigns for it.
const alarmFor = time.Hour

// idle reports whether an election has no leader although nothing is wrong. Either it
// never had one, or no process campaigns for it and the last leader released the lease or
// was lost more than alarmFor ago. A leader that crashed recently without a standby is an
// outage, not an idle election.
func (h *Handler) idle(e *election.ElectionStatus) bool {
	switch {
	case e.Kind != election.Vacant || e.Campaigning || e.Stuck || e.Paused:
		return false
	case e.Reason == election.ReasonForgotten:
		return true
	case e.Term == 0 && e.Previous.ID == "": // a store without terms may have lost a leader: Previous says so
		return true
	case !h.noCandidates(e.Election):
		return false
	}
	return e.Previous.ID == "" || e.Reason == election.ReasonReleased || time.Since(h.knownSince(e)) > alarmFor
}

// noCandidates reports whether no process campaigned for an election when the members
// were last read.
func (h *Handler) noCandidates(name string) bool {
	n, known := h.candidates(name)
	return known && n == 0
}

// alone reports whether nobody could take over from the leader of an election, as far as the members were known
// when they were last read.
func (h *Handler) alone(e *election.ElectionStatus) bool {
	if e.Kind != election.Elected {
		return false
	}
	n, known := h.candidates(e.Election)
	return known && n <= 1
}

// candidates returns how many processes campaigned for an election when the members were last read, with its leader. It
// does not wait for the store, which may hang: it starts a read in the background, at most one in cacheFor.
func (h *Handler) candidates(name string) (n int, known bool) {
	sh := &h.shared
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if h.ctx.Err() == nil && !sh.readingCampaigned && time.Since(sh.campaignedAt) > cacheFor {
		sh.readingCampaigned = true
		h.background.Go(h.readCampaigned)
	}
	return sh.campaigned[name] + sh.campaigned[""], sh.campaigned != nil
}

// readCampaigned reads the members and counts those that campaign for each election.
func (h *Handler) readCampaigned() {
	list, err := h.allMembers()
	sh := &h.shared
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.readingCampaigned, sh.campaignedAt = false, time.Now()
	if sh.campaigned = nil; err != nil {
		return
	}
	sh.campaigned = map[string]int{}
	for _, m := range list {
		if m.TTL > 0 && m.Age > 2*m.TTL {
			continue
		}
		names := slices.Collect(m.Campaigns())
		if slices.Contains(names, "") { // it counts for all elections, once
			names = []string{""}
		}
		for _, name := range names {
			sh.campaigned[name]++
		}
	}
}
