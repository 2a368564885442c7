package elect

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/electionhttp"
)

// leaderText is what lists show as the leader.
func (r sighting) leaderText() string {
	switch {
	case r.MovedTo != "":
		return "moved to " + r.MovedTo
	case r.Vacant():
		return "-"
	case r.silent:
		return r.Holder.ID + " (silent)"
	}
	return r.Holder.ID
}

func (a *app) statusCommand() *cobra.Command {
	return a.addJSON(&cobra.Command{
		Use: "status [NAME]", Aliases: []string{"list"}, Args: cobra.MaximumNArgs(1),
		Short: "Show who leads, since when, and which members take part",
		Long: fmt.Sprintf(`Show what the store knows of an election, or list all elections, or those that a
pattern matches, such as 'shard/*'.

The code is 0 if NAME has a leader, %d if it has none, and %d if elect cannot tell. A leader that
has not renewed its lease for its TTL is "silent", and counts as none: it can no longer lead, and
nobody else leads yet. Elect observes the lease for some seconds before it calls a leader silent.`,
			exitVacant, exitElect),
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
	seen, err := s.observe(ctx, records)
	if err != nil {
		return err
	}

	switch {
	case a.asJSON:
		list := []electionhttp.Record{}
		for _, r := range seen {
			list = append(list, electionhttp.NewRecord(s.name(), r.Record, r.silent))
		}
		return a.json(list)
	case len(seen) == 0:
		_, err := fmt.Fprintf(a.out, "There are no elections yet on %s that match.\n", s.name())
		return err
	}

	t := table(a.out)
	fmt.Fprintln(t, "ELECTION\tLEADER\tTERM\tSINCE\tRENEWED")
	for _, r := range seen {
		renewed := "-"
		if !r.Vacant() {
			renewed = fmt.Sprintf("%.1fs ago", r.Age.Seconds())
		}
		since := timeText(r.Elected)
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\n", r.Election, r.leaderText(), r.Term, since, renewed)
	}
	t.Flush()
	_, err = fmt.Fprintf(a.out, "The store is %s.\n", s.name())
	return err
}

func (a *app) status(ctx context.Context, s *store, name string) error {
	r, err := s.observed(ctx, name)
	if err != nil {
		return err
	}
	members, err := s.members(ctx)
	if err != nil {
		return err
	}

	if r.Vacant() || r.silent {
		a.code = exitVacant
	}
	candidates := electionhttp.CandidatesFor(r.Record, members)
	if a.asJSON {
		j := electionhttp.NewRecord(s.name(), r.Record, r.silent)
		j.Candidates = candidates
		return a.json(j)
	}
	r.print(a.out, s.name(), candidates)
	return nil
}

func (r sighting) print(w io.Writer, store string, candidates []electionhttp.Member) {
	line := func(what, format string, args ...any) {
		fmt.Fprintf(w, "%-9s %s\n", what, fmt.Sprintf(format, args...))
	}
	line("election", "%s", r.Election)
	line("store", "%s", store)
	switch {
	case r.Term == 0:
		line("leader", "nobody has led yet")
	case r.Forgotten(): // its last leader is the command that has forgotten it
		line("leader", "nobody; the election was forgotten")
		line("term", "%d, the last", r.Term)
	case r.Vacant():
		line("leader", "nobody; the last was %q, %s", r.LastID, endText(r.End))
		line("term", "%d, the last", r.Term)
	default:
		line("leader", "%s", r.leaderText())
		if r.Holder.Address != "" {
			line("address", "%s", r.Holder.Address)
		}
		if r.Holder.Metadata != "" {
			line("metadata", "%q", r.Holder.Metadata)
		}
		line("term", "%d", r.Term)
		if !r.Elected.IsZero() {
			line("since", "%s, by the store's clock", r.Elected.Format(time.RFC3339))
		}
		line("renewed", "%.1fs ago; TTL %v, renewed every %v", r.Age.Seconds(), r.TTL, rounded(r.Renew))
	}
	if r.Request.Kind != "" {
		line("request", "%s %s", r.Request.Kind, r.Request.ID)
	}
	if r.MovedTo != "" {
		line("moved", "to %s: nobody leads by this store", r.MovedTo)
	}
	if r.MovedFrom != "" {
		line("moved", "from %s", r.MovedFrom)
	}
	if len(candidates) == 0 {
		line("members", "no candidate has announced itself")
	}
	for i, c := range candidates {
		text := c.ID
		if c.Announced > 0 { // 0: the store itself knows that the member is alive
			text += fmt.Sprintf(", %.1fs ago", float64(c.Announced)/1000)
		}
		if c.Stage != "" {
			text += ", stage " + c.Stage
		}
		line([]string{"members", ""}[min(i, 1)], "%s", text)
	}
}
