package elect

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
)

// exitVacant is the exit code of "elect status NAME" if the election has no leader, and of
// "elect doctor" if there is a problem.
const exitVacant = 1

// A state is the JSON of an election.
type state struct {
	Election  string        `json:"election"`
	Store     string        `json:"store,omitempty"` // set by elect status NAME: the backend and where its store is
	Leader    *leader       `json:"leader"`          // null if nobody leads; if Silent, the leader that has not renewed for its TTL
	Silent    bool          `json:"silent,omitempty"`
	Term      uint64        `json:"term,string"` // of the leader or of the last one; a string, because many programs read numbers above 2^53 inexactly
	Elected   *time.Time    `json:"elected,omitempty"`
	TTL       float64       `json:"ttl_seconds,omitempty"`
	Age       float64       `json:"renewed_seconds_ago,omitempty"`
	LastID    string        `json:"last_leader,omitempty"`
	End       backend.End   `json:"last_end,omitempty"`
	Request   *request      `json:"request,omitempty"`
	MovedTo   string        `json:"moved_to,omitempty"`
	MovedFrom string        `json:"moved_from,omitempty"`
	History   []leadership  `json:"history,omitempty"`
	Members   []participant `json:"members,omitempty"`
}

// A leadership is the JSON of a past leadership. Its term is a string.
type leadership struct {
	backend.Leadership
	Term uint64 `json:"term,string"`
}

type leader struct {
	ID       string `json:"id"`
	Address  string `json:"address,omitempty"`
	Metadata string `json:"metadata,omitempty"`
}

type request struct {
	Kind backend.RequestKind `json:"kind"`
	ID   string              `json:"id,omitempty"`
}

// A participant is the JSON of a member.
type participant struct {
	leader
	Stage string  `json:"stage,omitempty"`
	Age   float64 `json:"announced_seconds_ago"`
}

func stateOf(r backend.Record, silent bool) state {
	s := state{
		Election: r.Election, Silent: silent, Term: r.Term, TTL: r.TTL.Seconds(), LastID: r.LastID, End: r.End,
		MovedTo: r.MovedTo, MovedFrom: r.MovedFrom,
	}
	for _, h := range r.History {
		s.History = append(s.History, leadership{h, h.Term})
	}
	if !r.Vacant() {
		s.Leader, s.Age = &leader{r.Holder.ID, r.Holder.Address, r.Holder.Metadata}, r.Age.Seconds()
		if !r.Elected.IsZero() {
			s.Elected = &r.Elected
		}
	}
	if r.Request.Kind != "" {
		s.Request = &request{r.Request.Kind, r.Request.ID}
	}
	return s
}

// leaderText is what lists show as the leader.
func (s *state) leaderText() string {
	switch {
	case s.MovedTo != "":
		return "moved to " + s.MovedTo
	case s.Leader == nil:
		return "-"
	case s.Silent:
		return s.Leader.ID + " (silent)"
	}
	return s.Leader.ID
}

func (a *app) statusCommand() *cobra.Command {
	return a.addJSON(&cobra.Command{
		Use: "status [NAME]", Aliases: []string{"list"}, Short: "Show who leads, since when, and which members take part", Args: cobra.MaximumNArgs(1),
		Long: fmt.Sprintf(`Show what the store knows of an election, or list all elections. NAME can be a pattern of the
shell, in quotes, that lists some: * stands for any text without a slash, ? for one character,
[a-c] for one of them.

The code is 0 if NAME has a leader, %d if it has none, and %d if elect cannot tell. A
leader that has not renewed its lease for its TTL is "silent": it can no longer lead, and no
other process leads yet, so the code is that of no leader. Elect observes the lease for some
seconds before it calls a leader silent. What it shows may be out of date as soon as it has
been read; only the leader itself knows that it leads.`, exitVacant, exitElect),
		Example: example(aLeader + "elect status 'b*'" + endOfRun),
		RunE: a.withStore(func(ctx context.Context, s *store, args []string) error {
			switch {
			case len(args) == 0:
				return a.list(ctx, s, "")
			case isPattern(args[0]):
				return a.list(ctx, s, args[0])
			}
			return a.status(ctx, s, args[0])
		}),
	})
}

