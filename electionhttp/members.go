package electionhttp

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

type membersJSON struct {
	Now     time.Time    `json:"now"`
	Total   int          `json:"total"`
	Members []memberJSON `json:"members"`
}

type memberJSON struct {
	candidateJSON
	Stage string `json:"stage,omitempty"`
	TTL   int64  `json:"ttl_ms"`
	Ago   int64  `json:"announced_ms_ago"`
}

// listMembers answers with the store's members, in any election.
func (h *Handler) listMembers(w http.ResponseWriter, r *http.Request) {
	limit, ok := number(w, r, "limit", 1000, 100_000)
	if !ok {
		return
	}
	list, err := h.allMembers()
	if err != nil {
		h.failStore(w, err)
		return
	}
	j := membersJSON{Now: time.Now().UTC(), Total: len(list), Members: []memberJSON{}}
	for _, m := range list {
		if one, ok := h.describeMember(m); ok && len(j.Members) < limit {
			j.Members = append(j.Members, one)
		}
	}
	slices.SortStableFunc(j.Members, func(a, b memberJSON) int { return strings.Compare(a.ID, b.ID) })
	reply(w, http.StatusOK, j)
}

func (h *Handler) allMembers() ([]backend.Member, error) {
	return h.members.get("", func() ([]backend.Member, error) { return h.manager.Members(h.ctx) })
}

func (h *Handler) describeMember(m backend.Member) (j memberJSON, ok bool) {
	c := candidate(m.Candidate, h.options.Details)
	if c == nil {
		return j, false
	}
	return memberJSON{*c, clean.Text(m.Stage, 64, false), m.TTL.Milliseconds(), max(0, m.Age).Milliseconds()}, true
}
