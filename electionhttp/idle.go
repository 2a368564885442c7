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
func (h *Handler) idle(e *election.ElectionStatus, c campaigns) bool {
	switch {
	case e.Kind != election.Vacant || e.Campaigning || e.Stuck || e.Paused:
		return false
	case e.Reason == election.ReasonForgotten:
		return true
	case e.Term == 0 && e.Previous.ID == "": // a store without terms may have lost a leader: Previous says so
		return true
	case c == nil || c.of(e.Election) > 0:
		return false
	}
	return e.Previous.ID == "" || e.Reason == election.ReasonReleased || time.Since(h.knownSince(e)) > alarmFor
}

// alone reports whether nobody could take over from the leader of an election, as far as the members are known.
func alone(e *election.ElectionStatus, c campaigns) bool {
	return e.Kind == election.Elected && c != nil && c.of(e.Election) <= 1
}

// campaigns says how many processes campaign for each election, its leader among them; "": those that have no room to
// name all of theirs. It is nil if that is not known. One answer uses one of them.
type campaigns map[string]int

func (c campaigns) of(name string) int { return c[name] + c[""] }

// campaigns returns those of when the members were last read. It starts a read in the background, at most one in cacheFor.
// Only if the last one was long ago, as for the first request, it waits for the read, and not for long: the store may hang.
func (h *Handler) campaigns() campaigns {
	sh := &h.shared
	sh.mu.Lock()
	defer sh.mu.Unlock()
	age := time.Since(sh.campaignedAt)
	if h.ctx.Err() == nil && sh.readingCampaigned == nil && age > cacheFor {
		sh.readingCampaigned = make(chan struct{})
		h.background.Go(h.readCampaigned)
	}

	if read := sh.readingCampaigned; read != nil && age > campaignsFor {
		sh.mu.Unlock()
		select {
		case <-read:
		case <-time.After(campaignsWait):
		}
		sh.mu.Lock()
	}
	return sh.campaigned
}

const (
	campaignsFor  = time.Minute            // after which campaigns waits for new ones
	campaignsWait = 250 * time.Millisecond // for how long at most
)

// readCampaigned reads the members and counts those that campaign for each election.
func (h *Handler) readCampaigned() {
	list, err := h.allMembers()
	var found campaigns
	if err == nil {
		found = campaigns{}
	}
	for _, m := range list {
		if m.TTL > 0 && m.Age > 2*m.TTL {
			continue
		}
		names := slices.Collect(m.Campaigns())
		if slices.Contains(names, "") { // it counts for all elections, once
			names = []string{""}
		}
		for _, name := range names {
			found[name]++
		}
	}
	sh := &h.shared
	sh.mu.Lock()
	defer sh.mu.Unlock()
	close(sh.readingCampaigned)
	sh.readingCampaigned, sh.campaignedAt, sh.campaigned = nil, time.Now(), found
}
