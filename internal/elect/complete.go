package elect

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
)

// addCompletion gives each command its shell completion.
func (a *app) addCompletion(c *cobra.Command) {
	c.ValidArgsFunction = a.complete
	for _, sub := range c.Commands() {
		a.addCompletion(sub)
	}
}

// complete offers elections and candidates of the store, where the usage of a command has a NAME or an ID. It offers
// nothing if the store does not answer within 3 seconds, since the user waits at a prompt.
func (a *app) complete(c *cobra.Command, args []string, _ string) (list []string, then cobra.ShellCompDirective) {
	then = cobra.ShellCompDirectiveNoFileComp
	position := len(args)
	if strings.Contains(c.Use, "NAME…") {
		position = 0
	}
	switch {
	case position == 0 && strings.Contains(c.Use, "NAME"), position == 1 && strings.Contains(c.Use, "NAME ID"):
	case c.Name() == "run":
		return nil, cobra.ShellCompDirectiveDefault // the shell completes a program
	default:
		return nil, then
	}

	ctx, cancel := context.WithTimeout(c.Context(), 3*time.Second)
	defer cancel()
	s, err := a.openStore(ctx)
	if err != nil {
		return nil, then
	}
	defer s.Close()
	if position == 1 {
		return s.successors(ctx, args[0]), then
	}
	records, _ := s.records(ctx)
	for _, r := range records {
		list = append(list, r.Election)
	}
	return list, then
}

// successors returns those who could lead next: neither the leader, nor who has not announced itself for two TTLs.
func (s *store) successors(ctx context.Context, name string) (list []string) {
	r, err := s.record(ctx, name)
	if err != nil {
		return nil
	}
	members, _ := s.members(ctx)
	members = slices.DeleteFunc(members, func(m backend.Member) bool {
		return !m.CampaignsFor(name) || m.Nonce == r.Holder.Nonce || m.Age > 2*m.TTL
	})
	for _, m := range members {
		list = append(list, m.ID)
	}
	return list
}
