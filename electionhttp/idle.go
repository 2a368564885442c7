package electionhttp

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// idle reports whether an election has no leader although nothing is wrong: no process campaigns for it, and
// it never had a leader, or the last one released the lease or was lost more than an hour ago. A leader that
// crashed recently without a standby is an outage, not an idle election.
func (h *Handler) idle(e *election.ElectionStatus, c campaigns) bool {
	wanted := e.Campaigning || e.Stuck || e.Paused || c == nil || c.of(e.Election) > 0
	if e.Kind != election.Vacant || wanted {
		return false
	}
	orderly := []election.Reason{election.ReasonReleased, election.ReasonForgotten}
	return e.Previous.ID == "" || slices.Contains(orderly, e.Reason) ||
		time.Since(cmp.Or(h.since(e), e.Time)) > time.Hour
}

// alone reports whether nobody could take over from a leader, as far as the members are known.
func alone(e *election.ElectionStatus, c campaigns) bool {
	return e.Kind == election.Elected && c != nil && c.of(e.Election) <= 1
}

// campaigns says how many processes campaign for each election, its leader among them; "": those that have no
// room to name all of theirs. It is nil if that is not known. One answer uses one of them.
type campaigns map[string]int

func (c campaigns) of(name string) int { return c[name] + c[""] }

// A membership is the members as they were last read.
type membership struct {
	list      []backend.Member
	campaigns campaigns
}

func (h *Handler) readMembers() (m membership, err error) {
	if m.list, err = h.manager.Members(h.ctx); err != nil {
		return m, err
	}
	m.campaigns = campaigns{}
	for i, member := range m.list {
		if !h.options.Details {
			m.list[i].Metadata = ""
		}
		if member.TTL > 0 && member.Age > 2*member.TTL {
			continue
		}
		names := slices.Collect(member.Campaigns())
		if slices.Contains(names, "") { // it counts for all elections, once
			names = []string{""}
		}
		for _, name := range names {
			m.campaigns[name]++
		}
	}
	return m, nil
}

// campaigns returns those of the last reading of the members. It does not wait for long.
func (h *Handler) campaigns() campaigns {
	m, _ := h.members.newest("", h.readMembers, 250*time.Millisecond)
	return m.campaigns
}
