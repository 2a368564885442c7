package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// Arguments complete to names of the store, to nothing if it does not answer soon, and
// never to names of files.

// complete gives the commands that take NAME, and other arguments, their completion.
func (a *app) complete(root *cobra.Command) {
	none := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp)
	for _, c := range root.Commands() {
		switch c.Name() {
		case "run": // its second argument is a program: that is the shell's to complete
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
					list = a.candidates(c.Context())
				}
				return list, cobra.ShellCompDirectiveNoFileComp
			}
		case "man": // a directory
		default:
			for _, c := range append(c.Commands(), c) {
				if c.ValidArgsFunction == nil {
					c.ValidArgsFunction = none
				}
			}
		}
	}
}

// briefly opens the store for a look while somebody waits at a prompt.
func (a *app) briefly(ctx context.Context, look func(context.Context, *store)) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if s, err := a.openStore(ctx); err == nil {
		defer s.Close()
		look(ctx, s)
	}
}

// names returns the elections of the store.
func (a *app) names(ctx context.Context) (list []string) {
	a.briefly(ctx, func(ctx context.Context, s *store) {
		records, _ := s.records(ctx)
		for _, r := range records {
			list = append(list, r.Election)
		}
	})
	return list
}

// candidates returns the ids of the members of the store.
func (a *app) candidates(ctx context.Context) (list []string) {
	a.briefly(ctx, func(ctx context.Context, s *store) {
		members, _ := s.members(ctx)
		for _, m := range members {
			list = append(list, m.ID)
		}
	})
	return list
}