// list lists all elections, or those that a pattern matches.
func (a *app) list(ctx context.Context, s *store, pattern string) error {
	records, err := s.records(ctx, pattern)
	if err != nil {
		return err
	}
	silent, err := s.silent(ctx, records)
	if err != nil {
		return err
	}

	states := make([]state, len(records))
	for i, r := range records {
		states[i] = stateOf(r, silent[r.Election])
	}
	switch {
	case a.asJSON:
		return a.json(states)
	case len(states) == 0 && pattern != "":
		fmt.Fprintf(a.out, "No election on %s matches %q.\n", s.name(), pattern)
		return nil
	case len(states) == 0:
		fmt.Fprintf(a.out, "There are no elections yet on %s: nobody has led one. Processes that take part: elect doctor\n", s.name())
		return nil
	}

	t := table(a.out)
	fmt.Fprintln(t, "ELECTION\tLEADER\tTERM\tSINCE\tRENEWED")
	for _, s := range states {
		since, renewed := "-", "-"
		if s.Elected != nil {
			since = s.Elected.Format(time.DateTime)
		}
		if s.Leader != nil {
			renewed = fmt.Sprintf("%.1fs ago", s.Age)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", s.Election, s.leaderText(), s.Term, since, renewed)
	}
	t.Flush()
	_, err = fmt.Fprintf(a.out, "The store is %s.\n", s.name())
	return err
}

func (a *app) status(ctx context.Context, s *store, name string) error {
	r, isSilent, err := s.observed(ctx, name)
	if err != nil {
		return err
	}
	members, err := s.members(ctx)
	if err != nil {
		return err
	}

	st := stateOf(r, isSilent)
	st.Store = s.name()
	members = slices.DeleteFunc(members, func(m backend.Member) bool { return !m.CampaignsFor(name) && m.Nonce != r.Holder.Nonce })
	for _, m := range members {
		st.Members = append(st.Members, participant{leader{m.ID, m.Address, m.Metadata}, m.Stage, m.Age.Seconds()})
	}
	if st.Leader == nil || st.Silent {
		a.code = exitVacant
	}
	if a.asJSON {
		return a.json(st)
	}
	st.print(a.out, r, members)
	return nil
}

func (s *state) print(w io.Writer, r backend.Record, members []backend.Member) {
	line := func(what, format string, args ...any) {
		fmt.Fprintf(w, "%-9s %s\n", what, fmt.Sprintf(format, args...))
	}
	line("election", "%s", s.Election)
	line("store", "%s", s.Store)
	switch {
	case r.Term == 0:
		line("leader", "nobody has led yet")
	case r.Forgotten():
		line("leader", "nobody; the election was forgotten")
		line("term", "%d, the last", s.Term)
	case s.Leader == nil:
		line("leader", "nobody; the last was %q, %s", s.LastID, endText(s.End))
		line("term", "%d, the last", s.Term)
	default:
		line("leader", "%s", s.leaderText())
		if s.Leader.Address != "" {
			line("address", "%s", s.Leader.Address)
		}
		if s.Leader.Metadata != "" {
			line("metadata", "%q", s.Leader.Metadata)
		}
		line("term", "%d", s.Term)
		if s.Elected != nil {
			line("since", "%s, by the store's clock", s.Elected.Format(time.RFC3339))
		}
		line("renewed", "%.1fs ago; TTL %v, renewed every %v", s.Age, r.TTL, rounded(r.Renew))
	}
	if s.Request != nil {
		line("request", "%s %s", s.Request.Kind, s.Request.ID)
	}
	if s.MovedTo != "" {
		line("moved", "to %s: nobody leads by this store", s.MovedTo)
	}
	if s.MovedFrom != "" {
		line("moved", "from %s", s.MovedFrom)
	}
	if len(members) == 0 {
		line("members", "no candidate has announced itself")
	}
	for i, m := range members {
		text := m.ID
		if m.Age > 0 { // 0: the store itself knows that the member is alive
			text += fmt.Sprintf(", %.1fs ago", m.Age.Seconds())
		}
		if m.Stage != "" {
			text += ", stage " + m.Stage
		}
		line([]string{"members", ""}[min(i, 1)], "%s", text)
	}
}
