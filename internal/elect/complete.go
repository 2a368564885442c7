package elect

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// addCompletion gives each command its shell completion: elections and candidates of the store, and
// nothing if the store does not answer within 3 seconds.
func (a *app) addCompletion(root *cobra.Command) {
	none := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)
	for _, c := range root.Commands() {
		switch c.Name() {
		case "run": // the shell completes the second argument, a program
			c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				if len(args) > 0 {
					return nil, cobra.ShellCompDirectiveDefault
				}
				return a.names(c.Context()), cobra.ShellCompDirectiveNoFileComp
			}
		case "status", "history", "watch", "depose", "resign", "pause", "resume", "nominate", "serve":
			c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				var list []string
				switch {
				case len(args) == 0 || c.Name() == "serve":
					list = a.names(c.Context())
				case len(args) == 1 && c.Name() == "nominate":
					list = a.candidates(c.Context(), args[0])
				}
				return list, cobra.ShellCompDirectiveNoFileComp
			}
		case "man": // the shell completes a directory
		default:
			for _, c := range append(c.Commands(), c) {
				if c.ValidArgsFunction == nil {
					c.ValidArgsFunction = none
				}
			}
		}
	}
}

// withStore opens the store for at most 3 seconds, since the user waits at a prompt, and
// calls read. It does nothing if the store cannot be opened.
func (a *app) withStore(ctx context.Context, read func(context.Context, *store)) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if s, err := a.openStore(ctx); err == nil {
		defer s.Close()
		read(ctx, s)
	}
}

func (a *app) names(ctx context.Context) (list []string) {
	a.withStore(ctx, func(ctx context.Context, s *store) {
		records, _ := s.records(ctx)
		for _, r := range records {
			list = append(list, r.Election)
		}
	})
	return list
}

// candidates returns those who could lead next: neither the leader, nor who has not announced itself for two TTLs.
func (a *app) candidates(ctx context.Context, name string) (list []string) {
	a.withStore(ctx, func(ctx context.Context, s *store) {
		r, err := s.record(ctx, name)
		if err != nil {
			return
		}
		members, _ := s.members(ctx)
		for _, m := range members {
			if m.CampaignsFor(name) && m.Nonce != r.Holder.Nonce && m.Age <= 2*m.TTL {
				list = append(list, m.ID)
			}
		}
	})
	return list
}
