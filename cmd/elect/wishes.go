package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
)

// requestCommands are nominate and depose: requests that are written beside the lease.
func (a *app) requestCommands() []*cobra.Command {
	var yes [2]bool
	nominate := &cobra.Command{
		Use: "nominate NAME ID", Short: "Ask that the candidate ID lead next", Args: cobra.ExactArgs(2),
		Long: `Write beside the lease of NAME that the candidate ID should lead next.

Nothing happens until that candidate sees it and is ready; then the leader ends its work
in order and releases, and for one TTL only the nominee bids. The request is scoped to the
present term: it dies with it. There are never two leaders.`,
		Example: example(aLeader + "elect nominate billing host-2 --yes\nelect run billing --id host-2 -- echo host-2 leads" + endOfRun),
		RunE: func(c *cobra.Command, args []string) error {
			if err := backend.CheckID(args[1]); err != nil {
				return err
			}
			return a.request(c.Context(), args[0], backend.Nominate, args[1], yes[0])
		},
	}
	depose := &cobra.Command{
		Use: "depose NAME", Short: "End the present leadership against the leader's will", Args: cobra.ExactArgs(1),
		Long: `Write beside the lease of NAME that its leader is deposed.

Its next renewal is refused: it ends its work, releases, and stays out for one TTL. It is
never faster than the leader's own stepping down, so there are never two leaders. A
leader that is stopped or cut off does not hear of it; its lease runs out as it would.`,
		Example: example(aLeader + "elect depose billing --yes" + endOfRun),
		RunE: func(c *cobra.Command, args []string) error {
			return a.request(c.Context(), args[0], backend.Depose, "", yes[1])
		},
	}
	for i, c := range []*cobra.Command{nominate, depose} {
		c.Flags().BoolVarP(&yes[i], "yes", "y", false, "do not ask")
	}
	return []*cobra.Command{nominate, depose}
}

func (a *app) request(ctx context.Context, name string, kind backend.RequestKind, id string, yes bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	r, err := s.record(ctx, name)
	if err != nil {
		return err
	}
	switch {
	case r.MovedTo != "":
		return fmt.Errorf("%q has moved to %s; nobody leads by this store", name, r.MovedTo)
	case r.Vacant():
		return fmt.Errorf("nobody leads %q", name)
	case id != "" && r.Holder.ID == id:
		return fmt.Errorf("%q leads %q already", id, name)
	}
	// The holder's own timings, not ours.
	ttl, renew := r.TTL, r.Renew
	text := fmt.Sprintf("%q leads %q in term %d. ", r.Holder.ID, name, r.Term)
	if s.aged(r) {
		text += fmt.Sprintf("It has not renewed for %v: if it is dead it does not hear of this, and its lease runs out as it would. ", rounded(r.Age))
	}
	const work = "its work (the command of elect run gets SIGTERM, and SIGKILL after its --stop-timeout, 10s by default)"
	if kind == backend.Depose {
		text += fmt.Sprintf("Its next renewal, within %v, is refused. It ends %s, within %v at most, when its lease can no longer be trusted; releases; and stays out for %v. Another candidate follows then, or when the lease has run out, after %v more.", rounded(renew), work, rounded(ttl), rounded(ttl), rounded(ttl))
	} else {
		members, err := s.members(ctx)
		if err != nil {
			return err
		}
		text += fmt.Sprintf("When %q is ready, within a reading of the store (%v), the leader ends %s and releases; then only %q bids for %v. A leader that does not end within its step_down_timeout (30s by default, and at least its TTL with elect run) lets its lease run out, which takes %v more.", id, rounded(renew), work, id, rounded(ttl), rounded(ttl))
		if !slices.ContainsFunc(members, func(m backend.Member) bool { return m.ID == id }) {
			text += "\nNo member of that id has announced itself. Nothing happens until there is one."
		}
	}
	fmt.Fprintln(a.diag, text)
	if !yes {
		if err := a.confirm("This changes who leads."); err != nil {
			return err
		}
	}
	err = s.within(ctx, func(ctx context.Context) error {
		return s.Request(ctx, []backend.Request{{Election: name, Term: r.Term, Kind: kind, ID: id}})
	})
	if errors.Is(err, backend.ErrStale) {
		return fmt.Errorf("the leader has changed meanwhile; look again: %w", err)
	} else if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "The request is written. See: elect watch %s\n", name)
	return nil
}

// rounded is a duration as people read it: a third of 10s is 3.333s.
func rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
