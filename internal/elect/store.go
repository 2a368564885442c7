package elect

import (
	"context"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/page"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
)

// A store is a backend without a manager, for commands that read the store or write one request.
type store struct {
	backend.Backend
	election.Options // complete
	config           *config.Config
}

func (a *app) openStore(ctx context.Context) (*store, error) {
	c, err := a.load()
	if err != nil {
		return nil, err
	}
	return openStore(ctx, c)
}

// withStore makes a command's function of one that uses the store.
func (a *app) withStore(
	do func(ctx context.Context, s *store, args []string) error,
) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		s, err := a.openStore(c.Context())
		if err != nil {
			return err
		}
		defer s.Close()
		return do(c.Context(), s, args)
	}
}

func openStore(ctx context.Context, c *config.Config) (*store, error) {
	b, err := c.OpenBackend()
	if err != nil {
		return nil, err
	}
	o, err := c.Election.Complete(b.Guarantees())
	if err != nil {
		b.Close()
		return nil, c.Validate(ctx) // returns the same error, with the line of the file
	}
	return &store{b, o, c}, nil
}

// name returns the backend's name and where its store is, for operators of several stores.
func (s *store) name() string {
	return strings.TrimSpace(s.config.Backend + " " + clean.Where(s.Backend))
}

// within calls the store with a timeout. A command may wait longer than a leader may.
func (s *store) within(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, max(s.CallTimeout, 10*time.Second))
	defer cancel()
	return call(ctx)
}

// record returns the record of an election, cleaned for a terminal.
func (s *store) record(ctx context.Context, name string) (r backend.Record, err error) {
	if err := backend.CheckName(name); err != nil {
		return r, err
	}
	return page.Record(ctx, s.within, s.Backend, name)
}

// records returns the records of all elections, or of those that a pattern of path.Match matches, without
// forgotten ones, cleaned for a terminal.
func (s *store) records(ctx context.Context, pattern string) ([]backend.Record, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", pattern, err)
	}
	list, err := unforgotten(page.Records(ctx, s.within, s.Backend))
	return slices.DeleteFunc(list, func(r backend.Record) bool {
		matches, _ := path.Match(pattern, r.Election)
		return pattern != "" && !matches
	}), err
}

// named returns the record of an election, or those of all elections that a pattern matches, at least one.
func (s *store) named(ctx context.Context, name string) ([]backend.Record, error) {
	if !isPattern(name) {
		r, err := s.record(ctx, name)
		return []backend.Record{r}, err
	}
	records, err := s.records(ctx, name)
	if err == nil && len(records) == 0 {
		err = fmt.Errorf("no election on %s matches %q", s.name(), name)
	}
	return records, err
}

func isPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// unforgotten collects records without forgotten ones.
func unforgotten(records iter.Seq2[backend.Record, error]) (list []backend.Record, err error) {
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		if !r.Forgotten() {
			list = append(list, r)
		}
	}
	return list, nil
}

// members returns the members of all elections, cleaned for a terminal.
func (s *store) members(ctx context.Context) ([]backend.Member, error) {
	return page.Members(ctx, s.within, s.Backend)
}

// overdue reports whether the age of a lease exceeds its TTL, so that its holder is probably dead. It is
// false where the store expires leases: one that is shown is held.
func (s *store) overdue(r backend.Record) bool {
	expiresInStore := r.ObserveFor == backend.ExpiresInStore && s.Guarantees().Expiry != backend.ByKernel
	return !expiresInStore && r.TTL > 0 && r.ExpiredFor() > 0
}

// A sighting is a record, and whether its leader is silent: it no longer renews its lease.
type sighting struct {
	backend.Record
	silent bool
}

// observed returns the sighting of one election.
func (s *store) observed(ctx context.Context, name string) (sighting, error) {
	r, err := s.record(ctx, name)
	if err != nil {
		return sighting{}, err
	}
	list, err := s.observe(ctx, []backend.Record{r})
	if err != nil {
		return sighting{}, err
	}
	return list[0], nil
}

// observe finds out which leaders are silent. An age alone is only a hint, because on some stores it compares
// the clocks of two machines. So observe reads each overdue lease again after the time that a renewal may
// take, by when a leader that is alive has renewed it, or another one leads.
func (s *store) observe(ctx context.Context, records []backend.Record) ([]sighting, error) {
	list := make([]sighting, len(records))
	began, patience := time.Now(), time.Duration(0)
	for i, r := range records {
		list[i].Record = r
		switch {
		case !r.Vacant() && r.ObserveFor == 0 && s.Guarantees().Expiry == backend.ByKernel:
			list[i].silent = true // the kernel says that the leader has ended
		case s.overdue(r):
			patience = max(patience, min(r.Renew, r.TTL, time.Minute)+s.CallTimeout)
		}
	}
	if patience == 0 {
		return list, nil
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(patience):
	}
	for i, before := range records {
		if !s.overdue(before) {
			continue
		}
		r, err := s.record(ctx, before.Election)
		if err != nil {
			return nil, err
		}
		// The Version also changes when a session ends, but then the lease is not written.
		later := time.Since(began) - (r.Age - before.Age)
		renewed := r.Version != before.Version && later > before.Renew/2
		list[i] = sighting{r, r.Term == before.Term && !renewed && s.overdue(r)}
	}
	return list, nil
}
